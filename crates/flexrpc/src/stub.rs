//! Support for the code that `frpcgen` generates: typed calls around the untyped ones. A caller
//! copies no large opaque value of a call's arguments or result. A multicast copies those of its
//! arguments that aren't in shared buffers (`Bytes`). A callee copies a result once, into the
//! answer's buffer.

use crate::{CallError, Client, Fault, MulticastOptions, Outcome, Transport};
use std::net::SocketAddr;
use strait_xdr::{DecodeError, Decoder, EncodeError, Encoder};

pub use crate::{CallOptions, Handle, Procedure, Reply, Request, Service, ServiceError};
pub use strait_xdr as xdr;

/// Reasons why a typed call has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StubError {
    /// The arguments break a rule of the interface; nothing was sent.
    #[error("the arguments can't be sent: {0}")]
    Arguments(#[from] EncodeError),
    /// The untyped call's error.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The callee executed the call, but its result doesn't follow the interface.
    #[error("executed, but the result is {0}")]
    Result(#[from] DecodeError),
}

impl StubError {
    /// Whether the caller may repeat the call without the risk of executing a procedure twice.
    pub fn is_retry_safe(&self) -> bool {
        match self {
            Self::Arguments(_) => true,
            Self::Call(error) => error.is_retry_safe(),
            Self::Result(_) => false,
        }
    }
}

/// Makes one call to one callee.
///
/// # Errors
/// Those of [`Handle::call`]; or the arguments or the result don't follow the interface.
pub fn call<'v, T>(
    handle: &mut Handle,
    options: &CallOptions,
    procedure: Procedure,
    arguments: impl FnOnce(&mut Encoder<'v>) -> Result<(), EncodeError>,
    result: impl FnOnce(&mut Decoder<'static>) -> Result<T, DecodeError>,
) -> Result<T, StubError> {
    let mut to = Encoder::default();
    arguments(&mut to)?;
    let encoded = to.finish();
    let segments: Vec<&[u8]> = encoded.segments().collect();
    let reply = handle.call_with(procedure, &segments, options)?;
    Ok(Decoder::shared(reply).whole(result)?)
}

/// How a call reaches several callees (section III.B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The caller sends to each.
    Parallel(Transport),
    /// The caller sends to the first callee, and each callee to the next. Over TCP only.
    Serial,
}

/// Several callees that are called together.
#[derive(Clone)]
pub struct Callees {
    /// Makes the calls.
    pub client: Client,
    /// Callees' addresses; the order of the chain if the call is serial.
    pub addresses: Vec<SocketAddr>,
    /// Parallel or serial.
    pub pattern: Pattern,
    /// Timeout, credentials, and the number of values that suffice.
    pub options: MulticastOptions,
}

/// Makes one call to several callees. Returns each one's result, in their order.
///
/// # Errors
/// The arguments don't follow the interface; nothing was sent.
pub fn multicast<'v, T>(
    callees: &Callees,
    procedure: Procedure,
    arguments: impl FnOnce(&mut Encoder<'v>) -> Result<(), EncodeError>,
    result: impl Fn(&mut Decoder<'static>) -> Result<T, DecodeError>,
) -> Result<Vec<Result<T, StubError>>, EncodeError> {
    let mut to = Encoder::default();
    arguments(&mut to)?;
    let arguments = to.finish().into_shared();
    let Callees { client, addresses, pattern, options } = callees;
    let outcomes = match pattern {
        Pattern::Parallel(transport) => {
            client.call_parallel(addresses, *transport, procedure, &arguments, options)
        }
        Pattern::Serial => client.call_chain(addresses, procedure, &arguments, options),
    };
    let typed = |outcome: Outcome| Ok(Decoder::shared(outcome.into_result()?).whole(&result)?);
    Ok(outcomes.into_iter().map(typed).collect())
}

/// Executes one call at its callee.
///
/// # Errors
/// Arguments or results don't follow the interface; or the error of `execute`.
pub fn serve<A, R>(
    request: &Request,
    reply: &mut Reply,
    arguments: impl FnOnce(&mut Decoder<'static>) -> Result<A, DecodeError>,
    execute: impl FnOnce(A) -> Result<R, ServiceError>,
    result: impl for<'v> FnOnce(&'v R, &mut Encoder<'v>) -> Result<(), EncodeError>,
) -> Result<(), ServiceError> {
    let arguments = Decoder::shared(request.args.clone())
        .whole(arguments)
        .map_err(|error| Fault::garbage_arguments(error.to_string()))?;
    let value = execute(arguments)?;
    let mut to = Encoder::flat(std::mem::take(reply.buffer()));
    let encoded = result(&value, &mut to);
    *reply.buffer() = to.finish().into_buffer();
    Ok(encoded.map_err(|error| Fault::system(format!("the result can't be sent: {error}")))?)
}

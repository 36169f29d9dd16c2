//! Calls to datanodes.

use std::{net::SocketAddr, time::Duration};
use strait_flexrpc::{
    self as flexrpc, CallOptions, MulticastOptions, RetryPolicy, limits,
    stub::{Callees, Pattern, StubError},
};
use strait_kadoop_core::{Identity, error::Error, messages::Outcome};
use strait_kadoop_wire::{
    PEER_SILENCE,
    failure::{Failure, Lost},
    wire::KadoopDatanodeV1Callees,
};
use strait_xdr::EncodeError;

/// How long a datanode may take to accept a connection. For a writer, a slower datanode is lost.
const CONNECT: Duration = Duration::from_millis(1_000);

/// A datanode's address, and the identity that it has to prove.
pub(super) type Place = (SocketAddr, Identity);

/// A client for calls to datanodes. Neither side needs a key: a token authorizes each call.
pub(super) fn client() -> flexrpc::Client {
    flexrpc::Client::new(flexrpc::ClientOptions {
        connect_timeout: CONNECT,
        peer_silence: Some(PEER_SILENCE),
        // After one failed reconnection, a datanode counts as lost.
        retry: RetryPolicy { reconnects: 1, ..RetryPolicy::default() },
        chain_callees: limits::CHAIN_CALLEES_MAX,
        ..flexrpc::ClientOptions::default()
    })
}

/// Callees for calls to one datanode, or serially to the datanodes of a pipeline.
pub(super) fn callees(
    client: &flexrpc::Client,
    addresses: Vec<SocketAddr>,
    within: Duration,
) -> KadoopDatanodeV1Callees {
    let call = CallOptions { timeout: Some(within), ..CallOptions::default() };
    let options = MulticastOptions { call, ..MulticastOptions::default() };
    KadoopDatanodeV1Callees {
        callees: Callees { client: client.clone(), addresses, pattern: Pattern::Serial, options },
    }
}

/// The answer of the only callee.
pub(super) fn single<T>(answers: Result<Vec<Result<T, StubError>>, EncodeError>) -> Result<T, StubError> {
    let first = answers?.into_iter().next();
    first.unwrap_or_else(|| Err(StubError::Call(flexrpc::CallError::NotExecuted(flexrpc::Refusal::BadChain))))
}

/// The call's outcome, as the cores need it.
pub(super) fn outcome<T>(answer: &Result<T, Lost>) -> Outcome {
    match answer {
        Ok(_) => Outcome::Value,
        Err(Lost::Refused(failure)) => Outcome::Error(failure.error),
        Err(Lost::NotExecuted(_)) => Outcome::NotExecuted,
        Err(Lost::Unknown(_)) => Outcome::Unknown,
    }
}

/// An error in the bytes that the datanode at `address` has.
pub(super) fn at(address: SocketAddr, error: Error) -> Failure {
    Failure::new(error, format!("at {address}"))
}

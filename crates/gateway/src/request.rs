//! A message from a client, and what goes back.

use crate::memory::Permit;
use crate::v2::PAGE_BYTES;
use bytes::Bytes;
use strait_store::MAX_CHUNK_BYTES;
use strait_telemetry::RequestId;
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Call, Decoder, Encoded, Envelope, MessageKind, Wire,
};

/// A request, as far as it could be read.
pub struct Request {
    /// On which wire it came.
    pub wire: Wire,
    /// Method; empty where not even that could be read.
    pub name: String,
    /// The client's number.
    pub sequence: i32,
    /// What is asked.
    pub body: Body,
    /// The memory its bytes take, held until it is executed.
    pub memory: Option<Permit>,
}

/// What is asked, or why it can't be.
pub enum Body {
    /// A call.
    Call(Call),
    /// No call of the interface.
    Refused {
        /// What the client is told.
        error: ApplicationError,
        /// Whether the connection can't be gone on with.
        last: bool,
    },
}

impl Request {
    /// Reads a whole message.
    pub fn parse(wire: Wire, message: Bytes, memory: Option<Permit>) -> Self {
        let refuse =
            |kind, message: String, last| Body::Refused { error: ApplicationError { kind, message }, last };
        let mut from = Decoder::new(wire.protocol, message);
        let (name, sequence, body) = match Envelope::read(&mut from) {
            Err(error) => {
                let body = refuse(ApplicationErrorKind::ProtocolError, error.to_string(), true);
                (String::new(), 0, body)
            }
            Ok(Envelope { name, kind: MessageKind::Call, sequence }) => {
                let body = match Call::read(&name, &mut from) {
                    Ok(Some(call)) => Body::Call(call),
                    Ok(None) => {
                        refuse(ApplicationErrorKind::UnknownMethod, format!("no method {name:?}"), false)
                    }
                    Err(error) => {
                        refuse(ApplicationErrorKind::ProtocolError, format!("{name}: {error}"), false)
                    }
                };
                (name, sequence, body)
            }
            Ok(Envelope { name, kind, sequence }) => {
                let message = format!("{kind:?} where a call is expected; there are no oneway methods");
                (name, sequence, refuse(ApplicationErrorKind::InvalidMessageType, message, true))
            }
        };
        Self { wire, name, sequence, body, memory }
    }

    /// By which it is known in all logs: the client's name for it, if it gave one.
    pub fn id(&self) -> RequestId {
        let given = match &self.body {
            Body::Call(Call::CreateFile(request)) => &request.request_id,
            Body::Call(Call::AppendFile(request)) => &request.request_id,
            Body::Call(Call::AppendData(request)) => &request.request_id,
            Body::Call(Call::CloseFile(request)) => &request.request_id,
            Body::Call(Call::TruncateFile(request)) => &request.request_id,
            Body::Call(Call::MakeDirectories(request)) => &request.request_id,
            Body::Call(Call::RenamePath(request)) => &request.request_id,
            Body::Call(Call::RemovePath(request)) => &request.request_id,
            Body::Call(Call::SetAttributes(request)) => &request.request_id,
            _ => &None,
        };
        let given = given.as_ref().and_then(|bytes| bytes[..].try_into().ok());
        given.map_or_else(RequestId::next, RequestId)
    }

    /// Whether it may run beside others of its kind: a read at a given offset.
    pub fn runs_beside_others(&self) -> bool {
        match &self.body {
            Body::Call(Call::ReadRange(_)) => true,
            Body::Call(Call::Read(args)) => args.offset.is_some_and(|offset| offset >= 0),
            _ => false,
        }
    }

    /// For what can be answered in part: the bytes its answer may have.
    pub fn answer_bytes(&self) -> Option<usize> {
        let asked = match &self.body {
            Body::Call(Call::ReadRange(request)) => i64::from(request.length.unwrap_or(0)),
            Body::Call(Call::Read(args)) => args.len.unwrap_or(0),
            Body::Call(Call::ListDirectory(_)) => return Some(PAGE_BYTES),
            _ => return None,
        };
        Some(usize::try_from(asked).unwrap_or(0).min(MAX_CHUNK_BYTES))
    }
}

/// The path that a call names, for who wants to know why it was slow; none of those that go on
/// with an open file.
pub fn path_of(call: &Call) -> Option<String> {
    let path = match call {
        Call::GetFileInfo(request) => &request.path,
        Call::ListDirectory(request) => &request.path,
        Call::GetBlockLocations(request) => &request.path,
        Call::GetChecksum(request) => &request.path,
        Call::OpenFile(request) => &request.path,
        Call::CreateFile(request) => &request.path,
        Call::AppendFile(request) => &request.path,
        Call::TruncateFile(request) => &request.path,
        Call::MakeDirectories(request) => &request.path,
        Call::RenamePath(request) => &request.source,
        Call::RemovePath(request) => &request.path,
        Call::SetAttributes(request) => &request.path,
        _ => return None,
    };
    // What others choose can't break a line.
    path.as_ref().map(|path| format!("{path:?}"))
}

/// An answer on its way out.
pub struct Outgoing {
    /// The bytes.
    pub encoded: Encoded,
    /// The memory they take, held until they are sent.
    pub memory: Option<Permit>,
    /// The connection ends after it.
    pub last: bool,
}

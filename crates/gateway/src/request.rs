//! A client's message, and the answer to it.

use crate::config::PAGE_BYTES;
use crate::memory::Permit;
use bytes::Bytes;
use std::borrow::Cow;
use std::time::{Duration, Instant};
use strait_store::{MAX_CHUNK_BYTES, MAX_PATH_BYTES};
use strait_telemetry::RequestId;
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Call, Decoder, Encoded, Envelope, MessageKind, Protocol, Wire,
};

/// Bytes of a path in the log and in errors. No valid path is longer.
const LOGGED_PATH_BYTES: usize = MAX_PATH_BYTES;

/// Most elements of a list in a request. The longest list, of concatFiles, has 1,000; its own check names that
/// limit. The budget counts a request's bytes only, and an element can take 24 times as much memory.
const MOST_ELEMENTS: usize = 4_096;

/// A request, as far as it could be decoded.
pub struct Request {
    /// The wire that it came on.
    pub wire: Wire,
    /// Method; empty if even that couldn't be decoded.
    pub name: Cow<'static, str>,
    /// The index of its method in [`Call::METHODS`]; none for an unknown method.
    pub operation: Option<usize>,
    /// The client's sequence number.
    pub sequence: i32,
    /// The call, or the refusal of it.
    pub body: Body,
    /// The memory of its bytes, held until it is executed.
    pub memory: Option<Permit>,
    /// When its client stops waiting for the answer, if the request says so.
    pub deadline: Option<Instant>,
}

/// A call, or the reason why it can't be executed.
pub enum Body {
    /// A call.
    Call(Call),
    /// The message isn't a call of the interface.
    Refused {
        /// The answer to the client.
        error: ApplicationError,
        /// Whether the connection has to end.
        last: bool,
    },
}

impl Request {
    /// Reads a whole message. The time of its deadline began when it `arrived`.
    pub fn parse(wire: Wire, message: Bytes, memory: Option<Permit>, arrived: Instant) -> Self {
        let refuse =
            |kind, message: String, last| Body::Refused { error: ApplicationError { kind, message }, last };
        let mut from = Decoder::new(wire.protocol, message).with_most_elements(MOST_ELEMENTS);
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
                let message = format!("the message is a {kind:?}; send a Call, since no method is oneway");
                (name, sequence, refuse(ApplicationErrorKind::InvalidMessageType, message, true))
            }
        };
        let operation = Call::METHODS.iter().position(|method| *method == name);
        let name = operation.map_or(Cow::Owned(name), |at| Cow::Borrowed(Call::METHODS[at]));
        let deadline = match &body {
            Body::Call(call) => call.deadline_ms().map(|ms| arrived + time_of(ms)),
            Body::Refused { .. } => None,
        };
        Self { wire, name, operation, sequence, body, memory, deadline }
    }

    /// Its id in all logs: the client's request id, if it gave one.
    pub fn id(&self) -> RequestId {
        let given = self.given_id().and_then(|bytes| bytes[..].try_into().ok());
        given.map_or_else(RequestId::next, RequestId)
    }

    fn given_id(&self) -> Option<&Bytes> {
        let Body::Call(call) = &self.body else { return None };
        id_of(call)?.as_ref()
    }

    /// Whether it mustn't begin once its client has left: the client may have repeated it at another
    /// gateway. closeFile may begin: it ends a handle of this gateway alone, and is often a client's
    /// last request.
    pub fn needs_its_client(&self) -> bool {
        self.given_id().is_some() && !matches!(self.body, Body::Call(Call::CloseFile(_)))
    }

    /// Whether it may run beside others of its kind: a read at a given offset.
    pub fn runs_beside_others(&self) -> bool {
        match &self.body {
            Body::Call(Call::ReadRange(_)) => true,
            Body::Call(Call::Read(args)) => args.offset.is_some_and(|offset| offset >= 0),
            _ => false,
        }
    }

    /// For calls whose answers the gateway can cut: the most memory that the answer takes.
    pub fn answer_bytes(&self) -> Option<usize> {
        let Body::Call(call) = &self.body else { return None };
        let asked = match call {
            Call::ReadRange(request) => i64::from(request.length.unwrap_or(0)),
            Call::Read(args) => args.len.unwrap_or(0),
            Call::ListDirectory(_) => return Some(PAGE_BYTES),
            _ => return None,
        };
        // Without `expansion`, a short read in JSON would have room for no content, which means the
        // file's end.
        let needed = usize::try_from(asked).unwrap_or(0).saturating_mul(expansion(self.wire, call));
        Some(needed.min(MAX_CHUNK_BYTES))
    }
}

/// This many milliseconds; none, if the number is negative.
fn time_of(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// A change's request id, if it has one. None for other calls.
fn id_of(call: &Call) -> Option<&Option<Bytes>> {
    Some(match call {
        Call::CreateFile(request) => &request.request_id,
        Call::AppendFile(request) => &request.request_id,
        Call::AppendData(request) => &request.request_id,
        Call::CloseFile(request) => &request.request_id,
        Call::TruncateFile(request) => &request.request_id,
        Call::MakeDirectories(request) => &request.request_id,
        Call::RenamePath(request) => &request.request_id,
        Call::RemovePath(request) => &request.request_id,
        Call::SetAttributes(request) => &request.request_id,
        Call::ConcatFiles(request) => &request.request_id,
        _ => return None,
    })
}

/// Whether the call changes something: once it has begun, it runs to its end.
pub fn is_change(call: &Call) -> bool {
    id_of(call).is_some() || matches!(call, Call::CloseSession(_))
}

/// The path that a call names, for errors and the log of slow calls, cut to the longest valid length. None
/// for calls on an open file.
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
        Call::ConcatFiles(request) => &request.path,
        _ => return None,
    };
    path.as_ref().map(|path| path[..path.floor_char_boundary(LOGGED_PATH_BYTES)].to_owned())
}

/// How many bytes of an answer's memory one byte of content takes. JSON writes content as base64 beside
/// the bytes themselves. A string can hold control bytes, each of which JSON writes as six bytes.
pub fn expansion(wire: Wire, call: &Call) -> usize {
    match (wire.protocol, call) {
        (Protocol::Json, Call::ReadRange(_)) => 3,
        (Protocol::Json, _) => 8,
        _ => 1,
    }
}

/// An answer on its way out.
pub struct Outgoing {
    /// The bytes.
    pub encoded: Encoded,
    /// The memory of the bytes, held until they are sent.
    pub memory: Option<Permit>,
    /// Whether the connection ends after it.
    pub last: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_wire::{OpenFileRequest, methods};

    #[test]
    fn the_log_gets_no_more_of_a_path_than_a_path_may_have() {
        let wire = Wire { protocol: Protocol::Binary, framed: false };
        let logged = |path: &str| {
            let request = OpenFileRequest { path: Some(path.to_owned()), ..Default::default() };
            let message = <methods::OpenFile as strait_wire::Method>::call(wire, 1, &request.into());
            let Body::Call(call) = Request::parse(wire, message.to_bytes(), None, Instant::now()).body else {
                panic!()
            };
            path_of(&call).unwrap()
        };
        assert_eq!(logged("/a\nb"), "/a\nb");
        assert!(logged(&"é\u{1}".repeat(1 << 20)).len() <= MAX_PATH_BYTES);
    }
}

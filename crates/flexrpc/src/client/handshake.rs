//! The handshake that gets a session.

use crate::client::line::{Line, Received};
use crate::client::session::Session;
use crate::net::clock;
use crate::net::reader::Frame;
use crate::net::socket::Sent;
use crate::proto::Micros;
use crate::proto::auth::ClusterKey;
use crate::proto::bond::KeyId;
use crate::proto::call::{Answer, Call, RetryPolicy, Step};
use crate::proto::extension::{Extension, Nonce};
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits;
use crate::proto::status::{Doubt, Obstacle, Refusal};

const UNKNOWN: Refusal = Refusal::Unreachable(Obstacle::Unknown);
const HUNG_UP: Refusal = Refusal::Unreachable(Obstacle::HungUp);

/// Asks the callee for a session. A handshake executes no call, so every failure is a refusal.
pub(crate) fn shake_hands(
    line: &mut Line,
    (key, key_id): (Option<&ClusterKey>, Option<&KeyId>),
    policy: RetryPolicy,
    deadline: Option<Micros>,
) -> Result<Session, Refusal> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|_| UNKNOWN)?;
    let (mut nonce, mut transaction) = (Nonce::default(), [0; 8]);
    nonce.copy_from_slice(&random[..16]);
    transaction.copy_from_slice(&random[16..]);
    let id = CallId { session: SessionId::NONE, handle: 0, transaction: u64::from_be_bytes(transaction) };
    let hello = hello(id, nonce, key, key_id);
    let mut call = Call::new(id, line.transport, policy, deadline);
    let mut step = Step::Send;
    loop {
        step = match step {
            Step::Send => match line.send(&[&hello], deadline) {
                Sent::Whole => call.sent(clock::now),
                Sent::Broken => return Err(line.fd.failure().unwrap_or(HUNG_UP)),
                Sent::TimedOut => return Err(Refusal::Unreachable(Obstacle::TimedOut)),
            },
            Step::Wait(until) => match line.receive(until) {
                Received::Frame(frame) if frame.head.id.transaction != id.transaction => {
                    call.on_time(clock::now())
                }
                Received::Frame(frame) => match session_of(&frame, nonce, key)? {
                    Some(session) => return Ok(session),
                    None => call.on_answer(Answer::SendAgain, clock::now()),
                },
                Received::TimedOut => call.on_time(clock::now()),
                Received::PortRefused => call.on_port_refused(clock::now()),
                Received::Broken | Received::TooLarge(_) => {
                    return Err(line.fd.failure().unwrap_or(HUNG_UP));
                }
            },
            Step::NotExecuted(refusal) => return Err(refusal),
            Step::Unknown(Doubt::TimedOut) => return Err(Refusal::Unreachable(Obstacle::TimedOut)),
            // A broken line ended above, so this is a port without a socket.
            Step::Unknown(Doubt::ConnectionLost) => {
                return Err(Refusal::Unreachable(Obstacle::ConnectionRefused));
            }
            Step::Reconnect(_) | Step::Answered | Step::Unknown(_) => return Err(UNKNOWN),
        }
    }
}

fn hello(id: CallId, nonce: Nonce, key: Option<&ClusterKey>, key_id: Option<&KeyId>) -> Vec<u8> {
    let extension =
        Extension { nonce: Some(nonce), key_id: key_id.cloned(), ..Extension::default() }.encode();
    let flags = key.map_or(0, |_| flags::AUTHENTIC);
    let mut hello = Head { flags, ..Head::new(Kind::Hello, id) }.encode(&extension);
    if let Some(key) = key {
        let tag = key.of_session(SessionId::NONE).tag(&[&hello]);
        hello.extend_from_slice(&tag);
    }
    hello
}

/// The session that a frame grants; `None` if the frame is damaged.
fn session_of(frame: &Frame, nonce: Nonce, key: Option<&ClusterKey>) -> Result<Option<Session>, Refusal> {
    let head = &frame.head;
    if !frame.intact {
        return Ok(None);
    }
    // The tag is missing, or was made by another key: callee and caller share no key.
    if key.is_some_and(|key| !frame.is_authentic(&key.of_session(SessionId::NONE))) {
        return Err(Refusal::Unauthenticated);
    }
    match head.kind {
        Kind::Refused => Err(Refusal::decode(head.status, frame.payload()).unwrap_or(UNKNOWN)),
        Kind::Welcome => {
            let extension = Extension::decode(frame.extension()).map_err(|_| UNKNOWN)?;
            let terms = extension.terms.filter(|_| extension.nonce == Some(nonce));
            let terms = terms.ok_or(UNKNOWN)?;
            let session_key = key.map(|key| key.of_session(head.id.session));
            Ok(Some(Session::new(head.id.session, session_key, terms)))
        }
        _ => Err(UNKNOWN),
    }
}

/// Limits the wait for a handshake to `connect`, even if the call has more time: a live callee
/// answers at once.
pub(crate) fn deadline(call: Option<Micros>, connect: std::time::Duration) -> Option<Micros> {
    let connect = clock::after(clock::now(), connect);
    Some(call.map_or(connect, |call| call.min(connect)))
}

/// Largest payload that `line` carries to a callee with these terms.
pub(crate) fn payload_limit(line: &Line, session: &Session, extension: usize) -> usize {
    match line.transport {
        crate::Transport::Tcp => session.terms.payload_bytes as usize,
        crate::Transport::Udp => limits::udp_payload_bytes(session.key.is_some()).saturating_sub(extension),
    }
}

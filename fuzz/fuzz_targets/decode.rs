//! One message: as a call, which a server meets, and as an answer, which a
//! client meets. Input: one byte that picks how to read it, then the message.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use strait_wire::{
    Call, DecodeError, Decoder, Envelope, Method, Protocol, Reply, Scan, Scanner, Wire, methods,
};

/// The encodings, as the first byte picks them: its remainder by their number.
const PROTOCOLS: [Protocol; 4] = [Protocol::Binary, Protocol::Compact, Protocol::Unversioned, Protocol::Json];
/// More than any input has: here the decoder is met, not the limit.
const MAX_BYTES: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((selector, message)) = data.split_first() else { return };
    let protocol = PROTOCOLS[usize::from(*selector) % PROTOCOLS.len()];
    let message = Bytes::copy_from_slice(message);
    match usize::from(*selector) / PROTOCOLS.len() {
        0 => call(protocol, message),
        1 => answer::<methods::Init>(protocol, message),
        2 => answer::<methods::Stat>(protocol, message),
        3 => answer::<methods::ListFiles>(protocol, message),
        4 => answer::<methods::Read>(protocol, message),
        5 => answer::<methods::ServerInfo>(protocol, message),
        6 => answer::<methods::OpenSession>(protocol, message),
        7 => answer::<methods::ListDirectory>(protocol, message),
        8 => answer::<methods::ReadRange>(protocol, message),
        9 => answer::<methods::GetBlockLocations>(protocol, message),
        _ => call(protocol, message),
    }
});

/// Scanner and decoder are two readers of one format: they have to agree.
fn call(protocol: Protocol, message: Bytes) {
    let scan = Scanner::new(Wire { protocol, framed: false }, MAX_BYTES).scan(&message);
    let mut from = Decoder::new(protocol, message.clone());
    let decoded = Envelope::read(&mut from).and_then(|envelope| Call::read(&envelope.name, &mut from));
    match decoded {
        Ok(Some(_)) => {
            let end = message.len() - from.remaining();
            assert_eq!(scan, Ok(Scan::Complete { start: 0, end }), "decoded, but not where the scan ended");
        }
        Err(DecodeError::Truncated) => {
            assert!(!matches!(scan, Ok(Scan::Complete { .. })), "complete, and yet too short to decode");
        }
        Ok(None) | Err(_) => {}
    }
}

/// A decoded message means the same after it is encoded again.
fn answer<M>(protocol: Protocol, message: Bytes)
where
    M: Method + Debug,
    M::Success: Debug,
    M::Exception: Debug,
{
    let Ok((sequence, reply)) = M::decode_reply(protocol, message) else { return };
    let shown = format!("{reply:?}");
    let result = match reply {
        Reply::Success(success) => Ok(success),
        Reply::Exception(exception) => Err(exception),
        Reply::Application(_) => return,
    };
    let again = M::reply(Wire { protocol, framed: false }, sequence, &result).to_bytes();
    let (repeated, reply) = M::decode_reply(protocol, again).expect("our own answer is understood");
    assert_eq!((repeated, format!("{reply:?}")), (sequence, shown));
}

//! Plain ONC RPC: calls, replies, and records out of their fragments. Input: one
//! byte that picks the reader, then its bytes. A message that was read must be written the
//! same, and a stream's records mustn't depend on the pieces in which it arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strait_flexrpc::proto::onc::message::{Answer, Call, Denial, Unfit};
use strait_flexrpc::proto::onc::record::{Assembly, RecordError};

/// Largest record; small, so that the limit is met.
const LIMIT: usize = 256;

fuzz_target!(|data: &[u8]| {
    let Some((selector, rest)) = data.split_first() else { return };
    match selector {
        0 => call(rest),
        1 => answer(rest),
        piece => assert_eq!(records(rest, usize::from(*piece)), records_at_once(rest)),
    }
});

fn call(bytes: &[u8]) {
    match Call::decode(bytes) {
        Ok((call, args)) => {
            let again = [&call.encode(), args].concat();
            assert_eq!(Call::decode(&again), Ok((call, args)));
        }
        Err(Unfit::Denied { xid, why }) => {
            assert!(bytes.starts_with(&xid.to_be_bytes()));
            let reply = Answer::Denied(why).encode(xid);
            assert_eq!(Answer::decode(&reply), Some((xid, Answer::Denied(why), &[][..])));
        }
        Err(Unfit::NotACall) => {}
    }
}

fn answer(bytes: &[u8]) {
    if let Some((xid, answer, rest)) = Answer::decode(bytes) {
        let again = [&answer.encode(xid), rest].concat();
        assert_eq!(Answer::decode(&again), Some((xid, answer, rest)));
        assert!(!matches!(answer, Answer::Denied(Denial::RpcMismatch)) || bytes.len() >= 20);
    }
}

type Records = (Vec<Vec<u8>>, Option<RecordError>);

/// As a server finds them: in the buffer that they arrive in.
fn records(stream: &[u8], piece: usize) -> Records {
    let (mut assembly, mut records, mut buffer) = (Assembly::new(LIMIT), Vec::new(), Vec::new());
    for piece in stream.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            let (kept, whole) = match assembly.take_in(&mut buffer) {
                Ok(taken) => taken,
                Err(error) => return (records, Some(error)),
            };
            buffer.truncate(kept);
            assert!(assembly.len() <= kept && assembly.announced() <= LIMIT);
            if !whole {
                break;
            }
            let behind = buffer.split_off(assembly.len());
            records.push(std::mem::replace(&mut buffer, behind));
            assembly.begin_next();
        }
    }
    (records, None)
}

/// By the letter of RFC 5531, section 11.
fn records_at_once(mut stream: &[u8]) -> Records {
    let (mut records, mut record) = (Vec::new(), Vec::new());
    while let Some((mark, rest)) = stream.split_first_chunk() {
        let mark = u32::from_be_bytes(*mark);
        let (last, length) = (mark >> 31 == 1, (mark & 0x7fff_ffff) as usize);
        if record.len() + length > LIMIT {
            return (records, Some(RecordError::TooLarge));
        }
        if length == 0 && !last {
            return (records, Some(RecordError::EmptyFragment));
        }
        let Some((fragment, rest)) = rest.split_at_checked(length) else { break };
        record.extend_from_slice(fragment);
        if last {
            records.push(std::mem::take(&mut record));
        }
        stream = rest;
    }
    (records, None)
}

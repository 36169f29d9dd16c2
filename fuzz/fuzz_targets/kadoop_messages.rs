//! Most messages of `idl/kadoop.x`. If bytes decode, the value encodes to the same bytes, and its
//! conversion doesn't panic. Input: one byte that picks the message, then its bytes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use strait_kadoop_wire::{
    convert,
    wire::{
        KdAnswer, KdAttributes, KdBorrow, KdCaller, KdClusterStatus, KdContinue, KdHeartbeat,
        KdHeartbeatAnswer, KdLender, KdLent, KdLocated, KdMutation, KdOpening, KdPage, KdPiece, KdRead,
        KdRequest, KdService, KdStatus, KdUpto, KdWelcome, KdWrite,
    },
};
use strait_xdr::{Decode, Encode, from_shared, to_vec};

fuzz_target!(|data: &[u8]| {
    let Some((selector, rest)) = data.split_first() else { return };
    match selector {
        0 => drop(decode::<KdCaller<'_>>(rest).map(|of| convert::caller_from_wire(&of))),
        1 => drop(decode::<KdRequest>(rest).map(convert::request_from_wire)),
        2 => mutation(rest),
        3 => drop(decode::<KdAnswer<'_>>(rest).map(|of| convert::answer_from_wire(&of))),
        4 => drop(decode::<KdStatus<'_>>(rest).map(|of| convert::status_from_wire(&of))),
        5 => drop(decode::<KdPage<'_>>(rest).map(|of| convert::page_from_wire(&of))),
        6 => drop(decode::<KdLocated<'_>>(rest).map(|of| convert::located_from_wire(&of))),
        7 => drop(decode::<KdHeartbeat<'_>>(rest).map(|of| convert::beat_from_wire(&of))),
        8 => drop(decode::<KdHeartbeatAnswer<'_>>(rest).map(|of| convert::heartbeat_answer_from_wire(&of))),
        9 => drop(decode::<KdWrite<'_>>(rest).map(convert::write_from_wire)),
        10 => drop(decode::<KdContinue>(rest).map(|of| convert::continue_from_wire(&of))),
        11 => drop(decode::<KdRead>(rest).map(|of| convert::read_from_wire(&of))),
        12 => drop(decode::<KdPiece<'_>>(rest).map(convert::piece_from_wire)),
        13 => drop(decode::<KdUpto>(rest)),
        14 => drop(decode::<KdWelcome>(rest)),
        15 => drop(decode::<KdAttributes<'_>>(rest)),
        16 => drop(decode::<KdLender<'_>>(rest)),
        17 => drop(decode::<KdBorrow>(rest)),
        18 => drop(decode::<KdLent>(rest)),
        19 => drop(decode::<KdService>(rest)),
        20 => drop(decode::<KdOpening<'_>>(rest).map(|of| convert::session_from_wire(&of.session))),
        _ => drop(decode::<KdClusterStatus<'_>>(rest)),
    }
});

fn decode<T: Decode<'static> + Encode + Debug>(bytes: &[u8]) -> Option<T> {
    let value = from_shared::<T>(Bytes::copy_from_slice(bytes)).ok()?;
    assert_eq!(to_vec(&value).as_deref(), Ok(bytes), "it was encoded in another way");
    Some(value)
}

fn mutation(bytes: &[u8]) {
    let Some(wire) = decode::<KdMutation<'_>>(bytes) else { return };
    if let Ok(mutation) = convert::mutation_from_wire(&wire) {
        assert_eq!(convert::mutation_to_wire(&mutation), Some(wire), "it means something else afterwards");
    }
}

//! Messages whose sender nests them as deep as it likes.

use std::thread;
use strait_idl_tests::deep::{Crossroads, Switches};
use strait_idl_tests::habits::{Ample, Wide};
use strait_xdr::{
    Decode, DecodeError, Encode, EncodeError, FIELD_BYTES, MAX_DEPTH, MAX_NESTED_BYTES, Problem, from_bytes,
    to_vec,
};

/// The standard library's stack size for threads, which service workers have.
const STACK_BYTES: usize = 2 << 20;

/// Bytes of an `ample` on the wire, up to its first pointer.
const IN_LINE: usize = 3 * 8 * 128;

/// A message of `depth` values, each inside the previous one.
fn message(depth: usize) -> Vec<u8> {
    let one = |index: usize| {
        let followed = u32::from(index + 1 < depth);
        [&[7; IN_LINE][..], &followed.to_be_bytes()].concat()
    };
    (0..depth).flat_map(one).chain(vec![0; 4 * depth]).collect()
}

#[test]
fn no_message_exhausts_a_workers_stack() {
    on_a_workers_stack(|| {
        let deepest = MAX_NESTED_BYTES / size_of::<Ample>();
        let bytes = message(deepest);
        let value: Ample = from_bytes(&bytes).unwrap();
        assert_eq!(to_vec(&value).unwrap(), bytes);
        for depth in [deepest + 1, 10_000] {
            let refused = from_bytes::<Ample>(&message(depth));
            assert!(matches!(refused, Err(DecodeError { problem: Problem::TooDeep, .. })), "{depth}");
        }
        let deeper = Ample { below: Some(Box::new(value.clone())), ..value };
        assert_eq!(to_vec(&deeper), Err(EncodeError::TooDeep), "nor is it sent");
    });
}

#[test]
fn nor_does_one_of_a_union_with_many_arms() {
    on_a_workers_stack(|| {
        let deepest = (MAX_NESTED_BYTES / size_of::<Wide>()).min(MAX_DEPTH as usize);
        // In each: case 0, and the mark of another.
        let message = |depth: usize| [[0, 0, 0, 0, 0, 0, 0, 1].repeat(depth - 1), vec![0; 8]].concat();
        let value: Wide = from_bytes(&message(deepest)).unwrap();
        assert_eq!(to_vec(&value).unwrap(), message(deepest));
        let refused = from_bytes::<Wide>(&message(deepest + 1));
        assert!(matches!(refused, Err(DecodeError { problem: Problem::TooDeep, .. })));
    });
}

#[test]
fn nor_does_one_of_a_struct_with_many_fields() {
    on_a_workers_stack(|| {
        many_fields_bear_any_message::<Switches>(451);
        many_fields_bear_any_message::<Crossroads>(40);
    });
}

/// Checks a type whose first field points to the next.
fn many_fields_bear_any_message<T: Encode + for<'m> Decode<'m>>(fields: usize) {
    // The marks of further values, then zeros for the rest of all of them.
    let message = |depth: usize| {
        let left = depth * fields - (depth - 1);
        [[0, 0, 0, 1].repeat(depth - 1), [0; 4].repeat(left)].concat()
    };
    let deepest = MAX_NESTED_BYTES / (fields * FIELD_BYTES);
    let value: T = from_bytes(&message(deepest)).unwrap();
    assert_eq!(to_vec(&value).unwrap(), message(deepest));
    for hostile in [message(deepest + 1), [0, 0, 0, 1].repeat(512), [0, 0, 0, 1].repeat(1 << 20)] {
        let refused = from_bytes::<T>(&hostile);
        assert!(matches!(refused, Err(DecodeError { problem: Problem::TooDeep, .. })), "{fields}");
    }
}

/// A stack overflow ends the process.
fn on_a_workers_stack(body: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(body).unwrap().join().unwrap();
}

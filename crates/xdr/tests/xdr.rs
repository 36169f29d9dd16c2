//! The XDR library without generated code: decoding accepts only one encoding of each value, and hostile bytes
//! make it allocate no large memory. `tests/idl` compares the encoding with libtirpc's.

use proptest::prelude::*;
use strait_xdr::{
    Bytes, Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, FIELD_BYTES, MAX_DEPTH,
    MAX_NESTED_BYTES, Opaque, Problem, Text, UNLIMITED, from_bytes, from_shared, to_vec,
};

/// Much larger than any copied opaque.
const LARGE: usize = 1 << 20;

#[derive(Debug, PartialEq)]
struct Write<'a> {
    offset: u64,
    data: Opaque<'a>,
    name: Text<'a>,
}

impl Encode for Write<'_> {
    fn encode<'v>(&'v self, to: &mut Encoder<'v>) -> Result<(), EncodeError> {
        to.u64(self.offset);
        to.opaque(&self.data, UNLIMITED)?;
        to.text(&self.name, 255)
    }
}

impl<'m> Decode<'m> for Write<'m> {
    fn decode(from: &mut Decoder<'m>) -> Result<Self, DecodeError> {
        Ok(Self { offset: from.u64()?, data: from.opaque(UNLIMITED)?, name: from.text(255)? })
    }
}

fn problem<T: std::fmt::Debug>(result: Result<T, DecodeError>) -> Problem {
    result.unwrap_err().problem
}

fn contains(outer: &[u8], inner: &[u8]) -> bool {
    outer.as_ptr_range().start <= inner.as_ptr_range().start
        && inner.as_ptr_range().end <= outer.as_ptr_range().end
}

#[test]
fn a_large_opaque_leaves_as_a_slice_of_the_value() {
    let data = vec![7; LARGE + 1];
    let write = Write { offset: 1, data: (&data).into(), name: "f".into() };
    let mut to = Encoder::new(b"room".to_vec());
    write.encode(&mut to).unwrap();
    let encoded = to.finish();

    let segments: Vec<_> = encoded.segments().collect();
    assert_eq!(segments.len(), 3);
    assert!(contains(&data, segments[1]), "the payload was copied");
    assert_eq!(segments[0], b"room\0\0\0\0\0\0\0\x01\0\x10\0\x01");
    assert_eq!(segments[2], b"\0\0\0\0\0\0\x01f\0\0\0");
    assert_eq!(encoded.len(), encoded.to_vec().len());
}

#[test]
fn a_shared_opaque_leaves_for_other_threads_without_a_copy() {
    let data = Bytes::from(vec![7; LARGE]);
    let write = Write { offset: 1, data: data.clone().into(), name: "f".into() };
    let mut to = Encoder::default();
    write.encode(&mut to).unwrap();
    let encoded = to.finish();
    let whole = encoded.to_vec();
    let pieces = encoded.into_shared();
    assert!(contains(&data, &pieces[1]), "the payload was copied");
    assert_eq!(pieces.concat(), whole);

    let mut to = Encoder::flat(Vec::new());
    write.encode(&mut to).unwrap();
    assert_eq!(to.finish().segments().collect::<Vec<_>>(), [whole], "one buffer only");
}

#[test]
fn an_opaque_reaches_its_reader_as_a_slice_of_the_message() {
    let write = Write { offset: 1, data: vec![7; LARGE].into(), name: "name".into() };
    let message = Bytes::from(to_vec(&write).unwrap());
    let borrowed: Write = from_bytes(&message).unwrap();
    let shared: Write = from_shared(message.clone()).unwrap();
    assert_eq!(borrowed, write);
    assert_eq!(shared, write);
    assert!(contains(&message, &borrowed.data), "copied where it could be borrowed");
    assert!(contains(&message, &shared.data), "copied where it could be shared");
}

#[test]
fn every_truncation_and_every_addition_is_noticed() {
    let write = Write { offset: 1, data: vec![1, 2, 3].into(), name: "four".into() };
    let whole = to_vec(&write).unwrap();
    for end in 0..whole.len() {
        assert_eq!(problem(from_bytes::<Write>(&whole[..end])), Problem::Truncated, "cut at {end}");
    }
    let more = [&whole[..], &[0; 4]].concat();
    assert_eq!(problem(from_bytes::<Write>(&more)), Problem::Trailing { bytes: 4 });
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let mut decoder = Decoder::new(&[0xff; 4]);
    assert_eq!(problem(decoder.opaque(UNLIMITED)), Problem::Truncated);
    // 2^32 - 1 items of 64 bytes in memory and 4 on the wire: reserving room first would ask for
    // 256 GiB.
    let mut decoder = Decoder::new(&[0xff; 8]);
    assert_eq!(problem(decoder.list(UNLIMITED, 4, |from| Ok([from.u64()?; 8]))), Problem::Truncated);
    let mut decoder = Decoder::new(&[0, 0, 0, 3, 0, 0, 0, 1]);
    let error = decoder.opaque(2).unwrap_err();
    assert_eq!(error, DecodeError { problem: Problem::TooLong { length: 3, limit: 2 }, offset_bytes: 4 });
}

#[test]
fn limits_hold_for_what_is_sent_too() {
    let mut to = Encoder::default();
    let four = Opaque::from(&[1, 2, 3, 4]);
    let text = Text::from("four");
    assert_eq!(to.opaque(&four, 3), Err(EncodeError::TooLong { length: 4, limit: 3 }));
    assert_eq!(to.text(&text, 3), Err(EncodeError::TooLong { length: 4, limit: 3 }));
    assert_eq!(to.opaque_exact(&four, 5), Err(EncodeError::WrongLength { length: 4, expected: 5 }));
    let item = |to: &mut Encoder, item: &u32| {
        to.u32(*item);
        Ok(())
    };
    assert_eq!(to.list(&[1, 2], 1, item), Err(EncodeError::TooLong { length: 2, limit: 1 }));
    assert_eq!(to.array(&[1, 2], 3, item), Err(EncodeError::WrongLength { length: 2, expected: 3 }));
}

#[test]
fn what_no_encoder_writes_is_refused() {
    assert_eq!(problem(Decoder::new(&[0, 0, 0, 2]).bool()), Problem::NotABool(2));
    assert_eq!(problem(Decoder::new(&[0, 0, 1, 0]).u8()), Problem::OutOfRange(256));
    assert_eq!(problem(Decoder::new(&[0, 0, 0, 128]).i8()), Problem::OutOfRange(128));
    assert_eq!(problem(Decoder::new(&[0xff, 0xff, 0, 0]).i16()), Problem::OutOfRange(0xffff_0000));
    assert_eq!(problem(Decoder::new(&[0, 1, 0, 0]).u16()), Problem::OutOfRange(0x10000));
    assert_eq!(problem(Decoder::new(&[0, 0, 0, 1, 9, 0, 0, 1]).opaque(9)), Problem::Padding);
    assert_eq!(problem(Decoder::new(&[9, 9, 9, 1]).opaque_array::<3>()), Problem::Padding);
    assert_eq!(Decoder::new(&[0xff; 4]).i8(), Ok(-1));
}

#[derive(Debug)]
struct Nest(Option<Box<Nest>>);

impl Nest {
    fn of_depth(depth: u32) -> Self {
        (1..depth).fold(Self(None), |inner, _| Self(Some(Box::new(inner))))
    }
}

impl Encode for Nest {
    fn encode<'v>(&'v self, to: &mut Encoder<'v>) -> Result<(), EncodeError> {
        to.nested::<Self>(1, |to| to.option(self.0.as_deref(), |to, inner| inner.encode(to)))
    }
}

impl<'m> Decode<'m> for Nest {
    fn decode(from: &mut Decoder<'m>) -> Result<Self, DecodeError> {
        from.nested(1, |from| Ok(Self(from.option(|from| Self::decode(from).map(Box::new))?)))
    }
}

#[test]
fn nesting_ends_at_its_limit_both_ways() {
    let deepest = to_vec(&Nest::of_depth(MAX_DEPTH)).unwrap();
    from_bytes::<Nest>(&deepest).unwrap();
    assert_eq!(to_vec(&Nest::of_depth(MAX_DEPTH + 1)), Err(EncodeError::TooDeep));
    let hostile = [0, 0, 0, 1].repeat(1 << 20);
    assert_eq!(problem(from_bytes::<Nest>(&hostile)), Problem::TooDeep);
}

#[test]
fn a_value_that_fails_leaves_the_depth_as_it_was() {
    let too_long = EncodeError::TooLong { length: 2, limit: 1 };
    let (mut from, mut to) = (Decoder::new(&[]), Encoder::default());
    for _ in 0..2 * MAX_DEPTH {
        assert_eq!(problem(from.nested(1, |from| from.i32())), Problem::Truncated);
        assert_eq!(to.nested::<i32>(1, |_| Err(too_long.clone())), Err(too_long.clone()));
    }
}

#[test]
fn small_fields_count_as_places_on_the_stack() {
    let depth = |fields: usize| {
        fn nested(from: &mut Decoder<'_>, fields: usize, depth: usize) -> usize {
            let mut reached = depth;
            let inner = |from: &mut Decoder<'_>| {
                reached = nested(from, fields, depth + 1);
                Ok(())
            };
            let _ = from.nested(fields, inner);
            reached
        }
        nested(&mut Decoder::new(&[]), fields, 0)
    };
    assert_eq!((depth(0), depth(32), depth(64)), (MAX_DEPTH as usize, MAX_DEPTH as usize, 64));
    assert_eq!((depth(MAX_NESTED_BYTES / FIELD_BYTES), depth(usize::MAX)), (1, 0));
}

#[test]
fn a_chain_is_as_long_as_its_bytes() {
    let items: Vec<u32> = (0..1 << 20).collect();
    let mut to = Encoder::default();
    to.chain(&items, |to, item| {
        to.u32(*item);
        Ok(())
    })
    .unwrap();
    let message = to.finish().into_vec();
    assert_eq!(Decoder::new(&message).whole(|from| from.chain(Decoder::u32)), Ok(items));
}

#[test]
fn text_is_bytes_until_asked() {
    let text: Text = b"caf\xe9\0".as_slice().into();
    assert!(text.as_str().is_err());
    assert_eq!(text.to_string(), "caf\u{fffd}\0");
    assert_eq!(format!("{text:?}"), "\"caf\\xe9\\x00\"");
    assert_eq!(Text::from("name"), "name");
    assert_eq!(Text::from("name").as_str(), Ok("name"));
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(offset: u64, data: Vec<u8>, name in ".{0,60}") {
        let write = Write { offset, data: data.into(), name: name.into() };
        let message = to_vec(&write).unwrap();
        prop_assert_eq!(message.len() % 4, 0);
        prop_assert_eq!(from_bytes::<Write>(&message).unwrap(), write);
    }

    /// Canonical: decoded bytes encode to themselves.
    #[test]
    fn what_decodes_encodes_to_the_same(message in prop::collection::vec(0u8..3, 0..64)) {
        if let Ok(write) = from_bytes::<Write>(&message) {
            prop_assert_eq!(to_vec(&write).unwrap(), message.clone());
            prop_assert_eq!(from_shared::<Write>(message.clone().into()).unwrap(), write);
        }
    }

    #[test]
    fn numbers_keep_every_bit(a: i32, b: i64, c: i8, d: u8, e: i16, f: u16, g: u32, h: u64) {
        let mut to = Encoder::default();
        to.i32(a); to.i64(b); to.i8(c); to.u8(d); to.i16(e); to.u16(f);
        to.f32(f32::from_bits(g)); to.f64(f64::from_bits(h));
        let message = to.finish().into_vec();
        let read = Decoder::new(&message).whole(|from| Ok((
            (from.i32()?, from.i64()?, from.i8()?, from.u8()?),
            (from.i16()?, from.u16()?, from.f32()?.to_bits(), from.f64()?.to_bits()),
        )));
        prop_assert_eq!(read, Ok(((a, b, c, d), (e, f, g, h))));
    }
}

#[test]
fn arrays_of_numbers_are_the_same_at_once_and_one_by_one() {
    for count in [0, 1, 7, 1000] {
        let numbers: Vec<i64> = (0..count).map(|number| number << 33 ^ -number).collect();
        let mut one_by_one = Encoder::default();
        one_by_one
            .list(&numbers, UNLIMITED, |to, number| {
                to.i64(*number);
                Ok(())
            })
            .unwrap();
        let bytes = one_by_one.finish().to_vec();
        let mut at_once = Encoder::default();
        at_once.numbers(&numbers, UNLIMITED).unwrap();
        assert_eq!(at_once.finish().to_vec(), bytes);
        for decoder in [Decoder::new(&bytes), Decoder::shared(bytes.clone().into())] {
            assert_eq!(decoder.whole(|from| from.numbers::<i64>(UNLIMITED)), Ok(numbers.clone()));
        }
        for len in 0..bytes.len() {
            assert!(Decoder::new(&bytes[..len]).numbers::<i64>(UNLIMITED).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn a_claimed_number_of_numbers_takes_no_memory_and_limits_hold() {
    let claim = u32::MAX.to_be_bytes();
    assert!(Decoder::new(&claim).numbers::<u64>(UNLIMITED).is_err());
    assert!(Decoder::new(&[0; 8]).numbers_exact::<u32>(3).is_err());
    let mut to = Encoder::default();
    assert!(to.numbers(&[1u32, 2, 3], 2).is_err());
    assert!(to.numbers_exact(&[1f64, 2.0], 3).is_err());
    let mut to = Encoder::default();
    to.numbers(&[1.5f32], 1).unwrap();
    assert_eq!(to.finish().to_vec(), [0, 0, 0, 1, 0x3f, 0xc0, 0, 0]);
    assert!(Decoder::new(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]).numbers::<u32>(1).is_err());
}

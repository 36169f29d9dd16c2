//! Random values of types.x. Text contains no NUL, which ends text in C.

use proptest::prelude::*;
use strait_idl_tests::types::*;
use strait_xdr::{Opaque, Text};

fn label() -> impl Strategy<Value = Text<'static>> {
    prop::collection::vec(1u8..=255, 0..=40).prop_map(Text::from)
}

fn opaque(lengths: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Opaque<'static>> {
    prop::collection::vec(any::<u8>(), lengths).prop_map(Opaque::from)
}

fn color() -> impl Strategy<Value = Color> {
    prop::sample::select(vec![Color::Red, Color::Green, Color::Blue, Color::Minus])
}

fn numbers() -> impl Strategy<Value = Numbers> {
    // No arbitrary bits for the floats: two NaNs aren't equal.
    let small = any::<(i8, u8, i16, u16, i32, u32)>();
    let large = any::<(i32, u32, i64, u64, f32, f64, bool)>();
    (small, large).prop_map(|((c, uc, s, us, i, u), (l, ul, h, uh, f, d, b))| Numbers {
        c,
        uc,
        s,
        us,
        i,
        u,
        l,
        ul,
        h,
        uh,
        f,
        d,
        b,
    })
}

fn choice() -> impl Strategy<Value = Choice<'static>> {
    prop_oneof![
        any::<i32>().prop_map(Choice::Red),
        label().prop_map(Choice::Green),
        label().prop_map(Choice::Blue),
        Just(Choice::Default(Color::Minus)),
    ]
}

fn maybe() -> impl Strategy<Value = Maybe> {
    prop_oneof![any::<i64>().prop_map(Maybe::True), Just(Maybe::False)]
}

fn coded() -> impl Strategy<Value = Coded<'static>> {
    prop_oneof![
        opaque(0..=70).prop_map(Coded::Case0),
        any::<[u8; 7]>().prop_map(Coded::CaseMinus1),
        (1..=i32::MAX, any::<u64>()).prop_map(|(status, code)| Coded::Default(status, code)),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = any::<i32>().prop_map(|value| Tree { value, left: None, right: None });
    leaf.prop_recursive(5, 20, 2, |inner| {
        let below = || prop::option::of(inner.clone().prop_map(Box::new));
        (any::<i32>(), below(), below()).prop_map(|(value, left, right)| Tree { value, left, right })
    })
}

/// Any value that both sides can represent.
pub fn everything() -> impl Strategy<Value = Everything<'static>> {
    let plain = (numbers(), any::<[u8; 7]>(), color(), opaque(0..=9000), opaque(150..=150), label());
    let arrays = (
        prop::collection::vec(any::<i32>(), 0..20),
        any::<[i16; 3]>(),
        prop::collection::vec(any::<i64>(), 40),
        prop::collection::vec(label(), 0..=5),
        prop::collection::vec(color(), 0..=4),
        any::<[bool; 2]>(),
    );
    let list = prop::collection::vec(label().prop_map(|item| ChainLink { item }), 0..10);
    let unions = (choice(), maybe(), coded(), list);
    let pointers = (prop::option::of(tree().prop_map(Box::new)), prop::option::of(numbers()));
    (plain, arrays, unions, pointers).prop_map(|(plain, arrays, unions, (root, other))| {
        let (n, token, hue, data, block, text) = plain;
        let (ints, three, many, labels, colors, flags) = arrays;
        let (ch, m, co, list) = unions;
        Everything {
            n,
            token,
            hue,
            data,
            block,
            text,
            ints,
            three,
            many,
            labels,
            ch,
            m,
            co,
            list,
            root,
            other,
            colors,
            flags,
        }
    })
}

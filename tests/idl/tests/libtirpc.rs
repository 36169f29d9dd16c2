//! The real rpcgen and libtirpc decode messages from this crate's encoder, see the same values, and
//! encode them to the same bytes.

use crate::arbitrary::everything;
use crate::c;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use strait_idl_tests::types::*;
use strait_xdr::{from_bytes, to_vec};

/// A program in C, built from idl/types.x by rpcgen and the C compiler.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Peer {
    fn build_and_start() -> Self {
        let mut child = Command::new(c::build("peer", &[("-c", "types_xdr.c")]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the C program starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    /// libtirpc's encoding after it has decoded `message`, and the values that it saw.
    fn answer(&mut self, message: &[u8]) -> io::Result<(Vec<u8>, String)> {
        self.input.write_all(&(message.len() as u32).to_be_bytes())?;
        self.input.write_all(message)?;
        let again = self.piece()?;
        let seen = self.piece()?;
        Ok((again, String::from_utf8_lossy(&seen).into_owned()))
    }

    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.output.read_exact(&mut length)?;
        let mut piece = vec![0; u32::from_be_bytes(length) as usize];
        self.output.read_exact(&mut piece)?;
        Ok(piece)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn libtirpc_sees_the_same_values_and_writes_the_same_bytes() {
    let mut peer = Peer::build_and_start();
    let mut runner = TestRunner::new(Config { cases: 500, failure_persistence: None, ..Config::default() });
    let mut largest = 0;
    for _ in 0..500 {
        use proptest::strategy::{Strategy, ValueTree};
        let value = everything().new_tree(&mut runner).expect("a value").current();
        let message = to_vec(&value).expect("within the limits");
        largest = largest.max(message.len());
        let (again, seen) = peer.answer(&message).expect("libtirpc decodes what we encode");
        assert_eq!(seen, text(&value), "libtirpc sees another value");
        assert_eq!(again, message, "libtirpc encodes otherwise");
        assert_eq!(from_bytes::<Everything>(&again).expect("we decode what libtirpc encodes"), value);
    }
    assert!(largest > 1000, "the values are too simple to prove anything");
}

/// The same text as `everything_text` in peer.c.
fn text(e: &Everything<'_>) -> String {
    let mut out = String::new();
    numbers(&mut out, &e.n);
    hex(&mut out, &e.token);
    number(&mut out, e.hue as i32);
    hex(&mut out, &e.data);
    hex(&mut out, &e.block);
    hex(&mut out, e.text.as_bytes());
    e.ints.iter().for_each(|value| number(&mut out, *value));
    e.three.iter().for_each(|value| number(&mut out, *value));
    e.many.iter().for_each(|value| number(&mut out, *value));
    e.labels.iter().for_each(|label| hex(&mut out, label.as_bytes()));
    match &e.ch {
        Choice::Red(value) => numbers_of(&mut out, &[Color::Red as i64, i64::from(*value)]),
        Choice::Green(text) => tagged(&mut out, Color::Green, text.as_bytes()),
        Choice::Blue(text) => tagged(&mut out, Color::Blue, text.as_bytes()),
        Choice::Default(color) => number(&mut out, *color as i32),
    }
    match e.m {
        Maybe::True(value) => numbers_of(&mut out, &[1, value]),
        Maybe::False => number(&mut out, 0),
    }
    match &e.co {
        Coded::Case0(data) => {
            number(&mut out, 0);
            hex(&mut out, data);
        }
        Coded::CaseMinus1(token) => {
            number(&mut out, -1);
            hex(&mut out, token);
        }
        Coded::Default(status, code) => {
            number(&mut out, *status);
            number(&mut out, *code);
        }
    }
    e.list.iter().for_each(|link| hex(&mut out, link.item.as_bytes()));
    tree(&mut out, e.root.as_deref());
    e.other.iter().for_each(|other| numbers(&mut out, other));
    e.colors.iter().for_each(|color| number(&mut out, *color as i32));
    e.flags.iter().for_each(|flag| number(&mut out, u8::from(*flag)));
    out
}

fn number(out: &mut String, value: impl std::fmt::Display) {
    let _ = write!(out, " {value}");
}

fn numbers_of(out: &mut String, values: &[i64]) {
    values.iter().for_each(|value| number(out, value));
}

fn tagged(out: &mut String, color: Color, bytes: &[u8]) {
    number(out, color as i32);
    hex(out, bytes);
}

fn hex(out: &mut String, bytes: &[u8]) {
    out.push_str(" x");
    bytes.iter().for_each(|byte| {
        let _ = write!(out, "{byte:02x}");
    });
}

fn numbers(out: &mut String, n: &Numbers) {
    numbers_of(out, &[n.c.into(), n.uc.into(), n.s.into(), n.us.into(), n.i.into(), n.u.into()]);
    numbers_of(out, &[n.l.into(), n.ul.into(), n.h]);
    number(out, n.uh);
    number(out, n.f.to_bits());
    number(out, n.d.to_bits());
    number(out, u8::from(n.b));
}

fn tree(out: &mut String, node: Option<&Tree>) {
    let Some(node) = node else { return out.push_str(" -") };
    let _ = write!(out, " ({}", node.value);
    tree(out, node.left.as_deref());
    tree(out, node.right.as_deref());
    out.push_str(" )");
}

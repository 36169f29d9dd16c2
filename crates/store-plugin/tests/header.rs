//! `strait_store.h` and `src/abi.rs` describe the same interface.

#[allow(dead_code, reason = "the test uses only types and constants")]
#[path = "../src/abi.rs"]
mod abi;

use abi::{CAttributes, CCaller, CCreate, CError, CStatus, Functions};
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;
use strait_store::ErrorKind;

/// Expressions in C, and the values that Rust gives them.
#[derive(Default)]
struct Expected(Vec<(String, u64)>);

impl Expected {
    fn add(&mut self, expression: impl Into<String>, value: impl TryInto<u64>) {
        let expression = expression.into();
        let value = value.try_into().unwrap_or_else(|_| panic!("{expression} is negative"));
        self.0.push((expression, value));
    }
}

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Sizes and offsets of all fields of a struct. A field that is missing here doesn't compile.
macro_rules! layout {
    ($expected:ident, $type:ident is $name:ident: $($field:ident),*) => {
        let _: fn($type) = |$type { $($field: _),* }| ();
        $expected.add(concat!("sizeof(", stringify!($name), ")"), size_of::<$type>());
        $(
            let field = concat!(stringify!($name), ", ", stringify!($field));
            $expected.add(format!("offsetof({field})"), offset_of!($type, $field));
            $expected.add(
                concat!("sizeof(((", stringify!($name), " *)0)->", stringify!($field), ")"),
                size_of_field(|it: &$type| &it.$field),
            );
        )*
    };
}

/// The values of expressions in C, by the header.
fn values(directory: &Path, expressions: &[&str]) -> Vec<u64> {
    let (source, program) = (directory.join("header.c"), directory.join("header"));
    let mut text = "#include \"strait_store.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for expression in expressions {
        writeln!(text, "    printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    std::fs::write(&source, text + "}\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg(source).arg("-o").arg(&program);
    assert!(cc.status().unwrap().success(), "the header lacks a name, or doesn't compile");
    let told = Command::new(program).output().unwrap().stdout;
    String::from_utf8(told).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// `NotFound` as `STRAIT_NOT_FOUND`.
fn constant(kind: ErrorKind) -> String {
    let mut name = "STRAIT".to_owned();
    for letter in format!("{kind:?}").chars() {
        name.extend(letter.is_uppercase().then_some('_'));
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn the_header_has_the_layouts_and_constants_of_the_rust_code() {
    let mut expected = Expected::default();
    layout!(expected, CError is strait_error: message);
    layout!(expected, CCaller is strait_caller: user, groups);
    layout!(expected, CStatus is strait_status: length, block_size, modified_ms, accessed_ms, permission,
        replication, directory, link, owner, group);
    layout!(expected, CCreate is strait_create: overwrite, has_permission, replication, permission, block_size);
    layout!(expected, CAttributes is strait_attributes: has_permission, has_modified, has_accessed,
        has_replication, permission, replication, modified_ms, accessed_ms, owner, group);
    layout!(expected, Functions is strait_store_functions: abi, size, name, open_store, close_store, capabilities,
        recovery_ms, stat, list_open, list_next, list_close, open, read, close_reader, create, append, write,
        flush, sync, close, release, truncate, rename, remove, mkdirs, set_attributes, block_locations, checksum,
        status);
    expected.add("STRAIT_STORE_ABI", abi::ABI);
    expected.add("STRAIT_OK", 0);
    expected.add("STRAIT_END", abi::END);
    expected.add("STRAIT_MESSAGE_BYTES", abi::MESSAGE_BYTES);
    expected.add("STRAIT_NAME_BYTES", abi::NAME_BYTES);
    expected.add("STRAIT_OWNER_BYTES", abi::OWNER_BYTES);
    let kinds: Vec<ErrorKind> = (1..).map_while(ErrorKind::from_thrift).collect();
    assert_eq!(kinds.len(), 16, "a kind is new: give it a constant in the header");
    kinds.iter().for_each(|kind| expected.add(constant(*kind), kind.row().thrift));
    for (name, bit) in [
        ("APPEND", abi::APPEND),
        ("TRUNCATE", abi::TRUNCATE),
        ("RENAME_REPLACE", abi::RENAME_REPLACE),
        ("ATOMIC_RENAME", abi::ATOMIC_RENAME),
        ("PERMISSIONS", abi::PERMISSIONS),
        ("OWNERSHIP", abi::OWNERSHIP),
        ("TIMES", abi::TIMES),
        ("REPLICATION", abi::REPLICATION),
        ("BLOCK_LOCATIONS", abi::BLOCK_LOCATIONS),
        ("CHECKSUM", abi::CHECKSUM),
        ("STATUS", abi::STATUS),
        ("VISIBLE_WHILE_WRITTEN", abi::VISIBLE_WHILE_WRITTEN),
        ("EXCLUSIVE_WRITER", abi::EXCLUSIVE_WRITER),
        ("PER_USER", abi::PER_USER),
        ("REMOVES_TREES", abi::REMOVES_TREES),
    ] {
        expected.add(format!("STRAIT_{name}"), bit);
    }
    let directory = tempfile::tempdir().unwrap();
    let expressions: Vec<&str> = expected.0.iter().map(|(expression, _)| expression.as_str()).collect();
    let values = values(directory.path(), &expressions);
    let in_c: Vec<(String, u64)> = expected.0.iter().map(|(name, _)| name.clone()).zip(values).collect();
    assert_eq!(in_c, expected.0);
}

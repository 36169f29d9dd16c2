//! Parts of others' files that rpcgen accepts: names that C headers define, and habits of C.

use frpcgen::{Builder, Generated};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn generated(builder: &Builder, source: &str) -> Generated {
    builder.generate_from("test.x", source).unwrap_or_else(|error| panic!("{error}"))
}

/// The code of a source that gives no warning.
fn accepted(source: &str) -> String {
    let Generated { code, warnings } = generated(&Builder::default(), source);
    assert_eq!(warnings, [], "{source}");
    code
}

fn refused(source: &str) -> String {
    Builder::default().generate_from("test.x", source).expect_err(source).to_string()
}

/// An empty directory of this test.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

#[test]
fn c_types_have_the_size_that_they_have_on_the_wire() {
    for (c, rust) in [
        ("time_t", "i32"),
        ("uid_t", "u32"),
        ("gid_t", "u32"),
        ("uchar_t", "u8"),
        ("ushort_t", "u16"),
        ("uint_t", "u32"),
        ("ulong_t", "u32"),
        ("size_t", "u32"),
        ("longlong_t", "i64"),
        ("u_longlong_t", "u64"),
        ("rpcprog_t", "u32"),
        ("rpcvers_t", "u32"),
        ("rpcproc_t", "u32"),
        ("boolean_t", "bool"),
        ("short", "i16"),
        ("short int", "i16"),
        ("long int", "i32"),
        ("unsigned short int", "u16"),
        ("unsigned long int", "u32"),
    ] {
        let code = accepted(&format!("struct s {{ {c} field; }};"));
        assert!(code.contains(&format!("pub field: {rust},")), "{c}: {code}");
    }
    // A struct of C comes with its fields, but only if it is used.
    let code = accepted("struct s { struct timeval at; netbuf address; };");
    assert!(code.contains("pub tv_usec: i32") && code.contains("pub maxlen: u32"), "{code}");
    assert!(!accepted("struct s { int i; };").contains("Timeval"));
}

#[test]
fn a_c_type_is_what_the_source_the_user_or_the_table_says_in_that_order() {
    let types = directory("types").join("site.x");
    fs::write(&types, "typedef unsigned hyper time_t;\nstruct stamp { time_t at; };\nconst MOST = 8;\n")
        .unwrap();
    let source = "struct s { time_t a; stamp b; uid_t c; string d<MOST>; };";
    let code = generated(&Builder::default().types(&types), source).code;
    assert!(code.contains("pub type TimeT = u64;") && code.contains("pub struct Stamp"), "{code}");
    assert!(code.contains("pub c: u32") && code.contains("`string d<8>`"), "{code}");
    let own = format!("typedef short time_t; {source}");
    assert!(generated(&Builder::default().types(&types), &own).code.contains("pub type TimeT = i16;"));
    let defined = Builder::default().define("uid_t", "unsigned hyper");
    assert!(generated(&defined, "struct s { uid_t a; };").code.contains("pub a: u64"));
}

/// A copy of the enum for each of its members would take gigabytes.
#[test]
fn an_enum_of_very_many_members_is_read_once() {
    let types = directory("large").join("large.x");
    let members: String = (0..50_000).map(|n| format!("M{n}, ")).collect();
    fs::write(&types, format!("enum large {{ {members} LAST }};")).unwrap();
    let source = "struct s { int a[M7]; large b; int c[M9]; };";
    let code = generated(&Builder::default().types(&types), source).code;
    assert_eq!(code.matches("pub enum Large").count(), 1);
    assert!(code.contains("a: [i32; 7]") && code.contains("c: [i32; 9]"));
}

#[test]
fn the_command_takes_types_from_a_file() {
    let directory = directory("command-types");
    fs::write(directory.join("a.x"), "struct s { gid_t group; };").unwrap();
    fs::write(directory.join("site.x"), "typedef unsigned short gid_t;").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_frpcgen"))
        .args(["--types", "site.x", "a.x"])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("pub type GidT = u16;"), "{output:?}");
    let missing = Command::new(env!("CARGO_BIN_EXE_frpcgen"))
        .args(["--types", "lost.x", "a.x"])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains("lost.x"), "{missing:?}");
}

#[test]
fn names_of_programs_versions_and_procedures_are_numbers() {
    let code = accepted(
        "program P { version V { void ADD(int) = 4; int COUNT() = 5; } = 3; } = 9;\n\
         struct s { int a[ADD]; int b[V]; int c[P]; };\n\
         union u switch (unsigned procedure) { case COUNT: int i; default: void; };",
    );
    for field in ["a: [i32; 4]", "b: [i32; 3]", "c: [i32; 9]"] {
        assert!(code.contains(field), "{code}");
    }
    assert!(code.contains("`case COUNT: int i`"), "{code}");
    // A constant of the same name has priority.
    let own = "program P { version V { void ADD(int) = 4; } = 3; } = 9; enum e { ADD = 2 }; struct s { int a[ADD]; };";
    assert!(accepted(own).contains("a: [i32; 2]"));
}

#[test]
fn a_typedef_or_constant_may_be_repeated_as_it_is() {
    let code = accepted("typedef opaque handle<16>; const N = 2; typedef opaque handle<16>; const N = 2;");
    assert_eq!(code.matches("pub type Handle").count(), 1, "{code}");
    for other in ["typedef opaque handle<16>; typedef opaque handle<17>;", "const N = 2; const N = 3;"] {
        assert!(refused(other).contains("is defined already"), "{other}");
    }
}

#[test]
fn an_array_may_have_no_items() {
    let code = accepted("struct s { opaque rest[0]; int none[0]; };");
    assert!(code.contains("rest: [u8; 0]") && code.contains("none: [i32; 0]"), "{code}");
}

#[test]
fn a_struct_may_be_named_as_its_typedef_but_for_an_underscore() {
    for source in [
        "struct _foo { int a; _foo *next; }; typedef struct _foo foo; struct s { foo b; };",
        "typedef struct _foo foo; struct _foo { int a; }; struct s { _foo b; foo *c; };",
        "enum kind_t { A, B }; typedef enum kind_t KindT; union u switch (KindT k) { case A: KindT a; };",
    ] {
        let code = accepted(source);
        assert_eq!(
            code.matches("pub struct Foo").count() + code.matches("pub enum KindT").count(),
            1,
            "{code}"
        );
        assert!(!code.contains("pub type"), "{code}");
    }
    assert!(refused("struct _foo { int a; }; struct foo { int a; };").contains("both Foo in Rust"));
}

#[test]
fn two_names_of_one_member_may_differ_in_case_alone() {
    let code = accepted("enum e { FIRST = 1, UNO = 1, uno = 1 };");
    assert_eq!(code.matches("pub const UNO: Self = Self::First;").count(), 1, "{code}");
    assert!(refused("enum e { A = 1, UNO = 1, B = 2, uno = 2 };").contains("both UNO in Rust"));
}

#[test]
fn numbers_of_lines_for_the_c_compiler_count() {
    let code = accepted(
        "%#define MOST 0x20\n%# define MORE\t(MOST + 1)\nstruct s { int a[MOST]; string b<MORE>; };",
    );
    assert!(code.contains("pub a: [i32; 32]") && code.contains("`string b<33>`"), "{code}");
    // A circle of definitions defines nothing.
    let circle = refused("%#define ONE TWO\n%#define TWO ONE\nstruct s { int a[ONE]; };");
    assert!(circle.contains("is defined by itself"), "{circle}");
}

#[test]
fn types_of_lines_for_the_c_compiler_count() {
    let code = accepted("%#define quad uint64_t\n%#define word unsigned int\nstruct s { quad a; word b; };");
    assert!(code.contains("pub a: u64") && code.contains("pub b: u32"), "{code}");
}

#[test]
fn a_header_that_rpcgen_makes_is_known_by_its_source() {
    let directory = directory("headers");
    fs::create_dir_all(directory.join("sub")).unwrap();
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write(
        "base.x",
        "%#include <project/app.h>\nconst SIZE = 3; typedef int word[SIZE]; typedef int unused;\n",
    );
    write(
        "sub/more.x",
        "%#include \"../base.h\"\nenum colour { RED = 7 }; struct pair { word one; colour two; };\n",
    );
    write("app.x", "%#include <project/sub/more.h>\nstruct s { pair a; int b[RED]; };\n");
    let builder = Builder::default().include_dir(directory.join("sub"));
    let Generated { code, warnings } =
        builder.generate(directory.join("app.x")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings, []);
    assert!(code.contains("pub type Word = [i32; 3];") && code.contains("b: [i32; 7]"), "{code}");
    assert!(!code.contains("Unused"), "{code}");
    // An error in such a file names its position.
    write("base.x", "typedef int word[\n");
    let error = builder.generate(directory.join("app.x")).expect_err("a mistake").to_string();
    assert!(error.contains("base.x:1:"), "{error}");
}

#[test]
fn what_c_headers_alone_define_has_no_values() {
    let source = "%#include <vendor.h>\n\
        const MOST = VENDOR_MOST; enum e { A = VENDOR_A }; \
        struct s { vendor_t *a; string b<MOST>; string c<VENDOR_LONG>; };\n\
        union u switch (e which) { case A: int i; };\n\
        struct t { int a[VENDOR_SIZE]; u b; }; program P { version V { vendor_t GET(t) = 1; } = 1; } = 1;";
    let Generated { code, warnings } = generated(&Builder::default(), source);
    for empty in ["pub enum VendorT {}", "pub enum E {}", "pub enum U {}", "pub enum T {}"] {
        assert!(code.contains(empty), "{empty}: {code}");
    }
    assert!(code.contains("a: ::std::option::Option<VendorT>") && code.contains("`string b<>`"), "{code}");
    let said: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "'VENDOR_MOST': there is no constant 'MOST': only C headers define this number (see --types)",
            "'VENDOR_A': no value of 'e' can be sent or received: only C headers define this number (see --types)",
            "'vendor_t': no value of this type can be sent or received: only C headers define it (see --types)",
            "'MOST': this limit isn't checked: only C headers define it (see --types)",
            "'VENDOR_LONG': this limit isn't checked: only C headers define it (see --types)",
            "'A': no value of 'u' can be sent or received: only C headers define this number (see --types)",
            "'VENDOR_SIZE': no value of 't' can be sent or received: only C headers define this number (see --types)",
        ]
    );
    // Without a line for the C compiler nothing can define it, so it is an error.
    assert!(refused("struct s { vendor_t *a; };").contains("unknown type 'vendor_t'"));
    // The number of a procedure must be known.
    let number = "%#include <vendor.h>\nprogram P { version V { void GET(void) = VENDOR_A; } = 1; } = 1;";
    assert!(refused(number).contains("'VENDOR_A' isn't defined"));
}

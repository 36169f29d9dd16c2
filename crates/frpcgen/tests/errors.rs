//! Messages about wrong sources, and inputs that try to hurt the compiler.

use frpcgen::{Builder, Error, MAX_FILE_BYTES, MAX_NESTING};
use std::process::Command;

fn error(source: &str) -> String {
    Builder::default().generate_from("test.x", source).expect_err(source).to_string()
}

/// The first error's message, with line and column.
fn first(source: &str) -> String {
    let error = error(source);
    let line = error.lines().next().unwrap_or_default();
    line.strip_prefix("test.x:").unwrap_or(line).replace(" error:", "")
}

fn accepted(source: &str) -> String {
    Builder::default().generate_from("test.x", source).unwrap_or_else(|error| panic!("{error}")).code
}

#[test]
fn an_error_shows_its_line_and_points_into_it() {
    let expected = "\
test.x:2:5: error: unknown type 'lost'; if a C header defines it, give it with --types FILE
  | 
2 | \tok;\tlost found;
  | \t   \t^^^^";
    let shown = error("struct a { int\n\tok;\tlost found;\n};");
    // The column counts characters; a tab is one.
    assert_eq!(shown, expected.replace(":2:5:", ":2:6:"));
}

#[test]
fn every_mistake_has_its_own_words() {
    for (source, expected) in [
        ("struct a { int b }", "1:18: expected ';', found '}'"),
        ("struct a { int b; };\nstruct a { int c; };", "2:8: 'a' is defined already, at test.x:1"),
        ("enum a { X };\nenum b { X };", "2:10: 'X' is defined already, at test.x:1"),
        ("struct a { int b; int b; };", "1:23: a second 'b' here"),
        ("struct a { b c; };", "1:12: unknown type 'b'; if a C header defines it, give it with --types FILE"),
        (
            "const A = B;",
            "1:11: 'B' isn't defined; if a C header defines it, give its number with --types FILE",
        ),
        ("const A = 99999999999999999999;", "1:11: this number needs more than 64 bits"),
        ("const A = 08;", "1:11: '08' is not a number"),
        ("typedef int a[-1];", "1:16: -1 is not an unsigned 32-bit number"),
        ("typedef int a[4294967296];", "1:15: 4294967296 is not an unsigned 32-bit number"),
        ("enum a { X = 0x80000000 };", "1:10: 2147483648 doesn't fit into an enum's signed 32 bits"),
        ("typedef string a[4];", "1:16: a string has a variable length: name<n> or name<>"),
        ("typedef opaque a;", "1:16: opaque data needs a length: name[n], name<n> or name<>"),
        ("struct a { void; };", "1:12: a field can't be void"),
        ("union a switch (float f) { case 1: void; };", {
            "1:17: a discriminant must be an enum, a bool, or an integer of 32 bits at most"
        }),
        ("union a switch (int i) { case 1: void; case 1: void; };", "1:45: a second case for 1"),
        ("union a switch (bool b) { case 2: void; };", "1:32: the discriminant can't be 2"),
        ("union a switch (int i) { default: void; };", "1:7: a union needs at least one case"),
        ("program P { version V { void A(void) = 1; void B(void) = 1; } = 1; } = 1;", {
            "1:58: a second procedure with number 1"
        }),
        (
            "program P { version V { void A(void) = 1; void A(void) = 2; } = 1; } = 1;",
            "1:48: a second 'A' here",
        ),
        (
            "program P { version V { void A(int, void) = 1; } = 1; } = 1;",
            "1:37: void must be the only argument",
        ),
        ("program P { version V { void A(opaque) = 1; } = 1; } = 1;", {
            "1:32: opaque has no length here: use a typedef, such as `typedef opaque data<>;`"
        }),
        ("struct foo_bar { int a; };\nstruct FooBar { int a; };", {
            "2:8: 'foo_bar' and 'FooBar' are both FooBar in Rust"
        }),
        ("program P { version V { void NEW(void) = 1; void new_(void) = 2; } = 1; } = 1;", {
            "1:50: 'NEW' and 'new_' are both new_ in Rust"
        }),
        ("/* no end", "1:1: this comment has no end"),
        ("const A = \"no end;\n", "1:11: no closing \" on this line"),
        ("struct a { int b; }; @", "1:22: '@' isn't a character of the RPC language"),
        ("#ifdef A\n", "1:2: no #endif for this"),
        ("#endif\n", "1:2: no #if for this #endif"),
        ("#define F(x) x\n", "1:10: macros with parameters are not supported in .x files"),
        ("#include \"missing.x\"\n", "1:2: file 'missing.x' not found"),
        ("#error so it is\n", "1:2: #error so it is"),
        ("typedef unsigned long long a;", "1:23: expected a name, found 'long', a keyword of the language"),
        ("struct a { int version; };", "1:16: expected a name, found 'version', a keyword of the language"),
    ] {
        assert_eq!(first(source), expected, "{source}");
    }
}

#[test]
fn a_version_of_a_program_is_in_one_place() {
    let program = |name: &str, version: u32, number: u32| {
        format!(
            "program {name} {{\n\tversion {name}_V {{ void {name}_F(void) = 1; }} = {version};\n}} = {number};\n"
        )
    };
    let again = program("A", 1, 0x2000_0042) + &program("B", 2, 7) + &program("C", 1, 0x2000_0042);
    let expected = "\
test.x:9:5: error: 'A' and 'C' both have a version 1 of program 536870978
  | 
9 | } = 536870978;
  |     ^^^^^^^^^";
    assert_eq!(error(&again), expected);
    // Another version may have a block of its own; another program may have the same versions.
    accepted(&(program("A", 1, 7) + &program("B", 2, 7) + &program("C", 1, 8)));
    let twice =
        "program A { version V { void F(void) = 1; } = 1;\nversion W { void F(void) = 1; } = 1; } = 7;";
    assert_eq!(first(twice), "2:35: a second version with number 1");
}

#[test]
fn a_type_that_hides_one_of_the_prelude_gives_a_warning() {
    let source = "struct s { int Ok; };\nunion result switch (bool b) { case TRUE: int i; };\n\
        enum option { Err };\ntypedef opaque VEC<>; struct String { s box; }; struct results { int i; };";
    let of = |builder: Builder| builder.generate_from("test.x", source).unwrap().warnings;
    let warnings = of(Builder::default());
    let expected = "\
test.x:2:7: warning: 'result' is Result in Rust, and hides the standard library's where this module is \
         imported whole (::*)
  | 
2 | union result switch (bool b) { case TRUE: int i; };
  |       ^^^^^^";
    assert_eq!(warnings[0].to_string(), expected);
    let places: Vec<_> = warnings.iter().map(|warning| (warning.line, warning.column)).collect();
    assert_eq!(places, [(2, 7), (3, 6), (4, 16), (4, 30)]);
    assert_eq!(of(Builder::default().quiet()), []);
}

#[test]
fn the_command_writes_warnings_beside_the_code() {
    let habits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/idl/idl/habits.x");
    let output = Command::new(env!("CARGO_BIN_EXE_frpcgen")).arg(habits).output().unwrap();
    let (code, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && code.contains("pub struct Result"), "{said}");
    assert!(said.contains(": warning: 'result' is Result in Rust") && !code.contains("warning:"), "{said}");
}

#[test]
fn all_mistakes_are_told_in_the_order_of_the_source() {
    let places = |source: &str| -> Vec<String> {
        let error = error(source);
        let heads = error.lines().filter(|line| line.contains(" error: "));
        heads.map(|head| head.splitn(4, ':').skip(1).take(2).collect::<Vec<_>>().join(":")).collect()
    };
    let meaning = "\
const A = NONE;
struct s { lost a; int b; int b; gone c; };
union u switch (int i) { case 1: lost d; case 2: int e; case 2: int f; };
program P { version V { void F(lost) = 1; lost G(void) = 2; void H(void) = 1; } = 1; } = 1;
enum e { X = 4294967296, Y = NONE };
struct A { int i; };";
    let expected =
        ["1:11", "2:12", "2:31", "2:34", "3:34", "3:62", "4:32", "4:43", "4:76", "5:10", "5:30", "6:8"];
    assert_eq!(places(meaning), expected);
    // After a mistake of grammar, the check continues where a definition begins a line.
    let grammar = "struct a { int };\nconst B 5;\n  struct c { int d; };\nconst D = 6;\nenum e { };\n";
    assert_eq!(places(grammar), ["1:16", "2:9", "5:10"]);
}

#[test]
fn what_the_preprocessor_passes_over_may_be_anything() {
    let code = accepted("#if 0\nIt isn't XDR: 08 @ $ \"\n#endif\n#define LATER 0z\nconst A = 1;");
    assert!(code.contains("pub const A"));
    assert_eq!(first("#define LATER 0z\nconst A = LATER;"), "1:15: '0z' is not a number");
}

#[test]
fn a_union_has_no_default_where_each_value_has_a_case() {
    let lamp = "enum lamp { OFF, ON, UNO = 1 };";
    for (arms, default) in [("case OFF: case ON: void;", false), ("case ON: void;", true)] {
        let code = accepted(&format!("{lamp} union u switch (lamp l) {{ {arms} default: int i; }};"));
        assert_eq!(code.contains("Default("), default, "{arms}");
    }
    let code = accepted("union u switch (bool b) { case TRUE: void; case FALSE: void; default: void; };");
    assert!(!code.contains("Default("));
    assert_eq!(
        first("union u switch (bool b) { case TRUE: void; case FALSE: void; default: lost a; };"),
        "1:71: unknown type 'lost'; if a C header defines it, give it with --types FILE"
    );
}

#[test]
fn what_the_systems_own_sources_take_from_c_headers_is_known() {
    let code = accepted(
        "typedef string netname<MAXNETNAMELEN>; struct k { netname n; netobj o; des_block d; };\n\
         union sec switch (unsigned f) { case AUTH_NONE: void; case RPCSEC_GSS: int i; };",
    );
    assert!(code.contains("opaque o<1024>") && code.contains("opaque d[8]") && code.contains("netname<255>"));
    let own = accepted("typedef int netobj; const AUTH_SYS = 7; struct k { netobj o; int a[AUTH_SYS]; };");
    assert!(own.contains("netobj o") && own.contains("[i32; 7]"), "{own}");
}

#[test]
fn infinite_sizes_are_found_however_long_the_way() {
    let infinite = "contains itself, so its size is infinite: use a pointer (*) or a variable array";
    assert_eq!(first("struct a { a b; };"), format!("1:8: 'a' {infinite}"));
    assert_eq!(
        first("typedef b c; struct b { c d[2]; };"),
        format!("1:13: 'c' {infinite}").replace("13", "11")
    );
    let circular = "is a typedef of itself, without a struct or union in between";
    assert_eq!(first("typedef b *a; typedef a *b;"), format!("1:12: 'a' {circular}"));
    accepted("struct a { int i; a *b; }; struct c { c d<>; int e; };");
    assert!(first("const A = B; const B = A;").contains("is defined by itself"));
}

#[test]
fn a_procedure_is_documented_as_it_is_written() {
    for written in [
        "string WHO(void)",
        "string<8> WHO(string<MOST>, string name)",
        "void WHO(struct p *, p *next, unsigned, u_int times, SIZE)",
        "string /* of */ WHO\n(  int a,\n\tint )",
    ] {
        let source = format!(
            "#define SIZE unsigned hyper\nconst MOST = 9; struct p {{ int i; }};\n\
             program P {{ version V {{ {written} = 0x10; }} = 1; }} = 1;"
        );
        let code = accepted(&source);
        let expected = if written.contains("/*") { "string WHO(int a, int)" } else { written };
        // For the client, the callees and the service.
        assert_eq!(code.matches(&format!("/// `{expected} = 16`.\n")).count(), 3, "{code}");
    }
}

#[test]
fn the_same_source_gives_the_same_code() {
    let source = include_str!("../../../tests/idl/idl/types.x");
    assert_eq!(accepted(source), accepted(source));
}

#[test]
fn symbols_of_rpcgen_choose_what_belongs_to_a_header() {
    let code = accepted(
        "#ifdef RPC_HDR\nconst A = 1;\n#endif\n#if defined(RPC_XDR) || RPC_SVC\nconst B = 2;\n#endif\n",
    );
    assert!(code.contains("pub const A") && !code.contains("pub const B"), "{code}");
}

#[test]
fn nothing_hangs_or_exhausts_the_compiler() {
    let deep = MAX_NESTING * 1000;
    let doubling: String = (0..60).map(|n| format!("#define M{} M{n} M{n}\n", n + 1)).collect();
    let by_value: String = (1..2000).map(|n| format!("struct s{n} {{ s{} f; }};\n", n - 1)).collect();
    let growing: String =
        (1..30).map(|n| format!("struct s{n} {{ s{m} f; s{m} g; }};\n", m = n - 1)).collect();
    for source in [
        "struct a { struct { ".repeat(deep),
        "typedef struct {".repeat(deep),
        format!("#if {}1\n#endif", "(".repeat(deep)),
        format!("#if {}1\n#endif", "!".repeat(deep)),
        "#if 1\n".repeat(deep),
        format!("{doubling}M60"),
        "#define A B\n#define B A\nA".to_owned(),
        format!("struct s0 {{ int i; }};\n{by_value}"),
        format!("struct s0 {{ int i; }};\n{growing}"),
        " ".repeat(MAX_FILE_BYTES + 1),
        (0..deep).map(|n| format!("const A{n} = A{};", n + 1)).collect(),
        "a ".repeat(1 << 20),
        // Very many mistakes on one line: each would be shown with the line.
        (0..20_000).map(|n| format!("struct a{n} {{ a{n} b; }};")).collect(),
        format!("enum e {{ {}A }};", (0..20_000).map(|n| format!("A{n}, a{n}, ")).collect::<String>()),
        format!("struct s {{ {}}};", (0..20_000).map(|n| format!("lost a{n}; ")).collect::<String>()),
        "\u{e9}\u{0}\r%".repeat(10),
        // Each becomes known as C's only after the one before it.
        (1..20_000).map(|n| format!("enum e{n} {{ A{n} = A{m} }};\n", m = n - 1)).collect::<String>() + "%\n",
    ] {
        let result = Builder::default().generate_from("test.x", &source);
        assert!(matches!(result, Err(Error::Source(_) | Error::File { .. })), "{:.40}", source);
    }
}

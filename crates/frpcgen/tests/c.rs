//! Properties of the C output that the C compiler doesn't check.

use frpcgen::{Builder, Output, Style};
use std::process::Command;

fn code(source: &str, output: Output, style: Style) -> String {
    let code = Builder::default().generate_c_from("some/foo.x", source, output, style);
    code.unwrap_or_else(|error| panic!("{error}"))
}

fn of(source: &str, output: Output) -> String {
    code(source, output, Style::default())
}

fn refused(source: &str) -> String {
    match Builder::default().generate_c_from("foo.x", source, Output::Header, Style::default()) {
        Ok(code) => panic!("accepted: {code}"),
        Err(error) => error.to_string(),
    }
}

const ADD: &str = "program P { version V { int ADD(int, int b) = 1; } = 1; } = 0x20000001;";

#[test]
fn definitions_stand_behind_those_that_they_need_by_value() {
    let header = of(
        "struct a { b in_line; c *behind; int n[SIZE]; }; struct b { int i; }; \
                     struct c { a all<>; }; const SIZE = LAST; enum e { LAST = 3 };",
        Output::Header,
    );
    let at = |text: &str| header.find(text).unwrap_or_else(|| panic!("no {text} in {header}"));
    assert!(at("struct b {") < at("struct a {") && at("LAST = 3") < at("#define SIZE LAST"));
    assert!(at("#define SIZE LAST") < at("struct a {") && at("typedef struct c c;") < at("struct a {"));
    assert!(at("struct a {") < at("struct c {"));
}

#[test]
fn lines_for_the_c_compiler_keep_their_places_and_rpc_headers_go() {
    let source = "%#include <rpc/rpc.h>\n%#include \"own.h\"\nstruct a {\n%/* inside */\n int i; };\n\
                  %/* behind */\nconst B = 1;\n#ifdef RPC_SVC\n%/* server */\n#endif\n";
    let header = of(source, Output::Header);
    let at = |text: &str| header.find(text).unwrap_or_else(|| panic!("no {text} in {header}"));
    assert!(!header.contains("rpc/rpc.h") && !header.contains("server"));
    let order = ["own.h", "/* inside */", "struct a {", "/* behind */", "#define B 1"].map(at);
    assert!(order.is_sorted(), "{header}");
    assert!(of(source, Output::Dispatch).contains("/* server */"));
}

#[test]
fn a_list_is_a_loop_and_a_tree_is_not() {
    let looped = |source: &str| of(source, Output::Xdr).contains("for (at = objp;; at = next)");
    assert!(looped("struct l { int i; l *next; };"));
    assert!(looped("typedef struct l *link; struct l { int i; link next; };"));
    assert!(!looped("struct t { t *left; int i; };"));
    assert!(!looped("struct t { int i; u *next; }; struct u { t back; };"));
}

#[test]
fn styles_pass_arguments_and_results_as_rpcgens() {
    let source =
        "typedef opaque h[4]; program P { version V { h GET(h) = 1; void PUT(string) = 2; } = 3; } = 7;";
    let head = |by_value, threads| code(source, Output::Header, Style { by_value, threads });
    for (by_value, threads, expected) in [
        (
            false,
            false,
            ["char *get_3(h argp, frpc_handle *clnt);", "void *put_3_svc(char **argp, frpc_request *rqstp);"],
        ),
        (
            true,
            false,
            ["char *get_3(h arg1, frpc_handle *clnt);", "void *put_3_svc(char *arg1, frpc_request *rqstp);"],
        ),
        (
            false,
            true,
            [
                "enum frpc_stat get_3(h argp, h result, frpc_handle *clnt);",
                "bool_t put_3_svc(char **argp, void *result, frpc_request *rqstp);",
            ],
        ),
        (
            true,
            true,
            [
                "enum frpc_stat get_3(h arg1, h result, frpc_handle *clnt);",
                "bool_t put_3_svc(char *arg1, void *result, frpc_request *rqstp);",
            ],
        ),
    ] {
        let header = head(by_value, threads);
        expected.iter().for_each(|line| assert!(header.contains(line), "no {line} in {header}"));
    }
}

/// Callers begun with rpcgen's sample have a function `p_1(char *host)`, and callees with -M one
/// `p_1_freeresult` of this type.
#[test]
fn a_header_leaves_programs_the_names_that_rpcgens_leaves_them() {
    let source = "program P { version V { int GET(void) = 1; } = 1; } = 7;";
    let header = of(source, Output::Header);
    assert!(!header.contains("p_1("), "{header}");
    assert!(header.contains("extern int p_1_freeresult(frpc_request *, xdrproc_t, caddr_t);"), "{header}");
    assert!(of(source, Output::Server).contains("static void\np_1(frpc_request *rqstp)"));
    assert!(of(source, Output::Dispatch).contains("\nvoid\np_1(frpc_request *rqstp)"));
}

#[test]
fn procedure_0_has_one_case_whatever_names_its_number() {
    let source = "const ZERO = 0; program P { version V { void PING(void) = ZERO; } = 1; } = 7;";
    let server = of(source, Output::Dispatch);
    assert!(server.contains("case PING:") && !server.contains("case 0:"), "{server}");
    let without = of("program P { version V { void A(void) = 1; } = 1; } = 7;", Output::Dispatch);
    assert!(without.contains("if (rqstp->rq_proc == 0)\n\t\t\tfrpc_sendreply("), "{without}");
}

#[test]
fn what_c_cannot_say_is_an_error_with_its_place() {
    assert!(refused(ADD).contains("foo.x:1:29: error: several arguments need -N"), "{}", refused(ADD));
    assert!(refused("struct s { string a[3]; };").contains("a string has a variable length"));
    assert!(refused("typedef opaque a;").contains("opaque data needs a length"));
    let by_value = Style { by_value: true, threads: false };
    assert!(code(ADD, Output::Header, by_value).contains("int *add_1(int arg1, int b, frpc_handle *clnt)"));
}

#[test]
fn a_typedef_of_itself_ends() {
    for source in ["typedef a b; typedef b a; struct s { a x; };", "typedef a a[2]; struct s { a x; };"] {
        for output in [Output::Header, Output::Xdr, Output::Client] {
            assert!(of(source, output).contains("foo."));
        }
    }
}

#[test]
fn neither_long_chains_nor_deep_nesting_exhaust_the_compiler() {
    let many = |link: &dyn Fn(usize) -> String| (0..5000).map(link).collect::<String>();
    let nested = many(&|n| format!("struct s{n} {{ s{} x; int i; }};\n", n + 1)) + "struct s5000 { int i; };";
    let aliases = many(&|n| format!("typedef t{} t{n};\n", n + 1)) + "typedef int t5000; struct s { t0 x; };";
    let numbers =
        many(&|n| format!("const N{n} = N{};\n", n + 1)) + "const N5000 = 1; struct s { int x[N0]; };";
    for source in [nested, aliases, numbers] {
        for output in [Output::Header, Output::Xdr] {
            assert!(of(&source, output).contains("foo."));
        }
    }
}

#[test]
fn the_command_writes_four_files_or_the_one_asked_for() {
    let directory = std::env::temp_dir().join(format!("frpcgen-c-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("foo.x"), ADD).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frpcgen"));
        let output = command.current_dir(&directory).args(arguments).arg("foo.x").output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    assert_eq!(run(&["-N"]), (true, String::new()));
    for name in ["foo.h", "foo_xdr.c", "foo_clnt.c", "foo_svc.c"] {
        assert!(directory.join(name).is_file(), "{name}");
    }
    assert!(run(&["-N", "-m"]).1.contains("p_1(frpc_request *rqstp)"));
    assert!(run(&["-N", "-h"]).1.contains("#ifndef FRPCGEN_FOO_H"));
    assert_eq!(run(&["-NC", "-i", "0", "-Y", "/lib", "-h"]), run(&["-N", "-h"]), "rpcgen's, without effect");
    assert_eq!(
        run(&["-a"]),
        (
            false,
            "frpcgen lacks rpcgen's -a: run frpcgen with --lang c, then with -Sc and with -Ss\n".to_owned()
        )
    );
    assert!(run(&["-N", "-Ss"]).1.contains("insert server code here"));
    assert!(run(&["-N", "-Sc"]).1.contains("add_1("));
    let sample = directory.join("mine.c").to_string_lossy().into_owned();
    assert!(run(&["-N", "-Ss", "-o", &sample]).0);
    assert!(!run(&["-N", "-Ss", "-o", &sample]).0, "it may have been edited");
    assert!(!run(&["-h", "-c"]).0);
    std::fs::remove_dir_all(directory).unwrap();
}

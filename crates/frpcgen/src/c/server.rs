//! Writes `foo_svc.c` (dispatch functions and a `main`), and the sample of a callee.

use super::Unit;
use super::client::on_two_lines;
use super::procedures::{Procedure, Program};
use crate::syntax::Version;
use std::fmt::Write as _;

/// The whole file. With rpcgen's `-m`, it has no `main`.
pub fn file(unit: &Unit<'_>, with_main: bool) -> String {
    let mut out = unit.prologue("#include <stdio.h>\n#include <string.h>\n");
    for program in Program::all(unit) {
        for version in program.versions {
            for procedure in program.of_version(version) {
                out += &serving(unit, &program.dispatch(version), &procedure);
            }
            out += &dispatching(&program, version, with_main);
        }
    }
    if with_main { out + &main(unit) } else { out }
}

/// A function for one procedure. It decodes the arguments, calls the procedure, replies, and frees the
/// memory.
fn serving(unit: &Unit<'_>, dispatch: &str, procedure: &Procedure<'_>) -> String {
    let (argument, result) = (procedure.argument(), procedure.result());
    let mut passed = procedure.passed_to_callee();
    let mut out = format!("\nstatic void\nserve_{}(frpc_request *rqstp)\n{{\n", procedure.function());
    let mut clear = String::new();
    if let Some(argument) = &argument {
        let _ = writeln!(out, "\t{};", argument.by_value("argument"));
        clear += "\tmemset(&argument, 0, sizeof argument);\n";
    }
    let routine = procedure.result_or_void().routine;
    let call = |passed: &[String]| {
        let all: Vec<&str> = passed.iter().map(String::as_str).chain(["rqstp"]).collect();
        format!("{}_svc({})", procedure.function(), all.join(", "))
    };
    let answered = if unit.style.threads {
        let place = match &result {
            Some(result) => {
                let _ = writeln!(out, "\t{};", result.by_value("result"));
                clear += "\tmemset(&result, 0, sizeof result);\n";
                result.address("result")
            }
            None => "NULL".to_owned(),
        };
        passed.push(place.clone());
        let free = match &result {
            Some(_) => format!("\t{dispatch}_freeresult(rqstp, (xdrproc_t){routine}, (caddr_t){place});\n"),
            None => String::new(),
        };
        (
            format!("\tif ({})\n\t\tfrpc_sendreply(rqstp, (xdrproc_t){routine}, {place});\n", call(&passed)),
            free,
        )
    } else {
        let _ = writeln!(out, "\tvoid *result;");
        (
            format!(
                "\tresult = {};\n\tif (result != NULL)\n\t\tfrpc_sendreply(rqstp, (xdrproc_t){routine}, result);\n",
                call(&passed)
            ),
            String::new(),
        )
    };
    let (answer, free_result) = answered;
    let Some(argument) = argument else {
        let gap = if clear.is_empty() { "" } else { "\n" };
        let decode = "\tif (!frpc_getargs(rqstp, (xdrproc_t)xdr_void, NULL)) {\n\t\tfrpc_svcerr_decode(rqstp);\n\t\treturn;\n\t}\n";
        return format!("{out}{gap}{clear}{decode}{answer}{free_result}}}\n");
    };
    let decode = format!(
        "\tif (!frpc_getargs(rqstp, (xdrproc_t){0}, {1})) {{\n\t\tfrpc_svcerr_decode(rqstp);\n\
         \t\tfrpc_freeargs(rqstp, (xdrproc_t){0}, {1});\n\t\treturn;\n\t}}\n",
        argument.routine,
        argument.address("argument")
    );
    let free = format!(
        "\tfrpc_freeargs(rqstp, (xdrproc_t){}, {});\n",
        argument.routine,
        argument.address("argument")
    );
    format!("{out}\n{clear}{decode}{answer}{free}{free_result}}}\n")
}

/// The dispatch function of a version. With a `main`, it is static, since only that `main` uses it. Otherwise
/// the program must declare and register it, as with rpcgen's `-m`.
fn dispatching<'a>(program: &Program<'a>, version: &'a Version, with_main: bool) -> String {
    let name = program.dispatch(version);
    let begin = match with_main {
        true => "static void".to_owned(),
        false => format!("void {name}(frpc_request *);\n\nvoid"),
    };
    let mut out = format!("\n{begin}\n{name}(frpc_request *rqstp)\n{{\n\tswitch (rqstp->rq_proc) {{\n");
    for procedure in program.of_version(version) {
        let _ = write!(
            out,
            "\tcase {}:\n\t\tserve_{}(rqstp);\n\t\tbreak;\n",
            procedure.number,
            procedure.function()
        );
    }
    // Callers use procedure 0 to ask whether the version exists. It isn't a separate case: a source may
    // define procedure 0 by a constant's name, which only the C compiler resolves, and then there would be
    // two cases.
    out + "\tdefault:\n\t\tif (rqstp->rq_proc == 0)\n\t\t\tfrpc_sendreply(rqstp, (xdrproc_t)xdr_void, NULL);\n\
           \t\telse\n\t\t\tfrpc_svcerr_noproc(rqstp);\n\t}\n}\n"
}

fn main(unit: &Unit<'_>) -> String {
    // Procedures that return the address of a static result aren't thread-safe.
    let flags = if unit.style.threads { "0" } else { "FRPC_ONE_AT_A_TIME" };
    let mut out =
        "\n/* Without HOST:PORT, on a free port of the loopback address, registered with rpcbind. */\n\
                   int\nmain(int count, char **arguments)\n{\n\
                   \tbool_t rpcbind = TRUE;\n\tint port;\n\n"
            .to_owned();
    for program in Program::all(unit) {
        for version in program.versions {
            let _ = write!(
                out,
                "\tif (frpc_register_program({0}, {1}, {2}, {flags}) != 0) {{\n\
                 \t\tfprintf(stderr, \"unable to register ({0}, {1}): %s\\n\", frpc_error());\n\t\treturn 1;\n\t}}\n",
                program.name,
                version.name.text,
                program.dispatch(version)
            );
        }
    }
    out + "\tif (count < 2)\n\t\tfrpc_svc_control(FRPC_SVC_SET_RPCBIND, &rpcbind);\n\
           \tport = frpc_svc_start(count < 2 ? \"127.0.0.1:0\" : arguments[1], NULL);\n\
           \tif (port < 0) {\n\t\tfprintf(stderr, \"cannot serve: %s\\n\", frpc_error());\n\t\treturn 1;\n\t}\n\
           \tprintf(\"%d\\n\", port);\n\tfflush(stdout);\n\
           \tfrpc_svc_run();\n\treturn 0;\n}\n"
}

/// Empty procedures.
pub fn sample(unit: &Unit<'_>) -> String {
    let mut out = unit.prologue("#include <string.h>\n");
    for program in Program::all(unit) {
        for procedure in program.each() {
            out += &sample_of(unit, &procedure);
        }
        if unit.style.threads {
            for version in program.versions {
                let _ = write!(
                    out,
                    "\nint\n{}_freeresult(frpc_request *rqstp, xdrproc_t xdr_result, caddr_t result)\n{{\n\
                     \t(void)rqstp;\n\txdr_free(xdr_result, result);\n\
                     \n\t/*\n\t * insert additional freeing code here, if needed\n\t */\n\n\treturn 1;\n}}\n",
                    program.dispatch(version)
                );
            }
        }
    }
    out
}

fn sample_of(unit: &Unit<'_>, procedure: &Procedure<'_>) -> String {
    let [_, head] = procedure.prototypes();
    let (result, is_void) = (procedure.result_or_void(), procedure.result().is_none());
    let mut out = format!("\n{}\n{{\n", on_two_lines(&head, &procedure.function()));
    let unused: String =
        procedure.callee_parameters().iter().map(|name| format!("\t(void){name};\n")).collect();
    let insert = "\n\t/*\n\t * insert server code here\n\t */\n\n";
    if unit.style.threads {
        return out + &unused + "\t(void)result;\n" + insert + "\treturn TRUE;\n}\n";
    }
    let declared = if is_void { "char result".to_owned() } else { result.by_value("result") };
    let _ =
        write!(out, "\tstatic {declared};\n\n{unused}{insert}\treturn {};\n}}\n", result.address("result"));
    out
}

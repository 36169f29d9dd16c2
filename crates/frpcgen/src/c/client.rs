//! Writes `foo_clnt.c`, and the sample of a caller.

use super::Unit;
use super::procedures::{Procedure, Program};
use std::fmt::Write as _;

/// The whole file.
pub fn file(unit: &Unit<'_>) -> String {
    let mut out = unit.prologue("#include <string.h>\n");
    if Program::all(unit).any(|program| program.each().next().is_some()) {
        out += "\n/* FRPC_SET_TIMEOUT of frpc_control changes it for a handle. */\n\
                static const struct timeval TIMEOUT = { 25, 0 };\n";
    }
    for program in Program::all(unit) {
        for procedure in program.each() {
            out += &if unit.style.threads { by_place(&procedure) } else { by_address(&procedure) };
            out += &multicasts(&procedure);
        }
    }
    out
}

/// The arguments that all functions pass to the library: the procedure, and the routine and address of the
/// value to send.
fn sent(procedure: &Procedure<'_>, address: &str) -> String {
    let routine = procedure.argument().map_or("xdr_void".to_owned(), |argument| argument.routine);
    format!("{}, (xdrproc_t){routine}, {address}", procedure.number)
}

fn by_place(procedure: &Procedure<'_>) -> String {
    let ([head, _], (gather, address)) = (procedure.prototypes(), procedure.gathered());
    let gap = if gather.is_empty() { "" } else { "\n" };
    format!(
        "\n{}\n{{\n{gather}{gap}\treturn frpc_call(clnt, {},\n\t\t(xdrproc_t){}, result, TIMEOUT);\n}}\n",
        on_two_lines(&head, &procedure.function()),
        sent(procedure, &address),
        procedure.result_or_void().routine,
    )
}

fn by_address(procedure: &Procedure<'_>) -> String {
    let ([head, _], (gather, address)) = (procedure.prototypes(), procedure.gathered());
    let (result, is_void) = (procedure.result_or_void(), procedure.result().is_none());
    let declared = if is_void { "char clnt_res".to_owned() } else { result.by_value("clnt_res") };
    let place = result.address("clnt_res");
    let (declarations, statements) = match gather.split_once('\n') {
        Some((declaration, rest)) => (format!("{declaration}\n"), rest),
        None => (String::new(), ""),
    };
    format!(
        "\n{}\n{{\n\tstatic {declared};\n{declarations}\n\
         \tmemset(&clnt_res, 0, sizeof clnt_res);\n{statements}\
         \tif (frpc_call(clnt, {},\n\t\t(xdrproc_t){}, {place}, TIMEOUT) != FRPC_SUCCESS)\n\
         \t\treturn NULL;\n\treturn {place};\n}}\n",
        on_two_lines(&head, &procedure.function()),
        sent(procedure, &address),
        result.routine,
    )
}

fn multicasts(procedure: &Procedure<'_>) -> String {
    let (gather, address) = procedure.gathered();
    let gap = if gather.is_empty() { "" } else { "\n" };
    let results = match procedure.result() {
        Some(_) => "results, sizeof *results",
        None => "NULL, 0",
    };
    let mut out = String::new();
    for (head, pattern) in procedure.multicasts().iter().zip(["FRPC_PARALLEL", "FRPC_SERIAL"]) {
        let _ = write!(
            out,
            "\n{}\n{{\n{gather}{gap}\treturn frpc_multicast(callees, count, {pattern}, {},\n\
             \t\t(xdrproc_t){}, {results}, outcomes, TIMEOUT);\n}}\n",
            head.replacen("int ", "int\n", 1),
            sent(procedure, &address),
            procedure.result_or_void().routine,
        );
    }
    out
}

/// Puts the return type on a separate line, as rpcgen does.
pub fn on_two_lines(head: &str, function: &str) -> String {
    match head.find(&format!("{function}(")).or_else(|| head.find(&format!("{function}_svc("))) {
        Some(at) => format!("{}\n{}", head[..at].trim_end(), &head[at..]),
        None => head.to_owned(),
    }
}

/// A program that calls each procedure once.
pub fn sample(unit: &Unit<'_>) -> String {
    let mut out = unit.prologue("#include <stdio.h>\n#include <string.h>\n");
    let mut calls = String::new();
    for program in Program::all(unit) {
        for version in program.versions {
            let dispatch = program.dispatch(version);
            let _ = writeln!(calls, "\tcall_{dispatch}(arguments[1]);");
            let _ = write!(
                out,
                "\nstatic void\ncall_{dispatch}(const char *frpc_host)\n{{\n\
                 \tfrpc_handle *clnt = frpc_createhandle(frpc_host, {}, {}, \"tcp\");\n\n\
                 \tif (clnt == NULL) {{\n\t\tfprintf(stderr, \"%s: %s\\n\", frpc_host, frpc_error());\n\t\texit(1);\n\t}}\n",
                program.name, version.name.text
            );
            program.of_version(version).for_each(|procedure| out += &sample_call(unit, &procedure));
            out += "\tfrpc_destroyhandle(clnt);\n}\n";
        }
    }
    out + "\nint\nmain(int count, char **arguments)\n{\n\tif (count < 2) {\n\
           \t\tfprintf(stderr, \"usage: %s HOST[:PORT]\\n\", arguments[0]);\n\t\treturn 1;\n\t}\n"
        + &calls
        + "\treturn 0;\n}\n"
}

fn sample_call(unit: &Unit<'_>, procedure: &Procedure<'_>) -> String {
    let (declared, mut passed) = procedure.sample_arguments();
    let (result, function) = (procedure.result(), procedure.function());
    let mut variables = String::new();
    let failed = if unit.style.threads {
        match &result {
            None => passed.push("NULL".to_owned()),
            Some(result) => {
                variables = format!("\t{};\n", result.by_value(&format!("{function}_res")));
                passed.push(result.address(&format!("{function}_res")));
            }
        }
        "!= FRPC_SUCCESS"
    } else {
        "== NULL"
    };
    passed.push("clnt".to_owned());
    let clear = match (&result, unit.style.threads) {
        (Some(_), true) => format!("\tmemset(&{function}_res, 0, sizeof {function}_res);\n"),
        _ => String::new(),
    };
    let body = format!(
        "{variables}{declared}{clear}\tif ({function}({}) {failed})\n\
         \t\tfrpc_perror(clnt, \"{function}\");\n",
        passed.join(", ")
    );
    let indented: String = body
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("\t{line}\n") })
        .collect();
    format!("\t{{\n{indented}\t}}\n")
}

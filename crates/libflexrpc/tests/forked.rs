//! Forked processes of C programs, which use their parents' handles.

use crate::common::{cc, here, library_directory, run, with_library};
use std::process::Command;
use strait_flexrpc::{Reply, Request, Server, ServerOptions, ServiceError};
use strait_testkit::{Forked, skip};

const PROGRAM: u32 = 0x2000_0077;

fn echo(request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
    reply.put(&request.args);
    Ok(())
}

fn server() -> Server {
    Server::builder(ServerOptions::default()).register(PROGRAM, 1, echo).start().unwrap()
}

#[test]
fn each_generation_of_children_calls_by_its_parents_handle() {
    let (directory, server) = (tempfile::tempdir().unwrap(), server());
    let source = here().join("tests/forked.c");
    run(with_library(cc(directory.path()).arg("-DLINKED").arg(source), "forked"));
    run(Command::new(directory.path().join("forked")).arg(server.address().to_string()));
}

#[test]
fn children_with_their_parents_process_id_call_by_connections_of_their_own() {
    if !Forked::can_be_first() {
        return skip(
            "C children with their parents' ids",
            "PID namespaces: root's rights, or user namespaces",
        );
    }
    let (directory, server) = (tempfile::tempdir().unwrap(), server());
    let source = here().join("tests/forked.c");
    run(with_library(cc(directory.path()).arg("-DLINKED").arg(source), "forked"));
    run(Command::new(directory.path().join("forked")).arg(server.address().to_string()).arg("first"));
}

#[test]
fn a_library_that_dlopen_loads_notices_forks_too_and_dlclose_unloads_it() {
    let (directory, server) = (tempfile::tempdir().unwrap(), server());
    let source = here().join("tests/forked.c");
    run(cc(directory.path()).arg(source).args(["-o", "forked"]));
    run(Command::new(directory.path().join("forked"))
        .arg(server.address().to_string())
        .arg(library_directory().join("libflexrpc.so")));
}

//! Files of other projects: frpcgen accepts the files that rpcgen accepts, and the generated Rust
//! compiles, or this test doesn't.
//!
//! By default these are the system's, of Debian's rpcsvc-proto, libtirpc-dev and libnsl-dev. With
//! `STRAIT_X_FILES=DIRECTORY` they are all files in a directory and below it. Then frpcgen must
//! accept 95 of 100, and the test lists the others.

use crate::c;
use std::path::Path;
use std::process::{Command, Stdio};
use strait_idl_tests::borrowed::{AuthsysParms, Entry, Names, Netbuf, OpaqueAuth, Reply};
use strait_xdr::{Problem, from_bytes, to_vec};

mod files {
    include!(concat!(env!("OUT_DIR"), "/foreign.rs"));
}

/// Number of the system's files, which every machine should have.
const SYSTEMS_FILES: usize = 15;

/// All outputs of rpcgen: header, XDR, client, server.
const OUTPUTS: [&str; 4] = ["-h", "-c", "-l", "-m"];

/// Whether rpcgen accepts a file, with arguments as a struct or one by one (`-N`).
fn rpcgen_accepts(file: &Path) -> bool {
    let (directory, name) = (file.parent().expect("a directory"), file.file_name().expect("a name"));
    let accepts = |option: &str| {
        OUTPUTS.iter().all(|output| {
            let mut command = Command::new("rpcgen");
            command.args(option.split_whitespace()).arg(output).arg(name).current_dir(directory);
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status
                .unwrap_or_else(|error| panic!("rpcgen: {error}; scripts/setup.sh test installs it"))
                .success()
        })
    };
    accepts("") || accepts("-N")
}

#[test]
fn files_that_rpcgen_accepts_are_accepted_and_compile() {
    let accepted_by_rpcgen: Vec<_> =
        files::FILES.iter().filter(|(file, _)| rpcgen_accepts(Path::new(file))).collect();
    let refused: Vec<_> = accepted_by_rpcgen.iter().filter_map(|(file, why)| Some((file, (*why)?))).collect();
    let (all, accepted) = (accepted_by_rpcgen.len(), accepted_by_rpcgen.len() - refused.len());
    println!("{} files, of which rpcgen accepts {all}, and of these frpcgen {accepted}", files::FILES.len());
    refused.iter().for_each(|(file, why)| println!("\n{file}\n{why}"));
    if option_env!("STRAIT_X_FILES").is_some() {
        assert!(all > 0 && accepted * 100 >= all * 95, "{accepted} of {all}");
    } else {
        eprintln!("STRAIT_X_FILES isn't set: these are the system's files alone");
        assert!(all >= SYSTEMS_FILES, "{all} of the system's files; scripts/setup.sh test installs them");
        assert!(refused.is_empty(), "{} of the system's files are refused", refused.len());
    }
}

#[test]
fn rpcgen_accepts_what_the_tests_borrow() {
    assert!(rpcgen_accepts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("idl/borrowed.x")));
}

#[test]
fn borrowed_names_look_on_the_wire_as_in_c() {
    let entry = Entry { kind: -2, size: 3, owner: 4, changed: -5, nothing: [], tags: vec![6] };
    let bytes = to_vec(&Reply::BorrowedGet(entry)).expect("within its limits");
    let words: Vec<i32> = bytes.chunks(4).map(|word| i32::from_be_bytes(word.try_into().unwrap())).collect();
    // The procedure's number selects the case; an array without items takes no bytes.
    assert_eq!(words, [4, -2, 3, 4, -5, 1, 6]);
    let long = Entry { tags: vec![0; 4], kind: 0, size: 0, owner: 0, changed: 0, nothing: [] };
    assert!(to_vec(&Reply::BorrowedGet(long)).is_err(), "the limit of a %#define holds");
}

#[test]
fn the_tables_types_are_those_of_libtirpc() {
    let names = Names {
        large: 1,
        longest: -2,
        quad: 3,
        small: 4,
        program_number: 5,
        object: b"abc".into(),
        buffer: Netbuf { maxlen: 8, buf: b"addr".into() },
        verifier: OpaqueAuth { oa_flavor: 1, oa_base: b"xyz".into() },
        caller: AuthsysParms {
            aup_time: 6,
            aup_machname: "host".into(),
            aup_uid: 7,
            aup_gid: 8,
            aup_gids: vec![10, 11],
        },
    };
    let output = Command::new(c::build("names", &[])).output().expect("it runs");
    assert!(output.status.success());
    assert_eq!(to_vec(&names).expect("within its limits"), output.stdout);
}

#[test]
fn bytes_of_a_type_that_only_c_defines_are_refused_and_others_are_not() {
    let problem = from_bytes::<Reply>(&[0, 0, 0, 7, 0, 0, 0, 0]).expect_err("its form is unknown").problem;
    assert_eq!(problem, Problem::Foreign { name: "VendorT" });
    assert_eq!(from_bytes::<Reply>(&[0, 0, 0, 8]), Ok(Reply::Default(8)));
}

//! The C that frpcgen writes: it compiles without a warning, agrees with rpcgen's code on the wire,
//! survives damaged messages, and docs/flexrpc-c.md tells the truth.

use crate::common::{cc, here, run, with_library};
use frpcgen::{Builder, Output, Style};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

/// All files of Debian's rpcsvc-proto, libnsl-dev and libtirpc-dev; its libc6-dev has none any more.
const SYSTEM: [&str; 3] = ["/usr/include/rpcsvc", "/usr/include/tirpc/rpc", "/usr/include/tirpc/rpcsvc"];

/// Number of the system's files, which every machine should have.
const SYSTEMS_FILES: usize = 19;

/// A header of glibc's own that no package has; it declares nothing that others need.
const PRIVATE: [&str; 1] = ["nis_clnt.h"];

const OUTPUTS: [Output; 6] =
    [Output::Header, Output::Xdr, Output::Client, Output::Server, Output::SampleClient, Output::SampleServer];

const STYLES: [Style; 2] =
    [Style { by_value: false, threads: false }, Style { by_value: true, threads: true }];

fn files(directories: &[&str]) -> Vec<PathBuf> {
    let found =
        directories.iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let mut found: Vec<_> = found.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "x"));
    found.sort();
    found
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn write(file: &Path, output: Output, style: Style, to: &Path) -> Result<(), frpcgen::Error> {
    let code = Builder::default().generate_c(file, output, style)?;
    fs::write(to, code).unwrap();
    Ok(())
}

#[test]
fn the_systems_files_compile_without_a_warning() {
    let (directory, files) = (tempfile::tempdir().unwrap(), files(&SYSTEM));
    assert!(files.len() >= SYSTEMS_FILES, "{files:?}; scripts/setup.sh test installs them");
    let headers = directory.path().join("rpcsvc");
    fs::create_dir(&headers).unwrap();
    for file in &files {
        // Interfaces include each other's headers as <rpcsvc/…>.
        let header = headers.join(format!("{}.h", stem(file)));
        write(file, Output::Header, Style::default(), &header).unwrap();
    }
    for (index, style) in STYLES.into_iter().enumerate() {
        for file in &files {
            let place = directory.path().join(format!("{}{index}", stem(file)));
            fs::create_dir(&place).unwrap();
            PRIVATE.iter().for_each(|name| fs::write(place.join(name), "").unwrap());
            for output in OUTPUTS {
                write(file, output, style, &place.join(output.file_name(&stem(file)))).unwrap();
            }
            let sources = OUTPUTS[1..].iter().map(|output| output.file_name(&stem(file)));
            // The first style as users compile it: some warnings need the optimizer.
            let mode: &[&str] = if index == 0 { &["-O1", "-c"] } else { &["-fsyntax-only"] };
            run(cc(&place).args(mode).arg("-I..").args(sources));
        }
    }
}

#[test]
fn each_type_that_frpcgen_knows_of_c_compiles() {
    let directory = tempfile::tempdir().unwrap();
    let table = fs::read_to_string(here().join("../frpcgen/src/c_types.x")).unwrap();
    let types = table.lines().filter_map(|line| line.strip_prefix("typedef ")?.strip_suffix(';'));
    // Without the strings and opaques, which have limits.
    let types = types.filter_map(|line| line.rsplit_once(' ')).map(|(_, name)| name);
    let types = types.filter(|name| !name.contains(['<', '[']));
    let fields: Vec<_> = types.map(|name| format!("\t{name} of_{name};\n")).collect();
    assert!(fields.len() > 60, "{fields:?}");
    let file = directory.path().join("all.x");
    fs::write(&file, format!("struct all {{\n{}}};\n", fields.concat())).unwrap();
    for output in [Output::Header, Output::Xdr] {
        write(&file, output, Style::default(), &directory.path().join(output.file_name("all"))).unwrap();
    }
    run(cc(directory.path()).args(["-c", "all_xdr.c"]));
}

/// A program of tests/wire.c over one interface, by `make` from its header and routines.
fn wire(place: &Path, file: &Path, ours: bool, flags: &[&str]) -> PathBuf {
    let name = stem(file);
    fs::create_dir_all(place).unwrap();
    let (header, routines) = (format!("{name}.h"), format!("{name}_xdr.c"));
    fs::write(place.join("table.inc"), table(file)).unwrap();
    let directory = here().join("tests");
    let mut compiler = if ours {
        write(file, Output::Header, Style::default(), &place.join(&header)).unwrap();
        write(file, Output::Xdr, Style::default(), &place.join(&routines)).unwrap();
        let mut ours = cc(place);
        ours.arg("-DFLEXRPC");
        ours
    } else {
        fs::copy(file, place.join(file.file_name().unwrap())).unwrap();
        for (option, output) in [("-h", &header), ("-c", &routines)] {
            let source = format!("{name}.x");
            run(Command::new("rpcgen").current_dir(place).args([option, "-o", output, &source]));
        }
        let mut theirs = Command::new("cc");
        // For an array's items rpcgen writes `bool`, which its headers don't define.
        theirs.current_dir(place).args([
            "-w",
            "-fsigned-char",
            "-Dbool=bool_t",
            "-I.",
            "-I/usr/include/tirpc",
        ]);
        theirs
    };
    compiler.args(flags).arg(format!("-DWIRE_HEADER=\"{header}\"")).arg("-DWIRE_TABLE=\"table.inc\"");
    compiler.arg(directory.join("wire.c")).arg(&routines);
    if ours {
        run(with_library(&mut compiler, "wire"));
    } else {
        run(compiler.args(["-o", "wire", "-ltirpc"]));
    }
    place.join("wire")
}

/// All types of an interface, by the prototypes of its routines.
fn table(file: &Path) -> String {
    let header = Builder::default().generate_c(file, Output::Header, Style::default()).unwrap();
    let mut table = String::new();
    for line in header.lines() {
        if let Some(rest) = line.strip_prefix("extern bool_t xdr_")
            && let Some((name, _)) = rest.split_once('(')
        {
            let _ = writeln!(table, "TYPE({name})");
        }
    }
    table
}

/// The output of a program that must succeed. Its messages don't matter.
fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
    output.stdout
}

fn piped(program: &Path, arguments: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let writer = thread::spawn(move || to.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {} {told}", program.display(), output.status);
    output.stdout
}

/// Interfaces whose code of rpcgen compiles with libtirpc alone, and all types of the language.
fn interfaces() -> Vec<PathBuf> {
    let names = ["mount", "nfs_prot", "nis_object", "nlm_prot", "rex", "rquota", "sm_inter", "yp"];
    let system = names.iter().map(|name| Path::new(SYSTEM[0]).join(format!("{name}.x")));
    system.chain([here().join("../../tests/idl/idl/types.x")]).collect()
}

#[test]
fn random_values_of_every_type_look_alike_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let seed = std::env::var("WIRE_SEED").unwrap_or_else(|_| std::process::id().to_string());
    let count = std::env::var("WIRE_VALUES").unwrap_or_else(|_| "300".to_owned());
    for file in interfaces() {
        let place = directory.path().join(stem(&file));
        let theirs = wire(&place.join("theirs"), &file, false, &[]);
        let ours = wire(&place.join("ours"), &file, true, &[]);
        let values = piped(&theirs, &["random", &seed, &count], Vec::new());
        let kinds = table(&file).lines().count();
        let about = format!("{}, WIRE_SEED={seed}", file.display());
        assert!(values.len() > 12 * kinds, "too few values of {kinds} types to prove anything: {about}");
        // libtirpc encodes, we decode and encode, libtirpc decodes and encodes.
        let again = piped(&ours, &["again"], values.clone());
        assert!(again == values, "we read or write otherwise: {about}");
        assert!(piped(&theirs, &["again"], again) == values, "libtirpc reads otherwise: {about}");
    }
}

#[test]
fn damaged_messages_neither_overrun_nor_leak() {
    let directory = tempfile::tempdir().unwrap();
    let file = here().join("../../tests/idl/idl/types.x");
    let theirs = wire(&directory.path().join("theirs"), &file, false, &[]);
    let values = piped(&theirs, &["random", "1", "60"], Vec::new());
    // Leaks count: the sanitizer looks for them at the end.
    let flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let ours = wire(&directory.path().join("ours"), &file, true, &flags);
    let count = std::env::var("WIRE_DAMAGES").unwrap_or_else(|_| "30".to_owned());
    piped(&ours, &["damage", "1", &count], values);
}

#[test]
fn hostile_messages_neither_exhaust_the_stack_nor_leak() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::copy(here().join("tests/hostile.x"), place.join("hostile.x")).unwrap();
    for output in [Output::Header, Output::Xdr] {
        write(&place.join("hostile.x"), output, Style::default(), &place.join(output.file_name("hostile")))
            .unwrap();
    }
    // Leaks count: the sanitizer looks for them at the end.
    let mut program = cc(place);
    program.args(["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    run(with_library(program.arg(here().join("tests/hostile.c")).arg("hostile_xdr.c"), "hostile"));
    run(&mut Command::new(place.join("hostile")));
}

/// Server and client without arguments find each other by a real rpcbind, and call libtirpc's in both
/// directions; then a caller reaches a callee by a name whose first address isn't the callee's. rpcbind has
/// fixed names and a fixed port, so all of it has a network and a /run of its own (needs root).
const BY_RPCBIND: &str = "
    mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && PATH=$PATH:/usr/sbin:/sbin && ip link set lo up
    wait_for() { tries=0; until [ $1 $2 ]; do tries=$((tries + 1)); [ $tries -lt 400 ] || exit 9; sleep 0.05; done; }
    rpcbind -f & rpcbind=$!
    wait_for -S /run/rpcbind.sock
    ./server >port & server=$!
    wait_for -s port
    ./client && ../before/client 127.0.0.1; status=$?
    kill $server; wait $server
    ./own & server=$!
    tries=0; until ./client 127.0.0.1 2>/dev/null; do tries=$((tries + 1)); [ $tries -lt 100 ] || exit 5; sleep 0.05; done
    kill $server; wait $server || status=4
    rpcinfo -p 127.0.0.1 | grep -q 536871032 && status=3
    ../before/server & server=$!
    tries=0; until ./onc 127.0.0.1 tcp; do tries=$((tries + 1)); [ $tries -lt 100 ] || exit 8; sleep 0.05; done
    ./onc 127.0.0.1 udp || status=7
    kill $server $rpcbind; wait $server
    printf '::1 localhost\\n127.0.0.1 localhost\\n' >hosts && mount --bind hosts /etc/hosts
    ./server 127.0.0.1:0 >port4 & server=$!
    wait_for -s port4
    ./client localhost:$(cat port4) || status=6
    kill $server; exit $status";

/// The blocks of a language in the manual, in order.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(here().join("../../docs/flexrpc-c.md")).unwrap();
    let begin = format!("```{language}\n");
    let parts = page.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_documented_program_moves_and_works() {
    let directory = tempfile::tempdir().unwrap();
    let [interface, before_server, before_client, server, client, own_main, multicast] =
        blocks("c").try_into().expect("seven programs");
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    for (place, server, client) in [(&before, &before_server, &before_client), (&after, &server, &client)] {
        fs::create_dir(place).unwrap();
        fs::write(place.join("calc.x"), &interface).unwrap();
        fs::write(place.join("server.c"), server).unwrap();
        fs::write(place.join("client.c"), client).unwrap();
    }
    run(Command::new("rpcgen").arg("calc.x").current_dir(&before));
    for (program, part) in [("server", "calc_svc.c"), ("client", "calc_clnt.c")] {
        let mut theirs = Command::new("cc");
        theirs.current_dir(&before).args(["-w", "-I/usr/include/tirpc", &format!("{program}.c"), part]);
        run(theirs.args(["calc_xdr.c", "-ltirpc", "-o", program]));
    }
    for output in [Output::Header, Output::Xdr, Output::Client, Output::Server] {
        let file = after.join("calc.x");
        write(&file, output, Style::default(), &after.join(output.file_name("calc"))).unwrap();
    }
    for (program, part) in [("server", "calc_svc.c"), ("client", "calc_clnt.c")] {
        let mut ours = cc(&after);
        run(with_library(ours.args([&format!("{program}.c"), part, "calc_xdr.c"]), program));
    }
    fs::write(after.join("own_main.c"), own_main).unwrap();
    let plain = Builder::default().generate_c(after.join("calc.x"), Output::Dispatch, Style::default());
    fs::write(after.join("calc_dispatch.c"), plain.unwrap()).unwrap();
    let mut ours = cc(&after);
    run(with_library(ours.args(["own_main.c", "server.c", "calc_dispatch.c", "calc_xdr.c"]), "own"));
    fs::write(after.join("multicast.c"), multicast).unwrap();
    for (program, sample) in [("onc", None), ("many", None), ("everywhere", Some("multicast.c"))] {
        let mut ours = cc(&after);
        let source = here().join(format!("tests/{program}.c"));
        run(with_library(ours.arg(source).args(sample).args(["calc_clnt.c", "calc_xdr.c"]), program));
    }
    let told = output(
        Command::new("unshare").args(["--mount", "--net", "sh", "-c", BY_RPCBIND]).current_dir(&after),
    );
    let sum = "2 + 3 = 5";
    assert_eq!(
        String::from_utf8_lossy(&told),
        format!("{sum}\n{sum}\n{sum}\n{sum} over tcp\n{sum} over udp\n{sum}\n")
    );
    let start = || {
        let mut callee = Command::new(after.join("server"));
        let mut callee = callee.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(callee.stdout.take().unwrap()).read_line(&mut port).unwrap();
        (callee, format!("127.0.0.1:{}", port.trim()))
    };
    let end = |callee: &mut Child| callee.kill().and_then(|()| callee.wait()).unwrap();
    let [(mut first, address), (mut second, another), (mut third, down)] = [(); 3].map(|()| start());
    end(&mut third);
    let told = run(Command::new(after.join("client")).arg(&address));
    assert_eq!(String::from_utf8_lossy(&told), "2 + 3 = 5\n");
    let told = run(Command::new(after.join("many")).args([&address, &another, &down]));
    assert_eq!(String::from_utf8_lossy(&told), "2 callees\n");
    let told = run(Command::new(after.join("everywhere")).args([&address, &another, &down]));
    let told = String::from_utf8_lossy(&told);
    assert!(told.starts_with("5\n5\ncallee 2: not executed: the callee can't be reached"), "{told}");
    end(&mut first);
    end(&mut second);
    let mut refused = Command::new(after.join("client"));
    let refused = refused.arg(&address).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("can't be reached"));
}

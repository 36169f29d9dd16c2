//! Many small files in `strait up` with 1,024 descriptors. Measures files a second, compared with the same
//! files in a local directory on the same disk (create, write, fsync, rename), and whether many files slow
//! anything down. `STRAIT_BENCH_FILES`: their number, 20,000 by default. `BENCH_KADOOP_DIR`: the directory;
//! by default, that for temporary files and not one in memory, where syncs cost nothing.

use crate::Result;
use crate::host::{WIRE, setting, status, strait};
use crate::pairs::{Sample, interleave};
use crate::report::{Better, Row};
use bytes::Bytes;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use strait_testkit::thrift::Client;
use strait_testkit::{Process, free_port, wait_until};
use strait_wire::{
    AppendDataRequest, CloseFileRequest, CreateFileRequest, GetFileInfoRequest, MakeDirectoriesRequest,
    OpenFileRequest, ReadRangeRequest, RemovePathRequest, methods,
};

const FILE_BYTES: usize = 4 << 10;
const DESCRIPTORS: usize = 1_024;
/// Number of concurrent writers of the many files.
const WRITERS: usize = 8;
/// Number of files in one directory.
const PER_DIRECTORY: usize = 1_000;
/// Number of files in one comparison with the local directory, and number of comparisons.
const PAIR_FILES: usize = 800;
const PAIRS: usize = 5;
/// The bounds: least share of the local directory's rate; least rate of the last tenth relative to the first;
/// most memory; longest restart; longest `stat` during a removal.
const BOUND_OF_LOCAL: f64 = 0.5;
const BOUND_OF_FIRST: f64 = 0.8;
const BOUND_MIB: f64 = 600.0;
const BOUND_RESTART_S: f64 = 10.0;
const BOUND_REMOVAL_MS: f64 = 100.0;
const DEADLINE: Duration = Duration::from_secs(120);
/// Time after a removal in which the store still frees the removed files.
const AFTER_REMOVAL: Duration = Duration::from_secs(10);

pub fn run() -> Result<Vec<Row>> {
    let files = setting("STRAIT_BENCH_FILES", 20_000)?.max(10 * WRITERS);
    let parent = std::env::var_os("BENCH_KADOOP_DIR").map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(parent)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut up = start(directory.path(), address)?;
    if !wait_until(DEADLINE, || write(&mut connect(address), "/first").is_ok()) {
        return Err("strait up takes no file".into());
    }
    let mut rows = Vec::new();
    for writers in [1, WRITERS] {
        let (ours, local) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pair = interleave(
            PAIRS,
            || {
                let round = ours.fetch_add(1, Ordering::Relaxed);
                let at = format!("/pair-{writers}-{round}");
                rate(PAIR_FILES, writers, |writer| our_files(address, format!("{at}-{writer}")))
            },
            || {
                let at =
                    directory.path().join(format!("{writers}-{}", local.fetch_add(1, Ordering::Relaxed)));
                fs::create_dir(&at)?;
                rate(PAIR_FILES, writers, |_| local_files(&at))
            },
        )?;
        let case = format!("4 KiB files, writers: {writers} (bound: {BOUND_OF_LOCAL} of local ext4)");
        rows.push(Row::of_pair(case, "files/s", Better::Higher, PAIRS, &pair));
    }
    let tenth = files / 10;
    let mut rates = Vec::new();
    for part in 0..10 {
        let files_of = |writer| our_files(address, format!("/many/{part}-{writer}"));
        rates.push(rate(tenth, WRITERS, files_of)?);
        let memory = status(up.id(), "VmHWM:")? / 1024.0;
        println!("tenth {part}: {:>7.0} files/s, at most {memory:.0} MiB so far", rates[part]);
    }
    let case = format!("the last {tenth} of {files} files, above the first");
    rows.push(one(case, "×", Better::Higher, rates[9] / rates[0], BOUND_OF_FIRST));
    rows.push(one(
        "memory of all roles",
        "MiB",
        Better::Lower,
        status(up.id(), "VmHWM:")? / 1024.0,
        BOUND_MIB,
    ));
    up.terminate(DEADLINE);
    let begin = Instant::now();
    let up = start(directory.path(), address)?;
    let last = format!("/many/9-{}-0/0", WRITERS - 1);
    if !wait_until(DEADLINE, || read(&mut connect(address), &last)) {
        return Err("after a restart the last file can't be read".into());
    }
    let restart = begin.elapsed().as_secs_f64();
    rows.push(one("from a restart to the first read", "s", Better::Lower, restart, BOUND_RESTART_S));
    rows.push(one(
        "longest stat beside rm -r",
        "ms",
        Better::Lower,
        beside_removal(address)?,
        BOUND_REMOVAL_MS,
    ));
    drop(up);
    Ok(rows)
}

fn one(case: impl Into<String>, unit: &str, better: Better, figure: f64, bound: f64) -> Row {
    Row::new(case, unit, better, 1, &Sample::new(vec![figure])).with_limit(bound)
}

/// Starts `strait up` with [`DESCRIPTORS`] descriptors, and waits until its port accepts connections.
fn start(directory: &Path, address: SocketAddr) -> Result<Process> {
    let mut command = Command::new("sh");
    command.current_dir(directory).args(["-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")]);
    command.arg(strait()?).args(["up", "--data", "data", "--listen", &address.to_string()]);
    let mut process = Process::spawn("up", command, directory)?;
    process.wait_ready(DEADLINE, || std::net::TcpStream::connect(address).is_ok())?;
    Ok(process)
}

fn connect(address: SocketAddr) -> Client {
    let mut client = Client::connect(address, WIRE);
    client.open_session();
    client
}

/// Files a second of all writers together. `writer` makes a writer's function, which writes the file with a
/// number.
fn rate<W>(files: usize, writers: usize, writer: impl Fn(usize) -> W + Sync) -> Result<f64>
where
    W: FnMut(usize) -> Result<()>,
{
    let (each, begin) = (files / writers, Instant::now());
    thread::scope(|scope| {
        let writing: Vec<_> = (0..writers)
            .map(|number| {
                let writer = &writer;
                scope.spawn(move || {
                    let mut write = writer(number);
                    (0..each).try_for_each(|file| write(file).map_err(|error| error.to_string()))
                })
            })
            .collect();
        writing.into_iter().try_for_each(|one| one.join().map_err(|_| "a writer panicked".to_owned())?)
    })?;
    Ok((each * writers) as f64 / begin.elapsed().as_secs_f64())
}

/// Returns a function that writes files into directories below `at`.
fn our_files(address: SocketAddr, at: String) -> impl FnMut(usize) -> Result<()> {
    let mut client = connect(address);
    move |file| {
        let directory = format!("{at}-{}", file / PER_DIRECTORY);
        if file.is_multiple_of(PER_DIRECTORY) {
            let request = MakeDirectoriesRequest { path: Some(directory.clone()), ..Default::default() };
            client.v2::<methods::MakeDirectories>(request).map_err(|error| format!("{error:?}"))?;
        }
        write(&mut client, &format!("{directory}/{file}"))
    }
}

fn write(client: &mut Client, path: &str) -> Result<()> {
    let request = CreateFileRequest { path: Some(path.to_owned()), ..Default::default() };
    let handle = client.v2::<methods::CreateFile>(request).map_err(|error| format!("{error:?}"))?.handle;
    let (expected_offset, data) = (Some(0), Some(Bytes::from_static(&[7; FILE_BYTES])));
    let request = AppendDataRequest { handle, expected_offset, data, ..Default::default() };
    client.v2::<methods::AppendData>(request).map_err(|error| format!("{error:?}"))?;
    let request = CloseFileRequest { handle, ..Default::default() };
    client.v2::<methods::CloseFile>(request).map_err(|error| format!("{error:?}"))?;
    Ok(())
}

/// Returns a function that writes files as a careful program does on a local disk.
fn local_files(at: &Path) -> impl FnMut(usize) -> Result<()> {
    let (at, of) = (at.to_owned(), format!("{:?}", thread::current().id()));
    move |file| {
        let (named, temporary) = (at.join(format!("{of}-{file}")), at.join(format!("{of}-{file}.tmp")));
        let mut it = File::create_new(&temporary)?;
        it.write_all(&[7; FILE_BYTES])?;
        it.sync_all()?;
        Ok(fs::rename(temporary, named)?)
    }
}

fn read(client: &mut Client, path: &str) -> bool {
    let request = OpenFileRequest { path: Some(path.to_owned()), ..Default::default() };
    let Ok(opened) = client.v2::<methods::OpenFile>(request) else { return false };
    let (offset, length) = (Some(0), Some(FILE_BYTES as i32));
    let request = ReadRangeRequest { handle: opened.handle, offset, length, ..Default::default() };
    let read = client.v2::<methods::ReadRange>(request);
    read.is_ok_and(|read| read.data.is_some_and(|data| data.len() == FILE_BYTES))
}

/// The longest `stat`, in ms, while all files are removed and freed.
fn beside_removal(address: SocketAddr) -> Result<f64> {
    let removed = AtomicBool::new(false);
    thread::scope(|scope| {
        let removing = scope.spawn(|| {
            let (path, recursive) = (Some("/many".to_owned()), Some(true));
            let request = RemovePathRequest { path, recursive, ..Default::default() };
            let done =
                connect(address).v2::<methods::RemovePath>(request).map_err(|error| format!("{error:?}"));
            thread::sleep(AFTER_REMOVAL);
            removed.store(true, Ordering::Relaxed);
            done.map(drop)
        });
        let (mut client, mut longest) = (connect(address), Duration::ZERO);
        while !removed.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let request = GetFileInfoRequest { path: Some("/first".to_owned()), ..Default::default() };
            client.v2::<methods::GetFileInfo>(request).map_err(|error| format!("{error:?}"))?;
            longest = longest.max(begin.elapsed());
        }
        removing.join().map_err(|_| "the removal panicked")??;
        Ok(longest.as_secs_f64() * 1e3)
    })
}

//! One client, over a link with a round-trip time of 50 ms and 1 Gbit/s ("multiple racks over a Wide Area
//! Network"), gets and puts a file of a gateway whose store is a directory. The limit is one bare stream over
//! the same link, which begins after a request of one byte.
//!
//! `STRAIT_BENCH_MIB`: the file's size, 1,024 MiB by default.
//! `STRAIT_BENCH_PROGRAMS`: which of `C++,Java,Python,strait`; all by default.

use crate::Result;
use crate::distance::Distance;
use crate::host::{Gateway, make_file, setting, strait};
use crate::pairs::interleave;
use crate::programs::{Copying, Programs};
use crate::report::{Better, Row};
use crate::stages::{staged, whole};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const ROUND_TRIP: Duration = Duration::from_millis(50);
/// Rate of the link: 1 Gbit/s. Headers don't count.
const BYTES_PER_SECOND: f64 = 125e6;
const PIECE_BYTES: usize = 1 << 20;
const RUNS: usize = 3;

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let dir = tempfile::tempdir()?;
    let (store, local) = (dir.path().join("store"), dir.path().join("local"));
    std::fs::create_dir(&store)?;
    make_file(&store.join("file"), mib)?;
    let gateway = Gateway::start(&format!("file://{}", store.display()))?;
    let far = Distance::start(gateway.address, ROUND_TRIP, BYTES_PER_SECOND)?.address.to_string();

    let megabytes = ((mib << 20) as f64) / 1e6;
    let bare = Bare::start(mib << 20)?;
    let mut rows = Vec::new();
    let wanted = std::env::var("STRAIT_BENCH_PROGRAMS").ok();
    let wanted = |name: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|one| one == name));
    for (name, program) in CLIENTS.into_iter().filter(|(name, _)| wanted(name)) {
        for (action, remote) in [("get", "file"), ("put", "put")] {
            let ours = || Ok(megabytes / program(&programs, &far, action, &format!("/{remote}"), &local)?);
            let pair = interleave(RUNS, ours, || Ok(megabytes / bare.seconds()?))?;
            if std::fs::read(store.join(remote))? != std::fs::read(&local)? {
                return Err(format!("{name} {action}: the copied file differs").into());
            }
            let case = format!("{name} {action}, {mib} MiB, 50 ms away; limit: a bare stream");
            rows.push(Row::of_pair(case, "MB/s", Better::Higher, RUNS, &pair));
        }
    }
    Ok(rows)
}

/// Starts a server over the same link that sends its bytes to each client that has sent one byte.
struct Bare {
    far: SocketAddr,
    bytes: usize,
}

impl Bare {
    fn start(bytes: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let far = Distance::start(listener.local_addr()?, ROUND_TRIP, BYTES_PER_SECOND)?.address;
        thread::spawn(move || {
            for mut asking in listener.incoming().flatten() {
                // Ignore an error: the client may close the connection before the end.
                let _ = serve(&mut asking, bytes);
            }
        });
        Ok(Self { far, bytes })
    }

    fn seconds(&self) -> Result<f64> {
        let mut stream = TcpStream::connect(self.far)?;
        let (mut piece, mut left) = (vec![0; PIECE_BYTES], self.bytes);
        let start = Instant::now();
        stream.write_all(b"?")?;
        while left > 0 {
            match stream.read(&mut piece)? {
                0 => return Err("the bare stream ended early".into()),
                count => left -= count,
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn serve(asking: &mut TcpStream, bytes: usize) -> std::io::Result<()> {
    asking.read_exact(&mut [0])?;
    let piece = vec![7; PIECE_BYTES];
    for begin in (0..bytes).step_by(PIECE_BYTES) {
        asking.write_all(&piece[..PIECE_BYTES.min(bytes - begin)])?;
    }
    Ok(())
}

/// Runs one copy, and returns the seconds that it took. A client's time begins when it is connected; the
/// command's time is that of the whole process.
type Program = fn(&Programs, &str, &'static str, &str, &Path) -> Result<f64>;

const CLIENTS: [(&str, Program); 4] = [
    ("C++", |programs, far, action, remote, local| {
        client(programs.cpp(far, &copying(action, remote, local)))
    }),
    ("Java", |programs, far, action, remote, local| {
        client(programs.java(far, &copying(action, remote, local)))
    }),
    ("Python", |programs, far, action, remote, local| {
        client(programs.python(far, &copying(action, remote, local)))
    }),
    ("strait", |_, far, action, remote, local| command(far, action, remote, local)),
];

fn copying(action: &'static str, remote: &str, local: &Path) -> Copying {
    let local = local.display().to_string();
    Copying { action, remote: remote.to_owned(), local, blocking: None, ca: None }
}

fn client(command: Command) -> Result<f64> {
    Ok(staged(vec![command])?.work_s)
}

fn command(far: &str, action: &str, remote: &str, local: &Path) -> Result<f64> {
    let mut command = Command::new(strait()?);
    let uri = format!("strait://{far}{remote}");
    command.args([action, "--force"]);
    match action {
        "get" => command.arg(uri).arg(local),
        _ => command.arg(local).arg(uri),
    };
    Ok(whole(vec![command])?.whole_s)
}

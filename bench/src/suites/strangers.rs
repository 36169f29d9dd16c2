//! A gateway under attack. Measures the duration of another user's login, `stat` and `put` of 1 MiB, compared
//! with a quiet time, and the gateway's memory. `STRAIT_BENCH_ATTACK`: a part of the names of the attacks to
//! measure; by default, all are. `STRAIT_BENCH_SECONDS`: the duration of each attack, 60 by default.

use crate::Result;
use crate::host::{Gateway, seconds, setting, strait};
use crate::pairs::Sample;
use crate::report::{Better, Row};
use bytes::Bytes;
use std::any::Any;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use strait_testkit::attacks::{Attack, Crowd, Times, log_in};
use strait_testkit::thrift::Client;
use strait_testkit::{Process, free_port, http_request, wait_until};
use strait_wire::{AppendDataRequest, CloseFileRequest, CreateFileRequest, methods};

/// Bound of the gateway's memory, in MiB.
const BOUND_MIB: f64 = 256.0;
/// Bound of a p99 during an attack, as a multiple of the p99 in the quiet time.
const BOUND_FACTOR: f64 = 3.0;
/// The bound of a p99 isn't less than this, in ms.
const BOUND_MS: f64 = 20.0;
/// User id of a local user that isn't the gateway's.
const OTHER_USER: u32 = 12_345;
/// Pause between two rounds of the measured user, so that this user adds little load.
const PAUSE: Duration = Duration::from_millis(50);
/// Length of a file whose checksum takes longer than the suite.
const ENDLESS_BYTES: u64 = 1 << 40;
/// Number of files that one user opens, and the MiB that it reads of each.
const OPEN_FILES: usize = 900;
const READ_MIB: usize = 6;

struct Scene {
    gateway: Gateway,
    metrics: SocketAddr,
    seconds: u64,
    /// The cluster behind the gateway, if there is one.
    _kadoop: Option<Process>,
    _dir: tempfile::TempDir,
}

/// The store that the gateway serves.
enum Store {
    Directory,
    Kadoop,
}

/// Starts an attack, which lasts until the returned value is dropped.
type Start = fn(&Scene) -> Result<Box<dyn Any>>;

pub fn run() -> Result<Vec<Row>> {
    use Store::{Directory, Kadoop};
    let attacks: [(&str, Store, Start); 11] = [
        ("40 strangers announce 16 MiB each", Directory, |scene| {
            Ok(Box::new(Attack::drip(scene.gateway.address, None, 40, 16 << 20, 150_000)))
        }),
        ("one user's 40 connections announce 16 MiB each", Directory, |scene| {
            let ada = log_in(scene.gateway.address, "ada", "secret").map_err(|e| format!("{e:?}"))?;
            let drip = Attack::drip(scene.gateway.address, ada.token.clone(), 40, 16 << 20, 150_000);
            Ok(Box::new((ada, drip)))
        }),
        ("one user reads 6 MiB of each of 900 Kadoop files", Kadoop, |scene| read_over(scene, 1)),
        ("the same over 30 connections", Kadoop, |scene| read_over(scene, 30)),
        ("one user's 140 checksums", Directory, |scene| {
            let ada = log_in(scene.gateway.address, "ada", "secret").map_err(|e| format!("{e:?}"))?;
            let attack = Attack::checksums(scene.gateway.address, ada.token.clone(), 140, "/endless");
            Ok(Box::new((ada, attack)))
        }),
        ("another local user's 4,096 connections", Directory, |scene| {
            Ok(Box::new(Crowd::start(scene.gateway.address, OTHER_USER, 4_096)?))
        }),
        ("another local user's 95 password guesses a second", Directory, |scene| {
            Ok(Box::new(Crowd::guess(scene.gateway.address, OTHER_USER, "bob", 10)?))
        }),
        ("another local user's 100 logins at once", Directory, |scene| {
            Ok(Box::new(Crowd::guess(scene.gateway.address, OTHER_USER, "bob", 100)?))
        }),
        ("another local user's requests without a login over 100 connections", Directory, |scene| {
            Ok(Box::new(Crowd::ask(scene.gateway.address, OTHER_USER, 100)?))
        }),
        ("another local user resets connections", Directory, |scene| {
            Ok(Box::new(Crowd::reset(scene.gateway.address, OTHER_USER, 4)?))
        }),
        ("200 slow sockets on the metrics port", Directory, |scene| {
            Ok(Box::new(Attack::half_requests(scene.metrics, 200)))
        }),
    ];
    let mut rows = Vec::new();
    let only = std::env::var("STRAIT_BENCH_ATTACK").unwrap_or_default();
    for (name, store, start) in attacks.into_iter().filter(|(name, ..)| name.contains(&only)) {
        rows.extend(beside(name, store, start)?);
    }
    Ok(rows)
}

/// An attack in which one user opens [`OPEN_FILES`] and reads from each, over this number of connections.
fn read_over(scene: &Scene, connections: usize) -> Result<Box<dyn Any>> {
    let log_in = || log_in(scene.gateway.address, "ada", "secret").map_err(|e| format!("{e:?}"));
    put(&mut log_in()?, "/shared/read", READ_MIB + 1)?;
    let clients = (0..connections).map(|_| log_in()).collect::<std::result::Result<_, _>>()?;
    let attack = Attack::many_readers(clients, "/shared/read", OPEN_FILES / connections, READ_MIB << 20);
    Ok(Box::new(attack.map_err(|e| format!("{e:?}"))?))
}

/// Measures a gateway in a quiet time, and then during an attack.
fn beside(name: &str, store: Store, start: Start) -> Result<Vec<Row>> {
    let scene = Scene::new(store)?;
    let quiet = scene.times()?;
    let attack = start(&scene)?;
    let attacked = scene.times()?;
    let scrape = Instant::now();
    http_request("GET", &scene.metrics.to_string(), "/metrics")?;
    let scrape_ms = scrape.elapsed().as_secs_f64() * 1e3;
    drop(attack);
    let (_, most) = scene.gateway.resident_mib()?;
    let row = |call: &str, quiet: &[Duration], attacked: &[Duration]| {
        let (quiet_ms, attacked_ms) = (p99_ms(quiet), p99_ms(attacked));
        let case = format!("{name}: p99 of {call}");
        Row::new(case, "ms", Better::Lower, attacked.len(), &Sample::new(vec![attacked_ms]))
            .with_limit((BOUND_FACTOR * quiet_ms).max(BOUND_MS))
            .with_peer("quiet", quiet_ms)
    };
    Ok(vec![
        row("login", &quiet.login, &attacked.login),
        row("stat", &quiet.stat, &attacked.stat),
        row("put", &quiet.put, &attacked.put),
        Row::new(format!("{name}: memory"), "MiB", Better::Lower, 1, &Sample::new(vec![most]))
            .with_limit(BOUND_MIB),
        Row::new(format!("{name}: metrics"), "ms", Better::Lower, 1, &Sample::new(vec![scrape_ms])),
    ])
}

fn p99_ms(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let rank = (times.len() * 99).div_ceil(100).max(1) - 1;
    times.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// Writes a file of zeroes.
fn put(client: &mut Client, path: &str, mib: usize) -> Result<()> {
    let request = CreateFileRequest { path: Some(path.to_owned()), ..Default::default() };
    let handle = client.v2::<methods::CreateFile>(request).map_err(|e| format!("{e:?}"))?.handle;
    for _ in 0..mib {
        let data = Some(Bytes::from(vec![0; 1 << 20]));
        let request = AppendDataRequest { handle, data, ..Default::default() };
        client.v2::<methods::AppendData>(request).map_err(|e| format!("{e:?}"))?;
    }
    let request = CloseFileRequest { handle, ..Default::default() };
    client.v2::<methods::CloseFile>(request).map_err(|e| format!("{e:?}"))?;
    Ok(())
}

/// Starts Kadoop in one process, with a directory `/shared` that all users may write to. Returns
/// its store's URI, and the clients' key.
pub(super) fn kadoop(dir: &Path) -> Result<(Process, String, String)> {
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new(strait()?);
    command.current_dir(dir).args(["up", "--data", "data", "--listen", &address]);
    let mut process = Process::spawn("up", command, dir)?;
    let said = |process: &Process| {
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        log.lines().find_map(|line| Some(line.split_once("default = ")?.1.trim_end_matches('/').to_owned()))
    };
    process.wait_ready(Duration::from_secs(60), || std::net::TcpStream::connect(&address).is_ok())?;
    if !wait_until(Duration::from_secs(10), || said(&process).is_some()) {
        return Err("strait up printed no store URI".into());
    }
    let uri = said(&process).unwrap_or_default();
    for action in [&["mkdir"][..], &["chmod", "777"]] {
        let mut command = Command::new(strait()?);
        seconds(command.args(action).arg(format!("strait://{address}/shared")))?;
    }
    Ok((process, uri, dir.join("data/kadoop.key").display().to_string()))
}

impl Scene {
    fn new(store: Store) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (data, passwords) = (dir.path().join("data"), dir.path().join("passwords"));
        let (cluster, uri, key) = match store {
            Store::Directory => {
                std::fs::create_dir_all(data.join("shared"))?;
                std::fs::File::create(data.join("endless"))?.set_len(ENDLESS_BYTES)?;
                (None, format!("file://{}", data.display()), None)
            }
            Store::Kadoop => {
                let (cluster, uri, key) = kadoop(dir.path())?;
                (Some(cluster), uri, Some(key))
            }
        };
        for user in ["ada", "bob"] {
            set_password(&passwords, user)?;
        }
        let metrics = format!("127.0.0.1:{}", free_port());
        let passwords = passwords.display().to_string();
        let mut arguments = vec!["--passwords", &passwords, "--metrics", &metrics];
        arguments.extend(key.iter().flat_map(|key| ["--kadoop-key", key.as_str()]));
        let gateway = Gateway::start_with(&uri, None, &arguments)?;
        let seconds = setting("STRAIT_BENCH_SECONDS", 60)? as u64;
        Ok(Self { gateway, metrics: metrics.parse()?, seconds, _kadoop: cluster, _dir: dir })
    }

    /// The durations of bob's calls.
    fn times(&self) -> Result<Times> {
        let (begun, mut times) = (Instant::now(), Times::default());
        while begun.elapsed() < Duration::from_secs(self.seconds) {
            times.measure(self.gateway.address, "bob", "secret", "/shared").map_err(|e| format!("{e:?}"))?;
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    }
}

fn set_password(file: &Path, user: &str) -> Result<()> {
    let mut passwd = Command::new(strait()?)
        .args(["passwd", "--file"])
        .arg(file)
        .arg(user)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = passwd.stdin.take() {
        stdin.write_all(b"secret\n")?;
    }
    let status = passwd.wait()?;
    if status.success() { Ok(()) } else { Err(format!("strait passwd: {status}").into()) }
}

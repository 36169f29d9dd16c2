//! Clients that demand more than their share, without a login or with one. During each attack
//! another user's calls succeed, and the gateway's memory stays bounded. The bounds are wide, since
//! other tests run meanwhile; `make bench SUITE=strangers` measures.

use crate::support::{Gateway, Run, command, fresh};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use strait_testkit::attacks::{Attack, Crowd, Times, log_in};
use strait_testkit::wait::{eventually, pause};
use strait_testkit::{free_port, http_request};

/// Memory that the gateway may take.
const MEMORY_MIB: u64 = 256;
/// Memory that it may take beside clients that send nothing to keep.
const LITTLE_MEMORY_MIB: u64 = 80;
/// Threads that the gateway may have beside one for each processor: one for each call at its store
/// (120), and some others.
const MOST_THREADS: usize = 150;
/// Longer than the longest call during an attack on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Another local user than the gateway's.
const OTHER_USER: u32 = 12_345;
/// Size of a file whose checksum takes longer than a test: the store reads all of it, but it needs
/// no disk space.
const ENDLESS_BYTES: u64 = 1 << 40;

struct Scene {
    gateway: Gateway,
    metrics: String,
}

fn secret(user: &str) -> String {
    format!("{user}'s secret")
}

impl Scene {
    /// A gateway over a directory, for users who log in.
    fn new() -> Self {
        let metrics = format!("127.0.0.1:{}", free_port());
        let flags = |dir: &Path| {
            for user in ["ada", "bob"] {
                let mut passwd = command(dir);
                passwd.args(["passwd", "--file", "passwords", user]);
                Run::of(passwd, format!("{}\n", secret(user)).as_bytes()).ok();
            }
            let data = fresh(dir, "data");
            let endless = std::fs::File::create(data.join("endless")).unwrap();
            endless.set_len(ENDLESS_BYTES).unwrap();
            let passwords = dir.join("passwords");
            ["--store", &format!("file://{}", data.display()), "--metrics", &metrics, "--passwords"]
                .map(str::to_owned)
                .into_iter()
                .chain([passwords.display().to_string()])
                .collect()
        };
        let gateway = Gateway::start(flags);
        eventually("metrics are served", || TcpStream::connect(&metrics).is_ok());
        Self { gateway, metrics }
    }

    fn address(&self) -> SocketAddr {
        self.gateway.address.parse().unwrap()
    }

    /// Bob logs in, asks and writes, a few times.
    fn other_user_works(&self) {
        let mut times = Times::default();
        for _ in 0..5 {
            times.measure(self.address(), "bob", &secret("bob"), "/").unwrap();
        }
        let longest = times.login.iter().chain(&times.stat).chain(&times.put).max().unwrap();
        assert!(*longest < PATIENCE, "{times:?}");
    }

    fn memory_is_bounded(&self, mib: u64) {
        let most = self.gateway.process.most_mib().unwrap();
        assert!(most < mib, "{most} MiB");
    }

    /// The gateway's threads.
    fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.gateway.process.id())).unwrap().count()
    }

    /// A number on the page of metrics.
    fn number(&self, series: &str) -> u64 {
        let page = http_request("GET", &self.metrics, "/metrics").unwrap().body;
        let line =
            page.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{page}"));
        line.trim().parse().unwrap()
    }
}

#[test]
fn strangers_who_announce_large_requests_hold_nobody_up() {
    let scene = Scene::new();
    let _attack = Attack::drip(scene.address(), None, 40, 16 << 20, 150_000);
    scene.other_user_works();
    scene.memory_is_bounded(MEMORY_MIB);
}

#[test]
fn a_user_who_announces_large_requests_and_sends_slowly_holds_nobody_up() {
    let scene = Scene::new();
    let ada = log_in(scene.address(), "ada", &secret("ada")).unwrap();
    let _attack = Attack::drip(scene.address(), ada.token.clone(), 40, 16 << 20, 150_000);
    eventually("the attack holds memory", || scene.number("strait_gateway_buffered_bytes") > 0);
    scene.other_user_works();
    scene.memory_is_bounded(MEMORY_MIB);
}

#[test]
fn a_users_checksums_hold_nobody_up_and_end_when_the_user_leaves() {
    let scene = Scene::new();
    let ada = log_in(scene.address(), "ada", &secret("ada")).unwrap();
    let attack = Attack::checksums(scene.address(), ada.token.clone(), 140, "/endless");
    let number = |what: &str| scene.number(&format!(r#"{what}{{store="file",kind="long"}}"#));
    let running = || number("strait_gateway_store_calls_running");
    eventually("checksums run", || running() > 0);
    scene.other_user_works();
    assert!(running() <= 4, "no more than half of the turns");
    scene.memory_is_bounded(MEMORY_MIB);
    drop(attack);
    // Each of them would take many minutes.
    let waiting = || number("strait_gateway_store_calls_waiting");
    eventually("nothing runs for a user who has left", || running() + waiting() == 0);
}

#[test]
fn calls_that_one_user_makes_at_once_start_few_threads_and_hold_nobody_up() {
    let scene = Scene::new();
    let ada = log_in(scene.address(), "ada", &secret("ada")).unwrap();
    let answers = Arc::default();
    let attack = Attack::stats(scene.address(), &ada.token, 100, "/endless", &answers).unwrap();
    let mut most = 0;
    eventually("the calls are answered", || {
        most = most.max(scene.threads());
        answers.load(Ordering::Relaxed) > 50_000
    });
    scene.other_user_works();
    drop(attack);
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(most <= processors + MOST_THREADS, "{most} threads");
}

/// Bob works, and the gateway's memory is bounded, while a process of another local user demands more
/// than its share.
fn beside_a_crowd(
    what: &str,
    memory_mib: u64,
    begin: impl FnOnce(SocketAddr) -> strait_testkit::Result<Crowd>,
) {
    if !rustix::process::geteuid().is_root() {
        return strait_testkit::skip(what, "root");
    }
    let scene = Scene::new();
    let _crowd = begin(scene.address()).unwrap();
    scene.other_user_works();
    scene.memory_is_bounded(memory_mib);
}

#[test]
fn connections_that_another_local_user_resets_hold_nobody_up() {
    let lasts = Duration::from_secs(10);
    beside_a_crowd("another local user's connections", LITTLE_MEMORY_MIB, |gateway| {
        let crowd = Crowd::reset(gateway, OTHER_USER, 4)?;
        pause("ended connections leave things behind", lasts);
        Ok(crowd)
    });
}

#[test]
fn requests_of_another_local_user_who_has_not_logged_in_hold_nobody_up() {
    beside_a_crowd("another local user's requests", MEMORY_MIB, |gateway| {
        Crowd::ask(gateway, OTHER_USER, 100)
    });
}

#[test]
fn another_local_users_connections_leave_room() {
    beside_a_crowd("another local user's connections", MEMORY_MIB, |gateway| {
        Crowd::start(gateway, OTHER_USER, 4_096)
    });
}

#[test]
fn half_requests_leave_the_metrics_available() {
    let scene = Scene::new();
    let metrics: SocketAddr = scene.metrics.parse().unwrap();
    let _attack = Attack::half_requests(metrics, 200);
    for _ in 0..5 {
        let begun = Instant::now();
        scene.number("strait_gateway_buffered_bytes");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
}

//! Writes to HDFS: by our adapter, directly and through a gateway. The peers are Hadoop's Java client, with
//! its wait for a block's report set to 5 ms and at its default, libhdfs (that client through JNI), and the
//! library `hdfs-native`. Three datanodes run on loopback, with their data in memory.
//!
//! `BENCH_HDFS_MIB`: the large file's size, 1,024 by default. `BENCH_HDFS_FILES`: files of 4 KB, 10,000
//! by default. `BENCH_HDFS_SMALL`: files of 5 bytes, 300 by default. `BENCH_HDFS_ROUNDS`: 5 by default,
//! after one that isn't counted. `BENCH_HDFS_CASES`: parts of the names of the measured cases, separated by
//! semicolons. `BENCH_HDFS_PEERS`: parts of the names of the peers, likewise. `BENCH_HDFS_LIMIT_S`: seconds
//! after which a client ends its files or flushes in a round, 30 by default. The table then says how many
//! it did.

mod adapter;

use crate::Result;
use crate::host::{Gateway, setting};
use crate::kadoop::data_directory;
use crate::pairs::Sample;
use crate::programs::{hdfs_native_orders, hdfs_orders, libhdfs_orders};
use crate::report::{Better, Row};
use crate::stages::cpu_parts;
use adapter::Adapter;
pub use adapter::follow_orders;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use strait_testkit::{MiniHdfs, Options, spawn_bound};

const DATANODES: usize = 3;
const FLUSHES: usize = 1_000;
/// Variable and default of the seconds that a client has for its files or flushes in a round. Only peers that
/// wait for reports need more.
const LIMIT_S: (&str, usize) = ("BENCH_HDFS_LIMIT_S", 30);
/// The Java client's wait for a block's report, in milliseconds.
const WAIT: &str = "dfs.client.block.write.locateFollowingBlock.initial.delay.ms";

/// A piece of work to measure.
#[derive(Debug, Clone)]
enum Work {
    /// One file of `mib` MiB, written in pieces of 1 MiB; MB/s.
    Write { mib: usize, replication: u16 },
    /// Creates `count` files one after the other, and writes 5 bytes to each; milliseconds (p50).
    SmallFiles { count: usize },
    /// `count` files of 4 KB, by `writers` concurrent writers; files a second.
    Files { count: usize, writers: usize },
    /// `count` times, 100 bytes written and then hflush or hsync; microseconds (p50).
    Flushes { count: usize, sync: bool },
}

impl Work {
    fn case(&self) -> String {
        match self {
            Self::Write { mib, replication } => format!("write ×{replication}, {mib} MiB"),
            Self::SmallFiles { .. } => "create, 5 bytes, close (p50)".into(),
            Self::Files { count, writers } => format!("{count} files of 4 KB, writers: {writers}"),
            Self::Flushes { sync: false, .. } => "100 bytes and hflush (p50)".into(),
            Self::Flushes { sync: true, .. } => "100 bytes and hsync (p50)".into(),
        }
    }

    /// Number of the work's steps: MiB, files or flushes.
    fn count(&self) -> usize {
        match self {
            Self::Write { mib, .. } => *mib,
            Self::SmallFiles { count } | Self::Files { count, .. } | Self::Flushes { count, .. } => *count,
        }
    }

    fn unit(&self) -> (&'static str, Better) {
        match self {
            Self::Write { .. } => ("MB/s", Better::Higher),
            Self::SmallFiles { .. } => ("ms", Better::Lower),
            Self::Files { .. } => ("files/s", Better::Higher),
            Self::Flushes { .. } => ("µs", Better::Lower),
        }
    }
}

/// A client's result for a piece of work.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The figure in the work's unit, for the steps that were done.
    value: f64,
    /// Number of steps done; fewer than the work's if the time limit ended it.
    done: usize,
}

/// A client of HDFS.
trait Client {
    /// Does the work at a new path. Does only as many files or flushes as the time limit allows.
    fn measure(&mut self, work: &Work, path: &str) -> Result<Measured>;

    /// The ids of the client's processes.
    fn processes(&self) -> Vec<u32>;
}

/// A client in a separate process, which reads one order a line.
struct Ordered {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ordered {
    fn start(mut command: Command, limit: Duration) -> Result<Self> {
        let mut child = spawn_bound({
            command.env(LIMIT_S.0, limit.as_secs().to_string());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })?;
        let orders = child.stdin.take().ok_or("no pipe to a client")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe from a client")?);
        Ok(Self { child, orders, answers })
    }
}

impl Client for Ordered {
    fn measure(&mut self, work: &Work, path: &str) -> Result<Measured> {
        let order = match work {
            Work::Write { mib, replication } => format!("write {path} {mib} {replication} 1"),
            Work::SmallFiles { count } => format!("small-files {path} {count}"),
            Work::Files { count, writers } => format!("files {path} {count} {writers}"),
            Work::Flushes { count, sync } => format!("flushes {path} {count} {}", u8::from(*sync)),
        };
        writeln!(self.orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(format!("a client failed at {order:?}").into()),
            // The answer is the figure and, for work with a time limit, the number of steps done.
            _ => match answer.trim().split_once(' ') {
                Some((value, done)) => Ok(Measured { value: value.parse()?, done: done.parse()? }),
                None => Ok(Measured { value: answer.trim().parse()?, done: work.count() }),
            },
        }
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.child.id()]
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our client through a gateway. Both processes' CPU time counts.
struct Through {
    client: Adapter,
    gateway: u32,
    _gateway: Gateway,
}

impl Client for Through {
    fn measure(&mut self, work: &Work, path: &str) -> Result<Measured> {
        self.client.measure(work, path)
    }

    fn processes(&self) -> Vec<u32> {
        vec![std::process::id(), self.gateway]
    }
}

/// Figures of one client for one piece of work, and the CPU seconds of the client's processes.
#[derive(Default, Clone)]
struct Figures {
    values: Vec<f64>,
    processor: Vec<f64>,
    /// The part of `processor` in the kernel.
    system: Vec<f64>,
    /// The fewest steps done in a round that the limit ended.
    cut: Option<usize>,
}

impl Figures {
    /// The client's name in the table.
    fn named(&self, name: &str, work: &Work) -> String {
        match self.cut {
            Some(done) => format!("{name} ({done} of {} done in time)", work.count()),
            None => name.to_owned(),
        }
    }
}

pub fn run() -> Result<Vec<Row>> {
    let (mib, files) = (setting("BENCH_HDFS_MIB", 1_024)?, setting("BENCH_HDFS_FILES", 10_000)?);
    let (rounds, small) = (setting("BENCH_HDFS_ROUNDS", 5)?, setting("BENCH_HDFS_SMALL", 300)?);
    let limit = Duration::from_secs(setting(LIMIT_S.0, LIMIT_S.1)? as u64);
    let hdfs = MiniHdfs::start_own(&Options {
        datanodes: DATANODES,
        replication: 1,
        properties: vec![("dfs.namenode.handler.count", "32")],
        parent: Some(data_directory()),
        ..Options::measured()
    })?;
    let mut works = vec![
        Work::SmallFiles { count: small },
        Work::Flushes { count: FLUSHES, sync: false },
        Work::Flushes { count: FLUSHES, sync: true },
        Work::Write { mib, replication: 1 },
        Work::Write { mib, replication: 3 },
    ];
    works.extend([1, 8, 32].map(|writers| Work::Files { count: files, writers }));
    works.retain(|work| is_chosen("BENCH_HDFS_CASES", &work.case()));
    let mut clients = clients(&hdfs, limit)?;
    let mut all = vec![vec![Figures::default(); clients.len()]; works.len()];
    for round in 0..=rounds {
        for (work, figures) in works.iter().zip(&mut all) {
            // Each round begins with another client.
            for turn in 0..clients.len() {
                let at = (round + turn) % clients.len();
                let (name, client) = &mut clients[at];
                let path = format!("/bench-{round}-{at}");
                eprintln!("round {round} of {rounds}: {}: {name}", work.case());
                let before = processor(client.as_ref())?;
                let measured = client.measure(work, &path).map_err(|error| format!("{name}: {error}"))?;
                if round > 0 {
                    let [user, system] = processor(client.as_ref())?;
                    figures[at].processor.push(user + system - before[0] - before[1]);
                    figures[at].system.push(system - before[1]);
                    figures[at].values.push(measured.value);
                    if measured.done < work.count() {
                        figures[at].cut =
                            Some(figures[at].cut.map_or(measured.done, |cut| cut.min(measured.done)));
                    }
                }
                clear(&hdfs)?;
            }
        }
        if round == 0 {
            println!("processor time of the start, of a JVM too, and of the first round:");
            for (name, client) in &clients {
                let [user, system] = processor(client.as_ref())?;
                println!("  {name:<16} {:>6.2} s", user + system);
            }
        }
    }
    let names: Vec<&str> = clients.iter().map(|(name, _)| *name).collect();
    Ok(works.iter().zip(all).map(|(work, figures)| row(work, &names, &figures)).collect())
}

/// All clients: the adapter first, and then its peers.
fn clients(hdfs: &MiniHdfs, limit: Duration) -> Result<Vec<(&'static str, Box<dyn Client>)>> {
    let mut clients: Vec<(&'static str, Box<dyn Client>)> =
        vec![("adapter", Box::new(Adapter::connect(hdfs.uri(), limit)?))];
    let is_wanted = |name| is_chosen("BENCH_HDFS_PEERS", name);
    let start = |command| Ordered::start(command, limit).map(Box::new);
    if is_wanted("gateway") {
        let gateway = Gateway::start(hdfs.uri())?;
        let client = Adapter::connect(&format!("strait://{}", gateway.address), limit)?;
        clients.push(("gateway", Box::new(Through { client, gateway: gateway.id(), _gateway: gateway })));
    }
    if is_wanted("Java, 5 ms") {
        clients.push(("Java, 5 ms", start(hdfs_orders(hdfs, &[(WAIT, "5")])?)?));
    }
    if is_wanted("Java, default") {
        clients.push(("Java, default", start(hdfs_orders(hdfs, &[])?)?));
    }
    if is_wanted("libhdfs, 5 ms") {
        clients.push(("libhdfs, 5 ms", start(libhdfs_orders(hdfs, &[(WAIT, "5")])?)?));
    }
    if is_wanted("hdfs-native") {
        clients.push(("hdfs-native", start(hdfs_native_orders(hdfs)?)?));
    }
    Ok(clients)
}

/// Whether the variable isn't set, or one of its parts occurs in `name`.
fn is_chosen(variable: &str, name: &str) -> bool {
    std::env::var(variable).map_or(true, |chosen| chosen.split(';').any(|part| name.contains(part)))
}

/// CPU seconds of the client's processes so far, in user mode and in the kernel.
fn processor(client: &dyn Client) -> Result<[f64; 2]> {
    client.processes().into_iter().try_fold([0.0, 0.0], |[user, system], process| {
        let [more_user, more_system] = cpu_parts(process)?;
        Ok([user + more_user, system + more_system])
    })
}

/// Removes the written files, so that the data fits in memory.
fn clear(hdfs: &MiniHdfs) -> Result<()> {
    let user = strait_testkit::current_user();
    let call = |method: &str, target: String| {
        strait_testkit::http_request(method, hdfs.http_address(), &target).map(|answer| answer.body)
    };
    let listed = call("GET", format!("/webhdfs/v1/?op=LISTSTATUS&user.name={user}"))?;
    for part in listed.split("\"pathSuffix\":\"").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        call("DELETE", format!("/webhdfs/v1/{name}?op=DELETE&recursive=true&user.name={user}"))?;
    }
    Ok(())
}

/// Makes a row. Also prints the median of the rounds' ratios to each peer, since the JSON has only the
/// clients' medians, and the processor time.
fn row(work: &Work, names: &[&str], figures: &[Figures]) -> Row {
    let (unit, better) = work.unit();
    let ours = &figures[0];
    println!("{}", work.case());
    for (name, figures) in names.iter().zip(figures) {
        let times = ours.values.iter().zip(&figures.values).map(|(ours, theirs)| match better {
            Better::Higher => ours / theirs,
            Better::Lower => theirs / ours,
        });
        let cpu = ours.processor.iter().zip(&figures.processor).map(|(ours, theirs)| ours / theirs);
        println!(
            "  {:<16} {:>10.2} {unit:<8} the adapter is {:>6.2} times as fast, with {:>5.2} of its {:.2} s of \
             processor time, {:.2} s of them in the kernel",
            figures.named(name, work),
            Sample::new(figures.values.clone()).median(),
            Sample::new(times.collect()).median(),
            Sample::new(cpu.collect()).median(),
            Sample::new(figures.processor.clone()).median(),
            Sample::new(figures.system.clone()).median(),
        );
    }
    let sample = Sample::new(ours.values.clone());
    let row = Row::new(ours.named(&work.case(), work), unit, better, ours.values.len(), &sample);
    let peers = names.iter().zip(figures).skip(1);
    peers.fold(row, |row, (name, figures)| {
        row.with_peer(&figures.named(name, work), Sample::new(figures.values.clone()).median())
    })
}

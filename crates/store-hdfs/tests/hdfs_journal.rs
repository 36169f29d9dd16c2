//! Acknowledged bytes outlive faults in mid-write, on a real HDFS: datanodes are killed or stop, links
//! are cut or reset, and another namenode takes over.
//!
//! A child process writes, so that it has a host and a configuration of its own. Its journal has the
//! position up to which the file was flushed or closed.
//!
//! `HDFS_KILLS`: rounds, each with a fault, 4 by default. `HDFS_FIRST_ROUND`: 0 by default; a round's
//! number determines its fault.
use bytes::Bytes;
use rustix::process::Signal;
use std::env;
use std::fmt::{self, Display};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::{pause, pause_task};
use strait_testkit::{MiniHdfs, Network, Options, current_user, skip, spawn_bound};
use tokio::task::JoinHandle;

/// The cluster's URI, for the child process.
const CHILD_URI: &str = "STRAIT_TEST_CHILD_URI";
/// Each of the child's answers begins with this; the test harness's lines don't.
const ANSWER: &str = "@ ";
const RECORD_BYTES: usize = 10_007;
const BLOCK_BYTES: u64 = 2 << 20;
/// Records to write before a fault, and after it.
const RECORDS: usize = 60;
/// Longer than any recovery, and shorter than a test's patience.
const DEADLINE: Duration = Duration::from_secs(120);

const DATANODES: usize = 4;
/// Hosts: the writer's, the namenode's, and then the datanodes'.
const WRITER: usize = 0;
const FIRST_DATANODE: usize = 2;

fn pattern(length: usize) -> Bytes {
    (0..length).map(|index| (index * 31 + index / 251) as u8).collect()
}

/// The child, which takes an order a line.
struct Writer {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    /// Records that it has flushed in the present file.
    records: usize,
}

/// The end of a file's writing.
#[derive(Debug)]
struct Written {
    /// Bytes that the file must have.
    acknowledged: u64,
    longest: Duration,
}

impl Writer {
    fn start(mut command: Command, uri: &str, configuration: &Path) -> Self {
        command.args(["--exact", "hdfs_journal::child_writes_as_ordered", "--ignored", "--nocapture"]);
        command.env(CHILD_URI, uri).env("HADOOP_CONF_DIR", configuration);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_bound(command).unwrap();
        let (orders, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match line.split_once(ANSWER) {
                    Some((_, answer)) if sender.send(answer.to_owned()).is_ok() => {}
                    Some(_) => return,
                    None => eprintln!("child: {line}"),
                }
            }
        });
        Self { child, orders, answers, records: 0 }
    }

    fn order(&mut self, order: impl Display) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// The next answer that begins with `name`, without it.
    fn answer(&mut self, name: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.answers.recv_timeout(left).unwrap_or_else(|_| panic!("no answer {name:?}"));
            let (got, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match got {
                _ if got == name => return rest.to_owned(),
                "at" => self.records = rest.parse().unwrap(),
                _ => panic!("{line:?} in place of {name:?}"),
            }
        }
    }

    fn begin(&mut self, path: &str) {
        self.records = 0;
        self.order(format_args!("write {path}"));
        self.go_on();
    }

    /// Waits until the writer has flushed some more records.
    fn go_on(&mut self) {
        let wanted = self.records + RECORDS;
        while self.records < wanted {
            self.records = self.answer("at").parse().unwrap();
        }
    }

    /// Addresses of the datanodes of the present block, in any order.
    fn members(&mut self, path: &str) -> Vec<String> {
        self.order(format_args!("locate {path}"));
        self.answer("members").split(' ').map(str::to_owned).collect()
    }

    /// Ends the file, by a close or by a drop, and reads it.
    fn end_and_verify(&mut self, path: &str, close: bool) -> Written {
        self.order(if close { "close" } else { "drop" });
        let written = self.answer("written");
        let (acknowledged, milliseconds) = written.split_once(' ').unwrap();
        let acknowledged: u64 = acknowledged.parse().unwrap();
        self.order(format_args!("verify {path}"));
        let length: u64 = self.answer("read").parse().unwrap();
        assert!(length >= acknowledged, "{path}: {length} of {acknowledged} acknowledged bytes");
        Written { acknowledged, longest: Duration::from_millis(milliseconds.parse().unwrap()) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// A fault of a datanode of the pipeline, by its index.
#[derive(Debug, Clone, Copy)]
struct Fault {
    datanode: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Kill,
    Stop(Duration),
    /// All packets between it and the writer and the other datanodes are lost. Without a time, until
    /// the writer goes on without it.
    Cut(Option<Duration>),
    /// The same, but only between it and one other datanode.
    CutFromOne(Duration, usize),
    /// Each packet between it and the writer and the other datanodes is answered by a reset.
    Reset(Duration),
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "datanode {}: {:?}", self.datanode, self.kind)
    }
}

impl Fault {
    /// The fault of a round. Their order doesn't tell the members' places in the pipeline.
    fn of(round: u64, members: &[usize]) -> Self {
        let mut random = Random(round);
        let mut choose = || members[random.below(members.len() as u64) as usize];
        let (datanode, other) = (choose(), choose());
        let time = Duration::from_millis(50 + random.below(3_000));
        let kind = match round % 8 {
            0 | 4 => Kind::Kill,
            1 => Kind::Reset(time / 4),
            2 if other != datanode => Kind::CutFromOne(time, other),
            2 | 6 => Kind::Cut(Some(time)),
            3 => Kind::Stop(time),
            5 => Kind::Reset(Duration::from_millis(10)),
            _ => Kind::Cut(None),
        };
        Self { datanode, kind }
    }

    /// Causes the fault, and ends it. The writer goes on meanwhile.
    fn strike(self, hdfs: &mut MiniHdfs, network: &Network, writer: &mut Writer) {
        let host = FIRST_DATANODE + self.datanode;
        let others: Vec<usize> = [WRITER]
            .into_iter()
            .chain(FIRST_DATANODE..FIRST_DATANODE + DATANODES)
            .filter(|other| *other != host)
            .collect();
        let mut cut = |others: &[usize], time: Option<Duration>| {
            others.iter().for_each(|other| network.cut(host, *other).unwrap());
            match time {
                Some(time) => pause("the fault lasts", time),
                None => writer.go_on(),
            }
            others.iter().for_each(|other| network.mend(host, *other).unwrap());
        };
        match self.kind {
            Kind::Kill => {
                hdfs.stop_datanode(self.datanode);
                writer.go_on();
                hdfs.restart_datanode(self.datanode).unwrap();
            }
            Kind::Stop(time) => {
                hdfs.signal_datanode(self.datanode, Signal::STOP);
                pause("the fault lasts", time);
                hdfs.signal_datanode(self.datanode, Signal::CONT);
            }
            Kind::Cut(time) => cut(&others, time),
            Kind::CutFromOne(time, other) => cut(&[FIRST_DATANODE + other], Some(time)),
            Kind::Reset(time) => {
                others.iter().for_each(|other| network.reset(host, *other).unwrap());
                pause("the fault lasts", time);
                others.iter().for_each(|other| network.end_reset(host, *other).unwrap());
            }
        }
        writer.go_on();
    }
}

#[test]
fn no_acknowledged_byte_is_lost_by_kills_stops_and_cut_links_in_mid_write() {
    if !rustix::process::geteuid().is_root() {
        return skip("no_acknowledged_byte_is_lost_by_kills_stops_and_cut_links_in_mid_write", "root");
    }
    let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, rounds): (u64, u64) = (number("HDFS_FIRST_ROUND", 0), number("HDFS_KILLS", 4));
    let network = Network::start(FIRST_DATANODE + DATANODES, None).unwrap();
    let mut hdfs = MiniHdfs::start_own(&Options {
        datanodes: DATANODES,
        replication: 3,
        // A silent pipeline counts as failed after 17 s: 5 more for each datanode.
        properties: vec![("dfs.client.socket-timeout", "2000")],
        hosts: network.hosts()[1..].to_vec(),
        ..Options::default()
    })
    .unwrap();
    let command = network.host(WRITER).command(env::current_exe().unwrap());
    let mut writer = Writer::start(command, hdfs.uri(), hdfs.configuration());
    let addresses: Vec<String> = (0..DATANODES).map(|index| hdfs.datanode_address(index)).collect();
    let (mut longest, mut acknowledged) = (Vec::new(), 0);
    for round in first..first + rounds {
        let path = format!("/journal-{round}");
        writer.begin(&path);
        let members = writer.members(&path);
        let index = |address: &String| addresses.iter().position(|other| other == address).unwrap();
        let fault = Fault::of(round, &members.iter().map(index).collect::<Vec<_>>());
        fault.strike(&mut hdfs, &network, &mut writer);
        // Some rounds close the file. The others drop its writer.
        let written = writer.end_and_verify(&path, Random(round ^ 1 << 32).below(2) == 0);
        println!("round {round}: {fault}: {written:?}");
        longest.push((written.longest, round));
        acknowledged += written.acknowledged;
    }
    longest.sort();
    println!("{rounds} rounds, {acknowledged} acknowledged bytes, all there; the longest writes:");
    println!("{:?}", longest.iter().rev().take(5).collect::<Vec<_>>());
}

#[test]
fn a_writer_goes_on_at_the_other_namenode() {
    let options = Options { datanodes: 3, replication: 3, standby: true, ..Options::default() };
    let mut hdfs = MiniHdfs::start_own(&options).unwrap();
    let command = Command::new(env::current_exe().unwrap());
    let mut writer = Writer::start(command, hdfs.uri(), hdfs.configuration());
    // Each file gets many blocks, so its writer needs the namenode all the time.
    writer.begin("/killed");
    hdfs.fail_over().unwrap();
    writer.go_on();
    hdfs.fail_over().unwrap();
    writer.go_on();
    println!("active namenode killed twice: {:?}", writer.end_and_verify("/killed", true));
    writer.begin("/handed-over");
    hdfs.hand_over().unwrap();
    writer.go_on();
    hdfs.hand_over().unwrap();
    writer.go_on();
    println!("handed over twice: {:?}", writer.end_and_verify("/handed-over", false));
    // A failover while no call is under way, and between the last byte and the close.
    writer.begin("/closed-elsewhere");
    writer.order("pause");
    writer.answer("pauses");
    hdfs.fail_over().unwrap();
    println!("closed elsewhere: {:?}", writer.end_and_verify("/closed-elsewhere", true));
}

/// The file that the child writes at present.
struct Present {
    ends: Arc<AtomicBool>,
    writing: JoinHandle<(Box<dyn FileWriter>, u64, Duration)>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child process of the tests above"]
async fn child_writes_as_ordered() {
    let store = HdfsStore::connect(&env::var(CHILD_URI).unwrap()).await.unwrap();
    let me = Principal::new(&current_user());
    let path = |text: &str| StorePath::parse(text).unwrap();
    let mut present: Option<Present> = None;
    let mut at = String::new();
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    while let Some(order) = orders.recv().await {
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["write", file] => {
                file.clone_into(&mut at);
                let options = CreateOptions { block_size: Some(BLOCK_BYTES), ..CreateOptions::default() };
                let writer = store.create(&me, &path(file), &options).await.unwrap();
                let ends = Arc::new(AtomicBool::new(false));
                let writing = tokio::spawn(write(writer, Arc::clone(&ends)));
                present = Some(Present { ends, writing });
            }
            ["locate", file] => {
                let blocks = store.block_locations(&me, &path(file), 0..u64::MAX).await.unwrap();
                println!("{ANSWER}members {}", blocks.last().unwrap().addresses.join(" "));
            }
            ["pause"] => {
                let Present { ends, writing } = present.take().unwrap();
                ends.store(true, Ordering::Relaxed);
                let written = writing.await.unwrap();
                present = Some(Present { ends, writing: tokio::spawn(async { written }) });
                println!("{ANSWER}pauses");
            }
            [how @ ("close" | "drop")] => {
                let Present { ends, writing } = present.take().unwrap();
                ends.store(true, Ordering::Relaxed);
                let (mut writer, mut acknowledged, longest) = writing.await.unwrap();
                let begin = Instant::now();
                if how == "close" {
                    acknowledged = writer.position();
                    writer.close().await.unwrap();
                } else {
                    drop(writer);
                    store.append(&me, &path(&at)).await.unwrap().close().await.unwrap();
                }
                let longest = longest.max(begin.elapsed());
                println!("{ANSWER}written {acknowledged} {}", longest.as_millis());
            }
            ["verify", file] => {
                let content = store.read_all(&me, &path(file), 1 << 30).await.unwrap();
                let record = pattern(RECORD_BYTES);
                let is_right = content.chunks(RECORD_BYTES).all(|chunk| *chunk == record[..chunk.len()]);
                assert!(is_right, "{file}: other bytes than those written");
                store.remove(&me, &path(file), false).await.unwrap();
                println!("{ANSWER}read {}", content.len());
            }
            _ => panic!("no order {order:?}"),
        }
    }
}

/// Writes records until told to end. Returns the writer, the flushed bytes, and the longest time of a
/// write or flush.
async fn write(
    mut writer: Box<dyn FileWriter>,
    ends: Arc<AtomicBool>,
) -> (Box<dyn FileWriter>, u64, Duration) {
    let record = pattern(RECORD_BYTES);
    let (mut flushed, mut longest) = (0, Duration::ZERO);
    for number in 1.. {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let begin = Instant::now();
        writer.append(record.clone()).await.unwrap();
        if number % 3 == 0 {
            writer.flush().await.unwrap();
            flushed = writer.position();
            println!("{ANSWER}at {number}");
        }
        longest = longest.max(begin.elapsed());
        // Some MB/s, so that a fault comes in mid-write and files stay small.
        pause_task("the pace of the writer", Duration::from_millis(2)).await;
    }
    (writer, flushed, longest)
}

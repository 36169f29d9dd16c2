//! Kadoop in this process: namenode, datanodes and client, which communicate over ordinary sockets.

use super::{DATANODES, Operation, System, Work, data_directory};
use crate::Result;
use crate::pairs::Sample;
use bytes::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};
use strait_kadoop_client::{Client, ClientOptions};
use strait_kadoop_client::{CreateOptions, Reader, Writer};
use strait_kadoop_core::messages::Caller;
use strait_kadoop_core::{Config, Error};
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::{Failure, Key};
use strait_testkit::{Host, wait_until};
use tempfile::TempDir;

const START_DEADLINE: Duration = Duration::from_secs(30);
const PIECE_BYTES: usize = 1 << 20;
const PREAD_BYTES: usize = 4_096;
const SMALL: &str = "12345";

/// Result of a measurement's thread.
type Said<T> = std::result::Result<T, String>;

/// A running cluster and its clients. A drop ends them, the servers last.
pub struct Cluster {
    /// A client that reads only over TCP, as a client on another host does.
    client: Client,
    /// A client with short-circuit reads.
    past: Client,
    reads_past: bool,
    caller: Caller,
    piece: Bytes,
    /// The client's host.
    host: Option<Host>,
    _datanodes: Vec<DatanodeServer>,
    _namenode: NamenodeServer,
    _directory: TempDir,
}

impl Cluster {
    /// Starts a cluster. If there are hosts, the client runs on the first, the namenode on the second, and a
    /// datanode on each other one. Otherwise, all use loopback.
    pub fn start(hosts: &[Host]) -> Result<Self> {
        let datanodes = hosts.len().checked_sub(2).unwrap_or(DATANODES);
        let directory = TempDir::with_prefix_in("strait-kadoop-", data_directory())?;
        let key = Key::generate()?;
        let config = Config { safe_mode_extra_ms: 0, ..Config::default() };
        let listen =
            |host: Option<&Host>| SocketAddr::from((host.map_or(Ipv4Addr::LOCALHOST, Host::address), 0));
        let namenode_host = hosts.get(1);
        let options = NamenodeOptions {
            config,
            listen: listen(namenode_host),
            listen_datanodes: listen(namenode_host),
            ..NamenodeOptions::new(directory.path().join("namenode"), key.clone())
        };
        let namenode = at(namenode_host, || NamenodeServer::start(options))?;
        let address = namenode.address().to_string();
        let datanode = |number: usize| {
            let host = hosts.get(2 + number);
            let directories = vec![directory.path().join(format!("datanode-{number}"))];
            let options = DatanodeOptions {
                listen: listen(host),
                ..DatanodeOptions::new(directories, address.clone(), key.clone())
            };
            at(host, || DatanodeServer::start(options))
        };
        let servers = (0..datanodes).map(datanode).collect::<io::Result<Vec<_>>>()?;
        let host = hosts.first().cloned();
        let (client, past) = at(host.as_ref(), || {
            let connect = |short_circuit| {
                let options = ClientOptions::new(address.clone(), key.for_clients());
                Client::connect(ClientOptions { short_circuit, ..options }).map_err(text)
            };
            let (client, past) = (connect(false)?, connect(true)?);
            let whole =
                || client.status().is_ok_and(|status| !status.safe_mode && status.nodes.len() == datanodes);
            match wait_until(START_DEADLINE, whole) {
                true => Ok((client, past)),
                false => Err(format!("Kadoop isn't ready after {START_DEADLINE:?}")),
            }
        })?;
        let piece = (0..PIECE_BYTES).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect();
        Ok(Self {
            client,
            past,
            reads_past: false,
            caller: Caller { user: "kadoop".into(), groups: Vec::new(), session: None },
            piece,
            host,
            _datanodes: servers,
            _namenode: namenode,
            _directory: directory,
        })
    }

    /// Switches short-circuit reads on or off.
    pub fn read_past_datanodes(&mut self, past: bool) {
        self.reads_past = past;
    }

    fn reader(&self, path: &str) -> std::result::Result<Reader, Failure> {
        let client = if self.reads_past { &self.past } else { &self.client };
        client.open(&self.caller, path)
    }

    fn work(&self, work: &Work, round: usize) -> Said<f64> {
        match work {
            Work::Write { path, mib, replication, threads } => self.write(path, *mib, *replication, *threads),
            Work::WriteMany { path, files, mib, replication, threads } => {
                self.write_many(path, *files, *mib, *replication, *threads)
            }
            Work::ReadAtRandom { path, files, reads, threads } => {
                self.read_at_random(path, *files, *reads, *threads)
            }
            Work::Read { path, threads, .. } => self.read(path, *threads),
            Work::Preads { path, count } => self.preads(&format!("{path}-0"), *count).map_err(text),
            Work::SmallFiles { directory, count } => {
                self.small_files(&format!("{directory}-{round}"), *count).map_err(text)
            }
            Work::OpenAndRead { directory, count } => {
                self.open_and_read(&format!("{directory}-{round}"), *count).map_err(text)
            }
            Work::Calls { operation, threads, milliseconds } => {
                let time = Duration::from_millis(*milliseconds as u64);
                self.calls(*operation, &format!("/calls-{threads}-{round}"), *threads, time)
            }
        }
    }

    fn write(&self, path: &str, mib: usize, replication: u16, threads: usize) -> Said<f64> {
        self.write_many(path, threads, mib, replication, threads)
    }

    fn write_many(
        &self,
        path: &str,
        files: usize,
        mib: usize,
        replication: u16,
        threads: usize,
    ) -> Said<f64> {
        for file in 0..files {
            match self.client.delete(&self.caller, &format!("{path}-{file}"), false) {
                Err(failure) if failure.error != Error::NotFound => return Err(text(failure)),
                _ => {}
            }
        }
        let start = Instant::now();
        let bytes = in_turn(files, threads, |file| {
            let mut writer = self.create(&format!("{path}-{file}"), replication)?;
            for _ in 0..mib {
                writer.write(self.piece.clone())?;
            }
            writer.close()?;
            Ok(writer.length())
        })?;
        Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
    }

    fn create(&self, path: &str, replication: u16) -> std::result::Result<Writer, Failure> {
        self.client.create(&self.caller, path, &CreateOptions { replication, ..CreateOptions::default() })
    }

    fn read(&self, path: &str, threads: usize) -> Said<f64> {
        let start = Instant::now();
        let bytes = in_threads(threads, |thread| self.read_whole(&format!("{path}-{thread}")))?;
        Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
    }

    fn read_at_random(&self, path: &str, files: usize, reads: usize, threads: usize) -> Said<f64> {
        let start = Instant::now();
        let bytes = in_turn(reads, threads, |number| {
            // Knuth's multiplier; the upper half is random enough.
            let random = (number as u64 + 1).wrapping_mul(6_364_136_223_846_793_005) >> 32;
            self.read_whole(&format!("{path}-{}", random as usize % files))
        })?;
        Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
    }

    fn read_whole(&self, path: &str) -> std::result::Result<u64, Failure> {
        let mut reader = self.reader(path)?;
        let mut sum = 0;
        loop {
            match reader.read(PIECE_BYTES)?.len() {
                0 => return Ok(sum),
                count => sum += count as u64,
            }
        }
    }

    fn preads(&self, path: &str, count: usize) -> std::result::Result<f64, Failure> {
        let reader = self.reader(path)?;
        let pages = reader.length() / PREAD_BYTES as u64;
        let mut state = 1_u64;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            // Knuth's generator; its upper half is random enough.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = Instant::now();
            reader.read_at((state >> 32) % pages * PREAD_BYTES as u64, PREAD_BYTES)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(Sample::new(times).median())
    }

    fn small_files(&self, directory: &str, count: usize) -> std::result::Result<f64, Failure> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            let start = Instant::now();
            let mut writer = self.create(&format!("{directory}/{number}"), 1)?;
            writer.write(SMALL)?;
            writer.close()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Sample::new(times).median())
    }

    fn open_and_read(&self, directory: &str, count: usize) -> std::result::Result<f64, Failure> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            let start = Instant::now();
            self.reader(&format!("{directory}/{number}"))?.read_at(0, SMALL.len())?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(Sample::new(times).median())
    }

    fn calls(&self, operation: Operation, directory: &str, threads: usize, time: Duration) -> Said<f64> {
        let start = Instant::now();
        let done = in_threads(threads, |thread| {
            let root = format!("{directory}/{thread}");
            let mut done = 0;
            while (done == 0 || start.elapsed() < time) && self.call(operation, &root, done)? {
                done += 1;
            }
            Ok(done as u64)
        })?;
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }

    /// Makes one call. False: the names that the previous operation made are used up.
    fn call(&self, operation: Operation, root: &str, at: usize) -> std::result::Result<bool, Failure> {
        let (client, caller) = (&self.client, &self.caller);
        let done = match operation {
            Operation::Mkdirs => {
                client.mkdirs(caller, &format!("{root}/directory-{at}"), 0o755).map(|()| true)
            }
            Operation::Stat => client.stat(caller, &format!("{root}/directory-0")).map(|_| true),
            Operation::Create => self
                .create(&format!("{root}/file-{at}"), 1)
                .and_then(|mut writer| writer.close())
                .map(|_| true),
            Operation::Rename => {
                let (from, to) = (format!("{root}/file-{at}"), format!("{root}/moved-{at}"));
                client.rename(caller, &from, &to, false).map(|()| true)
            }
            Operation::Delete => client.delete(caller, &format!("{root}/moved-{at}"), false),
        };
        match done {
            Err(failure) if failure.error == Error::NotFound => Ok(false),
            done => done,
        }
    }
}

impl System for Cluster {
    fn measure(&mut self, work: &Work, round: usize) -> Result<f64> {
        let this = &*self;
        let figure = at(this.host.as_ref(), || this.work(work, round));
        Ok(figure.map_err(|said| format!("Kadoop: {work:?}: {said}"))?)
    }
}

/// Runs `work` on a host of a network or, without a host, here. Threads that `work` starts run on the same
/// host.
fn at<T: Send>(host: Option<&Host>, work: impl FnOnce() -> T + Send) -> T {
    match host {
        Some(host) => host.run(work),
        None => work(),
    }
}

/// Runs `work` with each thread's number in a separate thread, and returns the sum of the results.
fn in_threads(threads: usize, work: impl Fn(usize) -> std::result::Result<u64, Failure> + Sync) -> Said<u64> {
    let work = &work;
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        let ends =
            all.into_iter().map(|thread| thread.join().map_err(|_| "panicked".to_owned())?.map_err(text));
        ends.collect::<Vec<_>>().into_iter().sum()
    })
}

/// Runs `count` pieces of work in `threads` threads, and returns the sum of the results. A free thread takes
/// the next piece.
fn in_turn(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> std::result::Result<u64, Failure> + Sync,
) -> Said<u64> {
    let next = AtomicUsize::new(0);
    in_threads(threads, |_| {
        let mut sum = 0;
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                number if number < count => sum += work(number)?,
                _ => return Ok(sum),
            }
        }
    })
}

fn text(failure: Failure) -> String {
    failure.to_string()
}

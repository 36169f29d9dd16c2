//! Contests of programs that read in turn, and the results.

use super::files::Files;
use super::place::{Place, Placement, Volume};
use crate::Result;
use crate::host::on;
use crate::pairs::Sample;
use crate::programs::{Copying, Programs};
use crate::report::{Better, Row};
use crate::stages::{Times, staged, whole};
use std::process::Command;
use strait_testkit::MiniHdfs;

/// A contestant: a program that reads.
pub struct Contestant<'a> {
    name: String,
    /// The placement of the gateway, if it is one of our clients.
    placement: Option<Placement>,
    staged: bool,
    place: &'a Place,
    command: Box<Reader<'a>>,
}

/// Makes a client's command from its number, its remote path and its local path.
type Reader<'a> = dyn Fn(usize, &str, &str) -> Command + 'a;

impl<'a> Contestant<'a> {
    pub fn native_java(
        programs: &Programs,
        place: &'a Place,
        hdfs: &'a MiniHdfs,
        buffer: usize,
    ) -> Result<Self> {
        let java = programs.native_java(hdfs.classpath())?;
        let command = move |_: usize, remote: &str, local: &str| {
            java(&[hdfs.uri(), remote, local, &buffer.to_string()])
        };
        Ok(Self::peer(format!("native Java, {buffer} B"), true, place, command))
    }

    pub fn libhdfs(programs: &'a Programs, place: &'a Place, hdfs: &'a MiniHdfs, buffer: usize) -> Self {
        let command = move |_: usize, remote: &str, local: &str| {
            let mut command = programs.libhdfs(hdfs.classpath());
            let address = hdfs.uri().trim_start_matches("hdfs://");
            let (host, port) = address.split_once(':').unwrap_or((address, "8020"));
            command.args([host, port, remote, local, &buffer.to_string()]);
            command
        };
        Self::peer(format!("libhdfs, {buffer} B"), true, place, command)
    }

    /// GlusterFS's own library.
    pub fn libgfapi(place: &'a Place, volume: &'a Volume, buffer: usize) -> Self {
        let command = move |_: usize, remote: &str, local: &str| {
            let mut command = Command::new(&volume.native);
            command.args(["localhost", &volume.name, remote, local, &buffer.to_string()]);
            command
        };
        Self::peer(format!("libgfapi, {buffer} B"), true, place, command)
    }

    pub fn hdfs_native(programs: &'a Programs, place: &'a Place, hdfs: &'a MiniHdfs) -> Self {
        let command = move |_: usize, remote: &str, local: &str| {
            let mut command = programs.peer("hdfs-native-get");
            command.args([hdfs.uri(), remote, local]);
            command
        };
        Self::peer("hdfs-native".into(), true, place, command)
    }

    pub fn fs_shell(place: &'a Place, hdfs: &'a MiniHdfs) -> Self {
        let command = move |_: usize, remote: &str, local: &str| {
            let mut command = Command::new("java");
            command.args(["-cp", hdfs.classpath(), "org.apache.hadoop.fs.FsShell"]);
            command.args(["-fs", hdfs.uri(), "-get", remote, local]);
            command
        };
        Self::peer("FsShell -get".into(), false, place, command)
    }

    fn peer(
        name: String,
        staged: bool,
        place: &'a Place,
        command: impl Fn(usize, &str, &str) -> Command + 'a,
    ) -> Self {
        Self { name, placement: None, staged, place, command: Box::new(command) }
    }

    /// Our client in each language.
    pub fn ours(
        programs: &'a Programs,
        place: &'a Place,
        placement: Placement,
        blocking: Option<usize>,
    ) -> Vec<Self> {
        type Program = fn(&Programs, &str, &Copying) -> Command;
        let languages: [(&str, Program); 3] =
            [("C++", Programs::cpp), ("Java", Programs::java), ("Python", Programs::python)];
        let suffix = match (place.gateway_placements().len(), placement) {
            (1, _) => "",
            (_, Placement::Alone) => ", one gateway alone",
            (_, Placement::Beside) => ", gateways beside",
        };
        let contestant = |(language, program): (&str, Program)| Self {
            name: format!("{language}{suffix}"),
            placement: Some(placement),
            staged: true,
            place,
            command: Box::new(move |client, remote, local| {
                let (remote, local) = (remote.to_owned(), local.to_owned());
                let copying = Copying { action: "get", remote, local, blocking, ca: None };
                program(programs, &place.gateway(client, placement).address.to_string(), &copying)
            }),
        };
        languages.into_iter().map(contestant).collect()
    }

    fn run(&self, files: &Files) -> Result<Run> {
        files.remove_targets();
        let commands = (0..files.clients).map(|client| {
            let local = files.local(client);
            let mut command = (self.command)(client, &files.remote(client), &local.to_string_lossy());
            on(self.place.client_host(client), &mut command);
            command
        });
        let before = self.place.gateways_cpu_seconds()?;
        let times = (if self.staged { staged } else { whole })(commands.collect())?;
        Ok(Run { times, gateway_cpu_s: self.place.gateways_cpu_seconds()? - before })
    }
}

struct Run {
    times: Times,
    gateway_cpu_s: f64,
}

/// Runs rounds in which each contestant has its turn. The first round isn't counted; instead, the written
/// files are checked. The first contestant is the reference for the others. For whole processes, the
/// reference is the contestant without stages.
pub fn contest(title: &str, files: Files, runs: usize, mut contestants: Vec<Contestant>) -> Result<Vec<Row>> {
    let unwanted = std::env::var("STRAIT_BENCH_WITHOUT").unwrap_or_default();
    let unwanted = unwanted.split(',').filter(|part| !part.is_empty());
    let first = contestants.first().map(|contestant| contestant.name.clone());
    contestants.retain(|contestant| {
        Some(&contestant.name) == first.as_ref()
            || !unwanted.clone().any(|part| contestant.name.contains(part))
    });
    let mut all: Vec<Vec<Run>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..=runs {
        for (contestant, done) in contestants.iter().zip(&mut all) {
            let run = contestant.run(&files).map_err(|error| format!("{}: {error}", contestant.name))?;
            match round {
                0 => files.compare().map_err(|error| format!("{}: {error}", contestant.name))?,
                _ => done.push(run),
            }
        }
    }
    files.remove_targets();
    let results = Results { title, files: &files, contestants: &contestants, runs: &all };
    if let Some(rate) = contestants.first().and_then(|contestant| contestant.place.link_rate) {
        println!("a bare stream by one link: {rate:.1} MB/s");
    }
    println!("{}", results.table());
    Ok(results.rows())
}

struct Results<'a> {
    title: &'a str,
    files: &'a Files,
    contestants: &'a [Contestant<'a>],
    runs: &'a [Vec<Run>],
}

type Figure = fn(&Run) -> f64;
const STARTUP: Figure = |run| run.times.startup_s;
const TRANSFER: Figure = |run| run.times.work_s;
const WHOLE: Figure = |run| run.times.whole_s;

impl Results<'_> {
    fn gigabytes(&self) -> f64 {
        self.files.bytes as f64 * self.files.clients as f64 / 1e9
    }

    fn sample(&self, index: usize, figure: impl Fn(&Run) -> f64) -> Sample {
        Sample::new(self.runs[index].iter().map(figure).collect())
    }

    /// Median of the rounds' ratios.
    fn ratio(&self, index: usize, other: usize, figure: Figure) -> f64 {
        let pairs = self.runs[index].iter().zip(&self.runs[other]);
        Sample::new(pairs.map(|(a, b)| figure(a) / figure(b)).collect()).median()
    }

    fn shell(&self) -> Option<usize> {
        self.contestants.iter().position(|contestant| !contestant.staged)
    }

    fn cpu(&self, index: usize) -> (Sample, Sample) {
        let gigabytes = self.gigabytes();
        let client = self.sample(index, |run| run.times.cpu_s / gigabytes);
        (client, self.sample(index, |run| run.gateway_cpu_s / gigabytes))
    }

    /// The table for people.
    fn table(&self) -> String {
        let mut out = format!(
            "{}: {:.3} GB each, {} rounds\n{:<34} {:>8} {:>8} {:>7} {:>7} {:>8} {:>7} {:>7} {:>8}\n",
            self.title,
            self.files.bytes as f64 / 1e9,
            self.runs.first().map_or(0, Vec::len),
            "",
            "start s",
            "transf s",
            "MB/s",
            "÷ first",
            "whole s",
            "÷ shell",
            "CPU/GB",
            "gateway",
        );
        for (index, contestant) in self.contestants.iter().enumerate() {
            let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2}"));
            let staged = |figure: Figure| contestant.staged.then(|| self.sample(index, figure).median());
            let (client, gateway) = self.cpu(index);
            out += &format!(
                "{:<34} {:>8} {:>8} {:>7} {:>7} {:>8.2} {:>7} {:>7.2} {:>8.2}\n",
                contestant.name,
                number(staged(STARTUP)),
                number(staged(TRANSFER)),
                number(staged(TRANSFER).map(|seconds| self.gigabytes() * 1e3 / seconds)),
                number(contestant.staged.then(|| self.ratio(index, 0, TRANSFER))),
                self.sample(index, WHOLE).median(),
                number(self.shell().map(|shell| self.ratio(index, shell, WHOLE))),
                client.median(),
                gateway.median(),
            );
        }
        out
    }

    /// The rows for scripts: one for each of our clients.
    fn rows(&self) -> Vec<Row> {
        let ours =
            self.contestants.iter().enumerate().filter(|(_, contestant)| contestant.placement.is_some());
        ours.flat_map(|(index, contestant)| self.rows_of(index, &contestant.name)).collect()
    }

    fn rows_of(&self, index: usize, name: &str) -> Vec<Row> {
        let runs = self.runs[index].len();
        let row = |what: &str, unit: &str, sample: &Sample| {
            Row::new(format!("{}: {name}, {what}", self.title), unit, Better::Lower, runs, sample)
        };
        let mut transfer = row("transfer", "s", &self.sample(index, TRANSFER));
        transfer.limit = Some(self.sample(0, TRANSFER).median());
        transfer.ratio_to_limit = Some(self.ratio(index, 0, TRANSFER));
        let mut whole = row("whole process", "s", &self.sample(index, WHOLE));
        if let Some(shell) = self.shell() {
            whole.limit = Some(self.sample(shell, WHOLE).median());
            whole.ratio_to_limit = Some(self.ratio(index, shell, WHOLE));
        }
        let (client, gateway) = self.cpu(index);
        let mut client = row("CPU of the client", "s/GB", &client);
        for (peer, contestant) in
            self.contestants.iter().enumerate().filter(|(_, other)| other.placement.is_none())
        {
            if contestant.staged {
                transfer = transfer.with_peer(&contestant.name, self.sample(peer, TRANSFER).median());
            }
            client = client.with_peer(&contestant.name, self.cpu(peer).0.median());
        }
        let startup = row("start-up", "s", &self.sample(index, STARTUP));
        let startup = startup.with_peer(&self.contestants[0].name, self.sample(0, STARTUP).median());
        let mut rows = vec![transfer, startup, whole, client, row("CPU of the gateway", "s/GB", &gateway)];
        let contestant = &self.contestants[index];
        if let (Some(Placement::Alone), Some(link)) = (contestant.placement, contestant.place.link_rate) {
            let megabytes = self.gigabytes() * 1e3;
            let rate = self.sample(index, |run| megabytes / run.times.work_s);
            let case = format!("{}: {name}, all clients together; limit: its link", self.title);
            rows.push(Row::new(case, "MB/s", Better::Higher, runs, &rate).with_limit(link));
        }
        rows
    }
}

//! The experiment of the article on pushing code to data: MD5s of all files, by programs that pull the bytes,
//! and by commands that run on the data's hosts. A client, a namenode and data hosts in network namespaces
//! have links of 1 Gbit/s; each data host has an ssh server. Files have one replica. All ways must print the
//! same digests. Needs root, `sshd`, Java and GNU parallel.
//!
//! `BENCH_CODE_HOSTS`: data hosts, 3 by default (7 in the article). `BENCH_CODE_FILES`: files, 24 by default
//! (100 in the article). `BENCH_CODE_MB`: a file's size, 30 by default. `BENCH_CODE_ROUNDS`: rounds, 3 by
//! default. `BENCH_CODE_SHELL_FILES`: files that Hadoop's shell reads in a round, 2 by default.
//! `BENCH_CODE_SMALL_FILES`: files for a command that does nothing, 1,000 by default.

mod programs;
mod site;

use crate::Result;
use crate::host::{make_file, setting};
use crate::kadoop::{Kind, data_directory};
use crate::pairs::Sample;
use crate::report::{Better, Row};
use programs::Programs;
use site::Site;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Bound of the time of a command that does nothing, on a host with an open connection.
const NOTHING_MS: f64 = 2.0;
/// The way with which the others are compared.
const OURS: &str = "strait run";

/// The measured case.
struct Scale {
    hosts: usize,
    files: usize,
    mb: usize,
    rounds: usize,
    shell_files: usize,
    small_files: usize,
}

impl Scale {
    fn read() -> Result<Self> {
        let files = setting("BENCH_CODE_FILES", 24)?.max(1);
        Ok(Self {
            hosts: setting("BENCH_CODE_HOSTS", 3)?.max(1),
            files,
            mb: setting("BENCH_CODE_MB", 30)?,
            rounds: setting("BENCH_CODE_ROUNDS", 3)?.max(1),
            shell_files: setting("BENCH_CODE_SHELL_FILES", 2)?.min(files),
            small_files: setting("BENCH_CODE_SMALL_FILES", 1_000)?,
        })
    }
}

pub fn run() -> Result<Vec<Row>> {
    let scale = Scale::read()?;
    let programs = Programs::build()?;
    let inputs = Inputs::make(&scale)?;
    let mut rows = Vec::new();
    for kind in [Kind::Kadoop, Kind::Hdfs] {
        let site = Site::start(kind, scale.hosts, &programs, inputs.dir.path())?;
        site.put(&inputs.files, "/data")?;
        rows.extend(compare(&site, &scale, &inputs)?);
        if kind == Kind::Kadoop {
            rows.extend(nothing(&site, &scale)?);
        }
    }
    Ok(rows)
}

/// The files and their digests.
struct Inputs {
    dir: tempfile::TempDir,
    files: Vec<PathBuf>,
    digests: Vec<String>,
}

impl Inputs {
    fn make(scale: &Scale) -> Result<Self> {
        let dir = tempfile::TempDir::with_prefix_in("strait-inputs-", data_directory())?;
        let first = dir.path().join("first");
        make_file(&first, scale.mb)?;
        let content = std::fs::read(&first)?;
        std::fs::remove_file(first)?;
        let mut files = Vec::new();
        for number in 0..scale.files {
            let path = dir.path().join(format!("file-{number:03}"));
            // Give each file another beginning, and so another digest.
            let mut own = content.clone();
            own[..8].copy_from_slice(&(number as u64).to_be_bytes());
            std::fs::write(&path, own)?;
            files.push(path);
        }
        let digests = digests(&output(Command::new("md5sum").args(&files))?);
        Ok(Self { dir, files, digests })
    }

    /// Seconds for the digests of all files on this machine, with all processors, and with the bytes from
    /// pipes.
    fn limit(&self) -> Result<f64> {
        let each =
            "nproc=$(nproc); printf '%s\\n' \"$0\"/file-* | xargs -P \"$nproc\" -I@ sh -c 'cat @ | md5sum'";
        let (took, told) = timed(Command::new("sh").args(["-c", each]).arg(self.dir.path()))?;
        self.check("the limit", &told, self.digests.len())?;
        Ok(took)
    }

    /// Fails unless `told` has the digests of the first `files` files, each once.
    fn check(&self, way: &str, told: &str, files: usize) -> Result<()> {
        let mut expected = self.digests[..files].to_vec();
        let mut found = digests(told);
        expected.sort_unstable();
        found.sort_unstable();
        if found == expected { Ok(()) } else { Err(format!("{way} printed other digests:\n{told}").into()) }
    }
}

/// The words of `text` that are MD5s.
fn digests(text: &str) -> Vec<String> {
    let is_digest = |word: &&str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_whitespace().filter(is_digest).map(str::to_owned).collect()
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {told}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command. Returns the seconds that it took, and its output.
fn timed(command: &mut Command) -> Result<(f64, String)> {
    let start = Instant::now();
    let told = output(command)?;
    Ok((start.elapsed().as_secs_f64(), told))
}

/// A way to get the digests: its name, its script, and the number of files that it reads.
struct Way {
    name: &'static str,
    script: String,
    files: usize,
}

fn ways(kind: Kind, scale: &Scale) -> Vec<Way> {
    let all = |name, script: &str| Way { name, script: script.to_owned(), files: scale.files };
    let push = |name, ending: &str| {
        let script = format!(
            "rm -rf in out; mkdir in out; \"$PROGRAM\" hosts <paths | while read -r path host; do \
             echo \"$path\" >>\"in/$host\"; done; \
             for host in $(ls in); do $SSH \"$host\" \"$PROGRAM <$PWD/in/$host >$PWD/out/$host\" {ending} done; \
             wait; cat out/*"
        );
        Way { name, script, files: scale.files }
    };
    let mut ways = vec![
        all(OURS, "\"$STRAIT\" run --ssh \"$SSH\" - -- md5sum <uris"),
        all("strait cat each", "while read -r uri; do \"$STRAIT\" cat \"$uri\" | md5sum; done <uris"),
        all("C++ on our libhdfs", "\"$PROGRAM\" <paths"),
        push("ssh one by one", ";"),
        push("ssh in parallel", "&"),
        all(
            "GNU parallel",
            "parallel --will-cite --plain -k -j \"$(nproc)\" --sshlogin \"$LOGINS\" \"$STRAIT cat {} | md5sum\" :::: uris",
        ),
    ];
    if kind == Kind::Hdfs {
        ways.push(all("C++ on Hadoop's libhdfs", "LD_LIBRARY_PATH=\"$JNI\" \"$PROGRAM\" <paths"));
        let script = format!(
            "head -n {} paths | while read -r path; do java -cp \"$CLASSPATH\" org.apache.hadoop.fs.FsShell -cat \"$path\" \
             | md5sum; done",
            scale.shell_files
        );
        ways.push(Way { name: "FsShell -cat each", script, files: scale.shell_files });
    }
    ways
}

/// Runs rounds in which each way has its turn. Figures are milliseconds for each file, since the ways don't
/// all read the same number of files.
fn compare(site: &Site, scale: &Scale, inputs: &Inputs) -> Result<Vec<Row>> {
    let ways = ways(site.kind, scale);
    let bytes = (scale.files * scale.mb) as f64 * f64::from(1 << 20);
    let mut figures: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    let (mut limits, mut ratios, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    // Don't count the first round, in which programs and files are read for the first time.
    for round in 0..=scale.rounds {
        let limit = inputs.limit()? * 1e3 / scale.files as f64;
        for (way, figures) in ways.iter().zip(&mut figures) {
            let before = site.servers.sent_by_data_hosts()?;
            let (took, told) = timed(&mut site.script(&way.script))?;
            inputs.check(way.name, &told, way.files)?;
            let each = took * 1e3 / way.files as f64;
            println!("{}, {}, round {round}: {each:.1} ms a file", site.kind.name(), way.name);
            if round > 0 {
                figures.push(each);
            }
            if round > 0 && way.name == OURS {
                ratios.push(limit / each);
                limits.push(limit);
                sent.push((site.servers.sent_by_data_hosts()? - before) / bytes);
            }
        }
    }
    let samples: Vec<Sample> = figures.into_iter().map(Sample::new).collect();
    let case = format!("{}: MD5 of {} files of {} MB", site.kind.name(), scale.files, scale.mb);
    let mut row = Row::new(case, "ms/file", Better::Lower, scale.rounds, &samples[0]);
    row.limit = Some(Sample::new(limits).median());
    row.ratio_to_limit = Some(Sample::new(ratios).median());
    for (way, sample) in ways.iter().zip(&samples).skip(1) {
        row = row.with_peer(way.name, sample.median());
    }
    let case = format!("{}: bytes on the data hosts' links, a byte read", site.kind.name());
    let links = Row::new(case, "bytes", Better::Lower, scale.rounds, &Sample::new(sent));
    Ok(vec![row, links])
}

/// Runs a command that does nothing for each of many small files. Measures the time of each command after the
/// first.
fn nothing(site: &Site, scale: &Scale) -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let files: Vec<PathBuf> = (0..scale.small_files).map(|n| dir.path().join(format!("{n:05}"))).collect();
    files.iter().try_for_each(|file| std::fs::write(file, "x"))?;
    site.put(&files, "/small")?;
    let per_command = |many: &str, one: &str| -> Result<f64> {
        let (many, _) = timed(&mut site.script(many))?;
        let (one, _) = timed(&mut site.script(one))?;
        Ok((many - one).max(0.0) * 1e3 / (scale.small_files.max(2) - 1) as f64)
    };
    let ours = "\"$STRAIT\" run --ssh \"$SSH\" - -- true";
    let parallel = "parallel --will-cite --plain -j \"$(nproc)\" --sshlogin \"$LOGINS\" true {} ::::";
    let (mut figures, mut peers) = (Vec::new(), Vec::new());
    for round in 0..=scale.rounds {
        let own = per_command(&format!("{ours} <small"), &format!("head -n 1 small | {ours}"))?;
        let peer =
            per_command(&format!("{parallel} small"), &format!("head -n 1 small >one; {parallel} one"))?;
        if round > 0 {
            figures.push(own);
            peers.push(peer);
        }
    }
    let row =
        Row::new("a command that does nothing", "ms", Better::Lower, scale.rounds, &Sample::new(figures));
    let row = row.with_limit(NOTHING_MS).with_peer("GNU parallel", Sample::new(peers).median());
    Ok(vec![row])
}

/// Names of files, as a list has them.
fn names<'a>(files: &'a [PathBuf], before: &str) -> String {
    let name = |file: &'a Path| file.file_name().unwrap_or_default().to_string_lossy();
    files.iter().map(|file| format!("{before}/{}\n", name(file))).collect()
}

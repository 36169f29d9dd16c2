//! A rank: a process on a host, which writes and reads files by orders.

use crate::Result;
use bytes::Bytes;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use strait_plfs::{Container, Options};
use strait_store::{CreateOptions, FileSystem, Principal, StorePath, StoreUri};
use strait_store_any::OpenOptions;
use strait_testkit::spawn_bound;
use tokio::runtime::Runtime;

/// Argument that makes this program a rank: `rank TARGET RANK RANKS OBJECT OBJECTS PATTERN`.
pub const RANK: &str = "rank";
/// The environment variable with the number of replicas of a rank's files.
pub const REPLICATION: &str = "BENCH_REPLICATION";
/// Bytes of one read: the most that programs with buffers request.
const READ_BYTES: usize = 1 << 20;
/// The shared file's name. By its ending, `strait mount --plfs` stores the file by PLFS.
pub const SHARED: &str = "shared.ckpt";

/// Where in the shared file a rank's objects go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The objects of a rank follow each other; the ranks' parts follow each other.
    Segmented,
    /// An object of each rank in turn.
    Strided,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Segmented => "segmented",
            Self::Strided => "strided",
        })
    }
}

/// The part of a job that one rank does.
#[derive(Debug, Clone)]
pub struct Job {
    pub rank: usize,
    pub ranks: usize,
    /// Bytes of one write.
    pub object: usize,
    pub objects: usize,
    pub pattern: Pattern,
}

impl Job {
    /// Bytes of all ranks.
    pub fn bytes(&self) -> usize {
        self.ranks * self.share()
    }

    /// The command that starts a rank.
    pub fn command(&self, rank: usize, target: &str) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([RANK, target, &rank.to_string(), &self.ranks.to_string(), &self.object.to_string()]);
        command.args([self.objects.to_string(), self.pattern.to_string()]);
        Ok(command)
    }

    fn share(&self) -> usize {
        self.object * self.objects
    }

    fn offset(&self, index: usize) -> u64 {
        let place = match self.pattern {
            Pattern::Segmented => self.rank * self.objects + index,
            Pattern::Strided => index * self.ranks + self.rank,
        };
        (place * self.object) as u64
    }

    /// The rank whose part this one reads. It runs on another host.
    fn neighbour(&self) -> usize {
        (self.rank + 1) % self.ranks
    }
}

/// Running ranks.
pub struct Ranks(Vec<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Ranks {
    /// Starts a process for each command, and waits until all are ready.
    pub fn start(commands: impl IntoIterator<Item = Command>) -> Result<Self> {
        let mut ranks = Self(Vec::new());
        for mut command in commands {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = spawn_bound(command)?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let (input, output) = input.zip(output).ok_or("no pipes to a rank")?;
            ranks.0.push((child, input, BufReader::new(output)));
        }
        ranks.answers(0..ranks.0.len())?;
        Ok(ranks)
    }

    /// Gives an order to the first rank only. Returns the seconds until it is done.
    pub fn first(&mut self, order: &str) -> Result<f64> {
        self.some(1, order)
    }

    /// Gives an order to all ranks. Returns the seconds until all have done it.
    pub fn all(&mut self, order: &str) -> Result<f64> {
        self.some(self.0.len(), order)
    }

    fn some(&mut self, count: usize, order: &str) -> Result<f64> {
        let begin = Instant::now();
        for (_, orders, _) in &mut self.0[..count] {
            writeln!(orders, "{order}")?;
        }
        self.answers(0..count)?;
        Ok(begin.elapsed().as_secs_f64())
    }

    fn answers(&mut self, ranks: std::ops::Range<usize>) -> Result<()> {
        for (_, _, answers) in &mut self.0[ranks] {
            let mut line = String::new();
            answers.read_line(&mut line)?;
            if line.trim() != "done" {
                return Err(format!("a rank failed, or answered {line:?}").into());
            }
        }
        Ok(())
    }
}

/// Follows orders until standard input ends.
pub fn follow(arguments: &[&str]) -> Result<()> {
    let [target, rank, ranks, object, objects, pattern] = arguments else {
        return Err("a rank has six arguments".into());
    };
    let pattern = if *pattern == "strided" { Pattern::Strided } else { Pattern::Segmented };
    let (rank, ranks) = (rank.parse()?, ranks.parse()?);
    let job = Job { rank, ranks, object: object.parse()?, objects: objects.parse()?, pattern };
    let mut face: Box<dyn Face> = match StoreUri::parse(target) {
        Ok(uri) => Box::new(Library::open(&uri, job)?),
        Err(_) => Box::new(Directory { directory: target.into(), job }),
    };
    println!("done");
    for order in std::io::stdin().lines() {
        match order?.as_str() {
            "make" => face.make()?,
            "write one" => face.write_one()?,
            "write each" => face.write_each()?,
            "read one" => face.read_one()?,
            "read each" => face.read_each()?,
            "remove" => face.remove()?,
            other => return Err(format!("unknown order {other:?}").into()),
        }
        println!("done");
    }
    Ok(())
}

/// An access to the files. "one" is the shared file, "each" the rank's own file.
trait Face {
    fn make(&mut self) -> Result<()>;
    fn write_one(&mut self) -> Result<()>;
    fn write_each(&mut self) -> Result<()>;
    fn read_one(&mut self) -> Result<()>;
    fn read_each(&mut self) -> Result<()>;
    fn remove(&mut self) -> Result<()>;
}

fn own(rank: usize) -> String {
    format!("own-{rank}")
}

fn object(bytes: usize) -> Bytes {
    (0..bytes).map(|at| ((at * 37) >> 3) as u8).collect()
}

/// Fails if bytes are missing: a fast but wrong answer doesn't count.
fn whole(read: usize, expected: usize) -> Result<()> {
    if read == expected { Ok(()) } else { Err(format!("{read} bytes in place of {expected}").into()) }
}

/// Access by the crate plfs on a store.
struct Library {
    runtime: Runtime,
    store: Arc<dyn FileSystem>,
    who: Principal,
    job: Job,
    files: CreateOptions,
    directory: StorePath,
}

impl Library {
    fn open(uri: &StoreUri, job: Job) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let variable = |name: &str| std::env::var(name).ok();
        let mut options = OpenOptions::default();
        options.kadoop.key_file = variable("STRAIT_KADOOP_KEY").map(PathBuf::from);
        let store = runtime.block_on(strait_store_any::open(uri, &options))?;
        let user = variable("STRAIT_USER").unwrap_or_else(strait_testkit::current_user);
        let replication = variable(REPLICATION).and_then(|text| text.parse().ok());
        let files = CreateOptions { replication, overwrite: true, ..CreateOptions::default() };
        Ok(Self { runtime, store, who: Principal::new(&user), job, files, directory: uri.path().clone() })
    }

    fn path(&self, name: &str) -> Result<StorePath> {
        Ok(self.directory.join(name)?)
    }

    async fn container(&self) -> Result<Container> {
        Ok(Container::open(self.store.clone(), &self.who, &self.path(SHARED)?).await?)
    }
}

impl Face for Library {
    fn make(&mut self) -> Result<()> {
        let logs = CreateOptions { overwrite: false, ..self.files.clone() };
        let options = Options { logs, ..Options::default() };
        let path = self.path(SHARED)?;
        self.runtime.block_on(Container::create(self.store.clone(), &self.who, &path, &options))?;
        Ok(())
    }

    fn write_one(&mut self) -> Result<()> {
        self.runtime.block_on(async {
            let mut writer = self.container().await?.writer(self.job.rank as u32);
            let object = object(self.job.object);
            for index in 0..self.job.objects {
                writer.write_at(self.job.offset(index), object.clone()).await?;
            }
            Ok(writer.close().await?)
        })
    }

    fn write_each(&mut self) -> Result<()> {
        self.runtime.block_on(async {
            let path = self.path(&own(self.job.rank))?;
            let mut writer = self.store.create(&self.who, &path, &self.files).await?;
            let object = object(self.job.object);
            for _ in 0..self.job.objects {
                writer.append(object.clone()).await?;
            }
            writer.close().await?;
            Ok(())
        })
    }

    fn read_one(&mut self) -> Result<()> {
        self.runtime.block_on(async {
            let reader = self.container().await?.reader().await?;
            let (mut read, begin) = (0, (self.job.neighbour() * self.job.share()) as u64);
            while read < self.job.share() {
                let length = READ_BYTES.min(self.job.share() - read);
                let bytes = reader.read_at(begin + read as u64, length).await?;
                if bytes.is_empty() {
                    break;
                }
                read += bytes.len();
            }
            whole(read, self.job.share())
        })
    }

    fn read_each(&mut self) -> Result<()> {
        self.runtime.block_on(async {
            let reader = self.store.open(&self.who, &self.path(&own(self.job.neighbour()))?).await?;
            let mut read = 0;
            loop {
                let bytes = reader.read_at(read as u64, READ_BYTES).await?;
                if bytes.is_empty() {
                    return whole(read, self.job.share());
                }
                read += bytes.len();
            }
        })
    }

    fn remove(&mut self) -> Result<()> {
        self.runtime.block_on(async {
            self.container().await?.remove().await?;
            for rank in 0..self.job.ranks {
                self.store.remove(&self.who, &self.path(&own(rank))?, false).await?;
            }
            Ok(())
        })
    }
}

/// Access by a directory: a mount, or a local disk.
struct Directory {
    directory: PathBuf,
    job: Job,
}

impl Directory {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, path: &Path, begin: u64) -> Result<()> {
        let (file, mut read, mut buffer) = (File::open(path)?, 0, vec![0; READ_BYTES]);
        while read < self.job.share() {
            let length = READ_BYTES.min(self.job.share() - read);
            match file.read_at(&mut buffer[..length], begin + read as u64)? {
                0 => break,
                count => read += count,
            }
        }
        whole(read, self.job.share())
    }
}

impl Face for Directory {
    fn make(&mut self) -> Result<()> {
        File::create(self.path(SHARED))?;
        Ok(())
    }

    fn write_one(&mut self) -> Result<()> {
        let file = File::options().write(true).open(self.path(SHARED))?;
        let object = object(self.job.object);
        for index in 0..self.job.objects {
            file.write_all_at(&object, self.job.offset(index))?;
        }
        Ok(file.sync_all()?)
    }

    fn write_each(&mut self) -> Result<()> {
        let mut file = File::create(self.path(&own(self.job.rank)))?;
        let object = object(self.job.object);
        for _ in 0..self.job.objects {
            file.write_all(&object)?;
        }
        Ok(file.sync_all()?)
    }

    fn read_one(&mut self) -> Result<()> {
        self.read(&self.path(SHARED), (self.job.neighbour() * self.job.share()) as u64)
    }

    fn read_each(&mut self) -> Result<()> {
        self.read(&self.path(&own(self.job.neighbour())), 0)
    }

    fn remove(&mut self) -> Result<()> {
        fs::remove_file(self.path(SHARED))?;
        for rank in 0..self.job.ranks {
            let removed = fs::remove_file(self.path(&own(rank)));
            // On a local disk, only the shared file was written.
            if removed.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound) {
                removed?;
            }
        }
        Ok(())
    }
}

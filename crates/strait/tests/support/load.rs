//! Programs of all kinds that use a mount while the processes that serve it change. Each knows what it
//! must find after each step: a change that is lost, or executed twice, shows.

use super::mounted::Mounted;
use super::programs::{Program, content};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use strait_testkit::wait::wait_until;

const DEADLINE: Duration = Duration::from_secs(60);
const PIECE: usize = 4_096;
/// Length of a file that is only read.
const BIG: usize = 2_000_000;
/// Begin of the names of files that were removed while they were open.
pub const HIDDEN: &str = ".strait-removed-";
/// Flags of a mount for these programs.
pub const FLAGS: [&str; 4] = ["--plfs", "*.ckpt", "--attr-cache", "0"];

/// The programs, until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    programs: Vec<Program>,
    appended: Arc<AtomicU64>,
    shell: Child,
    /// Removed files that are open, a plain one and one of PLFS, and how often they were written.
    removed: [File; 2],
    rounds: usize,
}

impl Load {
    /// Starts all programs.
    pub fn begin(mounted: &Mounted) -> Self {
        let stop = Arc::default();
        fs::write(mounted.path("big"), content(BIG)).unwrap();
        let appends = appends(&stop, mounted);
        let appended = appends.steps.clone();
        let (shell, asks) = shell(&stop, mounted);
        let mut programs = vec![appends, renames(&stop, mounted), writes_anywhere(&stop, mounted), asks];
        programs.extend([reads(&stop, mounted), writes_whole(&stop, mounted)]);
        programs.extend([1, 2].map(|seed| changes_names(&stop, mounted, seed)));
        let removed = ["gone", "gone.ckpt"].map(|name| {
            let path = mounted.path(name);
            let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path).unwrap();
            fs::remove_file(path).unwrap();
            file
        });
        Self { stop, programs, appended, shell, removed, rounds: 0 }
    }

    /// Waits until each program has done more.
    pub fn goes_on(&mut self) {
        for mut file in &self.removed {
            file.write_all(b"more").unwrap();
        }
        self.rounds += 1;
        self.programs.iter().for_each(Program::goes_on);
    }

    /// Stops all programs, checks what they left, and unmounts.
    pub fn end(mut self, mounted: Mounted) {
        self.programs.iter().for_each(Program::goes_on);
        self.stop.store(true, Ordering::Relaxed);
        self.programs.into_iter().for_each(|program| program.thread.join().unwrap());
        assert!(self.shell.wait().unwrap().success());
        let count = self.appended.load(Ordering::Relaxed) as usize;
        let log = fs::read(mounted.path("log")).unwrap();
        assert!(log == content(PIECE).repeat(count), "{} bytes of {count} pieces", log.len());
        for file in self.removed {
            let mut bytes = vec![0; 4 * self.rounds];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, b"more".repeat(self.rounds));
            let status = file.metadata().unwrap();
            assert_eq!((status.nlink(), status.len()), (0, bytes.len() as u64));
        }
        // Removed files may go while it lists them.
        let left = || mounted.shell("ls -AR 2> /dev/null || true");
        assert!(wait_until(DEADLINE, || !left().contains(HIDDEN)), "removed files are left: {}", left());
        assert!(!left().contains(".plfs"), "unfinished files are left: {}", left());
        mounted.umount();
    }
}

/// A program that appends to a file, and sees each byte once.
fn appends(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let mut log = OpenOptions::new().append(true).create_new(true).open(mounted.path("log")).unwrap();
    Program::begin("appends", stop, move |step| {
        log.write_all(&content(PIECE)).unwrap_or_else(|error| panic!("append {step}: {error}"));
        let length = log.metadata().unwrap().len();
        assert_eq!(length, (step + 1) * PIECE as u64, "after step {step}");
        if step % 64 == 63 {
            log.sync_all().unwrap_or_else(|error| panic!("sync {step}: {error}"));
        }
    })
}

/// A program that changes names. Each change must have been executed once, when it is answered.
fn renames(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let place = mounted.path("names");
    fs::create_dir(&place).unwrap();
    Program::begin("renames", stop, move |step| {
        let at = |what: &str, done: io::Result<()>| {
            done.unwrap_or_else(|error| panic!("{what} in step {step}: {error}"));
        };
        let (a, b, d) = (place.join(format!("{step}")), place.join("other"), place.join(format!("d{step}")));
        at("mkdir", fs::create_dir(&d));
        assert_eq!(fs::create_dir(&d).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let text = format!("text {step}");
        let mut file = OpenOptions::new().write(true).create_new(true).open(&a).unwrap();
        at("write", file.write_all(text.as_bytes()));
        drop(file);
        at("rename", fs::rename(&a, &b));
        assert_eq!(fs::read_to_string(&b).unwrap(), text);
        at("a second file", fs::write(&a, &text));
        at("rename over the first", fs::rename(&a, &b));
        at("rename into the directory", fs::rename(&b, d.join("f")));
        assert_eq!(fs::remove_dir(&d).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
        at("unlink", fs::remove_file(d.join("f")));
        // The kernel releases a closed file later: the one removed before may still have a name.
        assert!(wait_until(DEADLINE, || fs::read_dir(&d).unwrap().count() == 0));
        at("rmdir", fs::remove_dir(&d));
        assert_eq!(fs::remove_dir(&d).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(names(&place).is_empty(), "{:?} in step {step}", names(&place));
    })
}

/// The names in a directory, but for those of removed files.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with(HIDDEN)).collect();
    names.sort();
    names
}

/// A program with a PLFS file, which it seldom syncs.
fn writes_anywhere(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let path = mounted.path("n.ckpt");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let mut wanted = Vec::new();
    Program::begin("writes anywhere", stop, move |step| {
        let (at, byte) = ((step * 7_919) % 100_000, 1 + (step % 251) as u8);
        let (begin, end) = (at as usize, at as usize + 100);
        wanted.resize(wanted.len().max(end), 0);
        wanted[begin..end].fill(byte);
        file.write_all_at(&[byte; 100], at).unwrap_or_else(|error| panic!("write {step}: {error}"));
        if step % 50 == 49 {
            file.sync_all().unwrap_or_else(|error| panic!("sync {step}: {error}"));
        }
        let mut read = vec![0; wanted.len()];
        file.read_exact_at(&mut read, 0).unwrap_or_else(|error| panic!("read {step}: {error}"));
        assert!(read == wanted, "step {step}");
    })
}

/// A program that reads, not by the kernel's cache.
fn reads(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(mounted.path("big")).unwrap();
    let big = content(BIG);
    Program::begin("reads", stop, move |step| {
        let at = (step as usize * 65_537) % (BIG - PIECE);
        let mut read = vec![0; PIECE];
        file.read_exact_at(&mut read, at as u64).unwrap_or_else(|error| panic!("read {step}: {error}"));
        assert!(read == big[at..at + PIECE], "at {at}");
    })
}

/// A program that writes a file anew, in one go.
fn writes_whole(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let path = mounted.path("whole");
    let longest = content(3_000_000);
    Program::begin("writes whole", stop, move |step| {
        let bytes = &longest[..1 + (step as usize * 377_777) % longest.len()];
        fs::write(&path, bytes).unwrap_or_else(|error| panic!("whole {step}: {error}"));
        let read = fs::read(&path).unwrap();
        if read != bytes {
            let same = read.iter().zip(bytes).take_while(|(read, written)| read == written).count();
            panic!("step {step}: {same} bytes are right; read {}, written {}", read.len(), bytes.len());
        }
    })
}

/// A program whose working directory is in the mount.
fn shell(stop: &Arc<AtomicBool>, mounted: &Mounted) -> (Child, Program) {
    fs::create_dir(mounted.path("directory")).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", "while read -r; do stat . ../big > /dev/null; test -d ../directory; echo; done"]);
    shell.current_dir(mounted.path("directory")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = strait_testkit::spawn_bound(shell).unwrap();
    let (mut asks, mut answers) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    let program = Program::begin("shell", stop, move |_| {
        asks.write_all(b"\n").unwrap();
        answers.read_exact(&mut [0]).unwrap();
    });
    (shell, program)
}

/// A directory as it must be: contents of files by names, and None for a directory.
struct Model {
    place: PathBuf,
    entries: BTreeMap<String, Option<Vec<u8>>>,
    random: u64,
}

/// A program that makes, renames, appends to and removes files of both kinds, and directories, under a
/// few names. Each step has one right outcome.
fn changes_names(stop: &Arc<AtomicBool>, mounted: &Mounted, seed: u64) -> Program {
    let place = mounted.path(&format!("model{seed}"));
    fs::create_dir(&place).unwrap();
    let mut model = Model { place, entries: BTreeMap::new(), random: seed };
    Program::begin("changes names", stop, move |step| {
        let (what, got, wanted) = model.change(step);
        assert_eq!(got, wanted, "step {step}: {what}; {:?}", model.entries.keys());
        model.check(step);
    })
}

impl Model {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % limit
    }

    /// A change, what came of it, and what must have.
    fn change(&mut self, step: u64) -> (String, Option<io::ErrorKind>, Option<io::ErrorKind>) {
        use io::ErrorKind::{AlreadyExists, NotFound};
        let ending = if self.below(2) == 0 { "" } else { ".ckpt" };
        let [name, other] = [self.below(4), self.below(4)].map(|number| format!("{number}{ending}"));
        let directory = format!("d{}", self.below(3));
        let text = format!("<{step}>");
        let (path, to) = (self.place.join(&name), self.place.join(&other));
        let missing = (!self.entries.contains_key(&name)).then_some(NotFound);
        let exists = self.entries.contains_key(&name).then_some(AlreadyExists);
        let made = self.entries.contains_key(&directory);
        let write = |options: &mut OpenOptions| {
            options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()))
        };
        let (what, done, wanted) = match self.below(8) {
            0 | 1 => {
                let done = write(OpenOptions::new().write(true).create_new(true));
                self.entries.entry(name.clone()).or_insert(Some(text.clone().into_bytes()));
                (format!("create {name}"), done, exists)
            }
            2 | 3 => {
                let done = write(OpenOptions::new().append(true));
                if let Some(Some(bytes)) = self.entries.get_mut(&name) {
                    bytes.extend(text.bytes());
                }
                (format!("append to {name}"), done, missing)
            }
            4 | 5 => {
                let done = fs::rename(&path, &to);
                if let Some(entry) = self.entries.remove(&name) {
                    self.entries.insert(other.clone(), entry);
                }
                (format!("rename {name} to {other}"), done, missing)
            }
            6 => {
                let done = fs::remove_file(&path);
                self.entries.remove(&name);
                (format!("remove {name}"), done, missing)
            }
            _ if made && step.is_multiple_of(2) => {
                let done = fs::create_dir(self.place.join(&directory));
                (format!("make {directory} again"), done, Some(AlreadyExists))
            }
            _ => {
                let place = self.place.join(&directory);
                let done = if made { fs::remove_dir(place) } else { fs::create_dir(place) };
                if self.entries.remove(&directory).is_none() {
                    self.entries.insert(directory.clone(), None);
                }
                (format!("make or remove {directory}"), done, None)
            }
        };
        (what, done.err().map(|error| error.kind()), wanted)
    }

    /// Compares the names, and at times all bytes.
    fn check(&self, step: u64) {
        let found = names(&self.place);
        assert!(
            found.iter().eq(self.entries.keys()),
            "step {step}: {found:?}, not {:?}",
            self.entries.keys()
        );
        for (name, wanted) in self.entries.iter().filter(|_| step % 8 == 7) {
            let Some(wanted) = wanted else { continue };
            let path = self.place.join(name);
            let found = fs::read(path).unwrap_or_else(|error| panic!("step {step}: {name}: {error}"));
            assert!(found == *wanted, "step {step}: {name} is {}", String::from_utf8_lossy(&found));
        }
    }
}

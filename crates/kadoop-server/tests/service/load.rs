//! Writers that remember which bytes were acknowledged as synced, and readers that compare them,
//! while a cluster is in trouble.

use crate::support::{pattern, superuser};
use bytes::Bytes;
use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_wire::Failure;
use strait_testkit::wait::{pause, wait_until};

pub const REPLICATION: u16 = 3;
pub const FILE_BYTES: usize = 1 << 20;
const WRITERS: usize = 2;
const READERS: usize = 2;
const CHUNK_BYTES: u32 = 400_000;
/// Bytes written and synced at a time. Chunk and unit boundaries differ from these.
const PIECE_BYTES: usize = 150_000;
/// Pause between files: the tests should wait for the trouble, not for the disk.
const PAUSE: Duration = Duration::from_millis(200);
/// Time within which acknowledged bytes are readable again.
const READ_DEADLINE: Duration = Duration::from_secs(60);

/// A file, with the number of its bytes acknowledged as synced.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    pub path: String,
    pub length: usize,
    pub closed: bool,
}

/// Writers and readers that run until the load ends.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    client: Client,
    bytes: Bytes,
    stop: AtomicBool,
    files: Mutex<Vec<Acknowledged>>,
    failures: Mutex<Vec<String>>,
    reads: AtomicUsize,
    longest: Mutex<Duration>,
}

/// The result of a load.
pub struct Done {
    pub files: Vec<Acknowledged>,
    /// Failures of writers and readers.
    pub failures: Vec<String>,
    pub reads: usize,
    /// The longest time until a piece was synced.
    pub longest: Duration,
}

impl Load {
    /// Begins, with threads on the current host.
    pub fn start(client: &Client) -> Self {
        let shared = Arc::new(Shared {
            client: client.clone(),
            bytes: pattern(FILE_BYTES),
            stop: AtomicBool::new(false),
            files: Mutex::default(),
            failures: Mutex::default(),
            reads: AtomicUsize::new(0),
            longest: Mutex::default(),
        });
        let mut threads = Vec::new();
        for of in 0..WRITERS {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || shared.write(of)));
        }
        for of in 0..READERS {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || shared.read(of)));
        }
        Self { shared, threads }
    }

    /// Files closed so far.
    pub fn closed(&self) -> Vec<Acknowledged> {
        lock(&self.shared.files).iter().filter(|file| file.closed).cloned().collect()
    }

    /// Waits until this many more files are closed.
    ///
    /// # Panics
    /// After the deadline.
    #[track_caller]
    pub fn goes_on_for(&self, files: usize, deadline: Duration) {
        let (before, reads) = (self.closed().len(), self.shared.reads.load(Ordering::Relaxed));
        let goes_on =
            || self.closed().len() >= before + files && self.shared.reads.load(Ordering::Relaxed) > reads;
        let went_on = wait_until(deadline, goes_on);
        assert!(went_on, "{} of {files} files; {:?}", self.closed().len() - before, self.failures());
    }

    /// Reads a closed file, as the readers do.
    pub fn read(&self, file: &Acknowledged) {
        self.shared.read_file(file);
    }

    fn failures(&self) -> Vec<String> {
        lock(&self.shared.failures).clone()
    }

    /// Ends the load.
    pub fn end(self) -> Done {
        self.shared.stop.store(true, Ordering::Relaxed);
        let failures: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        failures.into_iter().for_each(|ended| ended.unwrap());
        let shared = &self.shared;
        Done {
            files: lock(&shared.files).clone(),
            failures: lock(&shared.failures).clone(),
            reads: shared.reads.load(Ordering::Relaxed),
            longest: *lock(&shared.longest),
        }
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Writes files one after another.
    fn write(&self, of: usize) {
        for number in 0.. {
            if self.stopped() {
                return;
            }
            let mut file = Acknowledged { path: format!("/{of}-{number}"), length: 0, closed: false };
            let written = self.write_file(&mut file);
            if let Err(failure) = written {
                lock(&self.failures).push(format!("writing {}: {failure}", file.path));
            }
            lock(&self.files).push(file);
            pause("the load's pace", PAUSE);
        }
    }

    fn write_file(&self, file: &mut Acknowledged) -> Result<(), Failure> {
        let options =
            CreateOptions { replication: REPLICATION, chunk_bytes: CHUNK_BYTES, ..CreateOptions::default() };
        let mut writer = self.client.create(&superuser(), &file.path, &options)?;
        for part in self.bytes.chunks(PIECE_BYTES) {
            let start = Instant::now();
            writer.write(self.bytes.slice_ref(part))?;
            writer.sync()?;
            file.length += part.len();
            let mut longest = lock(&self.longest);
            *longest = longest.max(start.elapsed());
        }
        writer.close()?;
        file.closed = true;
        Ok(())
    }

    /// Reads closed files: the newest and earlier ones in turn.
    fn read(&self, of: usize) {
        for number in of.. {
            if self.stopped() {
                return;
            }
            let file = {
                let files = lock(&self.files);
                let closed: Vec<&Acknowledged> = files.iter().filter(|file| file.closed).collect();
                closed.len().checked_sub(1).map(|last| closed[last - number % closed.len()].clone())
            };
            let Some(file) = file else {
                pause("until files are there", PAUSE);
                continue;
            };
            self.read_file(&file);
            pause("the load's pace", PAUSE / 4);
        }
    }

    fn read_file(&self, file: &Acknowledged) {
        match self.client.open(&superuser(), &file.path).and_then(|reader| reader.read_at(0, FILE_BYTES)) {
            Ok(read) => {
                assert!(read == self.bytes, "{}: other bytes were read", file.path);
                self.reads.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) => lock(&self.failures).push(format!("reading {}: {failure}", file.path)),
        }
    }
}

impl Done {
    /// Demands that every acknowledged byte becomes readable.
    ///
    /// # Panics
    /// If one doesn't.
    pub fn demand_every_byte(&self, client: &Client) {
        let bytes = pattern(FILE_BYTES);
        for file in &self.files {
            let mut last = String::new();
            let read = || {
                let read = client.open(&superuser(), &file.path);
                match read.and_then(|reader| reader.read_at(0, file.length)) {
                    Ok(read) if read == bytes[..file.length] => return true,
                    Ok(read) => last = format!("{} of {} bytes", read.len(), file.length),
                    Err(failure) => last = failure.to_string(),
                }
                file.length == 0
            };
            let whole = wait_until(READ_DEADLINE, read);
            assert!(whole, "{}: {last}", file.path);
        }
    }

    pub fn bytes(&self) -> usize {
        self.files.iter().map(|file| file.length).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

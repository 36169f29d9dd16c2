//! Writers that keep journals while servers lose power. They stop between two operations while
//! somebody compares the journals with the cluster.

use crate::{
    journal::{Entry, FileEntry, Journal, content},
    load::REPLICATION,
    rack::Who,
    support::superuser,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};
use strait_kadoop_client::{Client, CreateOptions, Writer};
use strait_kadoop_core::Error;
use strait_kadoop_wire::Failure;

/// Threads that write files, and threads that make, rename and remove names.
const FILE_WRITERS: usize = 3;
const NAME_WRITERS: usize = 2;
/// Entries that each keeps, so that a comparison takes a moment.
const MOST_FILES: usize = 10;
const MOST_NAMES: usize = 60;
/// Pieces of a file, and bytes of a piece: files of up to some chunks.
const MOST_PIECES: u64 = 6;
const MOST_PIECE_BYTES: u64 = 150_000;
const CHUNK_BYTES: [u32; 3] = [70_000, 400_000, 64 << 20];

/// Random enough, and repeatable.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of similar seeds are similar.
        for _ in 0..20 {
            random.below(2);
        }
        random
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        (!of.is_empty()).then(|| &of[self.below(of.len() as u64) as usize])
    }
}

/// Writers that run until this ends.
pub struct Witness {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    client: Client,
    /// Writers hold it during an operation; a comparison holds it alone.
    gate: RwLock<()>,
    stop: AtomicBool,
    journals: Vec<Mutex<Journal>>,
    /// Datanodes whose memory was lost, in the order of their losses.
    strikes: Mutex<Vec<usize>>,
    /// Answers that break a promise.
    broken: Mutex<Vec<String>>,
    failures: Mutex<BTreeMap<String, usize>>,
    seeds: AtomicU64,
    acknowledged: AtomicU64,
}

impl Witness {
    /// Begins, with threads on the current host.
    pub fn start(client: &Client, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            client: client.clone(),
            gate: RwLock::new(()),
            stop: AtomicBool::new(false),
            journals: (0..FILE_WRITERS + NAME_WRITERS).map(|_| Mutex::default()).collect(),
            strikes: Mutex::default(),
            broken: Mutex::default(),
            failures: Mutex::default(),
            seeds: AtomicU64::new(seed << 32),
            acknowledged: AtomicU64::new(0),
        });
        for of in 0..shared.journals.len() {
            client.mkdirs(&superuser(), &root(of), 0o755).unwrap();
        }
        let start = |of| {
            let hand = Hand { shared: Arc::clone(&shared), of, random: Random::new(seed * 100 + of as u64) };
            std::thread::spawn(move || hand.run())
        };
        let threads = (0..shared.journals.len()).map(start).collect();
        Self { shared, threads }
    }

    /// Records that a datanode was killed or lost its power just now. The loss counts against every flush that was
    /// acknowledged before this call, even after the loss. A flush's bytes may be gone once as many datanodes were
    /// lost as had them.
    pub fn struck(&self, who: Who) {
        if let Who::Datanode(number) = who {
            lock(&self.shared.strikes).push(number);
        }
    }

    /// Differences between the journals and the cluster, and broken promises.
    pub fn flaws(&self) -> Vec<String> {
        let shared = &self.shared;
        let _alone = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut flaws = lock(&shared.broken).clone();
        let strikes = lock(&shared.strikes).clone();
        for (of, journal) in shared.journals.iter().enumerate() {
            let is_settled = self.threads.is_empty();
            lock(journal).compare(&shared.client, &root(of), &strikes, is_settled, &mut flaws);
        }
        flaws
    }

    /// The reason why a closed file doesn't have exactly its replicas.
    pub fn not_whole(&self) -> Option<String> {
        self.shared.journals.iter().find_map(|journal| lock(journal).not_whole(&self.shared.client))
    }

    /// Acknowledged operations so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Failures so far, with their number.
    pub fn failures(&self) -> BTreeMap<String, usize> {
        lock(&self.shared.failures).clone()
    }

    /// Ends the writers.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn root(of: usize) -> String {
    format!("/writer-{of}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Failures of an operation because servers are away, or full. A change of names may have been
/// executed then. Any other refusal of a writer that is alone in its directory breaks a promise.
fn is_outage(error: Error) -> bool {
    use Error::{LogBehind, NoDatanodes, NoSpace, OutcomeUnknown, Unavailable};
    matches!(error, Unavailable | NoDatanodes | NoSpace | OutcomeUnknown | LogBehind)
}

/// One thread with its journal.
struct Hand {
    shared: Arc<Shared>,
    of: usize,
    random: Random,
}

impl Hand {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if self.of < FILE_WRITERS {
                self.write_file();
            } else {
                self.change_names();
            }
        }
    }

    /// An operation on a file's bytes.
    fn act_on_bytes<T>(
        &self,
        what: &str,
        path: &str,
        operation: impl FnOnce(&mut FileEntry) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome = self.act(what, |_, journal| operation(journal.file(path)));
        if let Err(failure) = &outcome
            && !is_outage(failure.error)
            && failure.error != Error::BytesLost
        {
            lock(&self.shared.broken).push(format!("{what} {path}: {failure}"));
        }
        outcome
    }

    /// Does one operation, between two comparisons, and counts its outcome.
    fn act<T>(
        &self,
        what: &str,
        operation: impl FnOnce(&Client, &mut Journal) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let shared = &self.shared;
        let _open = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        let outcome = operation(&shared.client, &mut lock(&shared.journals[self.of]));
        match &outcome {
            Ok(_) => {
                shared.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) => *lock(&shared.failures).entry(format!("{what}: {failure}")).or_default() += 1,
        }
        outcome
    }

    /// A change of names: `done` notes it in the journal.
    fn change(
        &self,
        what: &str,
        paths: &[&str],
        change: impl FnOnce(&Client) -> Result<(), Failure>,
        done: impl FnOnce(&mut Journal),
    ) -> bool {
        let outcome = self.act(what, |client, journal| {
            let outcome = change(client);
            match &outcome {
                Ok(()) => done(journal),
                Err(failure) => {
                    if !is_outage(failure.error) {
                        let broken = format!("{what} {paths:?}: {failure}");
                        lock(&self.shared.broken).push(broken);
                    }
                    journal.doubt(paths);
                }
            }
            outcome
        });
        outcome.is_ok()
    }

    fn names(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
        let journal = lock(&self.shared.journals[self.of]);
        journal.entries.iter().filter(|(_, entry)| wanted(entry)).map(|(path, _)| path.clone()).collect()
    }

    fn fresh(&self, directory: &str) -> (String, u64) {
        let seed = self.shared.seeds.fetch_add(1, Ordering::Relaxed);
        (format!("{directory}/{seed:x}"), seed)
    }

    fn remove(&self, path: &str) {
        let remove = |client: &Client| match client.delete(&superuser(), path, true)? {
            true => Ok(()),
            false => Err(Error::NotFound.into()),
        };
        self.change("remove", &[path], remove, |journal| journal.remove(path));
    }

    fn rename(&self, from: &str, to: &str) {
        let rename = |client: &Client| client.rename(&superuser(), from, to, false);
        self.change("rename", &[from, to], rename, |journal| journal.rename(from, to));
    }

    /// Makes, renames or removes a name.
    fn change_names(&mut self) {
        let root = root(self.of);
        let mut directories = self.names(|entry| matches!(entry, Entry::Directory));
        let all = self.names(|entry| !matches!(entry, Entry::Doubtful));
        directories.retain(|path| path.matches('/').count() < 4);
        directories.push(root);
        let parent = self.random.pick(&directories).cloned().unwrap_or_default();
        let (path, seed) = self.fresh(&parent);
        match self.random.below(8) {
            0..=2 => {
                let make = |client: &Client| client.mkdirs(&superuser(), &path, 0o755);
                self.change("mkdir", &[&path], make, |journal| {
                    journal.entries.insert(path.clone(), Entry::Directory);
                });
            }
            3..=4 => {
                let make = |client: &Client| {
                    client.create(&superuser(), &path, &CreateOptions::default())?.close().map(drop)
                };
                let file = FileEntry { seed, closed: Some(0), ..FileEntry::default() };
                self.change("create", &[&path], make, |journal| {
                    journal.entries.insert(path.clone(), Entry::File(file));
                });
            }
            5..=6 => {
                let Some(from) = self.random.pick(&all) else { return };
                if parent != *from && !parent.starts_with(&format!("{from}/")) {
                    self.rename(from, &path);
                }
            }
            _ => {
                if let Some(path) = self.random.pick(&all) {
                    self.remove(path);
                }
            }
        }
        let all = self.names(|entry| !matches!(entry, Entry::Doubtful));
        if let Some(path) = self.random.pick(&all).filter(|_| all.len() > MOST_NAMES) {
            self.remove(path);
        }
    }

    /// Writes a new file, appends to one or replaces one, piece by piece, and then perhaps renames
    /// it.
    fn write_file(&mut self) {
        let all = self.names(|entry| !matches!(entry, Entry::Doubtful));
        if let Some(path) = self.random.pick(&all).filter(|_| all.len() >= MOST_FILES) {
            self.remove(path);
        }
        let (fresh, seed) = self.fresh(&root(self.of));
        let closed = self.names(|entry| matches!(entry, Entry::File(file) if file.closed.is_some()));
        let earlier = self.random.pick(&closed).cloned();
        let choice = self.random.below(10);
        let opened = match earlier {
            Some(path) if choice < 2 => self.append(&path).map(|writer| (path, writer)),
            Some(path) if choice < 4 => self.create(&path, seed).map(|writer| (path, writer)),
            _ => self.create(&fresh, seed).map(|writer| (fresh, writer)),
        };
        let Some((path, mut writer)) = opened else { return };
        for _ in 0..=self.random.below(MOST_PIECES) {
            let bytes = 1 + self.random.below(MOST_PIECE_BYTES) as usize;
            if self.write_piece(&path, &mut writer, bytes).is_err() {
                return;
            }
        }
        // Some writers never close their file.
        if self.random.below(8) == 0 {
            return;
        }
        let closed = self.act_on_bytes("close", &path, |file| {
            writer.close()?;
            file.synced = file.written;
            file.closed = Some(file.written);
            Ok(())
        });
        if closed.is_ok() && self.random.below(4) == 0 {
            self.rename(&path, &self.fresh(&root(self.of)).0);
        }
    }

    fn create(&mut self, path: &str, seed: u64) -> Option<Writer> {
        let at = self.random.below(CHUNK_BYTES.len() as u64) as usize;
        let options = CreateOptions {
            replication: REPLICATION,
            chunk_bytes: CHUNK_BYTES[at],
            overwrite: true,
            ..CreateOptions::default()
        };
        let mut writer = None;
        let create = |client: &Client| {
            writer = Some(client.create(&superuser(), path, &options)?);
            Ok(())
        };
        self.change("create", &[path], create, |journal| {
            let file = FileEntry { seed, ..FileEntry::default() };
            journal.entries.insert(path.to_owned(), Entry::File(file));
        });
        writer
    }

    fn append(&mut self, path: &str) -> Option<Writer> {
        let mut writer = None;
        let append = |client: &Client| {
            writer = Some(client.append(&superuser(), path)?);
            Ok(())
        };
        self.change("append", &[path], append, |journal| journal.file(path).closed = None);
        writer
    }

    fn write_piece(&mut self, path: &str, writer: &mut Writer, bytes: usize) -> Result<(), Failure> {
        let choice = self.random.below(4);
        self.act_on_bytes("write", path, |file| {
            let from = file.written;
            file.written += bytes;
            writer.write(content(file.seed, from..from + bytes))
        })?;
        match choice {
            0 => self.act_on_bytes("flush", path, |file| {
                let strikes = lock(&self.shared.strikes).len();
                let replicas = writer.flush()?;
                (file.flushed, file.flushed_at) = (file.written, replicas.unwrap_or(0));
                file.strikes = strikes;
                Ok(())
            }),
            1..=2 => self.act_on_bytes("sync", path, |file| {
                writer.sync()?;
                file.synced = file.written;
                Ok(())
            }),
            _ => Ok(()),
        }
    }
}

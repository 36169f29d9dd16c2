//! The record of a serving mount. If this process is killed, the next one continues with it.
//!
//! | kind | number | value |
//! | --- | --- | --- |
//! | mount | 0 | the directory, and secrets of this mount |
//! | last | 0 to 2 | the largest number that may have been assigned to a node, a handle, a file |
//! | node | node | its name, and the kernel's references |
//! | file | file | node and user |
//! | reading, written, failed | file | its reader's identity, unflushed range, lost bytes |
//! | run | file and index | unpublished bytes of a PLFS file |
//! | handle | handle | its file or directory, and the request that opened it |
//! | hidden | node | the user that removed it |
//! | request | request | a change that was begun, or its answer |
//!
//! Each value is written before the kernel gets the answer that it belongs to. Without a keeper, a ledger
//! writes nothing.

mod bytes;
mod record;

pub use bytes::{RING, Written};
pub use record::{Entry, memory};

use bytes::Bytes;
use record::{Key, Record};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use strait_store::SessionSecret;
use strait_store::random::try_random;

/// Numbers that are recorded as assigned in advance: one entry in the record for this many numbers.
const AHEAD: u64 = 1_024;

/// A run's number has its index in this many low bits. A PLFS file publishes long before 2^24 writes.
const RUN_BITS: u32 = 24;

/// Kinds of values.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Kind {
    /// [`Mounted`].
    Mount = 1,
    /// The largest number of a [`Counter`] that may have been assigned.
    Last,
    /// A node.
    Node,
    /// [`OpenFile`].
    File,
    /// The identity of a file that is open for reading.
    Reading,
    /// [`Written`].
    Written,
    /// Why a file's bytes were lost.
    Failed,
    /// [`OpenHandle`].
    Handle,
    /// The user that removed an open file.
    Hidden,
    /// [`Step`].
    Request,
    /// [`Run`].
    Run,
}

/// Counters whose numbers are never reused.
#[derive(Debug, Clone, Copy)]
pub enum Counter {
    /// Numbers of nodes.
    Node,
    /// Numbers of handles.
    Handle,
    /// Numbers of open files.
    File,
}

/// The data that stays the same in all processes of a mount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mounted {
    directory: Vec<u8>,
    secret: [u8; 32],
    /// Makes the names of removed files unique.
    pub nonce: u64,
}

impl Mounted {
    /// The data of a new mount.
    pub fn on(directory: &Path) -> io::Result<Self> {
        let directory = directory.as_os_str().as_bytes().to_vec();
        Ok(Self { directory, secret: try_random()?, nonce: u64::from_le_bytes(try_random()?) })
    }

    /// Its directory.
    pub fn directory(&self) -> PathBuf {
        OsStr::from_bytes(&self.directory).into()
    }

    /// The session in which all processes of the mount write. A store can give a killed process's file back
    /// to it.
    pub fn session(&self) -> SessionSecret {
        SessionSecret(self.secret)
    }
}

/// The progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The request may have been sent to the store.
    Begun,
    /// Answered without a value.
    Done,
    /// Answered with this node.
    Entry(u64),
    /// Answered with this errno.
    Fault(i32),
}

/// A file that is open for one user.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenFile<W> {
    /// Its node.
    pub node: u64,
    /// The user.
    pub who: W,
    /// The file is a PLFS container.
    pub logical: bool,
}

/// Bytes of a PLFS file that were written but not published.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Run {
    /// The mark of the publication period: all runs between two publications of the file have the same, and
    /// other runs another.
    pub since: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Start of the bytes in the file's ring.
    pub place: u64,
    /// Number of bytes.
    pub length: u64,
    /// The request that wrote them.
    pub request: u64,
}

impl Run {
    /// The file that a run's number belongs to.
    pub fn file(number: u64) -> u64 {
        number >> RUN_BITS
    }
}

/// A handle that the kernel has.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenHandle<H> {
    /// The handle, with its file's number.
    pub handle: H,
    /// The request that opened it.
    pub request: u64,
}

/// Writes the record, if a keeper holds one.
#[derive(Debug, Default)]
pub struct Ledger {
    record: Option<(Record, Bytes)>,
    /// If set, calls write nothing: the record has their values already, or no later process needs them.
    quiet: AtomicBool,
    /// The largest recorded number, by [`Counter`].
    given: [AtomicU64; 3],
}

impl Ledger {
    /// A ledger of a new record.
    ///
    /// # Errors
    /// The record can't be written.
    pub fn begin(record: OwnedFd, bytes: OwnedFd) -> io::Result<Self> {
        let (record, _) = Record::open(record.into())?;
        Ok(Self { record: Some((record, Bytes::new(bytes.into()))), ..Self::default() })
    }

    /// A ledger with an existing record, and the record's values. The ledger writes nothing until
    /// [`Ledger::go_on`].
    ///
    /// # Errors
    /// The record can't be read, or an earlier process marked it as incomplete.
    pub fn again(record: OwnedFd, bytes: OwnedFd) -> io::Result<(Self, Vec<Entry>)> {
        let (record, values) = Record::open(record.into())?;
        let ledger = Self { record: Some((record, Bytes::new(bytes.into()))), ..Self::default() };
        ledger.stop();
        for ((kind, counter), bytes) in &values {
            if *kind == Kind::Last as u8
                && let Some(given) = ledger.given.get(*counter as usize)
            {
                given.store(serde_json::from_slice(bytes)?, Ordering::Relaxed);
            }
        }
        Ok((ledger, values))
    }

    /// Starts to write.
    pub fn go_on(&self) {
        self.quiet.store(false, Ordering::Relaxed);
    }

    /// Stops writing.
    pub fn stop(&self) {
        self.quiet.store(true, Ordering::Relaxed);
    }

    fn of(&self) -> Option<&(Record, Bytes)> {
        self.record.as_ref().filter(|_| !self.quiet.load(Ordering::Relaxed))
    }

    fn set(&self, kind: Kind, number: u64, value: &impl Serialize) {
        let Some((record, _)) = self.of() else { return };
        match serde_json::to_vec(value) {
            Ok(value) => record.put(key(kind, number), Some(&value)),
            Err(error) => record.give_up(&error.into()),
        }
    }

    fn remove(&self, kind: Kind, number: u64) {
        if let Some((record, _)) = self.of() {
            record.put(key(kind, number), None);
        }
    }

    /// Records the data that stays the same.
    pub fn mount(&self, mounted: &Mounted) {
        self.set(Kind::Mount, 0, mounted);
    }

    /// The largest number of a counter that may have been assigned.
    pub fn last(&self, counter: Counter) -> u64 {
        self.given[counter as usize].load(Ordering::Relaxed)
    }

    /// Records that a number is assigned.
    pub fn gives(&self, counter: Counter, number: u64) {
        let given = &self.given[counter as usize];
        if self.of().is_some() && number > given.load(Ordering::Relaxed) {
            let ahead = number + AHEAD;
            self.set(Kind::Last, counter as u64, &ahead);
            given.fetch_max(ahead, Ordering::Relaxed);
        }
    }

    /// Records that a node changed or, with `None`, was removed.
    pub fn node(&self, number: u64, node: Option<&impl Serialize>) {
        match node {
            Some(node) => self.set(Kind::Node, number, node),
            None => self.remove(Kind::Node, number),
        }
    }

    /// Records that a request opened a handle.
    pub fn handle(&self, number: u64, handle: impl Serialize, request: u64) {
        self.set(Kind::Handle, number, &OpenHandle { handle, request });
    }

    /// Records that a handle was closed.
    pub fn no_handle(&self, number: u64) {
        self.remove(Kind::Handle, number);
    }

    /// Records that this user is about to remove a node that is open.
    pub fn hidden(&self, node: u64, who: &impl Serialize) {
        self.set(Kind::Hidden, node, who);
    }

    /// Records that a hidden node was removed, or has its name again.
    pub fn not_hidden(&self, node: u64) {
        self.remove(Kind::Hidden, node);
    }

    /// Records the progress of a change.
    pub fn request(&self, request: u64, step: Step) {
        if request != 0 {
            self.set(Kind::Request, request, &step);
        }
    }

    /// Forgets a request whose answer the kernel has received, so that it won't resend it.
    pub fn answered(&self, request: u64) {
        self.forget(Kind::Request, request);
    }

    /// Forgets a value that has no meaning any more. The next process may still find it.
    pub fn forget(&self, kind: Kind, number: u64) {
        if let Some((record, _)) = self.of() {
            record.forget(key(kind, number));
        }
    }
}

fn key(kind: Kind, number: u64) -> Key {
    (kind as u8, number)
}

/// The part of the ledger about one open file.
#[derive(Debug, Clone)]
pub struct Note {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Note {
    /// The note of the file with this number.
    pub fn new(ledger: Arc<Ledger>, number: u64) -> Self {
        Self { ledger, number }
    }

    /// The file's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records that the file is open.
    pub fn open(&self, file: &OpenFile<impl Serialize>) {
        self.ledger.set(Kind::File, self.number, file);
    }

    /// Records that the file is closed: all of its bytes are in the store, or their loss was reported.
    pub fn closed(&self) {
        for kind in [Kind::File, Kind::Reading, Kind::Failed] {
            self.ledger.remove(kind, self.number);
        }
        self.clean();
    }

    /// Records the identity of the file that is open for reading.
    pub fn reading(&self, identity: Option<&[u8]>) {
        match identity {
            Some(identity) => self.ledger.set(Kind::Reading, self.number, &identity),
            None => self.ledger.remove(Kind::Reading, self.number),
        }
    }

    /// Records that written bytes were lost.
    pub fn failed(&self, why: &impl Serialize) {
        self.ledger.set(Kind::Failed, self.number, why);
        self.clean();
    }

    /// Stores written bytes. The next process uses them only after [`Note::written`] has recorded their
    /// range.
    pub fn bytes(&self, offset: u64, data: &[u8]) {
        if let Some((record, bytes)) = self.ledger.of()
            && let Err(error) = bytes.write(self.number, offset, data)
        {
            record.give_up(&error);
        }
    }

    /// Records the range that the store may lack. Its start was `before` until now.
    pub fn written(&self, before: u64, written: Written) {
        self.ledger.set(Kind::Written, self.number, &written);
        if let Some((_, bytes)) = self.ledger.of() {
            bytes.free(self.number, before..written.safe);
        }
    }

    /// The stored bytes of a range that an earlier process wrote.
    ///
    /// # Errors
    /// The bytes aren't stored.
    pub fn recall(&self, written: &Written) -> io::Result<Vec<u8>> {
        match &self.ledger.record {
            Some((_, bytes)) => bytes.read(self.number, written.safe..written.end),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether calls are recorded for a later process.
    pub fn is_kept(&self) -> bool {
        self.ledger.of().is_some()
    }

    /// Records that a PLFS file has unpublished bytes: the runs with the mark `since`.
    pub fn unpublished(&self, since: u64) {
        self.ledger.set(Kind::Written, self.number, &Written { safe: since, end: 0, at_ms: 0, last: 0 });
    }

    /// Records the next run of unpublished bytes.
    pub fn run(&self, index: u64, run: &Run, data: &[u8]) {
        self.bytes(run.place, data);
        self.ledger.set(Kind::Run, self.number << RUN_BITS | index, run);
    }

    /// The stored bytes of a run that an earlier process wrote.
    ///
    /// # Errors
    /// The bytes aren't stored.
    pub fn recall_run(&self, run: &Run) -> io::Result<Vec<u8>> {
        let end = run.place.saturating_add(run.length);
        self.recall(&Written { safe: run.place, end, at_ms: 0, last: 0 })
    }

    /// Records that all runs are published.
    pub fn published(&self, runs: u64) {
        self.clean();
        (0..runs).for_each(|index| self.ledger.forget(Kind::Run, self.number << RUN_BITS | index));
    }

    /// Records that no written bytes need to be kept: the store has them, or they are lost.
    pub fn clean(&self) {
        self.ledger.remove(Kind::Written, self.number);
        if let Some((_, bytes)) = self.ledger.of() {
            bytes.free_all(self.number);
        }
    }

    /// Records that a write was executed.
    pub fn done(&self, request: u64) {
        self.ledger.request(request, Step::Done);
    }
}

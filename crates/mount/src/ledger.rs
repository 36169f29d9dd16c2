//! The record of a serving mount, by which another process goes on if this one is killed.
//!
//! | kind | number | value |
//! | --- | --- | --- |
//! | mount | 0 | the directory, and secrets of this mount |
//! | last | 0 to 2 | numbers up to this one may have been given to nodes, handles, files |
//! | node | node | its name, and the kernel's references |
//! | file | file | node and user |
//! | reading, written, failed | file | its reader's identity, unflushed range, lost bytes |
//! | run | file and place in order | unpublished bytes of a PLFS file |
//! | handle | handle | its file or directory, and the request that opened it |
//! | hidden | node | the user that removed it |
//! | request | request | a change that was begun, or its answer |
//!
//! Each value is written before the kernel gets the answer that it belongs to. Without a keeper, a
//! ledger does nothing.

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

/// Numbers that are recorded as given at once: one entry for so many.
const AHEAD: u64 = 1_024;

/// Bits of a run's place in order, in its number. A PLFS file publishes long before 2^24 writes.
const RUN_BITS: u32 = 24;

/// Kinds of values.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Kind {
    /// [`Mounted`].
    Mount = 1,
    /// A [`Counter`]'s last number.
    Last,
    /// A node.
    Node,
    /// [`OpenFile`].
    File,
    /// The identity of a file that is read.
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

/// Counters whose numbers are never given again.
#[derive(Debug, Clone, Copy)]
pub enum Counter {
    /// Of nodes.
    Node,
    /// Of handles.
    Handle,
    /// Of open files.
    File,
}

/// The data that stays the same for all processes of a mount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mounted {
    directory: Vec<u8>,
    secret: [u8; 32],
    /// Of the names of removed files.
    pub nonce: u64,
}

impl Mounted {
    /// A new mount.
    pub fn on(directory: &Path) -> io::Result<Self> {
        let (mut secret, mut nonce) = ([0; 32], [0; 8]);
        for random in [&mut secret[..], &mut nonce[..]] {
            rustix::rand::getrandom(random, rustix::rand::GetRandomFlags::empty())?;
        }
        let directory = directory.as_os_str().as_bytes().to_vec();
        Ok(Self { directory, secret, nonce: u64::from_le_bytes(nonce) })
    }

    /// Its directory.
    pub fn directory(&self) -> PathBuf {
        OsStr::from_bytes(&self.directory).into()
    }

    /// The session in which all its processes write: a store may give a file back to it.
    pub fn session(&self) -> SessionSecret {
        SessionSecret(self.secret)
    }
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The store may have been asked.
    Begun,
    /// Answered with nothing.
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
    /// PLFS keeps it.
    pub logical: bool,
}

/// Bytes of a PLFS file that were written, and not published.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Run {
    /// The same for all runs between two publications, and for no others of the file.
    pub since: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Begin of the bytes in the file's ring.
    pub place: u64,
    /// Their number.
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

/// Writes the record.
#[derive(Debug, Default)]
pub struct Ledger {
    record: Option<(Record, Bytes)>,
    /// Set calls write nothing: the record has their values already, or no later process needs them.
    quiet: AtomicBool,
    /// By [`Counter`].
    given: [AtomicU64; 3],
}

impl Ledger {
    /// A ledger of a new record.
    ///
    /// # Errors
    /// The record can't be used.
    pub fn begin(record: OwnedFd, bytes: OwnedFd) -> io::Result<Self> {
        let (record, _) = Record::open(record.into())?;
        Ok(Self { record: Some((record, Bytes::new(bytes.into()))), ..Self::default() })
    }

    /// A ledger that is quiet until [`Ledger::go_on`], and what its record has.
    ///
    /// # Errors
    /// The record can't be used.
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

    /// Writes from now on.
    pub fn go_on(&self) {
        self.quiet.store(false, Ordering::Relaxed);
    }

    /// Writes nothing any more.
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

    /// Sets what stays the same.
    pub fn mount(&self, mounted: &Mounted) {
        self.set(Kind::Mount, 0, mounted);
    }

    /// The last number of a counter that may have been given.
    pub fn last(&self, counter: Counter) -> u64 {
        self.given[counter as usize].load(Ordering::Relaxed)
    }

    /// A number is given.
    pub fn gives(&self, counter: Counter, number: u64) {
        let given = &self.given[counter as usize];
        if self.of().is_some() && number > given.load(Ordering::Relaxed) {
            let ahead = number + AHEAD;
            self.set(Kind::Last, counter as u64, &ahead);
            given.fetch_max(ahead, Ordering::Relaxed);
        }
    }

    /// A node has changed, or is gone.
    pub fn node(&self, number: u64, node: Option<&impl Serialize>) {
        match node {
            Some(node) => self.set(Kind::Node, number, node),
            None => self.remove(Kind::Node, number),
        }
    }

    /// A handle was opened by a request.
    pub fn handle(&self, number: u64, handle: impl Serialize, request: u64) {
        self.set(Kind::Handle, number, &OpenHandle { handle, request });
    }

    /// A handle was closed.
    pub fn no_handle(&self, number: u64) {
        self.remove(Kind::Handle, number);
    }

    /// A node is about to be removed by this user, and is open.
    pub fn hidden(&self, node: u64, who: &impl Serialize) {
        self.set(Kind::Hidden, node, who);
    }

    /// A removed node is gone, or has its name again.
    pub fn not_hidden(&self, node: u64) {
        self.remove(Kind::Hidden, node);
    }

    /// A change has come so far.
    pub fn request(&self, request: u64, step: Step) {
        if request != 0 {
            self.set(Kind::Request, request, &step);
        }
    }

    /// The kernel has the request's answer, so it won't send it again.
    pub fn answered(&self, request: u64) {
        self.forget(Kind::Request, request);
    }

    /// A value means nothing any more. The next process may still find it.
    pub fn forget(&self, kind: Kind, number: u64) {
        if let Some((record, _)) = self.of() {
            record.forget(key(kind, number));
        }
    }
}

fn key(kind: Kind, number: u64) -> Key {
    (kind as u8, number)
}

/// An open file's part of the ledger.
#[derive(Debug, Clone)]
pub struct Note {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Note {
    /// Of the file with this number.
    pub fn new(ledger: Arc<Ledger>, number: u64) -> Self {
        Self { ledger, number }
    }

    /// The file's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file is open.
    pub fn open(&self, file: &OpenFile<impl Serialize>) {
        self.ledger.set(Kind::File, self.number, file);
    }

    /// It is not, and all of its bytes are in the store, or their loss was reported.
    pub fn closed(&self) {
        for kind in [Kind::File, Kind::Reading, Kind::Failed] {
            self.ledger.remove(kind, self.number);
        }
        self.clean();
    }

    /// The file that is open for reading.
    pub fn reading(&self, identity: Option<&[u8]>) {
        match identity {
            Some(identity) => self.ledger.set(Kind::Reading, self.number, &identity),
            None => self.ledger.remove(Kind::Reading, self.number),
        }
    }

    /// Written bytes were lost.
    pub fn failed(&self, why: &impl Serialize) {
        self.ledger.set(Kind::Failed, self.number, why);
        self.clean();
    }

    /// Bytes are being written at `offset`. They count from [`Note::written`] on.
    pub fn bytes(&self, offset: u64, data: &[u8]) {
        if let Some((record, bytes)) = self.ledger.of()
            && let Err(error) = bytes.write(self.number, offset, data)
        {
            record.give_up(&error);
        }
    }

    /// The range that the store may lack, which began at `before` until now.
    pub fn written(&self, before: u64, written: Written) {
        self.ledger.set(Kind::Written, self.number, &written);
        if let Some((_, bytes)) = self.ledger.of() {
            bytes.free(self.number, before..written.safe);
        }
    }

    /// The bytes of a range that an earlier process wrote.
    ///
    /// # Errors
    /// There are none.
    pub fn recall(&self, written: &Written) -> io::Result<Vec<u8>> {
        match &self.ledger.record {
            Some((_, bytes)) => bytes.read(self.number, written.safe..written.end),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether a keeper has this.
    pub fn is_kept(&self) -> bool {
        self.ledger.of().is_some()
    }

    /// A PLFS file has unpublished bytes: the runs with this mark.
    pub fn unpublished(&self, since: u64) {
        self.ledger.set(Kind::Written, self.number, &Written { safe: since, end: 0, at_ms: 0, last: 0 });
    }

    /// The next of these runs is written.
    pub fn run(&self, index: u64, run: &Run, data: &[u8]) {
        self.bytes(run.place, data);
        self.ledger.set(Kind::Run, self.number << RUN_BITS | index, run);
    }

    /// The bytes of a run that an earlier process wrote.
    ///
    /// # Errors
    /// There are none.
    pub fn recall_run(&self, run: &Run) -> io::Result<Vec<u8>> {
        let end = run.place.saturating_add(run.length);
        self.recall(&Written { safe: run.place, end, at_ms: 0, last: 0 })
    }

    /// All runs are published.
    pub fn published(&self, runs: u64) {
        self.clean();
        (0..runs).for_each(|index| self.ledger.forget(Kind::Run, self.number << RUN_BITS | index));
    }

    /// The store has all bytes, or they are lost.
    pub fn clean(&self) {
        self.ledger.remove(Kind::Written, self.number);
        if let Some((_, bytes)) = self.ledger.of() {
            bytes.free_all(self.number);
        }
    }

    /// A write was executed.
    pub fn done(&self, request: u64) {
        self.ledger.request(request, Step::Done);
    }
}

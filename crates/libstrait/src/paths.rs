//! Operations on paths, and copies between this host and a store.

use crate::process::{Owned, Place};
use crate::streams::Stream;
use futures::StreamExt;
use futures::stream::BoxStream;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use strait_store::{
    BlockLocation, Checksum, Error, ErrorKind, FileStatus, Result, SetAttributes, StorePath, StoreStatus,
};

/// Bytes of one step of a copy.
const COPY_BYTES: usize = 1 << 20;
/// Most entries that a listing takes from the store at once.
const ENTRIES: usize = 1000;

pub fn stat(uri: &str) -> Result<FileStatus> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.stat(&place.who, &place.path))
}

pub fn mkdirs(uri: &str, permission: Option<u32>) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.mkdirs(&place.who, &place.path, permission))
}

pub fn rename(from: &str, to: &str, replace: bool) -> Result<()> {
    let (source, target) = Place::and_target(from, to, "rename to")?;
    source.process.wait(source.fs.rename(&source.who, &source.path, &target, replace))
}

pub fn remove(uri: &str, recursive: bool) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.remove(&place.who, &place.path, recursive))
}

pub fn truncate(uri: &str, length: u64) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.truncate(&place.who, &place.path, length))
}

pub fn set_attributes(uri: &str, set: &SetAttributes) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.set_attributes(&place.who, &place.path, set))
}

pub fn checksum(uri: &str) -> Result<Checksum> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.checksum(&place.who, &place.path))
}

pub fn locate(uri: &str, range: Range<u64>) -> Result<Vec<BlockLocation>> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.block_locations(&place.who, &place.path, range))
}

pub fn status(uri: &str) -> Result<StoreStatus> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.status(&place.who))
}

/// Whether the store has the capability of that name.
pub fn can(uri: &str, capability: &str) -> Result<bool> {
    let flags = Place::of(uri)?.fs.capabilities().flags();
    let found = flags.into_iter().find(|(name, _)| *name == capability);
    found.map(|(_, has)| has).ok_or_else(|| {
        let names: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
        let message =
            format!("there is no capability {capability:?}; the capabilities are {}", names.join(", "));
        Error::new(ErrorKind::InvalidArgument, message)
    })
}

/// A directory's entries, one after the other.
pub struct Listing(Owned<Mutex<Entries>>);

struct Entries {
    arrived: VecDeque<Result<FileStatus>>,
    coming: BoxStream<'static, Vec<Result<FileStatus>>>,
}

impl Listing {
    pub fn begin(uri: &str) -> Result<Self> {
        let place = Place::of(uri)?;
        let coming = place.fs.list(&place.who, &place.path).ready_chunks(ENTRIES).boxed();
        let entries = Entries { arrived: VecDeque::new(), coming };
        let listing = Self(Owned::new(place.process, Mutex::new(entries)));
        // If the directory can't be listed, the first entry is an error. The caller learns it at once.
        match listing.peek()? {
            Some(error) => Err(error),
            None => Ok(listing),
        }
    }

    fn peek(&self) -> Result<Option<Error>> {
        let (process, entries) = self.0.get()?;
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = process.wait(entries.coming.next()) {
            entries.arrived.extend(page);
        }
        Ok(match entries.arrived.front() {
            Some(Err(_)) => entries.arrived.pop_front().and_then(Result::err),
            _ => None,
        })
    }

    /// The next entry; None at the end.
    pub fn next(&self) -> Result<Option<FileStatus>> {
        let (process, entries) = self.0.get()?;
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.arrived.is_empty()
            && let Some(page) = process.wait(entries.coming.next())
        {
            entries.arrived.extend(page);
        }
        entries.arrived.pop_front().transpose()
    }
}

/// Copies a local file to a store, if the target is a directory, into it. The file gets its name when all its
/// bytes are there.
pub fn put(local: &str, uri: &str, replace: bool) -> Result<()> {
    let mut place = Place::of(uri)?;
    let mut there = existing(&place)?;
    if there.as_ref().is_some_and(FileStatus::is_directory) {
        let name = Path::new(local).file_name().and_then(OsStr::to_str).unwrap_or_default();
        place.path = place.path.join(name)?;
        there = existing(&place)?;
    }
    let (fs, who, path) = (&place.fs, &place.who, &place.path);
    match &there {
        Some(status) if status.is_directory() => {
            return refuse(ErrorKind::IsADirectory, "a directory has that name", path);
        }
        Some(_) if !replace => return refuse(ErrorKind::AlreadyExists, "the file exists", path),
        _ => {}
    }
    let mut source = File::open(local).map_err(|error| locally(error, "read", local))?;
    let temporary = path.parent().unwrap_or_else(StorePath::root).join(&temporary_name("put")?)?;
    let target = Stream::create(&place, &temporary)?;
    let copied = upload(&mut source, local, target).and_then(|()| {
        let in_one_step = fs.capabilities().rename_replace;
        if there.is_some() && !in_one_step {
            place.process.wait(fs.remove(who, path, false))?;
        }
        place.process.wait(fs.rename(who, &temporary, path, replace && in_one_step))
    });
    copied.map_err(|error| {
        let _ = place.process.wait(fs.remove(who, &temporary, false));
        // Nobody knows the temporary name.
        match error.path() == temporary.as_ref() {
            true => Error::new(error.kind(), error.message().to_owned()).at("put", path).caused_by(error),
            false => error,
        }
    })
}

/// The status of the file or directory at a place; None if there is none.
fn existing(place: &Place) -> Result<Option<FileStatus>> {
    match place.process.wait(place.fs.stat(&place.who, &place.path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn upload(source: &mut File, local: &str, target: Stream) -> Result<()> {
    let mut piece = vec![0; COPY_BYTES];
    loop {
        let bytes = source.read(&mut piece).map_err(|error| locally(error, "read", local))?;
        if bytes == 0 {
            return target.close();
        }
        let mut rest = &piece[..bytes];
        while !rest.is_empty() {
            rest = &rest[target.write(rest)?..];
        }
    }
}

/// Copies a file of a store to this host. The local file gets its name when all its bytes are on the disk.
pub fn get(uri: &str, local: &str, replace: bool) -> Result<()> {
    let source = Stream::open(uri, nix::libc::O_RDONLY, 0)?;
    let directory = Path::new(local).parent().map_or_else(PathBuf::new, Path::to_owned);
    let temporary = directory.join(temporary_name("get")?);
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let got = download(&source, &temporary, local).and_then(|()| {
        renameat_with(CWD, &temporary, CWD, local, flags)
            .map_err(|error| locally(error.into(), "create", local))
    });
    if got.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    got
}

fn download(source: &Stream, temporary: &Path, local: &str) -> Result<()> {
    let failed = |error| locally(error, "write", local);
    let mut target = File::create_new(temporary).map_err(failed)?;
    let mut piece = vec![0; COPY_BYTES];
    loop {
        match source.read(&mut piece)? {
            0 => return target.sync_all().map_err(failed),
            bytes => target.write_all(&piece[..bytes]).map_err(failed)?,
        }
    }
}

/// A name that no other file has.
fn temporary_name(operation: &str) -> Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|error| {
        Error::new(ErrorKind::Internal, "the kernel gives no random bytes").caused_by(error)
    })?;
    Ok(format!(".strait-{operation}-{:016x}", u64::from_ne_bytes(random)))
}

fn refuse(kind: ErrorKind, message: &'static str, path: &StorePath) -> Result<()> {
    Err(Error::new(kind, message).at("put", path))
}

/// An error of this host's file system.
fn locally(error: std::io::Error, operation: &'static str, local: &str) -> Error {
    Error::from(error).at(operation, local)
}

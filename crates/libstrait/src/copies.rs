//! Copies of files between this host and a store.

use crate::process::Place;
use crate::streams::Stream;
use nix::libc::O_RDONLY;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use strait_store::random::try_random;
use strait_store::{CreateOptions, Error, ErrorKind, FileStatus, Result, StorePath};

/// Bytes of one step of a copy.
const COPY_BYTES: usize = 1 << 20;
/// Bits that a copy takes from its source.
const PERMISSION: u32 = 0o777;
/// Those of a local file whose source has none, before the umask.
const NEW_FILE: u32 = 0o666;

/// Copies a local file to a store; if the target is a directory, into it. The file gets its name when all its
/// bytes are there.
pub fn put(local: &Path, uri: &str, replace: bool) -> Result<()> {
    let mut source = File::open(local).map_err(|error| locally(error, "read", local))?;
    let metadata = source.metadata().map_err(|error| locally(error, "read", local))?;
    if metadata.is_dir() {
        return Err(refused(ErrorKind::IsADirectory, "it is a directory", &local.display().to_string()));
    }
    let mut place = Place::of(uri)?;
    let mut there = existing(&place)?;
    if there.as_ref().is_some_and(FileStatus::is_directory) {
        let name = local.file_name().and_then(OsStr::to_str).unwrap_or_default();
        place.path = place.path.join(name).map_err(|error| error.at("put", &place.path))?;
        there = existing(&place)?;
    }
    match &there {
        Some(status) if status.is_directory() => {
            return Err(refused(ErrorKind::IsADirectory, "a directory has that name", place.path.as_ref()));
        }
        Some(_) if !replace => {
            return Err(refused(ErrorKind::AlreadyExists, "the file exists", place.path.as_ref()));
        }
        _ => {}
    }
    let capabilities = place.fs.capabilities();
    let options = CreateOptions {
        // A pipe's bits have no meaning for its contents.
        permission: metadata.is_file().then(|| metadata.permissions().mode() & PERMISSION),
        ..CreateOptions::default()
    };
    // If the store shows a file only when it is complete, and renames by copying, no temporary name is needed.
    if !capabilities.visible_while_written && !capabilities.atomic_rename {
        let options = CreateOptions { overwrite: replace, ..options };
        return upload(&mut source, local, Stream::create(&place, &place.path, &options)?);
    }
    let temporary = place.path.parent().unwrap_or_else(StorePath::root).join(&temporary_name("put")?)?;
    let target = match Stream::create(&place, &temporary, &options) {
        // It may have been created all the same.
        Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut) => {
            return Err(with_leftover(&place, &temporary, certainly_missing(error)));
        }
        created => created.map_err(|error| of_target(&place, &temporary, error))?,
    };
    upload(&mut source, local, target)
        .map_err(|error| with_leftover(&place, &temporary, certainly_missing(error)))?;
    if there.is_some() && !capabilities.rename_replace {
        let Place { process, fs, who, path } = &place;
        process
            .wait(fs.remove(who, path, false))
            .map_err(|error| with_leftover(&place, &temporary, error))?;
        // The old file is gone, so the new one stays in any case.
        return reveal(&place, &temporary, false).map_err(|error| {
            let message =
                format!("{}; the old file is gone, and {temporary} has the new one", error.message());
            Error::new(error.kind(), message).at("put", path).caused_by(error)
        });
    }
    let revealed = reveal(&place, &temporary, replace && capabilities.rename_replace);
    revealed.map_err(|error| with_leftover(&place, &temporary, error))
}

/// The error with the target's name: nobody knows the temporary one.
fn of_target(place: &Place, temporary: &StorePath, error: Error) -> Error {
    if error.path() != temporary.as_ref() {
        return error;
    }
    let safe = error.retry_safe();
    let told = Error::new(error.kind(), error.message().to_owned());
    told.at("put", &place.path).with_retry_safe(safe).caused_by(error)
}

/// Until the rename, nothing has the target's name.
fn certainly_missing(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutcomeUnknown => {
            Error::new(ErrorKind::Unavailable, error.message().to_owned()).at("put", error.path())
        }
        _ => error,
    }
}

/// Gives the file its name.
fn reveal(place: &Place, temporary: &StorePath, replace: bool) -> Result<()> {
    let Place { process, fs, who, path } = place;
    match process.wait(fs.rename(who, temporary, path, replace)) {
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
            match process.wait(fs.stat(who, temporary)) {
                Err(gone) if gone.kind() == ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }
        }
        renamed => renamed,
    }
}

/// Removes the unfinished file. If it can't, the error names it.
fn with_leftover(place: &Place, temporary: &StorePath, error: Error) -> Error {
    let error = of_target(place, temporary, error);
    match place.process.wait(place.fs.remove(&place.who, temporary, false)) {
        Err(left) if left.kind() != ErrorKind::NotFound => {
            let message = format!("{}; the temporary file {temporary} may remain", error.message());
            let (path, safe) = (error.path().to_owned(), error.retry_safe());
            Error::new(error.kind(), message).at("put", path).with_retry_safe(safe).caused_by(error)
        }
        _ => error,
    }
}

/// The status of the file or directory at a place; None if there is none.
fn existing(place: &Place) -> Result<Option<FileStatus>> {
    match place.process.wait(place.fs.stat(&place.who, &place.path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn upload(source: &mut File, local: &Path, target: Stream) -> Result<()> {
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

/// Copies a file of a store to this host; if the target is a directory, into it. The local file gets its name when
/// all its bytes are on the disk.
pub fn get(uri: &str, local: &Path, replace: bool) -> Result<()> {
    let place = Place::of(uri)?;
    let mut local = local.to_owned();
    let mut there = on_this_host(&local)?;
    if there.as_ref().is_some_and(Metadata::is_dir) {
        local.push(place.path.name());
        there = on_this_host(&local)?;
    }
    match &there {
        Some(metadata) if !metadata.is_file() => {
            let why = "it isn't a regular file";
            return Err(Error::new(ErrorKind::InvalidArgument, why).at("get", local.display().to_string()));
        }
        Some(_) if !replace => {
            let why = "the file exists";
            return Err(Error::new(ErrorKind::AlreadyExists, why).at("get", local.display().to_string()));
        }
        _ => {}
    }
    let status = place.process.wait(place.fs.stat(&place.who, &place.path))?;
    let source = Stream::open(uri, O_RDONLY, 0)?;
    let temporary = local.parent().map_or_else(PathBuf::new, Path::to_owned).join(temporary_name("get")?);
    let permission = match place.fs.capabilities().permissions {
        true => status.permission & PERMISSION,
        false => NEW_FILE,
    };
    let got = download(&source, &temporary, &local, permission).and_then(|()| {
        reveal_locally(&temporary, &local, replace).map_err(|error| locally(error, "create", &local))
    });
    if got.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    got
}

fn on_this_host(local: &Path) -> Result<Option<Metadata>> {
    match if local.is_dir() { fs::metadata(local) } else { fs::symlink_metadata(local) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some).map_err(|error| locally(error, "get", local)),
    }
}

fn download(source: &Stream, temporary: &Path, local: &Path, permission: u32) -> Result<()> {
    let failed = |error| locally(error, "write", local);
    // The file never has more bits than these, minus the umask.
    let target = OpenOptions::new().write(true).create_new(true).mode(permission).open(temporary);
    let mut target = target.map_err(failed)?;
    let (mut piece, length) = (vec![0; COPY_BYTES], source.length()?);
    loop {
        match source.read(&mut piece)? {
            0 if source.position()? < length => {
                let why = "the file was shortened while it was read";
                return Err(Error::new(ErrorKind::Unavailable, why).at("get", local.display().to_string()));
            }
            0 => return target.sync_all().map_err(failed),
            bytes => target.write_all(&piece[..bytes]).map_err(failed)?,
        }
    }
}

fn reveal_locally(temporary: &Path, local: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fs::rename(temporary, local);
    }
    match renameat_with(CWD, temporary, CWD, local, RenameFlags::NOREPLACE) {
        // Some file systems, such as NFS, can't.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(temporary, local)?;
            fs::remove_file(temporary)
        }
        renamed => Ok(renamed?),
    }
}

/// A name that no other file has.
fn temporary_name(operation: &str) -> Result<String> {
    let random = try_random().map_err(|error| {
        Error::new(ErrorKind::Internal, "the kernel gives no random bytes").caused_by(error)
    })?;
    Ok(format!(".strait-{operation}-{:016x}", u64::from_ne_bytes(random)))
}

fn refused(kind: ErrorKind, message: &'static str, path: &str) -> Error {
    Error::new(kind, message).at("put", path)
}

/// An error of this host's file system.
fn locally(error: io::Error, operation: &'static str, local: &Path) -> Error {
    Error::from(error).at(operation, local.display().to_string())
}

//! `put` writes files under a temporary name and renames them when they are whole. In a bucket, files appear
//! whole without that.

use super::leftovers::{Leftover, Leftovers};
use super::pump;
use super::running::Running;
use super::targets::{Targets, WITH_PARENTS, check_directory, local_path, stored_name};
use crate::cli::Put;
use crate::context::{Context, Place, umask};
use crate::failure::Failure;
use crate::messages::Messages;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::tally::Tally;
use crate::waiting::{Aliases, Waiting};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use strait_store::{CreateOptions, Error, ErrorKind, FileStatus, FileWriter, SetAttributes, StorePath};

/// Largest number of attempts to rename a file, while the outcome is unknown.
const RENAMES: usize = 3;

/// Copies each source into a store.
pub async fn put(context: &Context, mut put: Put) -> Result<(), Failure> {
    let target = match put.operands.len() {
        0 | 1 => return Err(Failure::usage("put: target missing: strait put SOURCE… URI")),
        _ => put.operands.pop().unwrap_or_default(),
    };
    if let Some(source) = put.operands.iter().find(|source| source.contains("://")) {
        return Err(Failure::usage(format!(
            "put: {source} isn't a local path; within stores, copy by `strait cat {source} | strait put - {target}`"
        )));
    }
    let progress = Progress::new(!context.json);
    let messages = context.messages();
    let (leftovers, aliases) = (Leftovers::new(messages), context.aliases.clone());
    let upload = Upload { put, umask: umask(), progress, leftovers, messages, aliases };
    let mut signals = Signals::catch_all()?;
    let copying = upload.all(context, &target);
    let result = signals.unless(copying).await;
    upload.progress.finish();
    // A second signal ends the command even during the cleanup.
    tokio::select! {
        () = upload.leftovers.clear() => result,
        failure = signals.next() => Err(failure),
    }
}

struct Upload {
    put: Put,
    umask: u32,
    progress: Progress,
    leftovers: Leftovers,
    messages: Messages,
    aliases: Aliases,
}

impl Upload {
    async fn all(&self, context: &Context, named: &str) -> Result<(), Failure> {
        // [`Place::stat`] would refuse a slash at the end; it is checked below.
        let target = &Place { slash: false, ..context.place(named).await? };
        self.check_capabilities(target)?;
        let there = target.find_target().await?;
        let into = there.as_ref().is_some_and(FileStatus::is_directory);
        if !into {
            self.check_single(target, named.ends_with('/'), there.is_some()).await?;
        }
        let targets = self.targets(target, into)?;
        self.count().await;
        let mut tally = context.tally();
        let mut out = context.output();
        let mut running = Running::new();
        for (source, target) in self.put.operands.iter().zip(targets) {
            let mut waiting = vec![(local_path(source), target)];
            while let Some((source, target)) = waiting.pop() {
                match self.look_at(&source).await {
                    Err(failure) => tally.add(Err(failure))?,
                    Ok(Found::Directory(metadata)) => {
                        let entering = self.enter(&source, metadata, &target, &mut tally);
                        let entered = running.beside(entering).await;
                        tally.add(entered.map(|entries| waiting.extend(entries)))?;
                    }
                    Ok(Found::File(metadata)) => {
                        while running.len() >= self.put.copying.threads.into() {
                            if let Some(copied) = running.next().await {
                                tally.add(told(copied, &mut out))?;
                            }
                        }
                        running.push(self.file(source, metadata, target));
                    }
                }
            }
        }
        while let Some(copied) = running.next().await {
            tally.add(told(copied, &mut out))?;
        }
        tally.finish()
    }

    /// Refuses flags that a store without replicas and blocks would silently ignore.
    fn check_capabilities(&self, target: &Place) -> Result<(), Failure> {
        let asked = match (self.put.replication, self.put.block_size, self.put.min_replicas) {
            (Some(_), ..) => "--replication",
            (None, Some(_), _) => "--block-size",
            (None, None, Some(_)) => "--min-replicas",
            (None, None, None) => return Ok(()),
        };
        if target.fs.capabilities().replication {
            return Ok(());
        }
        let why = format!("this store has neither replicas nor blocks; omit {asked}");
        Err(Failure::at(ErrorKind::Unsupported, "put", &target.path, why))
    }

    /// If the target isn't a directory, there may be only one source, and the target's parent must exist: a
    /// typing error shouldn't create a tree. A slash at the end means that the target should be a directory.
    async fn check_single(&self, target: &Place, slash: bool, is_file: bool) -> Result<(), Failure> {
        let several = self.put.operands.len() > 1;
        let fail = |why: &str| Err(Failure::at(ErrorKind::NotADirectory, "put", &target.path, why));
        if several && is_file {
            return fail("the target must be a directory, because there are several sources");
        }
        if slash && is_file {
            return fail("not a directory");
        }
        let needed = if slash || several { Some(target.path.clone()) } else { target.path.parent() };
        match needed {
            Some(needed) => check_directory("put", target, &needed, WITH_PARENTS).await,
            None => Ok(()),
        }
    }

    /// Counts the bytes to copy, for the progress bar: if the total grew while directories are found, the bar
    /// would show nothing useful.
    async fn count(&self) {
        let sources: Vec<PathBuf> = self.put.operands.iter().map(|source| local_path(source)).collect();
        if !self.progress.is_shown() || !sources.iter().any(|source| source.is_dir()) {
            return;
        }
        if let Ok((files, bytes)) = tokio::task::spawn_blocking(|| counted(sources)).await {
            self.progress.expect(files, bytes);
        }
    }

    /// The target of each source.
    fn targets(&self, target: &Place, into: bool) -> Result<Vec<Place>, Failure> {
        let mut seen = Targets::of("put");
        let mut targets = Vec::with_capacity(self.put.operands.len());
        for source in &self.put.operands {
            let target = self.target_of(source, target, into)?;
            seen.add(source, &target.path)?;
            targets.push(target);
        }
        Ok(targets)
    }

    fn target_of(&self, source: &str, target: &Place, into: bool) -> Result<Place, Failure> {
        if !into {
            return Ok(target.clone());
        }
        if source == "-" {
            return Err(Failure::usage(format!("put: {} is a directory; name the file in it", target.path)));
        }
        // `.` and `..` have a name only after they are resolved.
        let named = |path: &Path| path.file_name().map(stored_name);
        let source_path = local_path(source);
        let name = match named(&source_path) {
            Some(name) => Some(name),
            None => fs::canonicalize(&source_path).ok().as_deref().and_then(named),
        };
        match name {
            Some(name) => Ok(target.entry(&name)?),
            None => Err(Failure::usage(format!("put: {source} has no name that a store could keep"))),
        }
    }

    async fn look_at(&self, source: &Path) -> Result<Found, Failure> {
        if source == Path::new("-") {
            return Ok(Found::File(None));
        }
        let metadata = fs::metadata(source).map_err(|error| Failure::local(error, "read", source))?;
        Ok(if metadata.is_dir() { Found::Directory(metadata) } else { Found::File(Some(metadata)) })
    }

    /// Creates a directory in the store and returns the entries to copy into it.
    async fn enter(
        &self,
        source: &Path,
        metadata: Metadata,
        target: &Place,
        tally: &mut Tally,
    ) -> Result<Vec<(PathBuf, Place)>, Failure> {
        // The user must be able to write into it while copying.
        let permission = Some(self.permission(&metadata, 0o1777) | 0o700);
        let made = target.fs.mkdirs(&target.who, &target.path, permission).await;
        made.map_err(|error| Failure::naming(error, "put", &target.path))?;
        let failed = |error| Failure::local(error, "read", source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let kind = entry.file_type().map_err(failed)?;
            // A link to a directory could lead in circles; a device never ends.
            let copied = kind.is_file() || kind.is_dir() || (kind.is_symlink() && path.is_file());
            if copied {
                entries.push((path, target.entry(&stored_name(&entry.file_name()))?));
                continue;
            }
            let what = match kind.is_symlink() {
                true if path.is_dir() => "a link to a directory",
                true => "a link that leads to no file",
                false => "neither a file nor a directory",
            };
            let why = format!("skipped: {what}");
            tally.add(Err(Failure::at(ErrorKind::InvalidArgument, "put", path.display(), why)))?;
        }
        entries.sort_by(|a, b| b.0.cmp(&a.0)); // taken from the end
        Ok(entries)
    }

    /// A copy's permission bits, limited to `kept`: with --preserve the source's, otherwise minus the umask,
    /// as in cp(1).
    fn permission(&self, metadata: &Metadata, kept: u32) -> u32 {
        let bits = metadata.permissions().mode() & kept;
        if self.put.copying.preserve { bits } else { bits & 0o777 & !self.umask }
    }

    async fn file(
        &self,
        source: PathBuf,
        metadata: Option<Metadata>,
        target: Place,
    ) -> Result<Copied, Failure> {
        self.check_free(&target).await?;
        let parent = target.path.parent().unwrap_or_else(|| target.path.clone());
        // If the store shows a file only when it is complete, and renames by copying, no temporary name is
        // needed.
        let capabilities = target.fs.capabilities();
        let appears_whole = !capabilities.visible_while_written && !capabilities.atomic_rename;
        let temporary = target.at(parent).entry(&self.leftovers.name("put")?)?;
        let input: Box<dyn Read + Send> = match &metadata {
            None => Box::new(io::stdin()),
            Some(metadata) => {
                let shown = source.display().to_string();
                let waiting = match metadata.file_type().is_fifo() {
                    true => Waiting::for_pipe(self.messages, &shown),
                    false => Waiting::new(self.messages, &shown),
                };
                Box::new(waiting.on("open", open(source.clone())).await?)
            }
        };
        let preserved = metadata.as_ref().filter(|_| self.put.copying.preserve);
        let options = CreateOptions {
            overwrite: appears_whole && self.put.copying.force,
            permission: metadata
                .as_ref()
                // A pipe's mode has no meaning for its contents.
                .filter(|metadata| metadata.is_file())
                .map(|metadata| self.permission(metadata, 0o777)),
            replication: self.put.replication,
            block_size: self.put.block_size,
            min_replicas: self.put.min_replicas,
        };
        self.progress.found(target.path.name(), metadata.as_ref().map_or(0, Metadata::len));
        if appears_whole {
            // On failure, the writer itself removes the unfinished file.
            let writer = target.fs.create(&target.who, &target.path, &options).await;
            let writer = writer.map_err(|error| Failure::naming(error, "put", &target.path))?;
            let bytes = self.write(input, &source, writer, preserved, &target, &target).await?;
            self.progress.done();
            return Ok(Copied { local: source, path: target.path, bytes });
        }
        let ticket = self.leftovers.add(Leftover::Stored(temporary.clone()));
        // Notices name the target, except while the temporary file is removed.
        let alias = self.aliases.add(&temporary.path, &target.path);
        let writer = match temporary.fs.create(&temporary.who, &temporary.path, &options).await {
            Ok(writer) => writer,
            Err(error) => {
                drop(alias);
                match error.kind() {
                    ErrorKind::OutcomeUnknown | ErrorKind::TimedOut => self.leftovers.remove(ticket).await,
                    _ => self.leftovers.settled(ticket), // it wasn't created
                }
                return Err(unseen(error, &temporary, &target));
            }
        };
        let copied = async {
            let bytes = self.write(input, &source, writer, preserved, &temporary, &target).await?;
            self.rename(&temporary, &target, bytes).await?;
            Ok(bytes)
        };
        let copied = copied.await;
        drop(alias);
        match copied {
            Ok(bytes) => {
                self.leftovers.settled(ticket);
                self.progress.done();
                Ok(Copied { local: source, path: target.path, bytes })
            }
            Err(failure) => {
                self.leftovers.remove(ticket).await;
                Err(failure)
            }
        }
    }

    /// Checks that the target is free, before anything is copied. The rename detects later changes.
    async fn check_free(&self, target: &Place) -> Result<(), Failure> {
        let refuse = |kind, why: &str| Err(Failure::at(kind, "put", &target.path, why));
        match target.find().await? {
            Some(there) if there.is_directory() => refuse(ErrorKind::IsADirectory, "a directory is there"),
            Some(_) if !self.put.copying.force => {
                refuse(ErrorKind::AlreadyExists, "the file is there already; -f replaces it")
            }
            _ => Ok(()),
        }
    }

    /// Writes the source into the temporary file, and returns its length.
    async fn write(
        &self,
        input: Box<dyn Read + Send>,
        source: &Path,
        mut writer: Box<dyn FileWriter>,
        preserved: Option<&Metadata>,
        temporary: &Place,
        target: &Place,
    ) -> Result<u64, Failure> {
        let failed = |error| unseen(error, temporary, target);
        let describe = |error| Failure::local(error, "read", source);
        let appended = pump::into_store(input, writer.as_mut(), &self.progress, describe);
        appended.await?.map_err(failed)?;
        let bytes = writer.position();
        writer.close().await.map_err(failed)?;
        if let Some(metadata) = preserved.filter(|_| temporary.fs.capabilities().times) {
            let modified_ms = Some(metadata.mtime() * 1_000 + metadata.mtime_nsec() / 1_000_000);
            let set = SetAttributes { modified_ms, ..SetAttributes::default() };
            temporary.fs.set_attributes(&temporary.who, &temporary.path, &set).await.map_err(failed)?;
        }
        Ok(bytes)
    }

    /// Renames the temporary file, which has this many bytes, to its target.
    async fn rename(&self, temporary: &Place, target: &Place, bytes: u64) -> Result<(), Failure> {
        let (fs, who) = (&target.fs, &target.who);
        let mut replace = self.put.copying.force;
        if replace && !fs.capabilities().rename_replace {
            // The store can't replace a file in one step.
            match fs.remove(who, &target.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => replace = false,
            }
        }
        let (mut first, mut tries) = (None, 0);
        loop {
            tries += 1;
            let failed = match fs.rename(who, &temporary.path, &target.path, replace).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // If the outcome of an earlier attempt is unknown, that attempt may have succeeded since.
            let arrived_late = first.is_some() && failed.kind() == ErrorKind::NotFound;
            if failed.kind() != ErrorKind::OutcomeUnknown && !arrived_late {
                return Err(Failure::of_temporary(failed, "put", &temporary.path, &target.path));
            }
            let failed = first.take().unwrap_or(failed);
            // No other program uses the temporary name. While it exists, no attempt has succeeded. After one
            // has succeeded, an earlier attempt that arrives late fails.
            match (temporary.find().await, target.find().await) {
                (Ok(None), Ok(Some(status))) if status.length == bytes => return Ok(()),
                (Ok(Some(_)), _) if tries < RENAMES => first = Some(failed),
                _ => return Err(Failure::of_temporary(failed, "put", &temporary.path, &target.path)),
            }
        }
    }
}

/// Number of files and bytes to copy in these trees. Unreadable entries aren't counted, and cause errors
/// later.
fn counted(mut waiting: Vec<PathBuf>) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if !metadata.is_dir() {
            files += 1;
            bytes += metadata.len();
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        waiting.extend(entries.filter_map(|entry| {
            let kind = entry.file_type().ok()?;
            let path = entry.path();
            (kind.is_file() || kind.is_dir() || kind.is_symlink() && path.is_file()).then_some(path)
        }));
    }
    (files, bytes)
}

/// Opens a local file on a blocking thread: opening a FIFO blocks until it has a writer, and must not block
/// the handling of signals.
async fn open(source: PathBuf) -> Result<File, Failure> {
    let opened = tokio::task::spawn_blocking(move || {
        File::open(&source).map_err(|error| Failure::local(error, "read", &source))
    });
    opened.await.map_err(|error| Failure::other(format!("can't open a file: {error}")))?
}

/// A failure before the file has its final name. No part of it is visible under that name, so the outcome is
/// certain: it isn't there.
fn unseen(error: Error, temporary: &Place, target: &Place) -> Failure {
    let certain = match error.kind() {
        ErrorKind::OutcomeUnknown => {
            let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Error>());
            let why = cause.unwrap_or(&error).message().to_owned();
            Error::new(ErrorKind::Unavailable, why).caused_by(error)
        }
        _ => error,
    };
    Failure::of_temporary(certain, "put", &temporary.path, &target.path)
}

/// A finished file.
struct Copied {
    local: PathBuf,
    path: StorePath,
    bytes: u64,
}

fn told(copied: Result<Copied, Failure>, out: &mut Output) -> Result<(), Failure> {
    let Copied { local, path, bytes } = copied?;
    out.done("put", &path, [("local", local.to_string_lossy().into()), ("bytes", bytes.into())])
}

/// The type of a source.
enum Found {
    Directory(Metadata),
    /// A file; `None` for standard input.
    File(Option<Metadata>),
}

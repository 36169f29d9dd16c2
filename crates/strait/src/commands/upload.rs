//! `put`: files go under a temporary name and are renamed when they are whole.

use super::leftovers::{Leftover, Leftovers};
use super::pump;
use crate::cli::Put;
use crate::context::{Context, Place};
use crate::failure::{Failure, Tally};
use crate::progress::Progress;
use crate::signals::Signals;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use strait_store::{CreateOptions, ErrorKind, FileStatus, SetAttributes};

/// Copies each source into a store.
pub async fn put(context: &Context, mut put: Put) -> Result<(), Failure> {
    let Some(target) = put.operands.pop() else { return Err(Failure::usage("put: no target")) };
    let upload = Upload { put, progress: Progress::new(!context.json), leftovers: Leftovers::default() };
    let mut signals = Signals::catch()?;
    let copying = async { upload.all(&context.place(&target).await?).await };
    let result = signals.unless(copying).await;
    upload.progress.finish();
    // A second signal ends even the cleaning up.
    tokio::select! {
        () = upload.leftovers.clear() => result,
        () = signals.next() => Err(Failure::interrupted()),
    }
}

struct Upload {
    put: Put,
    progress: Progress,
    leftovers: Leftovers,
}

impl Upload {
    async fn all(&self, target: &Place) -> Result<(), Failure> {
        let there = target.find().await?;
        let into = there.as_ref().is_some_and(FileStatus::is_directory);
        if !into {
            self.check_single(target).await?;
        }
        let mut tally = Tally::default();
        let mut running = FuturesUnordered::new();
        for source in &self.put.operands {
            let mut waiting = vec![(PathBuf::from(source), self.target_of(source, target, into)?)];
            while let Some((source, target)) = waiting.pop() {
                match self.look_at(&source).await {
                    Err(failure) => tally.add(Err(failure))?,
                    Ok(Found::Directory(metadata)) => {
                        let entered = self.enter(&source, metadata, &target, &mut tally).await;
                        tally.add(entered.map(|entries| waiting.extend(entries)))?;
                    }
                    Ok(Found::File(metadata)) => {
                        while running.len() >= self.put.copying.threads.into() {
                            tally.add(running.next().await.unwrap_or(Ok(())))?;
                        }
                        running.push(self.file(source, metadata, target));
                    }
                }
            }
        }
        while let Some(copied) = running.next().await {
            tally.add(copied)?;
        }
        tally.finish()
    }

    /// A target that isn't a directory takes one source, and its own directory
    /// must be there: a typing error isn't to make a tree.
    async fn check_single(&self, target: &Place) -> Result<(), Failure> {
        let fail = |kind: ErrorKind, what: String| Err(Failure::of(kind, format!("put {what} ({kind})")));
        if self.put.operands.len() > 1 {
            let what = format!("{}: not a directory, and there are several sources", target.path);
            return fail(ErrorKind::NotADirectory, what);
        }
        if let Some(parent) = target.path.parent()
            && target.at(parent.clone()).find().await?.is_none()
        {
            let what = format!("{}: no directory {parent}; make it with mkdir -p", target.path);
            return fail(ErrorKind::NotFound, what);
        }
        Ok(())
    }

    fn target_of(&self, source: &str, target: &Place, into: bool) -> Result<Place, Failure> {
        if !into {
            return Ok(target.clone());
        }
        if source == "-" {
            return Err(Failure::usage(format!("put: {} is a directory; name the file in it", target.path)));
        }
        // `.` and `..` have a name only when they are resolved.
        let named = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = match named(Path::new(source)) {
            Some(name) => Some(name),
            None => fs::canonicalize(source).ok().as_deref().and_then(named),
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

    /// Makes a directory and gives what is to go into it.
    async fn enter(
        &self,
        source: &Path,
        metadata: Metadata,
        target: &Place,
        tally: &mut Tally,
    ) -> Result<Vec<(PathBuf, Place)>, Failure> {
        let permission = self.put.copying.preserve.then(|| metadata.permissions().mode() & 0o1777);
        let made = target.fs.mkdirs(&target.who, &target.path, permission).await;
        made.map_err(|error| Failure::naming(error, "put", &target.path))?;
        let failed = |error| Failure::local(error, "read", source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let kind = entry.file_type().map_err(failed)?;
            // A link to a directory could lead round in circles; a device never ends.
            let copied = kind.is_file() || kind.is_dir() || (kind.is_symlink() && path.is_file());
            let name = entry.file_name();
            let why = match name.to_str() {
                Some(name) if copied => {
                    entries.push((path, target.entry(name)?));
                    continue;
                }
                Some(_) if kind.is_symlink() => "a link to no file",
                Some(_) => "neither a file nor a directory",
                None => "its name isn't UTF-8",
            };
            let kind = ErrorKind::InvalidArgument;
            tally.add(Err(Failure::of(kind, format!("put {}: left out: {why} ({kind})", path.display()))))?;
        }
        entries.sort_by(|a, b| b.0.cmp(&a.0)); // taken from the end
        Ok(entries)
    }

    async fn file(&self, source: PathBuf, metadata: Option<Metadata>, target: Place) -> Result<(), Failure> {
        self.check_free(&target).await?;
        let parent = target.path.parent().unwrap_or_else(|| target.path.clone());
        let temporary = target.at(parent).entry(&self.leftovers.name("put")?)?;
        let ticket = self.leftovers.add(Leftover::Stored(temporary.clone()));
        let copied = async {
            self.write(&source, metadata.as_ref(), &temporary, &target).await?;
            self.rename(&temporary, &target).await
        };
        match copied.await {
            Ok(()) => {
                self.leftovers.settled(ticket);
                Ok(())
            }
            Err(failure) => {
                self.leftovers.remove(ticket).await;
                Err(failure)
            }
        }
    }

    /// Before anything is copied; the renaming sees what comes in between.
    async fn check_free(&self, target: &Place) -> Result<(), Failure> {
        let refuse = |kind, why| Err(Failure::of(kind, format!("put {}: {why} ({kind})", target.path)));
        match target.find().await? {
            Some(there) if there.is_directory() => refuse(ErrorKind::IsADirectory, "a directory is there"),
            Some(_) if !self.put.copying.force => {
                refuse(ErrorKind::AlreadyExists, "the file is there already; -f replaces it")
            }
            _ => Ok(()),
        }
    }

    async fn write(
        &self,
        source: &Path,
        metadata: Option<&Metadata>,
        temporary: &Place,
        target: &Place,
    ) -> Result<(), Failure> {
        let naming = |error| Failure::naming(error, "put", &target.path);
        let preserved = metadata.filter(|_| self.put.copying.preserve);
        let options = CreateOptions {
            overwrite: false,
            permission: preserved.map(|metadata| metadata.permissions().mode() & 0o777),
            replication: self.put.replication,
            block_size: self.put.block_size,
        };
        let (input, length): (Box<dyn Read + Send>, u64) = match metadata {
            None => (Box::new(io::stdin()), 0),
            Some(metadata) => {
                let file = File::open(source).map_err(|error| Failure::local(error, "read", source))?;
                (Box::new(file), metadata.len())
            }
        };
        self.progress.found(target.path.name(), length);
        let mut writer =
            temporary.fs.create(&temporary.who, &temporary.path, &options).await.map_err(naming)?;
        let source = source.to_owned();
        let appended = pump::into_store(input, writer.as_mut(), &self.progress, |error| {
            Failure::local(error, "read", &source)
        });
        appended.await?.map_err(naming)?;
        writer.close().await.map_err(naming)?;
        if let Some(metadata) = preserved.filter(|_| temporary.fs.capabilities().times) {
            let modified_ms = Some(metadata.mtime() * 1_000 + metadata.mtime_nsec() / 1_000_000);
            let set = SetAttributes { modified_ms, ..SetAttributes::default() };
            temporary.fs.set_attributes(&temporary.who, &temporary.path, &set).await.map_err(naming)?;
        }
        Ok(())
    }

    async fn rename(&self, temporary: &Place, target: &Place) -> Result<(), Failure> {
        let (fs, who) = (&target.fs, &target.who);
        let mut replace = self.put.copying.force;
        if replace && !fs.capabilities().rename_replace {
            // The store can't do it in one step.
            match fs.remove(who, &target.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => replace = false,
            }
        }
        let renamed = fs.rename(who, &temporary.path, &target.path, replace).await;
        renamed.map_err(|error| Failure::naming(error, "put", &target.path))
    }
}

/// What a source is.
enum Found {
    Directory(Metadata),
    /// None: standard input.
    File(Option<Metadata>),
}

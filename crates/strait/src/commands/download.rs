//! `get` writes files under a temporary name and renames them when they are whole.

use super::leftovers::{Leftover, Leftovers, is_unfinished_put};
use super::running::Running;
use super::targets::{Targets, local_name, local_path};
use super::{cat, pump};
use crate::cli::Get;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::tally::Tally;
use futures::StreamExt;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use strait_store::{ErrorKind, FileReader, FileStatus, StorePath};

/// Copies each source out of its store.
pub async fn get(context: &Context, mut get: Get) -> Result<(), Failure> {
    let target = match get.operands.len() {
        0 | 1 => ".".to_owned(),
        _ => get.operands.pop().unwrap_or_default(),
    };
    if target.contains("://") {
        return Err(Failure::usage(format!(
            "get: {target} isn't a local path; the last operand must be one"
        )));
    }
    let mut tally = context.tally();
    get.operands = context.expanded(&get.operands, &mut tally).await?;
    if target == "-" {
        return print_all(context, &get, tally).await;
    }
    if get.operands.is_empty() {
        return tally.finish();
    }
    let progress = Progress::new(!context.json);
    let download = Download { get, progress, leftovers: Leftovers::new(context.messages()) };
    let mut signals = Signals::catch_all()?;
    let result = signals.unless(download.all(context, &target, tally)).await;
    download.progress.finish();
    // A second signal ends the command even during the cleanup.
    tokio::select! {
        () = download.leftovers.clear() => result,
        failure = signals.next() => Err(failure),
    }
}

async fn print_all(context: &Context, get: &Get, mut tally: Tally) -> Result<(), Failure> {
    for uri in &get.operands {
        let printed = async { cat::print(&context.place(uri).await?).await };
        tally.add(printed.await)?;
    }
    tally.finish()
}

struct Download {
    get: Get,
    progress: Progress,
    leftovers: Leftovers,
}

impl Download {
    async fn all(&self, context: &Context, named: &str, mut tally: Tally) -> Result<(), Failure> {
        let target = &local_path(named);
        let into = target.is_dir();
        if !into {
            self.check_single(named)?;
        }
        let sources = self.sources(context, target, into, &mut tally).await?;
        let mut out = context.output();
        let mut running = Running::new();
        for (place, local) in sources {
            let status = match running.beside(place.stat()).await {
                Ok(status) => status,
                Err(error) => {
                    tally.add(Err(error.into()))?;
                    continue;
                }
            };
            let mut waiting = vec![(place, status, local)];
            while let Some((place, status, local)) = waiting.pop() {
                if status.is_directory() {
                    let entered = running.beside(self.enter(&place, &status, &local, &mut tally)).await;
                    tally.add(entered.map(|entries| waiting.extend(entries)))?;
                    continue;
                }
                while running.len() >= self.get.copying.threads.into() {
                    if let Some(copied) = running.next().await {
                        tally.add(told(copied, &mut out))?;
                    }
                }
                running.push(self.file(place, status, local));
            }
        }
        while let Some(copied) = running.next().await {
            tally.add(told(copied, &mut out))?;
        }
        tally.finish()
    }

    /// The sources, each with its target.
    async fn sources(
        &self,
        context: &Context,
        target: &Path,
        into: bool,
        tally: &mut Tally,
    ) -> Result<Vec<(Place, PathBuf)>, Failure> {
        let mut seen = Targets::of("get");
        let mut sources = Vec::with_capacity(self.get.operands.len());
        for uri in &self.get.operands {
            match context.place(uri).await {
                Ok(place) => {
                    // The root has no name: its entries go directly into the directory.
                    let named = into && !place.path.is_root();
                    let local =
                        if named { target.join(local_name(place.path.name())) } else { target.to_owned() };
                    seen.add(uri, local.display())?;
                    sources.push((place, local));
                }
                Err(failure) => tally.add(Err(failure))?,
            }
        }
        Ok(sources)
    }

    /// If the target isn't a directory, there may be only one source, and its copy gets the target's name.
    fn check_single(&self, target: &str) -> Result<(), Failure> {
        let refuse = |kind, why: String| Err(Failure::at(kind, "get", target, why));
        let missing =
            |path| refuse(ErrorKind::NotFound, format!("no directory {path}; create it with mkdir -p"));
        if self.get.operands.len() > 1 && !local_path(target).exists() {
            return missing(target);
        }
        if self.get.operands.len() > 1 {
            let why = "the target must be a directory, because there are several sources";
            return refuse(ErrorKind::NotADirectory, why.to_owned());
        }
        match target.strip_suffix('/') {
            None => Ok(()),
            Some(file) if Path::new(file).exists() => {
                refuse(ErrorKind::NotADirectory, "not a directory".to_owned())
            }
            Some(directory) => missing(directory),
        }
    }

    /// Creates a local directory and returns the entries to copy into it.
    async fn enter(
        &self,
        place: &Place,
        status: &FileStatus,
        local: &Path,
        tally: &mut Tally,
    ) -> Result<Vec<(Place, FileStatus, PathBuf)>, Failure> {
        if !local.is_dir() {
            if local.exists() {
                let why = "it is a file, and the source is a directory; choose another name".to_owned();
                return Err(Failure::at(ErrorKind::AlreadyExists, "get", local.display(), why));
            }
            let bits = if place.fs.capabilities().permissions { status.permission & 0o777 } else { 0o777 };
            // The user must be able to write into it while copying.
            let made = fs::DirBuilder::new().mode(bits | 0o700).create(local);
            made.map_err(|error| Failure::local(error, "make", local))?;
        }
        let mut entries = Vec::new();
        let mut listing = place.fs.list(&place.who, &place.path);
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            match plain_entry(&entry.path, &place.path) {
                Some(path) if !entry.is_directory() && is_unfinished_put(path.name()) => {}
                Some(path) if entry.is_directory() && entry.link => {
                    let why = "skipped: a link to a directory";
                    tally.add(Err(Failure::at(ErrorKind::InvalidArgument, "get", &path, why)))?;
                }
                Some(path) => {
                    let local = local.join(local_name(path.name()));
                    entries.push((place.at(path), entry, local));
                }
                None => {
                    let why = format!("the store lists an invalid name: {:?}", entry.path);
                    tally.add(Err(Failure::at(ErrorKind::InvalidArgument, "get", &place.path, why)))?;
                }
            }
        }
        entries.sort_by(|a, b| b.2.cmp(&a.2)); // taken from the end
        Ok(entries)
    }

    async fn file(&self, place: Place, status: FileStatus, local: PathBuf) -> Result<Copied, Failure> {
        match local.symlink_metadata() {
            Ok(there) if there.is_dir() => {
                let why = "a directory is there";
                return Err(Failure::at(ErrorKind::IsADirectory, "get", local.display(), why));
            }
            // A rename would replace a device or pipe with a file.
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                let why = "not a regular file; `get URI -` writes to standard output";
                return Err(Failure::at(ErrorKind::InvalidArgument, "get", local.display(), why));
            }
            Ok(_) if !self.get.copying.force => return Err(already_there(&local)),
            _ => {}
        }
        let directory = match local.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let temporary = directory.join(self.leftovers.name("get")?);
        let reader = place.fs.open(&place.who, &place.path).await?;
        // The file never has more bits than these, minus the umask.
        let bits = if place.fs.capabilities().permissions { status.permission & 0o777 } else { 0o666 };
        let file = OpenOptions::new().write(true).create_new(true).mode(bits).open(&temporary);
        let file = file.map_err(|error| Failure::local(error, "write", &local))?;
        let ticket = self.leftovers.add(Leftover::Local(temporary.clone()));
        let copied = async {
            self.write(&place, &status, reader.as_ref(), file, &local).await?;
            rename(&temporary, &local, self.get.copying.force)
        };
        match copied.await {
            Ok(()) => {
                self.leftovers.settled(ticket);
                self.progress.done();
                Ok(Copied { path: place.path, bytes: reader.length(), local })
            }
            Err(failure) => {
                self.leftovers.remove(ticket).await;
                Err(failure)
            }
        }
    }

    async fn write(
        &self,
        place: &Place,
        status: &FileStatus,
        reader: &dyn FileReader,
        file: File,
        local: &Path,
    ) -> Result<(), Failure> {
        let failed = |error| Failure::local(error, "write", local);
        self.progress.found(place.path.name(), status.length);
        let file = pump::out_of_store(reader, place.path.as_str(), file, &self.progress, failed).await?;
        if self.get.copying.preserve {
            preserve(&file, status).map_err(failed)?;
        }
        Ok(())
    }
}

/// A finished file.
struct Copied {
    path: StorePath,
    local: PathBuf,
    bytes: u64,
}

fn told(copied: Result<Copied, Failure>, out: &mut Output) -> Result<(), Failure> {
    let Copied { path, local, bytes } = copied?;
    out.done("get", &path, [("local", local.to_string_lossy().into()), ("bytes", bytes.into())])
}

/// The path of a directory's entry, if it is one plain name in the directory, as an honest store reports it.
/// Any other path could lead out of the local directory.
fn plain_entry(entry: &str, directory: &StorePath) -> Option<StorePath> {
    let path = StorePath::parse(entry).ok()?;
    (path.parent().as_ref() == Some(directory)).then_some(path)
}

fn preserve(file: &File, status: &FileStatus) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(status.permission & 0o777))?;
    match u64::try_from(status.modified_ms) {
        Ok(ms) => file.set_modified(UNIX_EPOCH + Duration::from_millis(ms)),
        Err(_) => Ok(()), // a time before 1970 isn't kept
    }
}

/// Gives a complete file its final name. Replaces another file only if `replace` is set.
fn rename(temporary: &Path, local: &Path, replace: bool) -> Result<(), Failure> {
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, temporary, CWD, local, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(already_there(local)),
        // The file system doesn't support the flag. Then only the earlier check protects an existing file.
        Err(Errno::INVAL | Errno::NOSYS) if !replace => {
            fs::rename(temporary, local).map_err(|error| Failure::local(error, "write", local))
        }
        Err(error) => Err(Failure::local(error.into(), "write", local)),
    }
}

fn already_there(local: &Path) -> Failure {
    let why = "the file is there already; -f replaces it";
    Failure::at(ErrorKind::AlreadyExists, "get", local.display(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_listing_leads_out_of_the_local_directory() {
        let directory = StorePath::parse("/a").unwrap();
        assert_eq!(plain_entry("/a/b", &directory).map(|path| path.name().to_owned()).as_deref(), Some("b"));
        for evil in ["/a/../b", "/b", "/a", "/a/b/c", "b", "..", "/a/..", ""] {
            assert!(plain_entry(evil, &directory).is_none(), "{evil}");
        }
    }
}

//! `get`: files are written under a temporary name and renamed when they are
//! whole.

use super::leftovers::{Leftover, Leftovers};
use super::{cat, pump};
use crate::cli::Get;
use crate::context::{Context, Place};
use crate::failure::{Failure, Tally};
use crate::progress::Progress;
use crate::signals::Signals;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use strait_store::{ErrorKind, FileStatus, StorePath};

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
    if target == "-" {
        return print_all(context, &get).await;
    }
    let download = Download { get, progress: Progress::new(!context.json), leftovers: Leftovers::default() };
    let mut signals = Signals::catch()?;
    let result = signals.unless(download.all(context, Path::new(&target))).await;
    download.progress.finish();
    // A second signal ends even the cleaning up.
    tokio::select! {
        () = download.leftovers.clear() => result,
        () = signals.next() => Err(Failure::interrupted()),
    }
}

async fn print_all(context: &Context, get: &Get) -> Result<(), Failure> {
    let mut tally = Tally::default();
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
    async fn all(&self, context: &Context, target: &Path) -> Result<(), Failure> {
        let into = target.is_dir();
        if !into && self.get.operands.len() > 1 {
            let kind = ErrorKind::NotADirectory;
            let shown = target.display();
            let what = format!("get {shown}: not a directory, and there are several sources ({kind})");
            return Err(Failure::of(kind, what));
        }
        let mut tally = Tally::default();
        let mut running = FuturesUnordered::new();
        for uri in &self.get.operands {
            let found = async {
                let place = context.place(uri).await?;
                let status = place.stat().await?;
                Ok((place, status))
            };
            let (place, status) = match found.await {
                Ok(found) => found,
                Err(failure) => {
                    tally.add(Err(failure))?;
                    continue;
                }
            };
            // The root has no name: its entries go right into the directory.
            let named = into && !place.path.is_root();
            let local = if named { target.join(place.path.name()) } else { target.to_owned() };
            let mut waiting = vec![(place, status, local)];
            while let Some((place, status, local)) = waiting.pop() {
                if status.is_directory() {
                    let entered = self.enter(&place, &local, &mut tally).await;
                    tally.add(entered.map(|entries| waiting.extend(entries)))?;
                    continue;
                }
                while running.len() >= self.get.copying.threads.into() {
                    tally.add(running.next().await.unwrap_or(Ok(())))?;
                }
                running.push(self.file(place, status, local));
            }
        }
        while let Some(copied) = running.next().await {
            tally.add(copied)?;
        }
        tally.finish()
    }

    /// Makes a local directory and gives what is to go into it.
    async fn enter(
        &self,
        place: &Place,
        local: &Path,
        tally: &mut Tally,
    ) -> Result<Vec<(Place, FileStatus, PathBuf)>, Failure> {
        if !local.is_dir() {
            fs::create_dir(local).map_err(|error| Failure::local(error, "make", local))?;
        }
        let mut entries = Vec::new();
        let mut listing = place.fs.list(&place.who, &place.path);
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            match plain_entry(&entry.path, &place.path) {
                Some(path) => {
                    let local = local.join(path.name());
                    entries.push((place.at(path), entry, local));
                }
                None => tally.add(Err(Failure::of(
                    ErrorKind::InvalidArgument,
                    format!("get {}: not a name that can be asked for: {:?}", place.path, entry.path),
                )))?,
            }
        }
        entries.sort_by(|a, b| b.2.cmp(&a.2)); // taken from the end
        Ok(entries)
    }

    async fn file(&self, place: Place, status: FileStatus, local: PathBuf) -> Result<(), Failure> {
        match local.symlink_metadata() {
            Ok(_) if !self.get.copying.force => return Err(already_there(&local)),
            // A rename would put a file in the place of a device or pipe.
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                let shown = local.display();
                let what = format!("get {shown}: no regular file; `get URI -` writes to standard output");
                return Err(Failure::of(ErrorKind::InvalidArgument, what));
            }
            _ => {}
        }
        let directory = match local.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let temporary = directory.join(self.leftovers.name("get")?);
        let ticket = self.leftovers.add(Leftover::Local(temporary.clone()));
        let copied = async {
            self.write(&place, &status, &temporary).await?;
            rename(&temporary, &local, self.get.copying.force)
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

    async fn write(&self, place: &Place, status: &FileStatus, temporary: &Path) -> Result<(), Failure> {
        let failed = |error| Failure::local(error, "write", temporary);
        self.progress.found(place.path.name(), status.length);
        let reader = place.fs.open(&place.who, &place.path).await?;
        let file = OpenOptions::new().write(true).create_new(true).open(temporary).map_err(failed)?;
        let path = place.path.as_str();
        let file = pump::out_of_store(reader.as_ref(), path, file, &self.progress, failed).await?;
        if self.get.copying.preserve {
            preserve(&file, status).map_err(failed)?;
        }
        Ok(())
    }
}

/// The path of a directory's entry, if it is what an honest store answers: one
/// plain name beneath the directory. Anything else could lead out of the
/// local directory.
fn plain_entry(entry: &str, directory: &StorePath) -> Option<StorePath> {
    let path = StorePath::parse(entry).ok()?;
    (path.parent().as_ref() == Some(directory)).then_some(path)
}

fn preserve(file: &File, status: &FileStatus) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(status.permission & 0o777))?;
    match u64::try_from(status.modified_ms) {
        Ok(ms) => file.set_modified(UNIX_EPOCH + Duration::from_millis(ms)),
        Err(_) => Ok(()), // before 1970
    }
}

/// Gives a whole file its name, without replacing another unless told to.
fn rename(temporary: &Path, local: &Path, replace: bool) -> Result<(), Failure> {
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, temporary, CWD, local, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(already_there(local)),
        // A file system without the flag: what is left is the check before.
        Err(Errno::INVAL | Errno::NOSYS) if !replace => {
            fs::rename(temporary, local).map_err(|error| Failure::local(error, "write", local))
        }
        Err(error) => Err(Failure::local(error.into(), "write", local)),
    }
}

fn already_there(local: &Path) -> Failure {
    let kind = ErrorKind::AlreadyExists;
    let shown = local.display();
    Failure::of(kind, format!("get {shown}: the file is there already; -f replaces it ({kind})"))
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

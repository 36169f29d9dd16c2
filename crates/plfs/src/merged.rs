//! The merged index. The last writer that closes stores it in the container if that pays. Opening then reads
//! this file instead of the index logs that it covers.
//!
//! Its name contains the last epoch that it covers. Blocks of later epochs are newer than its entries. So a
//! view consists of this table and, above it, the blocks that the index logs have after the positions in the
//! table. If one of these blocks isn't of a later epoch, the table isn't used.

use crate::container::{Container, hidden_name};
use crate::layout::LogName;
use crate::scratch::Scratch;
use crate::table::Table;
use crate::view::{Listed, View};
use futures::{StreamExt, TryStreamExt, stream, try_join};
use std::sync::Arc;
use strait_store::random::random;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileReader, FileSystemExt, FileWriter, Result, StorePath,
};

/// Merged indexes that are kept: the latest, and the one before it, which a reader may have open.
const KEPT: usize = 2;
/// Most merged indexes listed: those kept, and leftovers of crashes.
const MOST_LISTED: usize = 1_000;
/// A merged index of at most 64 KiB is read whole, in one read. A longer one takes a read for its directory
/// and one for each page.
const SMALL: u64 = 64 << 10;
/// Epoch marks that are removed at once.
const AT_ONCE: usize = 16;

impl Container {
    /// Opens the index of all changes that were published.
    pub(crate) async fn view(&self) -> Result<View> {
        let (logs, merged) = try_join!(self.listed_logs(), self.merged_names())?;
        // Where logs have parts, directories that are missing count as empty.
        if self.parts.is_some() && logs.is_empty() {
            self.check_place("read").await?;
        }
        self.view_of(&logs, merged).await
    }

    async fn view_of(&self, logs: &[Listed], merged: Vec<StorePath>) -> Result<View> {
        for path in merged {
            let base = match self.open_merged(&path).await {
                Ok(base) => base,
                // The index logs have the same entries.
                Err(error) if is_of_no_use(&error) => continue,
                Err(error) => return Err(error),
            };
            match View::open(self, logs, Some(base)).await {
                Ok(Some(view)) => return Ok(view),
                Ok(None) => {}
                Err(error) if error.path() == path.as_str() && is_of_no_use(&error) => {}
                Err(error) => return Err(error),
            }
        }
        match View::open(self, logs, None).await? {
            Some(view) => Ok(view),
            None => Err(Error::new(ErrorKind::Internal, "the logs have no index").at("open", self.path())),
        }
    }

    async fn open_merged(&self, path: &StorePath) -> Result<Table> {
        let mut medium: Arc<dyn FileReader> = Arc::from(self.fs.open(&self.who, path).await?);
        let length = medium.length();
        if length <= SMALL {
            let mut copy = Scratch::default();
            copy.append(medium.read_at(0, length as usize).await?).await?;
            medium = Arc::new(copy);
        }
        let table = Table::open(medium, path.to_string()).await?;
        if table.meta.container != self.id {
            let message = "the merged index belongs to another container";
            return Err(Error::new(ErrorKind::Corrupt, message).at("read", path));
        }
        Ok(table)
    }

    /// Paths of merged indexes, the latest first.
    pub(crate) async fn merged_names(&self) -> Result<Vec<StorePath>> {
        let directory = self.layout.merged()?;
        let entries = match self.fs.list_all(&self.who, &directory, MOST_LISTED).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names: Vec<&str> = entries.iter().map(|entry| entry.name()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.into_iter().map(|name| directory.join(name)).collect()
    }

    /// The writers' index logs, with their lengths, in the order of their names.
    pub(crate) async fn listed_logs(&self) -> Result<Vec<Listed>> {
        let entries = self.fs.list(&self.who, &self.layout.logs()?);
        let of_index = async |entry: strait_store::FileStatus| {
            Ok(LogName::of_index(entry.name()).map(|name| (name, entry.length)))
        };
        let mut logs: Vec<Listed> = entries.try_filter_map(of_index).try_collect().await?;
        logs.sort_unstable();
        Ok(logs)
    }

    /// Stores a merged index, if no writer is open and merging pays.
    pub(crate) async fn merge(&self) -> Result<()> {
        if !self.open_marks().await?.is_empty() {
            return Ok(());
        }
        let (logs, merged) = try_join!(self.listed_logs(), self.merged_names())?;
        let bytes = logs.iter().map(|(_, length)| length).sum();
        // For so few logs, it doesn't even pay to read them here.
        if merged.is_empty() && !self.limits.are_reached(logs.len(), bytes) {
            return Ok(());
        }
        let view = self.view_of(&logs, merged).await?;
        if !self.limits.are_reached(view.unmerged.0, view.unmerged.1) {
            return Ok(());
        }
        self.keep(&view).await
    }

    /// Removes damaged merged indexes, and stores a new one if that pays.
    pub(crate) async fn renew_merged(&self) -> Result<()> {
        for path in self.merged_names().await? {
            match self.verify_merged(&path).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => self.remove_if_there(&path).await?,
                Err(error) => return Err(error),
            }
        }
        self.merge().await
    }

    /// Reads all of a merged index.
    pub(crate) async fn verify_merged(&self, path: &StorePath) -> Result<()> {
        let table = self.open_merged(path).await?;
        for page in 0..table.extent_page_count() {
            table.extents(page).await?;
        }
        for page in 0..table.comb_page_count() {
            table.combs(page).await?;
        }
        Ok(())
    }

    /// Stores the view as the merged index. Removes earlier ones beyond [`KEPT`].
    pub(crate) async fn keep(&self, view: &View) -> Result<()> {
        let through = view.meta.through;
        // Earlier versions published an epoch after its block, so a crash could leave the epoch unpublished.
        // Publish it now: blocks that come later must get higher epochs.
        if through > self.epoch().await? {
            self.publish(through).await?;
        }
        let directory = self.layout.merged()?;
        // If the file was removed or renamed, `mkdirs` would make a directory under its old name.
        self.check_place("merge").await?;
        self.fs.mkdirs(&self.who, &directory, self.directory_permission()).await?;
        let nonce = u64::from_le_bytes(random());
        let path = directory.join(&format!("{through:016x}.{nonce:016x}"))?;
        let hidden = directory.join(&hidden_name("merged", &random()))?;
        let options = CreateOptions { overwrite: false, ..self.logs.clone() };
        let written = async {
            view.write(self.fs.create(&self.who, &hidden, &options).await?).await?;
            self.fs.rename(&self.who, &hidden, &path, false).await
        };
        if let Err(error) = written.await {
            // If this fails, the file stays, and no program reads it.
            let _ = self.fs.remove(&self.who, &hidden, false).await;
            return Err(error);
        }
        for old in self.merged_names().await?.iter().skip(KEPT) {
            self.remove_if_there(old).await?;
        }
        self.forget_epochs(through).await
    }

    /// Removes the marks of epochs below `before`, which is published.
    async fn forget_epochs(&self, before: u64) -> Result<()> {
        let entries = self.fs.list(&self.who, &self.layout.epochs()?);
        let old = entries.try_filter_map(async |entry| {
            let epoch: Option<u64> = entry.name().parse().ok();
            Ok(epoch.filter(|epoch| *epoch < before))
        });
        let old: Vec<u64> = old.try_collect().await?;
        let removals =
            stream::iter(old).map(async |epoch| self.remove_if_there(&self.layout.epoch(epoch)?).await);
        removals.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes a file. Succeeds also if another close has removed it.
    async fn remove_if_there(&self, path: &StorePath) -> Result<()> {
        match self.fs.remove(&self.who, path, false).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Whether to ignore this merged index and read the logs: it is gone, damaged or of a later version.
fn is_of_no_use(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Unsupported)
}

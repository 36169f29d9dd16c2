//! Listing directories.

use super::{Answer, Attributes, Caller, Core, EBADF, Fault, Handle, decoded, lock};
use crate::listing::Listing;
use crate::patience::is_away;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::{ErrorKind, FileStatus, FileType, Principal, StorePath};

impl Core {
    /// Opens a directory for listing.
    pub async fn opendir(&self, caller: Caller, node: u64) -> Answer<u64> {
        if let Some(handle) = self.past.opened.get(&caller.request) {
            return Ok(*handle);
        }
        let listing = Listing::new(self.store.clone(), self.who(caller), self.path(node)?);
        lock(&self.nodes).use_more(node);
        let listing = Handle::Directory(Arc::new(tokio::sync::Mutex::new(listing)), node);
        let handle = self.add_handle(listing, caller.request).await;
        handle.inspect_err(|_| lock(&self.nodes).use_less(node))
    }

    /// Passes entries to `add`, beginning at `offset`, until `add` reports that it is full. For each entry,
    /// `add` gets the offset of the next entry, the name, the attributes, and how long the kernel may cache
    /// them. Afterwards the kernel knows the nodes of all added entries.
    pub async fn readdir(
        &self,
        caller: Caller,
        handle: u64,
        offset: u64,
        mut add: impl FnMut(u64, &OsStr, &Attributes, Duration) -> bool + Send,
    ) -> Answer<()> {
        let (listing, node) = match lock(&self.handles).get(&handle) {
            Some(Handle::Directory(listing, node)) => (listing.clone(), *node),
            _ => return Err(Fault(EBADF)),
        };
        let mut listing = listing.lock().await;
        let who = self.who(caller);
        let (mut at, mut pauses) = (offset, self.settings.patience.pauses());
        loop {
            let found = async {
                listing.seek(at).await?;
                listing.next().await
            };
            let (next, entry) = match found.await {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                Err(error) if is_away(&error) => {
                    pauses.pause(error).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            at = next;
            let Ok(path) = StorePath::parse(&entry.path) else { continue };
            let bytes = decoded(path.name()).into_owned();
            let (status, lifetime) =
                match self.listed_status(&who, entry.clone(), node, listing.began()).await {
                    Ok(status) => (status, self.lifetime()),
                    // An entry may be removed during the listing.
                    Err(Fault(errno)) if errno == ErrorKind::NotFound.row().errno => continue,
                    // List the entry in spite of the error. Without it, a backup would silently leave the
                    // file out. A program that opens the file gets the error.
                    Err(_) => (FileStatus { file_type: FileType::File, length: 0, ..entry }, Duration::ZERO),
                };
            let known = lock(&self.nodes).looked_up(node, path.name());
            let attributes = self.attributes(known, status).await;
            if add(next, OsStr::from_bytes(&bytes), &attributes, lifetime) {
                lock(&self.nodes).forget(known, 1);
                listing.back();
                return Ok(());
            }
        }
    }

    /// The status of an entry that was listed a while ago.
    async fn listed_status(
        &self,
        who: &Principal,
        entry: FileStatus,
        directory: u64,
        listed: Instant,
    ) -> Answer<FileStatus> {
        let path = StorePath::parse(&entry.path)?;
        let node = lock(&self.nodes).find(directory, path.name());
        // Check in this order: a file that was closed in between was written before.
        let may_be_old =
            |node| !self.open_files(node).is_empty() || lock(&self.nodes).is_written_since(node, listed);
        if node.is_some_and(may_be_old) {
            return self.settled_status(who, &path, node).await;
        }
        Ok(self.seen(who, &path, entry).await?.0)
    }
}

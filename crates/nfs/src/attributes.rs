//! Converts the status of files between the store's form and NFS's attributes.

use crate::Export;
use crate::fault::{Answer, Fault};
use crate::wire::{N3Attributes, N3Kind, N3Set, N3SetTime, N3Settings, N3Status, N3Time};
use strait_store::clock::now_ms;
use strait_store::{ErrorKind, FileStatus, Principal, SetAttributes, StorePath};

/// The size that is reported for directories.
const DIRECTORY_BYTES: u64 = 4_096;

impl Export {
    /// The status of a path. Its length includes the bytes that this server is writing.
    ///
    /// # Errors
    /// The errors of the store's `stat`.
    pub async fn status(&self, who: &Principal, path: &StorePath) -> Answer<FileStatus> {
        match self.store.stat(who, path).await {
            Ok(status) => Ok(self.with_written(path, status)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.writings.record(path).await.ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn with_written(&self, path: &StorePath, mut status: FileStatus) -> FileStatus {
        if let Some(end) = self.writings.end(path) {
            status.length = end;
        }
        status
    }

    /// The attributes of a path with this status from a listing.
    pub fn listed(&self, path: &StorePath, status: &FileStatus) -> N3Attributes {
        self.attributes(path, &self.with_written(path, status.clone()))
    }

    /// The attributes of a path with this status.
    pub fn attributes(&self, path: &StorePath, status: &FileStatus) -> N3Attributes {
        let directory = status.is_directory();
        let size = if directory { DIRECTORY_BYTES } else { status.length };
        let accessed_ms = if status.accessed_ms == 0 { status.modified_ms } else { status.accessed_ms };
        N3Attributes {
            kind: if directory { N3Kind::Directory } else { N3Kind::File },
            mode: status.permission & 0o7777,
            links: if directory { 2 } else { 1 },
            uid: self.callers.uid(&status.owner),
            gid: self.callers.gid(&status.group),
            size,
            used: size,
            device: [0; 2],
            fsid: self.handles.fsid(),
            fileid: self.handles.fileid(path),
            accessed: time(accessed_ms),
            modified: time(status.modified_ms),
            // Stores don't keep the time of changes to attributes.
            changed: time(status.modified_ms),
        }
    }

    /// Sets the attributes, except the size, that differ from `before`. Returns whether any did.
    ///
    /// # Errors
    /// The errors of the store, and of closing the file.
    pub async fn set(
        &self,
        who: &Principal,
        path: &StorePath,
        before: &FileStatus,
        set: &N3Settings,
    ) -> Answer<bool> {
        let uid = set.uid.filter(|uid| *uid != self.callers.uid(&before.owner));
        let gid = set.gid.filter(|gid| *gid != self.callers.gid(&before.group));
        let change = SetAttributes {
            permission: set.mode.map(|mode| mode & 0o7777).filter(|bits| *bits != before.permission),
            owner: uid.map(|uid| self.callers.user_name(uid)),
            group: gid.map(strait_store::names::group_name),
            modified_ms: milliseconds(&set.modified),
            accessed_ms: milliseconds(&set.accessed),
            replication: None,
        };
        if change == SetAttributes::default() {
            return Ok(false);
        }
        if change.modified_ms.is_some() {
            // Close the file's writer first, since its close would change the time again.
            self.writings.close(who, path, self.may_write(who, before)).await?;
        }
        self.store.set_attributes(who, path, &change).await?;
        Ok(true)
    }
}

/// Splits the settings of a new file or directory: the permission, which is set at its creation, and the
/// settings to apply afterwards.
pub fn at_creation(set: &N3Settings) -> (Option<u32>, N3Settings) {
    (set.mode.map(|mode| mode & 0o7777), N3Settings { mode: None, size: None, ..set.clone() })
}

/// The size to set, if any.
///
/// # Errors
/// `Fbig`: the size is above 2^63 - 1.
pub fn size(set: &N3Settings) -> Answer<Option<u64>> {
    match set.size {
        Some(size) if size > i64::MAX as u64 => Err(Fault(N3Status::Fbig)),
        size => Ok(size),
    }
}

fn time(ms: i64) -> N3Time {
    let ms = u64::try_from(ms).unwrap_or(0);
    let seconds = u32::try_from(ms / 1_000).unwrap_or(u32::MAX);
    N3Time { seconds, nanoseconds: (ms % 1_000) as u32 * 1_000_000 }
}

fn milliseconds(set: &N3SetTime) -> Option<i64> {
    match set {
        N3SetTime::Given(time) => {
            Some(i64::from(time.seconds) * 1_000 + i64::from(time.nanoseconds / 1_000_000))
        }
        N3SetTime::Default(N3Set::Now) => Some(now_ms()),
        N3SetTime::Default(_) => None,
    }
}

//! Operations on names and their attributes.

use super::errors::Effect;
use super::shared::Shared;
use hdfs_native::Client;
use strait_store::{Error, ErrorKind, Result, fail};
use strait_store::{FileStatus, FileType, Principal, SetAttributes};

/// Permission of a new directory for which the caller gives none: Hadoop's own default (0777 less
/// the umask 022).
const DEFAULT_DIRECTORY_PERMISSION: u32 = 0o755;
const MAX_PERMISSION: u32 = 0o7777;
/// The protocol's value for "leave this time as it is" (-1).
const TIME_UNCHANGED: u64 = u64::MAX;

impl Shared {
    pub async fn stat(&self, who: &Principal, path: &str) -> Result<FileStatus> {
        self.call(who, Effect::Read, |client| async move { client.get_file_info(path).await })
            .await
            .map(status_of)
    }

    pub async fn remove(&self, who: &Principal, path: &str, recursive: bool) -> Result<()> {
        let removed =
            self.call(who, Effect::Mutation, |client| async move { client.delete(path, recursive).await });
        match removed.await? {
            true => Ok(()),
            false => fail(ErrorKind::NotFound, "no such file or directory"),
        }
    }

    pub async fn rename(&self, who: &Principal, from: &str, to: &str, replace: bool) -> Result<()> {
        let renamed =
            self.call(who, Effect::Mutation, |client| async move { client.rename(from, to, replace).await });
        match renamed.await {
            Err(error) if error.kind() == ErrorKind::Internal => {
                Err(self.explain_rename(who, from, to, replace, error).await)
            }
            outcome => outcome,
        }
    }

    /// The namenode throws a plain IOException if file and directory don't fit together. The nodes
    /// at both paths determine the exact error.
    async fn explain_rename(
        &self,
        who: &Principal,
        from: &str,
        to: &str,
        replace: bool,
        error: Error,
    ) -> Error {
        let (Ok(from), Ok(to)) = (self.stat(who, from).await, self.stat(who, to).await) else { return error };
        let kind = match (replace, from.is_directory(), to.is_directory()) {
            (false, ..) => ErrorKind::AlreadyExists,
            (true, true, false) => ErrorKind::NotADirectory,
            (true, false, true) => ErrorKind::IsADirectory,
            (true, true, true) => ErrorKind::NotEmpty,
            (true, false, false) => return error,
        };
        Error::new(kind, error.message().to_owned()).caused_by(error)
    }

    pub async fn mkdirs(&self, who: &Principal, path: &str, permission: Option<u32>) -> Result<()> {
        let permission = permission.map_or(Ok(DEFAULT_DIRECTORY_PERMISSION), checked_permission)?;
        self.call(who, Effect::Mutation, |client| async move { client.mkdirs(path, permission, true).await })
            .await
    }

    pub async fn set_attributes(&self, who: &Principal, path: &str, set: &SetAttributes) -> Result<()> {
        let change = Effect::Mutation;
        let permission = set.permission.map(checked_permission).transpose()?;
        let time = |ms: Option<i64>| ms.map_or(Ok(TIME_UNCHANGED), checked_time);
        let (modified, accessed) = (time(set.modified_ms)?, time(set.accessed_ms)?);
        if let Some(permission) = permission {
            self.call(who, change, |client| async move { client.set_permission(path, permission).await })
                .await?;
        }
        if let Some(replication) = set.replication {
            let replication = u32::from(replication);
            let call = |client: Client| async move { client.set_replication(path, replication).await };
            if !self.call(who, change, call).await? {
                let kind = self.stat(who, path).await.map(|_| ErrorKind::IsADirectory)?;
                return fail(kind, "a directory has no replication");
            }
        }
        // Set the owner last: a user who has given a file away can't change it any more.
        if set.modified_ms.is_some() || set.accessed_ms.is_some() {
            self.call(who, change, |client| async move { client.set_times(path, modified, accessed).await })
                .await?;
        }
        if set.owner.is_some() || set.group.is_some() {
            let (owner, group) = (set.owner.as_deref(), set.group.as_deref());
            self.call(who, change, |client| async move { client.set_owner(path, owner, group).await })
                .await?;
        }
        Ok(())
    }
}

pub(super) fn checked_permission(permission: u32) -> Result<u32> {
    match permission {
        0..=MAX_PERMISSION => Ok(permission),
        _ => fail(ErrorKind::InvalidArgument, "invalid mode: the maximum is 7777"),
    }
}

fn checked_time(ms: i64) -> Result<u64> {
    let too_early = |_| Error::new(ErrorKind::InvalidArgument, "HDFS keeps no times before 1970");
    u64::try_from(ms).map_err(too_early)
}

pub(super) fn status_of(status: hdfs_native::client::FileStatus) -> FileStatus {
    FileStatus {
        path: status.path,
        file_type: if status.isdir { FileType::Directory } else { FileType::File },
        length: status.length as u64,
        replication: status.replication.and_then(|count| u16::try_from(count).ok()).unwrap_or(0),
        block_size: status.blocksize.unwrap_or(0),
        modified_ms: status.modification_time as i64,
        accessed_ms: status.access_time as i64,
        permission: u32::from(status.permission),
        owner: status.owner,
        group: status.group,
        link: false,
    }
}

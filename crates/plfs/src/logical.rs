//! A logical file: its readers, its writers, its length and status.

use crate::container::Container;
use crate::layout::LogName;
use crate::random::random;
use crate::reader::Reader;
use crate::writer::Writer;
use futures::TryStreamExt;
use strait_store::{FileStatus, Result};

impl Container {
    /// A writer of its own for `rank`. Any number of them may write at once, and several may have
    /// the same rank. It makes its logs at its first change.
    pub fn writer(&self, rank: u32) -> Writer {
        let nonce = u64::from_le_bytes(random());
        Writer::new(self.clone(), LogName { rank, nonce })
    }

    /// A reader of all that was synced, or closed, before.
    pub async fn reader(&self) -> Result<Reader> {
        Ok(Reader::new(self.clone(), self.view().await?))
    }

    /// The file's length, of what was synced or closed.
    pub async fn length(&self) -> Result<u64> {
        Ok(self.view().await?.length())
    }

    /// The file's status: the length of what was synced or closed, owner, group and permission as they
    /// were given to it, and the time of its last change that the store tells.
    pub async fn status(&self) -> Result<FileStatus> {
        let mark = self.fs.stat(&self.who, &self.layout.mark()?).await?;
        let changes = self.fs.list(&self.who, &self.layout.logs()?);
        let last = async |last: i64, entry: FileStatus| Ok(last.max(entry.modified_ms));
        let modified_ms = changes.try_fold(mark.modified_ms, last).await?;
        Ok(FileStatus { path: self.path().to_string(), length: self.length().await?, modified_ms, ..mark })
    }

    /// Sets the file's length: to zero, shorter, or longer with a hole. Writers that are open go on.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        let mut writer = self.writer(0);
        writer.truncate(length).await?;
        writer.close().await
    }
}

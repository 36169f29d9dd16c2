//! A logical file: its readers, its writers, its length and status.

use crate::container::Container;
use crate::layout::LogName;
use crate::reader::Reader;
use crate::writer::Writer;
use futures::TryStreamExt;
use strait_store::random::random;
use strait_store::{FileStatus, Result};

impl Container {
    /// Makes a new writer for `rank`. Any number of writers can write at once, and several can have the same
    /// rank. A writer creates its logs at its first change.
    pub fn writer(&self, rank: u32) -> Writer {
        let nonce = u64::from_le_bytes(random());
        Writer::new(self.clone(), LogName { rank, nonce })
    }

    /// Opens a reader of all bytes that writers have synced or closed so far.
    pub async fn reader(&self) -> Result<Reader> {
        Ok(Reader::new(self.clone(), self.view().await?))
    }

    /// The file's length in bytes, as far as writers have synced or closed.
    pub async fn length(&self) -> Result<u64> {
        Ok(self.view().await?.length())
    }

    /// The file's status. The length counts the writes that were synced or closed. Owner, group and
    /// permission are those of the container's mark. The modification time is the latest of the mark's and
    /// the logs'.
    pub async fn status(&self) -> Result<FileStatus> {
        let mark = self.fs.stat(&self.who, &self.layout.mark()?).await?;
        let changes = self.fs.list(&self.who, &self.layout.logs()?);
        let last = async |last: i64, entry: FileStatus| Ok(last.max(entry.modified_ms));
        let modified_ms = changes.try_fold(mark.modified_ms, last).await?;
        Ok(FileStatus { path: self.path().to_string(), length: self.length().await?, modified_ms, ..mark })
    }

    /// Sets the file's length. If it gets longer, it ends with a hole. Open writers can continue to write.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        let mut writer = self.writer(0);
        writer.truncate(length).await?;
        writer.close().await
    }
}

//! Convenience for every store, built on [`FileSystem`].

use crate::{CreateOptions, FileWriter};
use crate::{ErrorKind, FileStatus, FileSystem, MAX_CHUNK_BYTES, Principal, Result, StorePath, fail};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};

/// Convenience on top of [`FileSystem`]; every store has it.
#[async_trait]
pub trait FileSystemExt: FileSystem {
    /// Whether `path` exists; only `NotFound` means no.
    async fn exists(&self, who: &Principal, path: &StorePath) -> Result<bool> {
        match self.stat(who, path).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A whole file in memory; `InvalidArgument` if it is longer than `max_bytes`.
    async fn read_all(&self, who: &Principal, path: &StorePath, max_bytes: usize) -> Result<Vec<u8>> {
        let reader = self.open(who, path).await?;
        let mut content = Vec::new();
        loop {
            // Asks for one byte more than allowed, to detect a longer file.
            let wanted = (max_bytes.saturating_add(1) - content.len()).min(MAX_CHUNK_BYTES);
            let chunk = reader.read_at(content.len() as u64, wanted).await?;
            if chunk.is_empty() {
                return Ok(content);
            }
            content.extend_from_slice(&chunk);
            if content.len() > max_bytes {
                return fail(
                    ErrorKind::InvalidArgument,
                    format!("the file has more than {max_bytes} bytes, the maximum for this operation"),
                )
                .map_err(|error: crate::Error| error.at("read", path));
            }
        }
    }

    /// Creates a file with `content` and closes it.
    async fn write_all(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
        content: Bytes,
    ) -> Result<()> {
        let mut writer = self.create(who, path, options).await?;
        append_all(writer.as_mut(), content).await?;
        writer.close().await?;
        Ok(())
    }

    /// A directory's entries in memory; `InvalidArgument` if there are more than `max_entries`.
    async fn list_all(
        &self,
        who: &Principal,
        path: &StorePath,
        max_entries: usize,
    ) -> Result<Vec<FileStatus>> {
        let mut entries = Vec::new();
        let mut listing = self.list(who, path);
        while let Some(entry) = listing.next().await {
            if entries.len() == max_entries {
                return fail(
                    ErrorKind::InvalidArgument,
                    format!(
                        "the directory has more than {max_entries} entries, the maximum for this operation"
                    ),
                )
                .map_err(|error: crate::Error| error.at("list", path));
            }
            entries.push(entry?);
        }
        Ok(entries)
    }

    /// Everything beneath `path`, depth first, a directory before its entries. `path` itself isn't included
    /// (unless it is a file). The walk doesn't enter a link to a directory, which could lead out of the tree,
    /// or in circles. It keeps one listing open per level. If a directory's listing fails, the walk returns
    /// the error and continues with other directories.
    fn walk<'a>(&'a self, who: &Principal, path: &StorePath) -> BoxStream<'a, Result<FileStatus>> {
        let who = who.clone();
        let levels = vec![self.list(&who, path)];
        let steps = stream::unfold((levels, who), move |(mut levels, who)| async move {
            loop {
                match levels.last_mut()?.next().await {
                    None => drop(levels.pop()),
                    Some(Err(error)) => {
                        levels.pop();
                        return Some((Err(error), (levels, who)));
                    }
                    Some(Ok(entry)) => {
                        if entry.is_directory() && !entry.link {
                            match StorePath::parse(&entry.path) {
                                Ok(directory) => levels.push(self.list(&who, &directory)),
                                Err(error) => return Some((Err(error), (levels, who))),
                            }
                        }
                        return Some((Ok(entry), (levels, who)));
                    }
                }
            }
        });
        steps.boxed()
    }
}

impl<T: FileSystem + ?Sized> FileSystemExt for T {}

/// Appends `content` of any length, in chunks that a writer accepts.
pub async fn append_all(writer: &mut dyn FileWriter, mut content: Bytes) -> Result<()> {
    while !content.is_empty() {
        let chunk = content.split_to(content.len().min(MAX_CHUNK_BYTES));
        writer.append(chunk).await?;
    }
    Ok(())
}

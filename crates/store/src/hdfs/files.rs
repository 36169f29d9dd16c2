//! Opening files, and locating their bytes.

use super::blocks::Blocks;
use super::errors::Effect;
use super::library::LibraryFile;
use super::namespace::checked_permission;
use super::reader::HdfsReader;
use super::retry::{Backoff, PATIENCE, with_patience};
use super::shared::Shared;
use super::source::{DatanodesFile, Source};
use super::wire::LocatedBlock;
use super::writer::HdfsWriter;
use crate::budget::Pool;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::types::{BlockLocation, CreateOptions, Principal};
use hdfs_native::WriteOptions;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Permission of a new file for which the caller gives none: Hadoop's own default (0666 less the
/// umask 022).
const DEFAULT_FILE_PERMISSION: u32 = 0o644;

/// An offset beyond every file: a request for it returns the length and the last block without the
/// blocks before.
const FAR_OFFSET: u64 = i64::MAX as u64 - 1;

/// Time that an append waits while the namenode recovers the file from a dead writer: a recovery
/// takes seconds.
const APPEND_PATIENCE: Duration = Duration::from_secs(30);

impl Shared {
    pub async fn open(self: &Arc<Self>, who: &Principal, path: &str) -> Result<HdfsReader> {
        let blocks = match self.secured {
            None => self.blocks(&who.user, path).await?,
            Some(_) => None,
        };
        let source = match blocks {
            Some(blocks) => {
                let (shared, user) = (Arc::clone(self), Arc::clone(&who.user));
                Source::Datanodes(DatanodesFile::new(shared, user, path.to_owned(), blocks))
            }
            None => {
                let client = self.clients.get(who)?;
                let reader = self.call(who, Effect::Read, |client| async move { client.read(path).await });
                Source::Library(LibraryFile::new(client, path.to_owned(), reader.await?))
            }
        };
        Ok(HdfsReader::new(source, path.to_owned(), Pool::of_process().share(&who.user)))
    }

    /// A file's blocks. A last block under construction counts with its visible part. None for a
    /// file that only the library can read.
    pub async fn blocks(&self, user: &str, path: &str) -> Result<Option<Blocks>> {
        let located = self.namenode.locate(user, path, 0, i64::MAX as u64).await?;
        if located.erasure_coding.is_some() || located.encryption.is_some() {
            return Ok(None);
        }
        let tail_length = match &located.last_block {
            Some(block) if !located.is_last_block_complete => {
                self.datanodes.visible_length(user, block).await?
            }
            _ => 0,
        };
        Ok(Some(Blocks::new(located, tail_length, &self.datanodes)))
    }

    pub async fn create(&self, who: &Principal, path: &str, options: &CreateOptions) -> Result<HdfsWriter> {
        self.recoveries.wait(path).await;
        let options = write_options(options)?;
        let client = self.clients.get(who)?;
        let created = self.call(who, Effect::Mutation, |client| {
            let options = options.clone();
            async move { client.create(path, options).await }
        });
        Ok(HdfsWriter::new(created.await?, path.to_owned(), client, Arc::clone(&self.recoveries)))
    }

    pub async fn append(&self, who: &Principal, path: &str) -> Result<HdfsWriter> {
        self.recoveries.wait(path).await;
        let client = self.clients.get(who)?;
        let mut backoff = Backoff::within(APPEND_PATIENCE);
        let writer = loop {
            let client = client.clone();
            let names = self.namenode.names();
            // The library merges Java's exceptions for "taken" into one; the namenode's text
            // separates them here.
            match with_patience(&names, Effect::Mutation, || client.append(path)).await {
                Ok(writer) => break writer,
                Err(error) if is_being_recovered(&error) && backoff.pause().await => {}
                Err(error) => return Err(append_refusal(error)),
            }
        };
        // From here on, dropping this value frees the file again.
        let recoveries = Arc::clone(&self.recoveries);
        let writer = HdfsWriter::new(writer, path.to_owned(), client, recoveries);
        let length = self.stat(who, path).await?.length;
        Ok(writer.starting_at(length))
    }

    pub async fn truncate(&self, who: &Principal, path: &str, length: u64) -> Result<()> {
        self.require_own_calls()?;
        self.recoveries.wait(path).await;
        if length > i64::MAX as u64 {
            // This would be negative in Java. The path's own errors come first.
            self.namenode.locate(&who.user, path, FAR_OFFSET, 1).await?;
            return fail(ErrorKind::InvalidArgument, "longer than the file");
        }
        if self.namenode.truncate(&who.user, path, length).await? {
            return Ok(());
        }
        // The datanodes are still cutting the last block.
        let mut backoff = Backoff::within(PATIENCE);
        while self.namenode.locate(&who.user, path, FAR_OFFSET, 1).await?.under_construction {
            if !backoff.pause().await {
                return fail(ErrorKind::TimedOut, "the cut goes on in the background");
            }
        }
        Ok(())
    }

    pub async fn block_locations(
        &self,
        who: &Principal,
        path: &str,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        self.require_own_calls()?;
        let length = range.end.saturating_sub(range.start);
        // Limited to Java's longs.
        let (offset, length) = (range.start.min(FAR_OFFSET), length.min(i64::MAX as u64));
        let located = self.namenode.locate(&who.user, path, offset, length).await?;
        let mut blocks = located.blocks;
        if let Some(last) = located.last_block.filter(|_| !located.is_last_block_complete) {
            let length = self.datanodes.visible_length(&who.user, &last).await?;
            blocks.retain(|block| block.offset < last.offset);
            let mut last = last;
            last.block.num_bytes = length;
            blocks.push(last);
        }
        let overlaps = |block: &LocatedBlock| {
            !range.is_empty()
                && block.offset < range.end
                && range.start < block.offset.saturating_add(block.block.num_bytes)
        };
        Ok(blocks.iter().filter(|block| overlaps(block)).map(|block| self.location_of(block)).collect())
    }

    fn location_of(&self, block: &LocatedBlock) -> BlockLocation {
        let nodes = block.locations.iter().map(|location| &location.id);
        BlockLocation {
            offset: block.offset,
            length: block.block.num_bytes,
            hosts: nodes.clone().map(|id| id.host_name.clone()).collect(),
            addresses: nodes.map(|id| self.datanodes.address(id)).collect(),
            corrupt: block.corrupt,
        }
    }
}

fn write_options(options: &CreateOptions) -> Result<WriteOptions> {
    Ok(WriteOptions {
        block_size: options.block_size,
        replication: options.replication.map(u32::from),
        permission: options.permission.map_or(Ok(DEFAULT_FILE_PERMISSION), checked_permission)?,
        overwrite: options.overwrite,
        create_parent: true,
    })
}

fn is_being_recovered(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy && error.message().contains("recover")
}

/// The library reports "already exists" for a directory, and for a file that has a writer.
fn append_refusal(error: Error) -> Error {
    if error.kind() != ErrorKind::AlreadyExists {
        return error;
    }
    let kind = match error.message().contains("already exists as a directory") {
        true => ErrorKind::IsADirectory,
        false => ErrorKind::Busy,
    };
    Error::new(kind, error.message().to_owned()).caused_by(error)
}

//! Opening files, and operations on their bytes: truncate, concat, locations.

use super::blocks::Blocks;
use super::errors::{Effect, is_being_recovered, lease_owner};
use super::library::LibraryFile;
use super::library_writer::LibraryWriter;
use super::namenode::Namenode;
use super::namespace::checked_permission;
use super::reader::HdfsReader;
use super::recovery::RECOVERY_LIMIT;
use super::retry::{Backoff, PATIENCE, with_patience};
use super::shared::Shared;
use super::source::{DatanodesFile, Source};
use super::wire::{FAR_OFFSET, LocatedBlock, LocatedBlocks};
use super::write::{
    Context, DatanodesWriter, HdfsFileStatus, LeaseHolder, NewFile, OpenFile, Opened, Settings, recover_from,
    recover_unknown,
};
use hdfs_native::WriteOptions;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use strait_store::FileWriter;
use strait_store::budget::Pool;
use strait_store::{BlockLocation, CreateOptions, Principal};
use strait_store::{Error, ErrorKind, MAX_CONCAT_SOURCES, Result, StorePath, fail};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Permission of a new file for which the caller gives none: Hadoop's own default (0666 less the
/// umask 022).
const DEFAULT_FILE_PERMISSION: u32 = 0o644;

/// Time for which an append waits while the namenode recovers the file from a dead writer. A recovery
/// takes seconds.
const APPEND_PATIENCE: Duration = Duration::from_secs(30);

/// Time for which an open waits for the length of a block being written. It is as long as in Java's client
/// (`dfs.client.retry.times.get-last-block-length`, 3 times 4 s).
const LENGTH_PATIENCE: Duration = Duration::from_secs(12);

/// The namenode's message for a client that can't write into an encryption zone
/// (`UnknownCryptoProtocolVersionException`).
const NO_CRYPTO_PROTOCOL: &str = "No crypto protocol versions provided by the client are supported";

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

    /// A file's blocks. A last block under construction counts with its visible part. None if only the
    /// library can read the file.
    pub async fn blocks(&self, user: &str, path: &str) -> Result<Option<Blocks>> {
        let (located, tail_length) = self.located(user, path, 0, i64::MAX as u64).await?;
        if located.erasure_coding.is_some() || located.encryption.is_some() {
            return Ok(None);
        }
        Ok(Some(Blocks::new(located, tail_length, &self.datanodes)))
    }

    /// Locations of a file's blocks, and the visible length of a last block under construction.
    /// Waits some seconds for datanodes that don't know that length.
    async fn located(
        &self,
        user: &str,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<(LocatedBlocks, u64)> {
        let mut backoff = Backoff::within(LENGTH_PATIENCE);
        loop {
            let located = self.namenode.locate(user, path, offset, length).await?;
            let by_library = located.erasure_coding.is_some() || located.encryption.is_some();
            let tail = located.last_block.as_ref().filter(|_| !located.is_last_block_complete);
            let Some(tail) = tail.filter(|_| !by_library) else { return Ok((located, 0)) };
            match self.datanodes.visible_length(user, tail).await {
                Ok(length) => return Ok((located, length)),
                Err(error) if error.kind() == ErrorKind::Unavailable && backoff.pause().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub async fn create(
        &self,
        who: &Principal,
        path: &str,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        match options.overwrite {
            true => self.recoveries.wait_to_replace(&who.user, path).await?,
            false => self.recoveries.wait(&who.user, path).await?,
        }
        let options = write_options(options)?;
        let Some(settings) = &self.write_settings else {
            return self.create_by_library(who, path, options).await;
        };
        let holder = self.holder_of(who)?;
        let new = NewFile {
            permission: options.permission,
            overwrite: options.overwrite,
            replication: options.replication.unwrap_or(settings.replication),
            block_size: options.block_size.unwrap_or(settings.block_size),
        };
        check_block_size(new.block_size, settings.checksum.bytes_per_crc)?;
        match OpenFile::create(&holder, path, &new).await {
            Ok(opened) => {
                let is_for_library = is_for_library(&opened.status);
                let writer = self.writer(who, settings, opened);
                if !is_for_library {
                    return Ok(Box::new(writer));
                }
                tracing::debug!(path, "an erasure-coded or encrypted file, written by the library");
                // The library replaces the file that was just created. If the library fails, that file must
                // not stay open.
                writer.close_unchanged().await?;
                self.create_by_library(who, path, WriteOptions { overwrite: true, ..options }).await
            }
            // The adapter doesn't support encryption, so the namenode rejects its request here.
            Err(error) if error.message().contains(NO_CRYPTO_PROTOCOL) => {
                tracing::debug!(path, "in an encryption zone, written by the library");
                self.create_by_library(who, path, options).await
            }
            Err(error) => Err(self.free_if_in_doubt(&holder, path, error)),
        }
    }

    /// Frees the file at `path` if the namenode may have opened it for `holder` although the answer was lost.
    fn free_if_in_doubt(&self, holder: &Arc<LeaseHolder>, path: &str, error: Error) -> Error {
        if error.kind() == ErrorKind::OutcomeUnknown {
            let (holder, at) = (Arc::clone(holder), path.to_owned());
            let (recoveries, user) = (Arc::clone(&self.recoveries), holder.user().to_owned());
            let recovery = async move {
                recoveries.until_recovered(&at, || recover_unknown(&holder, &at)).await;
            };
            self.recoveries.run(user, path.to_owned(), recovery, &Handle::current());
        }
        error
    }

    async fn create_by_library(
        &self,
        who: &Principal,
        path: &str,
        options: WriteOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let client = self.clients.get(who)?;
        let created = self.call(who, Effect::Mutation, |client| {
            let options = options.clone();
            async move { client.create(path, options).await }
        });
        let recoveries = Arc::clone(&self.recoveries);
        Ok(Box::new(LibraryWriter::new(created.await?, &who.user, path.to_owned(), client, recoveries)))
    }

    pub async fn append(&self, who: &Principal, path: &str) -> Result<Box<dyn FileWriter>> {
        self.recoveries.wait(&who.user, path).await?;
        let Some(settings) = &self.write_settings else { return self.append_by_library(who, path).await };
        let holder = self.holder_of(who)?;
        let mut backoff = Backoff::within(APPEND_PATIENCE);
        let opened = loop {
            match OpenFile::append(&holder, path).await {
                Ok(opened) => break opened,
                Err(error) if is_being_recovered(&error) && backoff.pause().await => {}
                Err(error) if is_left_by_session(&holder, &error) => {
                    take_over(&holder, path, error, &mut backoff).await?;
                }
                // The namenode gives this answer for an erasure-coded file.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::debug!(path, %error, "appended to by the library");
                    return self.append_by_library(who, path).await;
                }
                Err(error) => return Err(append_refusal(self.free_if_in_doubt(&holder, path, error))),
            }
        };
        let is_for_library = is_for_library(&opened.status);
        let writer = self.writer(who, settings, opened);
        if is_for_library {
            tracing::debug!(path, "an erasure-coded or encrypted file, appended to by the library");
            writer.close_unchanged().await?;
            return self.append_by_library(who, path).await;
        }
        Ok(Box::new(writer))
    }

    async fn append_by_library(&self, who: &Principal, path: &str) -> Result<Box<dyn FileWriter>> {
        let client = self.clients.get(who)?;
        let mut backoff = Backoff::within(APPEND_PATIENCE);
        let writer = loop {
            let client = client.clone();
            let names = self.namenode.names();
            // The library merges several of Java's exceptions into one. Here the namenode's text
            // distinguishes them.
            match with_patience(&names, Effect::Mutation, || client.append(path)).await {
                Ok(writer) => break writer,
                Err(error) if is_being_recovered(&error) && backoff.pause().await => {}
                Err(error) => return Err(append_refusal(error)),
            }
        };
        // From here on, dropping `writer` frees the file.
        let recoveries = Arc::clone(&self.recoveries);
        let writer = LibraryWriter::new(writer, &who.user, path.to_owned(), client, recoveries);
        let length = self.stat(who, path).await?.length;
        Ok(Box::new(writer.starting_at(length)))
    }

    fn holder_of(&self, who: &Principal) -> Result<Arc<LeaseHolder>> {
        match who.user.is_empty() {
            true => fail(ErrorKind::Unauthenticated, "no user name"),
            false => Ok(self.holders.get(&self.namenode, who)),
        }
    }

    /// The adapter's writer of a file that was just opened.
    fn writer(&self, who: &Principal, settings: &Arc<Settings>, opened: Opened) -> DatanodesWriter {
        let context = Context {
            datanodes: Arc::clone(&self.datanodes),
            settings: Arc::clone(settings),
            recoveries: Arc::clone(&self.recoveries),
        };
        DatanodesWriter::new(context, opened, Pool::of_process().share(&who.user))
    }

    pub async fn truncate(&self, who: &Principal, path: &str, length: u64) -> Result<()> {
        self.require_own_calls()?;
        self.recoveries.wait(&who.user, path).await?;
        if length > i64::MAX as u64 {
            // This would be negative in Java. But errors of the path take precedence.
            self.namenode.locate(&who.user, path, FAR_OFFSET, 1).await?;
            return fail(ErrorKind::InvalidArgument, "the new length exceeds the file's");
        }
        let holder = self.holder_of(who)?;
        let mut backoff = Backoff::within(APPEND_PATIENCE);
        let is_done = loop {
            match self.namenode.truncate(&who.user, path, length).await {
                Err(error) if is_being_recovered(&error) && backoff.pause().await => {}
                Err(error) if is_left_by_session(&holder, &error) => {
                    take_over(&holder, path, error, &mut backoff).await?;
                }
                outcome => break outcome?,
            }
        };
        match is_done {
            true => Ok(()),
            false => until_truncated(&self.namenode, &who.user, path).await,
        }
    }

    pub async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.require_own_calls()?;
        if sources.is_empty() || sources.len() > MAX_CONCAT_SOURCES {
            return fail(ErrorKind::InvalidArgument, "concat takes 1 to 1,000 source files");
        }
        let files = || std::iter::once(target).chain(sources);
        let all = async {
            for file in files() {
                self.recoveries.wait(&who.user, file.as_str()).await?;
            }
            Ok::<_, Error>(())
        };
        // After this time, the namenode rejects files that are still open.
        timeout(RECOVERY_LIMIT, all).await.unwrap_or(Ok(()))?;
        let paths = sources.iter().map(|source| source.as_str().to_owned()).collect();
        let joined = self.namenode.concat(&who.user, target.as_str(), paths).await;
        if joined.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument) {
            // The namenode throws the same exception for everything that it rejects.
            for file in files() {
                let located = self.namenode.locate(&who.user, file.as_str(), FAR_OFFSET, 1).await;
                if located.map_err(|error| error.at("concat", file))?.under_construction {
                    let error = Error::new(ErrorKind::Busy, "a writer has the file open");
                    return Err(error.at("concat", file));
                }
            }
        }
        joined
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
        let (located, length) = self.located(&who.user, path, offset, length).await?;
        let mut blocks = located.blocks;
        if let Some(last) = located.last_block.filter(|_| !located.is_last_block_complete) {
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

/// Checks the block size as `DFSOutputStream` does: no Java client could append to such a file.
fn check_block_size(block_size: u64, bytes_per_crc: u32) -> Result<()> {
    if block_size.is_multiple_of(u64::from(bytes_per_crc)) {
        return Ok(());
    }
    let why = format!("a block of {block_size} bytes: the size must be a multiple of {bytes_per_crc}");
    fail(ErrorKind::InvalidArgument, format!("{why} (dfs.bytes-per-checksum)"))
}

/// Whether only the library can write such a file.
fn is_for_library(status: &HdfsFileStatus) -> bool {
    status.erasure_coding.is_some() || status.encryption.is_some()
}

/// Whether another holder of the same session has the file open. A session writes in one process at a time,
/// so that process is dead or has handed the session over. The namenode would keep its files open for 60 s
/// each.
fn is_left_by_session(holder: &LeaseHolder, error: &Error) -> bool {
    lease_owner(error).is_some_and(|owner| owner != holder.name() && holder.is_of_same_session(owner))
}

/// Makes the namenode close a file that another process of the session left open, which is why the namenode
/// answered with `refusal`. Returns `refusal` once the time of `backoff` is over.
async fn take_over(holder: &LeaseHolder, path: &str, refusal: Error, backoff: &mut Backoff) -> Result<()> {
    let Some(owner) = lease_owner(&refusal) else { return Err(refusal) };
    tracing::debug!(path, owner, "taking the file over from another process of the session");
    match recover_from(holder, owner, path).await {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Err(error);
        }
        // The refused call changed nothing. The caller repeats it, and this order if necessary.
        Err(error) => tracing::debug!(path, %error, "the namenode didn't confirm that it closes the file"),
    }
    if backoff.pause().await { Ok(()) } else { Err(refusal) }
}

/// Waits while datanodes truncate the file's last block. The namenode has accepted the truncation, so no error
/// means that nothing was changed.
async fn until_truncated(namenode: &Namenode, user: &str, path: &str) -> Result<()> {
    let mut backoff = Backoff::within(PATIENCE);
    loop {
        let located = namenode.locate(user, path, FAR_OFFSET, 1).await.map_err(|error| {
            if !error.retry_safe() {
                return error;
            }
            let message = format!("the namenode has accepted the truncation, and then: {}", error.message());
            Error::new(ErrorKind::OutcomeUnknown, message).caused_by(error)
        });
        if !located?.under_construction {
            return Ok(());
        }
        if !backoff.pause().await {
            let message = "the truncation continues in the background";
            return Err(Error::new(ErrorKind::TimedOut, message).with_retry_safe(false));
        }
    }
}

/// Converts the library's "already exists", which stands for a directory or for a file that has a writer.
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

#[cfg(test)]
mod tests {
    use super::super::errors::from_java;
    use super::super::rpc::RpcError;
    use super::super::wire::{Empty, GetBlockLocationsResponse};
    use super::super::write::fake::{self, Answer};
    use super::super::write::{GetFileInfoResponse, HdfsFileStatus};
    use super::*;
    use strait_store::work::Work;

    #[tokio::test]
    async fn after_an_accepted_truncation_no_error_says_that_nothing_was_changed() {
        let growing = LocatedBlocks { under_construction: true, ..LocatedBlocks::default() };
        let growing = Answer::of(&GetBlockLocationsResponse { locations: Some(growing) });
        for (answer, kind) in [(growing, ErrorKind::TimedOut), (Answer::HangUp, ErrorKind::OutcomeUnknown)] {
            let namenode = Namenode::new(vec![fake::namenode(move |_, _| answer.clone()).await]);
            let deadline = Some(std::time::Instant::now());
            let error = Work::scope(deadline, until_truncated(&namenode, "alice", "/f")).await.unwrap_err();
            assert_eq!((error.kind(), error.retry_safe()), (kind, false), "{error}");
        }
    }

    #[tokio::test]
    async fn a_takeover_outlasts_an_order_that_fails() {
        let class = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
        let message = "Failed to APPEND_FILE /f for me on 10.0.0.1 because this file lease is currently owned by a \
                       on 10.0.0.2";
        let answers = [
            Answer::HangUp,
            Answer::failure("the last block is committed"),
            Answer::Exception("java.io.FileNotFoundException", "no /f".to_owned()),
        ];
        let outcomes = [None, None, Some(ErrorKind::NotFound)];
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            let status = HdfsFileStatus { file_id: Some(7), ..HdfsFileStatus::default() };
            let address = fake::namenode(move |method, _| match method {
                "getFileInfo" => Answer::of(&GetFileInfoResponse { status: Some(status.clone()) }),
                "fsync" => Answer::of(&Empty {}),
                _ => answer.clone(),
            })
            .await;
            let holder = LeaseHolder::new(Arc::new(Namenode::new(vec![address])), "alice");
            let cause = RpcError::Java { class: class.to_owned(), message: message.to_owned() };
            let refusal = from_java(class, message).caused_by(cause);
            let mut backoff = Backoff::within(APPEND_PATIENCE);
            // The caller tries again, unless that can't help.
            let taken = take_over(&holder, "/f", refusal, &mut backoff).await;
            assert_eq!(taken.err().map(|error| error.kind()), outcome);
        }
    }
}

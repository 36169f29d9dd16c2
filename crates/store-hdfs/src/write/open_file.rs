//! A file that a user has open for writing, and the calls to the namenode about it.

use super::super::errors::{all_excluded, is_not_reported, is_without_targets};
use super::super::retry::Backoff;
use super::super::wire::{
    DatanodeId, Empty, ExtendedBlock, FAR_OFFSET, GetBlockLocationsRequest, GetBlockLocationsResponse,
    GetFsStatsResponse,
};
use super::holder::LeaseHolder;
use super::wire::*;
use std::sync::Arc;
use std::time::Duration;
use strait_store::work::Work;
use strait_store::{Error, ErrorKind, Result};
use tokio::time::sleep;

/// Number of calls that are repeated without a pause while the namenode lacks a block's report. Without load,
/// most reports take less than a timer's tick.
const TRIES_AT_ONCE: u32 = 2;

/// First pause while the namenode lacks a block's report. Each further pause is twice as long. Datanodes
/// report a block within a millisecond or two of their acknowledgement. Java waits 400 ms
/// (`dfs.client.block.write.locateFollowingBlock.initial.delay.ms`).
const FIRST_REPORT_PAUSE: Duration = Duration::from_millis(1);

/// Datanodes of HDFS 3.5 refuse a block unless they have this much more room than the block takes
/// (`dfs.datanode.round-robin-volume-choosing-policy.additional-available-space`). They close the connection
/// without an answer.
const KEPT_FREE: u64 = 1 << 30;

/// Longest file. Java's lengths are signed.
const MOST_BYTES: u64 = i64::MAX as u64;

/// A holder's open file. Its lease is renewed until this is dropped.
#[derive(Debug)]
pub struct OpenFile {
    pub holder: Arc<LeaseHolder>,
    pub path: String,
    pub id: u64,
    /// The number of its opening.
    pub opening: u64,
}

/// A file that was just opened.
#[derive(Debug)]
pub struct Opened {
    pub file: OpenFile,
    pub status: HdfsFileStatus,
    /// Its last block, if that has room.
    pub partial: Option<TargetedBlock>,
    /// Its last block, if that is full.
    pub full: Option<ExtendedBlock>,
}

/// The attributes of a new file.
#[derive(Debug)]
pub struct NewFile {
    pub permission: u32,
    pub overwrite: bool,
    pub replication: u32,
    pub block_size: u64,
}

impl OpenFile {
    /// A file that `holder` has just opened for writing.
    pub fn new(holder: &Arc<LeaseHolder>, path: &str, id: u64) -> Self {
        let opening = holder.opened(id);
        Self { holder: Arc::clone(holder), path: path.to_owned(), id, opening }
    }

    /// Creates a file, and its missing parents.
    pub async fn create(holder: &Arc<LeaseHolder>, path: &str, new: &NewFile) -> Result<Opened> {
        let overwrite = if new.overwrite { create_flag::OVERWRITE } else { 0 };
        let request = CreateRequest {
            path: path.to_owned(),
            permission: Permission { bits: new.permission },
            client_name: holder.name().to_owned(),
            flags: create_flag::CREATE | overwrite,
            create_parent: true,
            replication: new.replication,
            block_size: new.block_size,
        };
        let opening = holder.opening().await;
        let answer: CreateResponse = holder.call("create", &request).await?;
        let status = answer.status.ok_or_else(|| strange("a created file has no status"))?;
        let file = Self::new(holder, path, status.file_id.unwrap_or(0));
        drop(opening);
        Ok(Opened { file, status, partial: None, full: None })
    }

    /// Opens a file to append to it.
    pub async fn append(holder: &Arc<LeaseHolder>, path: &str) -> Result<Opened> {
        let request = AppendRequest {
            path: path.to_owned(),
            client_name: holder.name().to_owned(),
            flags: Some(create_flag::APPEND),
        };
        let opening = holder.opening().await;
        let answer: AppendResponse = holder.call("append", &request).await?;
        let status = answer.status.ok_or_else(|| strange("an opened file has no status"))?;
        let last_bytes = answer.block.as_ref().map_or(0, |last| last.block.num_bytes);
        if status.length.max(last_bytes) > MOST_BYTES {
            return Err(strange("the length of an opened file is negative"));
        }
        let file = Self::new(holder, path, status.file_id.unwrap_or(0));
        drop(opening);
        let (full, partial) = match answer.block {
            Some(last) if status.block_size.is_some_and(|size| last.block.num_bytes >= size) => {
                (Some(last.block), None)
            }
            // The namenode names only a block with room (`FSDirAppendOp.prepareFileForAppend`).
            None if status.length > 0 => (file.last_block().await, None),
            other => (None, other),
        };
        Ok(Opened { file, status, partial, full })
    }

    /// The last block of the file. The namenode recognises a repeated `addBlock` or `complete` by this block,
    /// and refuses a repetition without it. None if the namenode doesn't return the block, for example
    /// because the user isn't allowed to read the file.
    async fn last_block(&self) -> Option<ExtendedBlock> {
        let request = GetBlockLocationsRequest { path: self.path.clone(), offset: FAR_OFFSET, length: 1 };
        match self.holder.call::<_, GetBlockLocationsResponse>("getBlockLocations", &request).await {
            Ok(answer) => Some(answer.locations?.last_block?.block),
            Err(error) => {
                tracing::debug!(path = self.path, %error, "the last block isn't known");
                None
            }
        }
    }

    /// Allocates a block after `previous`, on none of the `excluded` datanodes. Waits for `patience` until
    /// enough datanodes have reported `previous`.
    pub async fn add_block(
        &self,
        previous: Option<ExtendedBlock>,
        excluded: Vec<Target>,
        patience: Duration,
    ) -> Result<TargetedBlock> {
        let request = AddBlockRequest {
            path: self.path.clone(),
            client_name: self.holder.name().to_owned(),
            previous,
            excluded,
            file_id: self.id,
        };
        let mut backoff = Backoff::starting_at(FIRST_REPORT_PAUSE, patience).at_once(TRIES_AT_ONCE);
        loop {
            match self.holder.call::<_, BlockResponse>("addBlock", &request).await {
                Ok(answer) => return Ok(answer.block),
                Err(error) if is_not_reported(&error) && backoff.pause().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Explains the `error` of a file that gets no block of `block_bytes`. NoSpace if all datanodes together
    /// have less room, or if all failed at the block and have less room than they demand. The namenode's own
    /// answer is the same if the datanodes are down, and it shows users no single datanode's room.
    pub async fn explain(&self, error: Error, block_bytes: u64) -> Error {
        if !is_without_targets(&error) {
            return error;
        }
        let failed = all_excluded(&error);
        let wanted = failed
            .map_or(block_bytes, |datanodes| block_bytes.saturating_add(KEPT_FREE).saturating_mul(datanodes));
        match self.holder.call::<_, GetFsStatsResponse>("getFsStats", &Empty {}).await {
            // Without datanodes, there is no capacity.
            Ok(stats) if stats.capacity > 0 && stats.remaining < wanted => {
                let left = format!("{} of {} bytes are left in HDFS", stats.remaining, stats.capacity);
                let all = failed.map_or(String::new(), |datanodes| {
                    format!(" on {datanodes} datanodes, which all failed: each may need 1 GiB more")
                });
                let message = format!(
                    "a block takes {block_bytes} bytes, and {left}{all}; remove files, or write with smaller blocks"
                );
                Error::new(ErrorKind::NoSpace, message).caused_by(error)
            }
            _ => error,
        }
    }

    pub async fn abandon_block(&self, block: ExtendedBlock) -> Result<()> {
        let request = AbandonBlockRequest {
            block,
            path: self.path.clone(),
            client_name: self.holder.name().to_owned(),
            file_id: self.id,
        };
        self.holder.call::<_, Empty>("abandonBlock", &request).await.map(drop)
    }

    /// Gets another datanode for a pipeline. The answer has all of the pipeline's datanodes.
    pub async fn additional_datanode(
        &self,
        block: &ExtendedBlock,
        existing: Vec<Target>,
        existing_storage_ids: Vec<String>,
        excluded: Vec<Target>,
    ) -> Result<TargetedBlock> {
        let request = GetAdditionalDatanodeRequest {
            path: self.path.clone(),
            block: block.clone(),
            existing,
            excluded,
            wanted: 1,
            client_name: self.holder.name().to_owned(),
            existing_storage_ids,
            file_id: self.id,
        };
        Ok(self.holder.call::<_, BlockResponse>("getAdditionalDatanode", &request).await?.block)
    }

    /// Gets a new generation stamp for a block whose pipeline is set up again.
    pub async fn update_block(&self, block: &ExtendedBlock) -> Result<TargetedBlock> {
        let request = UpdateBlockForPipelineRequest {
            block: block.clone(),
            client_name: self.holder.name().to_owned(),
        };
        Ok(self.holder.call::<_, BlockResponse>("updateBlockForPipeline", &request).await?.block)
    }

    /// Records a pipeline that was set up again.
    pub async fn update_pipeline(
        &self,
        old_block: ExtendedBlock,
        new_block: ExtendedBlock,
        new_nodes: Vec<DatanodeId>,
        storage_ids: Vec<String>,
    ) -> Result<()> {
        let client_name = self.holder.name().to_owned();
        let request = UpdatePipelineRequest { client_name, old_block, new_block, new_nodes, storage_ids };
        self.holder.call::<_, Empty>("updatePipeline", &request).await.map(drop)
    }

    /// Records the file's blocks, and the length of the last one. Outlasts the caller's deadline.
    pub async fn fsync(&self, last_block_length: Option<u64>) -> Result<()> {
        let request = FsyncRequest {
            path: self.path.clone(),
            client_name: self.holder.name().to_owned(),
            last_block_length: last_block_length.map(|length| length as i64),
            file_id: self.id,
        };
        Work::scope(None, self.holder.call::<_, Empty>("fsync", &request)).await.map(drop)
    }

    /// Closes the file. Waits for `patience` until enough datanodes have reported its last block. Outlasts the
    /// caller's deadline, since an open file keeps its lease.
    pub async fn complete(&self, last: Option<ExtendedBlock>, patience: Duration) -> Result<()> {
        Work::scope(None, self.complete_within(last, patience)).await
    }

    async fn complete_within(&self, last: Option<ExtendedBlock>, patience: Duration) -> Result<()> {
        let request = CompleteRequest {
            path: self.path.clone(),
            client_name: self.holder.name().to_owned(),
            last,
            file_id: self.id,
        };
        let tries_at_once = match self.holder.is_busy() {
            // Under load, most reports take longer. A repeated call would then delay other calls more than
            // this pause delays the file.
            true => {
                sleep(FIRST_REPORT_PAUSE).await;
                0
            }
            false => TRIES_AT_ONCE,
        };
        let mut backoff = Backoff::starting_at(FIRST_REPORT_PAUSE, patience).at_once(tries_at_once);
        while !self.holder.call::<_, DoneResponse>("complete", &request).await?.done {
            if !backoff.pause().await {
                let message = format!(
                    "too few datanodes have reported the last block to the namenode within {} s; a larger \
                     dfs.client.block.write.locateFollowingBlock.retries makes the writer wait longer",
                    patience.as_secs()
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        }
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.holder.closed(self.opening);
    }
}

fn strange(what: &'static str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

#[cfg(test)]
mod tests {
    use super::super::super::errors::from_java;
    use super::super::super::namenode::Namenode;
    use super::super::super::rpc::RpcError;
    use super::super::fake::{self, Answer};
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    #[tokio::test]
    async fn a_file_without_a_block_has_no_space_only_if_the_datanodes_have_none() {
        let refusal = |counts: &str| {
            let (class, message) = (
                "java.io.IOException",
                format!("File /f could only be written to 0 of the 1 minReplication nodes. {counts}"),
            );
            let cause = RpcError::Java { class: class.to_owned(), message: message.clone() };
            from_java(class, &message).caused_by(cause)
        };
        let some = "There are 2 datanode(s) running and 1 node(s) are excluded in this operation.";
        let all = "There are 2 datanode(s) running and 2 node(s) are excluded in this operation.";
        let none = "There are 2 datanode(s) running and no node(s) are excluded in this operation.";
        let kept = 2 * (KEPT_FREE + 100);
        let cases = [
            (1_000, 99, "", ErrorKind::NoSpace),
            (1_000, 100, "", ErrorKind::Unavailable),
            // No datanode is there.
            (0, 0, "", ErrorKind::Unavailable),
            (2 * kept, kept - 1, all, ErrorKind::NoSpace),
            (2 * kept, kept, all, ErrorKind::Unavailable),
            (2 * kept, kept - 1, some, ErrorKind::Unavailable),
            (2 * kept, kept - 1, none, ErrorKind::Unavailable),
        ];
        for (capacity, remaining, counts, kind) in cases {
            let stats = GetFsStatsResponse { capacity, used: 0, remaining };
            let address = fake::namenode(move |_, _| Answer::of(&stats)).await;
            let holder = Arc::new(LeaseHolder::new(Arc::new(Namenode::new(vec![address])), "alice"));
            let file = OpenFile::new(&holder, "/f", 7);
            let explained = file.explain(refusal(counts), 100).await;
            assert_eq!(explained.kind(), kind, "{remaining} of {capacity}; {counts}");
            let busy = Error::new(ErrorKind::Busy, "another reason");
            assert_eq!(file.explain(busy, 100).await.kind(), ErrorKind::Busy);
        }
    }

    #[tokio::test]
    async fn a_long_path_does_not_hide_the_namenodes_reason() {
        let path = "/a-directory-with-a-long-name".repeat(20);
        let message = format!("File {path} could only be written to 0 of the 1 minReplication nodes.");
        let address = fake::namenode(move |method, _| match method {
            "addBlock" => Answer::failure(&message),
            _ => Answer::of(&GetFsStatsResponse { capacity: 1_000, used: 1_000, remaining: 0 }),
        })
        .await;
        let holder = Arc::new(LeaseHolder::new(Arc::new(Namenode::new(vec![address])), "alice"));
        let file = OpenFile::new(&holder, &path, 7);
        let error = file.add_block(None, Vec::new(), Duration::ZERO).await.unwrap_err();
        assert_eq!(file.explain(error, 100).await.kind(), ErrorKind::NoSpace);
    }

    #[tokio::test]
    async fn after_its_callers_deadline_only_a_close_is_sent_again() {
        let answers = AtomicU32::new(0);
        // It answers every other call.
        let answer = move |_: &str, _: &[u8]| match answers.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Answer::HangUp,
            _ => Answer::of(&DoneResponse { done: true }),
        };
        let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
        let holder = Arc::new(LeaseHolder::new(namenode, "alice"));
        let file = OpenFile::new(&holder, "/f", 7);
        Work::scope(Some(Instant::now()), file.complete(None, Duration::ZERO)).await.unwrap();
        let opened = Work::scope(Some(Instant::now()), OpenFile::append(&holder, "/f")).await;
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    }

    #[tokio::test]
    async fn nonsense_about_a_file_is_an_error() {
        let of_length = |length| HdfsFileStatus { length, ..HdfsFileStatus::default() };
        let block = |num_bytes| {
            let block = ExtendedBlock { num_bytes, ..ExtendedBlock::default() };
            Some(TargetedBlock { block, ..TargetedBlock::default() })
        };
        // Negative in Java.
        for (length, block) in [(u64::MAX, None), (7, block(u64::MAX))] {
            let status = Some(of_length(length));
            let answer = AppendResponse { block, status };
            let address = fake::namenode(move |_, _| Answer::of(&answer)).await;
            let holder = Arc::new(LeaseHolder::new(Arc::new(Namenode::new(vec![address])), "alice"));
            assert_eq!(OpenFile::append(&holder, "/f").await.unwrap_err().kind(), ErrorKind::Internal);
        }
    }
}

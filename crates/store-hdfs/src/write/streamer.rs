//! The task that sends a file's packets to datanodes, block by block. It recovers failed pipelines as Java's
//! `DataStreamer` does.

use super::super::datanode::Datanodes;
use super::super::errors::is_without_targets;
use super::super::retry::Backoff;
use super::super::wire::ExtendedBlock;
use super::line::{Line, Rewound};
use super::open_file::OpenFile;
use super::pipeline::{Fault, Node, Pipeline, Writing, copy_replica, nodes_of};
use super::queue::Packet;
use super::settings::Settings;
use super::wire::{Stage, Target, TargetedBlock};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result, fail};
use tokio::time::{Instant, sleep};

/// Attempts to copy a replica to another datanode (`addDatanode2ExistingPipeline`).
const TRANSFER_TRIES: usize = 3;
/// Pause before each attempt to reach a datanode that restarts (`handleRestartingDatanode`).
const RESTART_PAUSE: Duration = Duration::from_secs(4);
/// If the namenode can't choose other datanodes, a new block waits this long for those that failed. A
/// datanode restarts in seconds, but a full store should be reported soon.
const TARGET_PATIENCE: Duration = Duration::from_secs(20);

/// Streams one file.
pub struct Streamer {
    pub file: Arc<OpenFile>,
    pub line: Arc<Line>,
    pub datanodes: Arc<Datanodes>,
    pub settings: Arc<Settings>,
    pub replication: usize,
    pub block_bytes: u64,
    /// The previous block. None at the start of the file.
    pub previous: Option<ExtendedBlock>,
    /// The file's last block, to which packets are appended.
    pub appended: Option<TargetedBlock>,
    /// Datanodes that failed at a new block, and when.
    pub excluded: Vec<(Target, Instant)>,
}

impl Drop for Streamer {
    fn drop(&mut self) {
        // Even after a panic, the writer must not wait for acknowledgements.
        self.line.fail(Error::new(ErrorKind::Internal, "the task that sends the file has ended"));
    }
}

/// The writing of one block, and the datanodes that failed in it.
struct Work {
    writing: Writing,
    /// Whether the block had bytes when the file was opened.
    appended: bool,
    /// Datanodes that failed in its pipeline.
    failed: Vec<Target>,
    /// Those of them that announced a restart. Once the next pipeline is set up, they can be chosen again.
    restarting: Vec<Target>,
}

impl Work {
    fn new(writing: Writing, appended: bool) -> Self {
        Self { writing, appended, failed: Vec::new(), restarting: Vec::new() }
    }
}

impl Streamer {
    /// Runs until the file is complete or has failed. In the latter case, the line has the error.
    pub async fn run(mut self) {
        loop {
            self.line.some_packet().await;
            if let Err(error) = self.write_block().await {
                tracing::debug!(path = self.file.path, %error, "writing ends");
                self.line.fail(error);
                return;
            }
        }
    }

    async fn write_block(&mut self) -> Result<()> {
        let (mut work, mut pipeline) = match self.appended.take() {
            Some(located) => self.reopen(located).await?,
            None => self.begin().await?,
        };
        let mut recoveries = 0;
        loop {
            self.line.set_block(work.writing.block.clone());
            let Err(fault) = pipeline.run(&self.line, &self.settings).await else { break };
            drop(pipeline);
            work.writing.block = self.line.block().unwrap_or(work.writing.block);
            work.writing.sent = work.writing.sent.max(self.line.sent());
            let Rewound { has_advanced, is_ending, is_flushed } = self.line.rewind();
            // A datanode's restart doesn't count as a failed recovery.
            recoveries = if has_advanced { 1 } else { recoveries + usize::from(!fault.restarts) };
            if recoveries > self.settings.recovery_retries {
                return fail(
                    ErrorKind::Unavailable,
                    format!(
                        "pipelines failed {recoveries} times in a row \
                         (dfs.client.pipeline.recovery.max-retries), last at {}: {}",
                        self.name_of(&work.writing, fault.index),
                        fault.error
                    ),
                );
            }
            let stage = if is_ending { Stage::CloseRecovery } else { Stage::StreamingRecovery };
            pipeline = self.set_up(&mut work, Some(fault), stage, is_flushed).await?;
            if is_ending {
                // Setting up this pipeline made the datanodes finish the block.
                self.line.set_block(work.writing.block.clone());
                self.line.take_end();
                break;
            }
        }
        self.previous = self.line.block();
        Ok(())
    }

    /// Allocates a new block, and sets up its pipeline. Excludes datanodes that fail, unless there are no
    /// others.
    async fn begin(&mut self) -> Result<(Work, Pipeline)> {
        let (mut tries, mut some_failed) = (0, false);
        let mut backoff = Backoff::within(TARGET_PATIENCE);
        loop {
            self.excluded.retain(|(_, since)| since.elapsed() < self.settings.exclusion);
            some_failed |= !self.excluded.is_empty();
            let excluded = self.excluded.iter().map(|(target, _)| target.clone()).collect();
            let located = match self
                .file
                .add_block(self.previous.clone(), excluded, self.settings.report_patience)
                .await
            {
                Ok(located) => located,
                Err(error) if some_failed && is_without_targets(&error) && backoff.pause().await => {
                    self.excluded.clear();
                    // From here on, the time limit of `backoff` bounds the attempts.
                    tries = 0;
                    continue;
                }
                Err(error) => return Err(self.file.explain(error, self.block_bytes).await),
            };
            let nodes = nodes_of(&located);
            let writing = Writing { block: located.block, token: located.token, nodes, sent: 0 };
            self.line.next_block();
            let first_packet = self.line.ready_packets(1).pop();
            match self.open(&writing, first_packet.as_ref(), Stage::Create, 0).await {
                Ok(pipeline) => {
                    return Ok((Work::new(writing, false), pipeline));
                }
                Err(Fault { index, error, .. }) => {
                    self.line.rewind();
                    self.log_failure(&writing, index, &error);
                    self.file.abandon_block(writing.block).await?;
                    let Some(node) = writing.nodes.get(index) else {
                        return fail(ErrorKind::Unavailable, "the namenode names no datanode for a block");
                    };
                    self.excluded.push((node.target.clone(), Instant::now()));
                    tries += 1;
                    if tries > self.settings.block_retries {
                        return fail(
                            ErrorKind::Unavailable,
                            format!(
                                "{tries} pipelines couldn't be set up, last at {}: {error}",
                                self.name(node)
                            ),
                        );
                    }
                }
            }
        }
    }

    /// Sets up a pipeline for the file's last block, to append to it.
    async fn reopen(&self, located: TargetedBlock) -> Result<(Work, Pipeline)> {
        self.line.next_block();
        let (nodes, sent) = (nodes_of(&located), located.block.num_bytes);
        if nodes.is_empty() {
            return fail(ErrorKind::Unavailable, "the file's last block has no live replica");
        }
        let writing = Writing { block: located.block, token: located.token, nodes, sent };
        let mut work = Work::new(writing, true);
        let pipeline = self.set_up(&mut work, None, Stage::Append, false).await?;
        Ok((work, pipeline))
    }

    /// Sets up a pipeline for a block that datanodes already have, perhaps after the `fault` of an earlier
    /// pipeline. The block's new generation stamp invalidates replicas on other datanodes
    /// (`setupPipelineInternal`).
    async fn set_up(
        &self,
        work: &mut Work,
        mut fault: Option<Fault>,
        mut stage: Stage,
        flushed: bool,
    ) -> Result<Pipeline> {
        let mut restart = None;
        loop {
            if let Some(fault) = fault.take() {
                self.log_failure(&work.writing, fault.index, &fault.error);
                self.leave_out(work, fault, &mut restart).await?;
            }
            let left = work.writing.nodes.len();
            if self.settings.replacement.is_wanted(self.replication, left, work.appended, flushed)
                && let Err(error) = self.add_datanode(work).await
            {
                if !self.settings.replacement.can_do_without(work.writing.nodes.len()) {
                    return Err(error);
                }
                tracing::debug!(path = self.file.path, %error, "continuing with fewer datanodes");
            }
            let updated = self.file.update_block(&work.writing.block).await?;
            let generation = updated.block.generation_stamp;
            work.writing.token = updated.token;
            match self.open(&work.writing, None, stage, generation).await {
                Ok(pipeline) => {
                    let old = work.writing.block.clone();
                    work.writing.block.generation_stamp = generation;
                    let (nodes, block) = (&work.writing.nodes, work.writing.block.clone());
                    let ids = nodes.iter().map(|node| node.target.id.clone()).collect();
                    let storages = nodes.iter().map(|node| node.storage_id.clone()).collect();
                    self.file.update_pipeline(old, block, ids, storages).await?;
                    let Work { failed, restarting, .. } = work;
                    failed.retain(|target| !restarting.contains(target));
                    restarting.clear();
                    return Ok(pipeline);
                }
                Err(failed) => {
                    fault = Some(failed);
                    if stage == Stage::Append {
                        stage = Stage::AppendRecovery;
                    }
                }
            }
        }
    }

    /// Removes the failed datanode from the pipeline. If the datanode restarts, and is the only one or on
    /// this host, waits for it instead (`shouldWaitForRestart`).
    async fn leave_out(
        &self,
        work: &mut Work,
        fault: Fault,
        restart: &mut Option<(Target, Instant)>,
    ) -> Result<()> {
        let nodes = &mut work.writing.nodes;
        let index = fault.index.min(nodes.len().saturating_sub(1));
        let Some(node) = nodes.get(index) else {
            return fail(ErrorKind::Unavailable, "no datanode of the block is left");
        };
        if fault.restarts && restart.is_none() && (nodes.len() == 1 || is_here(&node.target.id.ip_addr)) {
            *restart = Some((node.target.clone(), Instant::now() + self.settings.restart_timeout));
        }
        if restart
            .as_ref()
            .is_some_and(|(target, deadline)| *target == node.target && Instant::now() < *deadline)
        {
            sleep(RESTART_PAUSE.min(self.settings.restart_timeout)).await;
            return Ok(());
        }
        if nodes.len() == 1 {
            return fail(
                ErrorKind::Unavailable,
                format!("the last datanode of the block, {}, failed: {}", self.name(node), fault.error),
            );
        }
        let node = nodes.remove(index);
        if fault.restarts {
            work.restarting.push(node.target.clone());
        }
        work.failed.push(node.target);
        Ok(())
    }

    /// Adds a datanode with a copy of the block's bytes (`addDatanode2ExistingPipeline`), even at the end of
    /// the block: the remaining replicas could be lost before the namenode has replicated the block
    /// (HDFS-16146).
    async fn add_datanode(&self, work: &mut Work) -> Result<()> {
        let original = work.writing.nodes.clone();
        let mut excluded = work.failed.clone();
        let mut last = None;
        for attempt in 0..TRANSFER_TRIES {
            let targets = original.iter().map(|node| node.target.clone()).collect();
            let storages = original.iter().map(|node| node.storage_id.clone()).collect();
            let block = &work.writing.block;
            let located = self.file.additional_datanode(block, targets, storages, excluded.clone()).await?;
            let nodes = nodes_of(&located);
            let is_new =
                |node: &&Node| original.iter().all(|known| known.target.id.uuid != node.target.id.uuid);
            let Some(new) = nodes.iter().find(is_new) else { break };
            let from = &original[attempt % original.len()];
            let with = (block, &located.token);
            let name = self.file.holder.name();
            match copy_replica(&self.datanodes, &self.settings, name, with, from, new).await {
                Ok(()) => {
                    work.writing.nodes = nodes;
                    return Ok(());
                }
                Err(error) => {
                    excluded.push(new.target.clone());
                    last = Some(error);
                }
            }
        }
        let reason = last.map_or("there is no other".to_owned(), |error: io::Error| error.to_string());
        fail(
            ErrorKind::Unavailable,
            format!(
                "a failed datanode can't be replaced ({reason}), as \
                 dfs.client.block.write.replace-datanode-on-failure.policy requires"
            ),
        )
    }

    async fn open(
        &self,
        writing: &Writing,
        first_packet: Option<&Packet>,
        stage: Stage,
        generation: u64,
    ) -> std::result::Result<Pipeline, Fault> {
        let name = self.file.holder.name();
        let at = (stage, generation, self.block_bytes);
        Pipeline::open(&self.datanodes, &self.settings, name, writing, first_packet, at).await
    }

    fn log_failure(&self, writing: &Writing, index: usize, error: &io::Error) {
        let datanode = self.name_of(writing, index);
        let (path, block) = (&self.file.path, writing.block.block_id);
        tracing::debug!(path, block, datanode, %error, "a datanode of a pipeline failed");
    }

    fn name_of(&self, writing: &Writing, index: usize) -> String {
        writing.nodes.get(index).map(|node| self.name(node)).unwrap_or_default()
    }

    fn name(&self, node: &Node) -> String {
        self.datanodes.address(&node.target.id)
    }
}

/// Whether this host has that address.
fn is_here(address: &str) -> bool {
    // Only this host's addresses can be bound. No packet is sent.
    address.parse::<IpAddr>().is_ok_and(|address| UdpSocket::bind((address, 0)).is_ok())
}

//! Connects a writer and its streamer: packets go one way, acknowledgements the other.

use super::super::wire::ExtendedBlock;
use super::queue::{Packet, Queue};
use std::iter;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strait_store::{Error, Result};
use tokio::sync::Notify;

/// A writer waits while at least this many bytes are unacknowledged: at 10 Gbit/s, they take some
/// milliseconds. The latest accepted append may exceed this by `MAX_CHUNK_BYTES`.
const WINDOW_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct Line {
    state: Mutex<State>,
    /// Notifies the streamer that there may be a packet to send.
    to_streamer: Notify,
    /// Notifies the writer that its wait is over.
    to_writer: Notify,
}

/// The condition that a writer waits for. Only an acknowledgement that fulfils it wakes the writer.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// Less than [`WINDOW_BYTES`] are unacknowledged.
    Room,
    /// The packet, and all before it, are acknowledged.
    Acked(Option<i64>),
}

impl Wait {
    fn is_over(self, queue: &Queue) -> bool {
        match self {
            Self::Room => queue.bytes() < WINDOW_BYTES,
            Self::Acked(sequence) => queue.is_acked(sequence),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// The current block, or else the previous one. Its length counts acknowledged bytes.
    block: Option<ExtendedBlock>,
    /// Bytes of the block that were sent, acknowledged or not.
    sent: u64,
    /// Number of pipelines that were set up, and that number when the namenode last recorded the file's
    /// blocks.
    pipelines: u64,
    recorded: u64,
    /// Whether the current block was flushed.
    is_flushed: bool,
    failure: Option<Error>,
    /// The condition that the writer waits for.
    wait: Option<Wait>,
    /// Acknowledgements since the last recovery.
    acks: u64,
}

/// The state of a block when a recovery begins.
#[derive(Debug)]
pub struct Rewound {
    /// Whether packets were acknowledged since the last recovery.
    pub has_advanced: bool,
    /// Whether only the end of the block is unacknowledged.
    pub is_ending: bool,
    /// Whether the block was flushed.
    pub is_flushed: bool,
}

impl Line {
    /// Adds a packet.
    pub fn push(&self, packet: Packet) {
        self.lock().queue.push(packet);
        self.to_streamer.notify_one();
    }

    /// Waits until there is a packet to send or to wait for.
    pub async fn some_packet(&self) {
        while self.lock().queue.is_empty() {
            self.to_streamer.notified().await;
        }
    }

    /// The packets to send next, at least one. Dropping the future loses none.
    pub async fn next_packets(&self, most: usize) -> Vec<Packet> {
        loop {
            let packets = self.ready_packets(most);
            if !packets.is_empty() {
                return packets;
            }
            self.to_streamer.notified().await;
        }
    }

    /// The packets that can be sent now, perhaps none.
    pub fn ready_packets(&self, most: usize) -> Vec<Packet> {
        let mut state = self.lock();
        let next = iter::from_fn(|| state.queue.next());
        let packets: Vec<Packet> = next.take(most).collect();
        if let Some(last) = packets.last() {
            state.sent = state.sent.max(last.piece.end());
        }
        packets
    }

    /// Records an acknowledgement, and returns its packet. None if another acknowledgement is due first.
    pub fn acked(&self, sequence: i64) -> Option<Packet> {
        let mut state = self.lock();
        let packet = state.queue.acked(sequence)?;
        state.acks += 1;
        if let Some(block) = &mut state.block {
            block.num_bytes = block.num_bytes.max(packet.piece.end());
        }
        let may_end = state.queue.is_all_acked();
        let State { wait, queue, .. } = &mut *state;
        let ends_wait = wait.take_if(|wait| wait.is_over(queue)).is_some();
        drop(state);
        if ends_wait {
            self.to_writer.notify_one();
        }
        if may_end {
            // The streamer may now send the end of the block.
            self.to_streamer.notify_one();
        }
        Some(packet)
    }

    /// Whether no packet waits for an acknowledgement.
    pub fn is_all_acked(&self) -> bool {
        self.lock().queue.is_all_acked()
    }

    /// Records that the current block has a new pipeline.
    pub fn set_block(&self, block: ExtendedBlock) {
        let mut state = self.lock();
        state.block = Some(block);
        state.pipelines += 1;
    }

    /// The current block, or else the previous one.
    pub fn block(&self) -> Option<ExtendedBlock> {
        self.lock().block.clone()
    }

    /// Begins a recovery.
    pub fn rewind(&self) -> Rewound {
        let mut state = self.lock();
        let is_ending = state.queue.is_ending();
        state.queue.rewind();
        let has_advanced = std::mem::take(&mut state.acks) > 0;
        Rewound { has_advanced, is_ending, is_flushed: state.is_flushed }
    }

    /// Removes the packet that ends the block, because a recovery has ended the block.
    pub fn take_end(&self) {
        self.lock().queue.take_end();
        self.to_writer.notify_one();
    }

    /// Records that the block was flushed. If the namenode has to record the file's blocks, returns the
    /// number for [`Line::recorded`].
    pub fn mark_flushed(&self) -> Option<u64> {
        let mut state = self.lock();
        state.is_flushed = true;
        (state.pipelines > state.recorded).then_some(state.pipelines)
    }

    /// Notes that the namenode has recorded the file's blocks when `pipelines` pipelines were set up.
    pub fn recorded(&self, pipelines: u64) {
        self.lock().recorded = pipelines;
    }

    /// Begins another block: none of its bytes is sent or flushed.
    pub fn next_block(&self) {
        let mut state = self.lock();
        (state.is_flushed, state.sent) = (false, 0);
    }

    /// Bytes of the current block that were sent.
    pub fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Drops all packets, and fails the writer with this error.
    pub fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.queue.clear();
        state.failure.get_or_insert(error);
        drop(state);
        self.to_writer.notify_one();
    }

    /// The error that ended the streamer.
    pub fn check(&self) -> Result<()> {
        self.lock().failure.as_ref().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Waits until less than [`WINDOW_BYTES`] are unacknowledged.
    pub async fn room(&self) -> Result<()> {
        self.wait(Wait::Room).await
    }

    /// Waits until all packets are acknowledged.
    pub async fn all_acked(&self) -> Result<()> {
        let last = self.lock().queue.last_queued();
        self.wait(Wait::Acked(last)).await
    }

    async fn wait(&self, wait: Wait) -> Result<()> {
        loop {
            {
                let mut state = self.lock();
                if let Some(error) = &state.failure {
                    return Err(error.again());
                }
                if wait.is_over(&state.queue) {
                    return Ok(());
                }
                state.wait = Some(wait);
            }
            self.to_writer.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

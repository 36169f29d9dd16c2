//! The index logs of a container, read block by block.

use crate::block::{Block, Damage, Decoder, Head, MAX_BLOCK_BYTES, Position, Step};
use crate::container::Container;
use crate::layout::LogName;
use futures::{StreamExt, TryStreamExt, stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use strait_store::{Error, ErrorKind, FileReader, MAX_CHUNK_BYTES, Result, StorePath, fail};

/// Index logs that are opened at once.
const AT_ONCE: usize = 16;

/// An index log, with a few blocks of it in memory.
pub(crate) struct IndexLog {
    pub name: LogName,
    path: StorePath,
    /// None once all of it was read.
    reader: Option<Box<dyn FileReader>>,
    decoder: Decoder,
    /// Bytes that were read. The decoder has consumed the first `used` of them.
    rest: Vec<u8>,
    used: usize,
    pub head: Option<Head>,
}

impl IndexLog {
    /// Opens a log to read the blocks from a position on.
    pub async fn open(container: &Container, name: LogName, from: Position) -> Result<Self> {
        let path = container.layout.index(name)?;
        let reader = container.fs.open(&container.who, &path).await?;
        let decoder = Decoder::at(from);
        let mut log =
            Self { name, path, reader: Some(reader), decoder, rest: Vec::new(), used: 0, head: None };
        if from.at == 0 {
            log.begin(container).await?;
        }
        Ok(log)
    }

    async fn begin(&mut self, container: &Container) -> Result<()> {
        if let Some(Step::Head(head)) = self.step().await? {
            if head.container != container.id {
                return fail(ErrorKind::Corrupt, "the index log belongs to another container")
                    .map_err(|error: Error| error.at("read", &self.path));
            }
            self.head = Some(head);
        }
        Ok(())
    }

    /// The next block; None at the end.
    pub async fn next(&mut self) -> Result<Option<Block>> {
        match self.step().await? {
            Some(Step::Block(block)) => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    async fn step(&mut self) -> Result<Option<Step>> {
        loop {
            let before = self.decoder.position().at;
            let step = self.decoder.next(&self.rest[self.used..], self.reader.is_none());
            match step.map_err(|damage| damaged(damage, &self.path))? {
                Step::More => self.read_on().await?,
                Step::End => return Ok(None),
                step => {
                    self.used += (self.decoder.position().at - before) as usize;
                    return Ok(Some(step));
                }
            }
        }
    }

    async fn read_on(&mut self) -> Result<()> {
        self.rest.drain(..self.used);
        self.used = 0;
        let Some(reader) = &self.reader else { return Ok(()) };
        let at = self.decoder.position().at + self.rest.len() as u64;
        let bytes = reader.read_at(at, MAX_BLOCK_BYTES.min(MAX_CHUNK_BYTES)).await?;
        if bytes.len() < MAX_BLOCK_BYTES.min(MAX_CHUNK_BYTES) {
            // A read is shorter only at the end.
            self.reader = None;
        }
        self.rest.extend_from_slice(&bytes);
        Ok(())
    }

    /// The position after the last block that was read.
    pub fn position(&self) -> Position {
        self.decoder.position()
    }

    /// Bytes after the last whole block. Valid once all blocks were read.
    pub fn torn(&self) -> u64 {
        (self.rest.len() - self.used) as u64
    }
}

/// The error for a damaged index log.
fn damaged(damage: Damage, path: &StorePath) -> Error {
    let error = match damage {
        Damage::Version(version) => {
            let message = format!("a later version of Strait wrote this index log (format {version})");
            Error::new(ErrorKind::Unsupported, message)
        }
        Damage::At(offset) => Error::new(ErrorKind::Corrupt, format!("damaged at byte {offset}")),
    };
    error.at("read", path)
}

/// The blocks of several logs, in the order in which their changes apply. Keeps one block of each log in
/// memory.
pub(crate) struct Blocks {
    logs: Vec<IndexLog>,
    waiting: BinaryHeap<Reverse<(u64, LogName, usize)>>,
    blocks: Vec<Option<Block>>,
}

impl Blocks {
    /// Opens each log at its position.
    pub async fn open(container: &Container, logs: Vec<(LogName, Position)>) -> Result<Self> {
        let opens = stream::iter(logs).map(async |(name, from)| {
            let mut log = IndexLog::open(container, name, from).await?;
            let block = log.next().await?;
            Ok::<_, Error>((log, block))
        });
        let opened: Vec<(IndexLog, Option<Block>)> = opens.buffered(AT_ONCE).try_collect().await?;
        let (logs, blocks): (Vec<_>, Vec<Option<Block>>) = opened.into_iter().unzip();
        let mut all = Self { logs, waiting: BinaryHeap::new(), blocks };
        (0..all.logs.len()).for_each(|at| all.wait(at));
        Ok(all)
    }

    fn wait(&mut self, at: usize) {
        if let Some(block) = &self.blocks[at] {
            self.waiting.push(Reverse((block.epoch, self.logs[at].name, at)));
        }
    }

    /// The next block, and the place of its log in the list given to [`Self::open`].
    pub async fn next(&mut self) -> Result<Option<(usize, Block)>> {
        let Some(Reverse((.., at))) = self.waiting.pop() else { return Ok(None) };
        let next = self.logs[at].next().await?;
        let block = std::mem::replace(&mut self.blocks[at], next);
        self.wait(at);
        Ok(block.map(|block| (at, block)))
    }

    /// The logs, once all blocks were read.
    pub fn logs(&self) -> &[IndexLog] {
        &self.logs
    }
}

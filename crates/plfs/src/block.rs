//! The index log of a writer, as bytes.
//!
//! ```text
//! head   magic "PLFSINDX" · version u16 · 0 u16 · rank u32 · container 16 bytes · nonce u64
//!        · writer's host and process (UTF-8, padded with zeros to 64 bytes) · CRC-32C of the head
//! block  magic "PLFB" · version u16 · flags u16 · payload's length u32 · CRC-32C of its data u32
//!        · epoch u64 · data's begin u64 · data's length u64 · CRC-32C of all this
//!        · payload · CRC-32C of the payload
//! ```
//!
//! Numbers are little-endian. A block describes the bytes of the data log from `data's begin` on, `data's
//! length` in number. Its payload is a sequence of changes, made of variable-length integers (LEB128):
//!
//! ```text
//! 0 · offset (zigzag, relative to the end of the change before) · length            a write
//! 1 · offset (the same) · length · stride - length · count                          a pattern
//! 2 · length                                                                        a truncation
//! ```

use crate::pattern::{Change, MAX_LENGTH, Pattern};
use strait_crc::crc32c;

/// Most bytes of a block's payload.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// Most bytes of a block.
pub const MAX_BLOCK_BYTES: usize = BLOCK_BYTES + MAX_PAYLOAD + CRC_BYTES;
/// The largest valid epoch of a block or a mark. Writers publish far fewer, so a larger one is damage.
/// Adding 1 to a valid epoch can't overflow.
pub(crate) const MAX_EPOCH: u64 = u64::MAX / 2;
const HEAD_MAGIC: &[u8; 8] = b"PLFSINDX";
const BLOCK_MAGIC: &[u8; 4] = b"PLFB";
const VERSION: u16 = 1;
const NOTE_AT: usize = 40;
const NOTE_BYTES: usize = 64;
const CRC_BYTES: usize = 4;
const HEAD_BYTES: usize = NOTE_AT + NOTE_BYTES + CRC_BYTES;
const BLOCK_BYTES: usize = 40 + CRC_BYTES;
const CLOSED: u16 = 1;

const WRITE: u8 = 0;
const PATTERN: u8 = 1;
const TRUNCATION: u8 = 2;

/// The identity of a container. No other container has the same one.
pub type ContainerId = [u8; 16];

/// The head of an index log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The container that the log belongs to.
    pub container: ContainerId,
    /// The writer's rank.
    pub rank: u32,
    /// Distinguishes writers with the same rank.
    pub nonce: u64,
    /// Host and process of the writer, for people.
    pub note: String,
}

/// Changes that were published together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Orders blocks of different writers.
    pub epoch: u64,
    /// Whether the writer closed its log with this block.
    pub closed: bool,
    /// Offset in the data log of the first byte that the block describes.
    pub data_begin: u64,
    /// Number of bytes of the data log that the block describes.
    pub data_length: u64,
    /// CRC-32C of these bytes.
    pub data_crc: u32,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// The reason why an index log can't be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A later version of Strait wrote the log, in this format.
    Version(u16),
    /// At this offset, a checksum doesn't match, or the bytes under a matching checksum are invalid.
    At(u64),
}

/// A whole index log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// `None` if a crash left the head incomplete. Then nothing was published.
    pub head: Option<Head>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// Bytes of an incomplete block at the end. The writer's sync of it never completed.
    pub torn: u64,
}

impl Log {
    /// Whether the writer closed the log.
    pub fn is_closed(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.closed)
    }
}

impl Head {
    /// Appends the head to `out`. Cuts the note to 64 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(HEAD_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.rank.to_le_bytes());
        out.extend_from_slice(&self.container);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.note.as_bytes()[..self.note.floor_char_boundary(NOTE_BYTES)]);
        out.resize(begin + NOTE_AT + NOTE_BYTES, 0);
        seal(out, begin);
    }
}

impl Block {
    /// Appends the block to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(BLOCK_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(if self.closed { CLOSED } else { 0 }).to_le_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.data_crc.to_le_bytes());
        for number in [self.epoch, self.data_begin, self.data_length] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        // Filled in below: the checksum covers the payload's length, which isn't known yet.
        out.extend_from_slice(&[0; CRC_BYTES]);
        let payload = out.len();
        let mut before = 0;
        for change in &self.changes {
            encode_change(change, &mut before, out);
        }
        let length = (out.len() - payload) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c(&out[begin..payload - CRC_BYTES]);
        out[payload - CRC_BYTES..payload].copy_from_slice(&crc.to_le_bytes());
        seal(out, payload);
    }
}

/// Appends the checksum of the bytes in `out` from `begin` on.
pub(crate) fn seal(out: &mut Vec<u8>, begin: usize) {
    let crc = crc32c(&out[begin..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

fn encode_change(change: &Change, before: &mut u64, out: &mut Vec<u8>) {
    match change {
        Change::Write(pattern) => {
            let single = pattern.count() == 1;
            out.push(if single { WRITE } else { PATTERN });
            // Both are at most i64::MAX.
            let distance = pattern.start() as i64 - *before as i64;
            put(out, ((distance << 1) ^ (distance >> 63)) as u64);
            put(out, pattern.length());
            if !single {
                put(out, pattern.stride() - pattern.length());
                put(out, pattern.count());
            }
            *before = pattern.end();
        }
        Change::Truncate(length) => {
            out.push(TRUNCATION);
            put(out, *length);
        }
    }
}

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes an index log. Ignores an incomplete or damaged block at its end, which a crash of the writer can
/// leave.
///
/// # Errors
/// [`Damage::At`]: a block before the end is damaged, or any block of a closed log. [`Damage::Version`]:
/// a later version of Strait wrote the log.
pub fn decode(bytes: &[u8]) -> Result<Log, Damage> {
    let (mut decoder, mut head, mut blocks) = (Decoder::default(), None, Vec::new());
    loop {
        match decoder.next(&bytes[decoder.position().at as usize..], true)? {
            Step::Head(found) => head = Some(found),
            Step::Block(block) => blocks.push(block),
            Step::More | Step::End => break,
        }
    }
    Ok(Log { head, blocks, torn: bytes.len() as u64 - decoder.position().at })
}

/// A place between two blocks of an index log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Bytes of the index log before it.
    pub at: u64,
    /// Bytes of the data log that the blocks before it describe.
    pub data_end: u64,
    /// The epoch of the last block before it.
    pub epoch: u64,
    /// Whether that block closed the log.
    pub closed: bool,
}

/// Decodes an index log as its bytes arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    position: Position,
}

/// A step of decoding.
#[derive(Debug)]
pub enum Step {
    /// The head of the log.
    Head(Head),
    /// The next block.
    Block(Block),
    /// More bytes are needed.
    More,
    /// The log has no further whole block.
    End,
}

impl Decoder {
    /// A decoder that continues at a position which an earlier decoder of the same log reached.
    pub fn at(position: Position) -> Self {
        Self { position }
    }

    /// The position after the last step.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next step. `rest`: bytes of the log from the decoder's position on. `last`: `rest` reaches the end
    /// of the log. After [`Step::More`], call again with a longer `rest`; [`MAX_BLOCK_BYTES`] always suffice.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn next(&mut self, rest: &[u8], last: bool) -> Result<Step, Damage> {
        if self.position.at == 0 {
            return match head(rest, last)? {
                Step::Head(head) => {
                    self.position.at = HEAD_BYTES as u64;
                    Ok(Step::Head(head))
                }
                step => Ok(step),
            };
        }
        let damaged = Damage::At(self.position.at);
        if rest.is_empty() {
            return Ok(if last { Step::End } else { Step::More });
        }
        let (block, bytes) = match block(rest, damaged)? {
            Some(found) => found,
            None if !last && rest.len() < MAX_BLOCK_BYTES => return Ok(Step::More),
            None if !last || self.position.closed => return Err(damaged),
            None => return Ok(Step::End),
        };
        // Each block continues where the one before ended.
        let Position { at, data_end, epoch, closed } = self.position;
        if block.data_begin != data_end || closed || block.epoch < epoch {
            return Err(damaged);
        }
        self.position = Position {
            at: at + bytes as u64,
            data_end: data_end + block.data_length,
            epoch: block.epoch,
            closed: block.closed,
        };
        Ok(Step::Block(block))
    }
}

/// Decodes the head. [`Step::End`] if a crash left it incomplete.
fn head(rest: &[u8], last: bool) -> Result<Step, Damage> {
    let Some(head) = rest.get(..HEAD_BYTES) else {
        return Ok(if last { Step::End } else { Step::More });
    };
    if !is_sealed(head) {
        let torn = last && (rest.len() == HEAD_BYTES || is_blank(rest));
        return match torn {
            true => Ok(Step::End),
            false if last || !is_blank(rest) => Err(Damage::At(0)),
            false => Ok(Step::More),
        };
    }
    if &head[..8] != HEAD_MAGIC {
        return Err(Damage::At(0));
    }
    version(u16_at(head, 8))?;
    let note = std::str::from_utf8(&head[NOTE_AT..NOTE_AT + NOTE_BYTES]).map_err(|_| Damage::At(0))?;
    Ok(Step::Head(Head {
        rank: u32_at(head, 12),
        container: array(head, 16),
        nonce: u64_at(head, 32),
        note: note.trim_end_matches('\0').to_owned(),
    }))
}

/// Decodes a block. Returns it with its length in bytes; `None` if a crash left it incomplete, or if `rest`
/// has only a part of it.
fn block(rest: &[u8], damaged: Damage) -> Result<Option<(Block, usize)>, Damage> {
    let Some(fixed) = rest.get(..BLOCK_BYTES) else { return Ok(None) };
    if !is_sealed(fixed) {
        let torn = is_blank(rest) || rest.len() == BLOCK_BYTES;
        return if torn { Ok(None) } else { Err(damaged) };
    }
    if &fixed[..4] != BLOCK_MAGIC {
        return Err(damaged);
    }
    version(u16_at(fixed, 4))?;
    let length = u32_at(fixed, 8) as usize;
    if length > MAX_PAYLOAD {
        return Err(damaged);
    }
    let end = BLOCK_BYTES + length + CRC_BYTES;
    let Some(payload) = rest.get(BLOCK_BYTES..end) else { return Ok(None) };
    if !is_sealed(payload) {
        return if rest.len() == end || is_blank(payload) { Ok(None) } else { Err(damaged) };
    }
    let block = Block {
        epoch: u64_at(fixed, 16),
        closed: u16_at(fixed, 6) & CLOSED != 0,
        data_begin: u64_at(fixed, 24),
        data_length: u64_at(fixed, 32),
        data_crc: u32_at(fixed, 12),
        changes: changes(&payload[..length]).ok_or(damaged)?,
    };
    let written = block.changes.iter().try_fold(0_u64, |sum, change| match change {
        Change::Write(pattern) => sum.checked_add(pattern.bytes()),
        Change::Truncate(_) => Some(sum),
    });
    let within = block.data_begin.checked_add(block.data_length).is_some_and(|end| end <= MAX_LENGTH);
    if written != Some(block.data_length) || !within || block.epoch > MAX_EPOCH {
        return Err(damaged);
    }
    Ok(Some((block, end)))
}

/// For fuzzing: corrects the checksums of the head and of each block.
#[doc(hidden)]
pub fn reseal(log: &mut [u8]) {
    let seal = |part: &mut [u8]| {
        let at = part.len() - CRC_BYTES;
        let crc = crc32c(&part[..at]);
        part[at..].copy_from_slice(&crc.to_le_bytes());
    };
    let Some(head) = log.get_mut(..HEAD_BYTES) else { return };
    seal(head);
    let mut rest = &mut log[HEAD_BYTES..];
    while rest.len() >= BLOCK_BYTES {
        let (fixed, behind) = rest.split_at_mut(BLOCK_BYTES);
        seal(fixed);
        let end = u32_at(fixed, 8) as usize + CRC_BYTES;
        let Some((payload, behind)) = behind.split_at_mut_checked(end) else { return };
        seal(payload);
        rest = behind;
    }
}

fn version(found: u16) -> Result<(), Damage> {
    if found == VERSION { Ok(()) } else { Err(Damage::Version(found)) }
}

/// Whether the last bytes are the checksum of the bytes before them.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    let (covered, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    crc32c(covered).to_le_bytes() == crc
}

/// Whether all bytes are zero. After a power loss, some file systems leave zeros at the end of a file.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn changes(mut payload: &[u8]) -> Option<Vec<Change>> {
    let (mut changes, mut before) = (Vec::new(), 0_u64);
    while let Some((kind, rest)) = payload.split_first() {
        payload = rest;
        let change = match *kind {
            TRUNCATION => Change::Truncate(take(&mut payload).filter(|length| *length <= MAX_LENGTH)?),
            WRITE | PATTERN => {
                let zigzag = take(&mut payload)?;
                let distance = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                let start = before.checked_add_signed(distance)?;
                let length = take(&mut payload)?;
                let (stride, count) = match *kind {
                    WRITE => (0, 1),
                    _ => (take(&mut payload)?.checked_add(length)?, take(&mut payload)?),
                };
                let pattern = Pattern::new(start, length, stride, count)?;
                before = pattern.end();
                Change::Write(pattern)
            }
            _ => return None,
        };
        changes.push(change);
    }
    Some(changes)
}

pub(crate) fn take(payload: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = payload.split_first()?;
        *payload = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

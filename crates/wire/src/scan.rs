//! Finds the end of a message as its bytes arrive, before anything is decoded. Its memory doesn't grow with
//! the message.

use crate::decode::varint_at;
use crate::json::{self, Brackets};
use crate::sniff::{BINARY_FIRST, COMPACT_FIRST};
use crate::{DecodeError, MAX_DEPTH, Protocol, TType, Wire};

/// Result of scanning the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// The message isn't complete; it has at least this many bytes in all. The number comes from the
    /// sender, and the scanner has checked it against the limit.
    NeedMore(usize),
    /// The message's bytes, without a frame's length word: `start..end` of
    /// the buffer. The next message begins at `end`.
    Complete {
        /// Its start: 4 on a framed wire, else 0.
        start: usize,
        /// Its end.
        end: usize,
    },
}

/// Finds the end of one message in a growing buffer. It resumes at its last position, so a message
/// sent byte by byte costs no more than one sent whole.
///
/// On a framed wire the length word gives the end. In an unframed message the scanner goes from field
/// to field, and skips each string in one step. JSON announces no lengths, so the scanner looks at
/// each of its bytes once.
#[derive(Debug)]
pub struct Scanner {
    wire: Wire,
    max_bytes: usize,
    /// Next byte to scan; may lie past the end of the buffer, inside a string that hasn't arrived.
    position: usize,
    header_done: bool,
    stack: Vec<Level>,
    /// Used for JSON only.
    brackets: Brackets,
}

#[derive(Debug)]
enum Level {
    Struct {
        /// The type of the current field, if its header has been read and its value hasn't.
        field: Option<TType>,
    },
    /// List or set.
    Elements { kind: TType, left: usize },
    Entries {
        key: TType,
        value: TType,
        /// Keys and values not scanned yet.
        left: usize,
    },
}

/// The reason why the scan stops: it needs more bytes, or it failed.
enum Stop {
    NeedMore(usize),
    Error(DecodeError),
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Error(error)
    }
}

/// The error of steps that are only for the other protocols. It can't occur, since [`json`] finds the
/// end of a JSON message.
const NOT_WALKED: DecodeError = DecodeError::Malformed("a JSON message among binary ones");

type Step<T> = std::result::Result<T, Stop>;

impl Scanner {
    /// A scanner for one message of at most `max_bytes` bytes.
    pub fn new(wire: Wire, max_bytes: usize) -> Self {
        Self {
            wire,
            max_bytes,
            position: 0,
            header_done: false,
            stack: Vec::new(),
            brackets: Brackets::default(),
        }
    }

    /// Scans all bytes of the message received so far (the same buffer as before, perhaps longer).
    ///
    /// # Errors
    /// The message claims more than the limit, nests deeper than [`MAX_DEPTH`], or isn't Thrift.
    /// Then the connection can't be read any further.
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Scan, DecodeError> {
        let result = match self.wire {
            Wire { framed: true, .. } => self.frame(buffer),
            Wire { protocol: Protocol::Json, .. } => self.json(buffer),
            _ => self.walk(buffer),
        };
        match result {
            Ok(scan) => Ok(scan),
            Err(Stop::NeedMore(at_least)) => Ok(Scan::NeedMore(at_least)),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn frame(&mut self, buffer: &[u8]) -> Step<Scan> {
        let Some(word) = buffer.first_chunk::<4>() else { return Err(Stop::NeedMore(4)) };
        let length = u32::from_be_bytes(*word) as usize;
        if length > self.max_bytes {
            return Err(DecodeError::TooLong { claimed: length as u64, limit: self.max_bytes }.into());
        }
        if length == 0 {
            return Err(DecodeError::Malformed("an empty frame").into());
        }
        let end = 4 + length;
        if buffer.len() < end { Err(Stop::NeedMore(end)) } else { Ok(Scan::Complete { start: 4, end }) }
    }

    fn json(&mut self, buffer: &[u8]) -> Step<Scan> {
        let allowed = &buffer[..buffer.len().min(self.max_bytes)];
        match json::message_end(&mut self.brackets, allowed)? {
            Some(end) => Ok(Scan::Complete { start: 0, end }),
            None if allowed.len() < self.max_bytes => Err(Stop::NeedMore(allowed.len() + 1)),
            None => {
                let claimed = self.max_bytes as u64 + 1;
                Err(DecodeError::TooLong { claimed, limit: self.max_bytes }.into())
            }
        }
    }

    fn walk(&mut self, buffer: &[u8]) -> Step<Scan> {
        if !self.header_done {
            self.header(buffer)?;
            self.header_done = true;
            self.stack.push(Level::Struct { field: None });
        }
        // A level advances only after its value's own bytes have arrived, so each step can be
        // repeated after NeedMore.
        while let Some(level) = self.stack.last() {
            let (kind, in_container) = match level {
                Level::Struct { field: Some(kind) } => (*kind, false),
                Level::Struct { field: None } => {
                    let field = self.field(buffer)?;
                    match (field, self.stack.last_mut()) {
                        (Some(_), Some(level)) => *level = Level::Struct { field },
                        _ => drop(self.stack.pop()),
                    }
                    continue;
                }
                Level::Elements { left: 0, .. } | Level::Entries { left: 0, .. } => {
                    self.stack.pop();
                    continue;
                }
                Level::Elements { kind, .. } => (*kind, true),
                Level::Entries { key, value, left } => (if left % 2 == 0 { *key } else { *value }, true),
            };
            let depth = self.stack.len();
            self.value(buffer, kind, in_container)?;
            match &mut self.stack[depth - 1] {
                Level::Struct { field } => *field = None,
                Level::Elements { left, .. } | Level::Entries { left, .. } => *left -= 1,
            }
        }
        let end = self.position;
        if buffer.len() < end { Err(Stop::NeedMore(end)) } else { Ok(Scan::Complete { start: 0, end }) }
    }

    fn header(&mut self, buffer: &[u8]) -> Step<()> {
        match self.wire.protocol {
            Protocol::Binary => {
                let head = self.peek(buffer, 0, 8)?;
                if head[0] != BINARY_FIRST {
                    return Err(DecodeError::Malformed("not a strict binary message").into());
                }
                let name = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                self.position += 8;
                self.jump_signed(name)?;
                self.advance(4) // sequence id
            }
            Protocol::Unversioned => {
                let word = self.peek(buffer, 0, 4)?;
                let name = i32::from_be_bytes([word[0], word[1], word[2], word[3]]);
                self.position += 4;
                self.jump_signed(name)?;
                self.advance(1 + 4) // the kind of message, sequence id
            }
            Protocol::Compact => {
                let head = self.peek(buffer, 0, 2)?;
                if head[0] != COMPACT_FIRST {
                    return Err(DecodeError::Malformed("not a compact message").into());
                }
                let (_sequence, a) = self.varint(buffer, 2)?;
                let (name, b) = self.varint(buffer, 2 + a)?;
                self.position += 2 + a + b;
                self.jump(name)
            }
            Protocol::Json => Err(NOT_WALKED.into()),
        }
    }

    /// A field's type; none at the end of the struct.
    fn field(&mut self, buffer: &[u8]) -> Step<Option<TType>> {
        let first = self.peek(buffer, 0, 1)?[0];
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                if first == 0 {
                    self.position += 1;
                    return Ok(None);
                }
                let kind = TType::from_binary(first).ok_or(DecodeError::UnknownType(first))?;
                self.advance(3)?;
                Ok(Some(kind))
            }
            Protocol::Compact => {
                if first == 0 {
                    self.position += 1;
                    return Ok(None);
                }
                let kind = TType::from_compact(first & 0x0f).ok_or(DecodeError::UnknownType(first))?;
                let id_bytes = if first >> 4 == 0 { self.varint(buffer, 1)?.1 } else { 0 };
                self.advance(1 + id_bytes)?;
                Ok(Some(kind))
            }
            Protocol::Json => Err(NOT_WALKED.into()),
        }
    }

    fn value(&mut self, buffer: &[u8], kind: TType, in_container: bool) -> Step<()> {
        match (kind, self.wire.protocol) {
            (_, Protocol::Json) => Err(NOT_WALKED.into()),
            (TType::Bool, Protocol::Compact) if !in_container => Ok(()), // the field's header holds it
            (TType::Bool | TType::I8, _) => self.advance(1),
            (TType::Double, _) | (TType::I64, Protocol::Binary | Protocol::Unversioned) => self.advance(8),
            (TType::I16, Protocol::Binary | Protocol::Unversioned) => self.advance(2),
            (TType::I32, Protocol::Binary | Protocol::Unversioned) => self.advance(4),
            (TType::I16 | TType::I32 | TType::I64, Protocol::Compact) => {
                let (_, length) = self.varint(buffer, 0)?;
                self.advance(length)
            }
            (TType::String, Protocol::Binary | Protocol::Unversioned) => {
                let word = self.peek(buffer, 0, 4)?;
                let length = i32::from_be_bytes([word[0], word[1], word[2], word[3]]);
                self.position += 4;
                self.jump_signed(length)
            }
            (TType::String, Protocol::Compact) => {
                let (length, used) = self.varint(buffer, 0)?;
                self.position += used;
                self.jump(length)
            }
            (TType::Struct, _) => self.push(Level::Struct { field: None }),
            (TType::List | TType::Set, _) => self.elements(buffer),
            (TType::Map, _) => self.entries(buffer),
        }
    }

    fn elements(&mut self, buffer: &[u8]) -> Step<()> {
        let (code, left, used) = match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                let head = self.peek(buffer, 0, 5)?;
                (head[0], self.count(i32::from_be_bytes([head[1], head[2], head[3], head[4]]))?, 5)
            }
            Protocol::Compact => {
                let first = self.peek(buffer, 0, 1)?[0];
                if first >> 4 < 15 {
                    (first & 0x0f, usize::from(first >> 4), 1)
                } else {
                    let (count, used) = self.varint(buffer, 1)?;
                    (first & 0x0f, self.count_u64(count)?, 1 + used)
                }
            }
            Protocol::Json => return Err(NOT_WALKED.into()),
        };
        let kind = self.kind(code)?;
        self.position += used;
        self.push(Level::Elements { kind, left })
    }

    fn entries(&mut self, buffer: &[u8]) -> Step<()> {
        let (key, value, count, used) = match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                let head = self.peek(buffer, 0, 6)?;
                let count = self.count(i32::from_be_bytes([head[2], head[3], head[4], head[5]]))?;
                (head[0], head[1], count, 6)
            }
            Protocol::Compact => {
                let (count, used) = self.varint(buffer, 0)?;
                let count = self.count_u64(count)?;
                if count == 0 {
                    (1, 1, 0, used)
                } else {
                    let kinds = self.peek(buffer, used, 1)?[0];
                    (kinds >> 4, kinds & 0x0f, count, used + 1)
                }
            }
            Protocol::Json => return Err(NOT_WALKED.into()),
        };
        let (key, value) =
            if count == 0 { (TType::Bool, TType::Bool) } else { (self.kind(key)?, self.kind(value)?) };
        self.position += used;
        self.push(Level::Entries { key, value, left: count * 2 })
    }

    fn kind(&self, code: u8) -> Step<TType> {
        let kind = match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => TType::from_binary(code),
            Protocol::Compact => TType::from_compact(code),
            Protocol::Json => None,
        };
        Ok(kind.ok_or(DecodeError::UnknownType(code))?)
    }

    fn push(&mut self, level: Level) -> Step<()> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(DecodeError::TooDeep.into());
        }
        self.stack.push(level);
        Ok(())
    }

    /// A count of elements, each of which takes a byte at least.
    fn count(&self, count: i32) -> Step<usize> {
        self.count_u64(u64::try_from(count).map_err(|_| DecodeError::NegativeSize)?)
    }

    fn count_u64(&self, count: u64) -> Step<usize> {
        let room = self.max_bytes.saturating_sub(self.position) as u64;
        if count > room {
            return Err(DecodeError::TooLong { claimed: count, limit: self.max_bytes }.into());
        }
        Ok(count as usize)
    }

    fn jump_signed(&mut self, length: i32) -> Step<()> {
        self.jump(u64::try_from(length).map_err(|_| DecodeError::NegativeSize)?)
    }

    fn jump(&mut self, length: u64) -> Step<()> {
        let room = self.max_bytes.saturating_sub(self.position) as u64;
        if length > room {
            return Err(DecodeError::TooLong { claimed: length, limit: self.max_bytes }.into());
        }
        self.position += length as usize;
        Ok(())
    }

    fn advance(&mut self, length: usize) -> Step<()> {
        self.jump(length as u64)
    }

    /// `length` bytes at `position + skip`.
    fn peek<'b>(&self, buffer: &'b [u8], skip: usize, length: usize) -> Step<&'b [u8]> {
        let start = self.position + skip;
        let end = start + length;
        if end > self.max_bytes {
            return Err(DecodeError::TooLong { claimed: end as u64, limit: self.max_bytes }.into());
        }
        buffer.get(start..end).ok_or(Stop::NeedMore(end))
    }

    /// The varint at `position + skip`, and how many bytes it takes.
    fn varint(&self, buffer: &[u8], skip: usize) -> Step<(u64, usize)> {
        let start = self.position + skip;
        match varint_at(buffer.get(start..).unwrap_or_default())? {
            Some(found) => Ok(found),
            None => Err(Stop::NeedMore(buffer.len().max(start) + 1)),
        }
    }
}

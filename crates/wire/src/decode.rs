//! Decodes the values of one whole message.

use crate::{DecodeError, MAX_DEPTH, Protocol, TType, json};
use bytes::{Buf, Bytes};

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads the values of one message. Payloads are slices of the message's own buffer; only text is
/// copied.
#[derive(Debug)]
pub struct Decoder {
    protocol: Protocol,
    bytes: Bytes,
    /// Compact: the previous field's id in each open struct. JSON: 0 before a struct's first field, then 1.
    last_ids: Vec<i16>,
    /// Compact: a bool that came with its field's header.
    pending_bool: Option<bool>,
    most_elements: usize,
}

/// A varint (unsigned LEB128, ten bytes at most) at the start of `bytes`, and
/// its length; none if the bytes end inside it.
pub(crate) fn varint_at(bytes: &[u8]) -> Result<Option<(u64, usize)>> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 10 { Err(DecodeError::Malformed("a varint of more than ten bytes")) } else { Ok(None) }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl Decoder {
    /// Reads a punctuation mark of JSON.
    pub(crate) fn mark(&mut self, mark: u8) -> Result<()> {
        json::expect(&mut self.bytes, mark)
    }

    /// Reads `bytes`, one message without its frame's length.
    pub fn new(protocol: Protocol, bytes: Bytes) -> Self {
        Self { protocol, bytes, last_ids: Vec::new(), pending_bool: None, most_elements: usize::MAX }
    }

    /// Refuses a message whose known lists together have more elements. A decoded element can take hundreds of times
    /// the memory of its bytes: an empty string or struct is one byte.
    pub fn with_most_elements(mut self, most_elements: usize) -> Self {
        self.most_elements = most_elements;
        self
    }

    /// Checks the announced number of a list's elements.
    pub(crate) fn demand_elements(&mut self, claimed: usize) -> Result<()> {
        let limit = self.most_elements;
        self.most_elements =
            limit.checked_sub(claimed).ok_or(DecodeError::TooManyElements { claimed, limit })?;
        Ok(())
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes> {
        if length > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.bytes.split_to(length))
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.first().ok_or(DecodeError::Truncated)?;
        self.bytes.advance(1);
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let array = *self.bytes.first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes.advance(N);
        Ok(array)
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let (value, length) = varint_at(&self.bytes)?.ok_or(DecodeError::Truncated)?;
        self.bytes.advance(length);
        Ok(value)
    }

    /// A bool, in a field or in a list.
    pub(crate) fn bool(&mut self) -> Result<bool> {
        if let Some(value) = self.pending_bool.take() {
            return Ok(value);
        }
        if self.protocol == Protocol::Json {
            return Ok(json::integer(&mut self.bytes)? != 0);
        }
        // In a list, a bool is a byte. 1 is true in the binary protocols and the compact one.
        Ok(self.byte()? == 1)
    }

    pub(crate) fn i16(&mut self) -> Result<i16> {
        match self.protocol {
            Protocol::Binary | Protocol::Unversioned => Ok(i16::from_be_bytes(self.array()?)),
            Protocol::Compact => i16::try_from(zigzag(self.varint()?))
                .map_err(|_| DecodeError::Malformed("an i16 out of range")),
            Protocol::Json => i16::try_from(json::integer(&mut self.bytes)?)
                .map_err(|_| DecodeError::Malformed("an i16 out of range")),
        }
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        match self.protocol {
            Protocol::Binary | Protocol::Unversioned => Ok(i32::from_be_bytes(self.array()?)),
            Protocol::Compact => i32::try_from(zigzag(self.varint()?))
                .map_err(|_| DecodeError::Malformed("an i32 out of range")),
            Protocol::Json => i32::try_from(json::integer(&mut self.bytes)?)
                .map_err(|_| DecodeError::Malformed("an i32 out of range")),
        }
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        match self.protocol {
            Protocol::Binary | Protocol::Unversioned => Ok(i64::from_be_bytes(self.array()?)),
            Protocol::Compact => Ok(zigzag(self.varint()?)),
            Protocol::Json => json::integer(&mut self.bytes),
        }
    }

    /// A binary's bytes, shared with the message; JSON's base64 is decoded.
    pub(crate) fn binary(&mut self) -> Result<Bytes> {
        let length = match self.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                usize::try_from(self.i32()?).map_err(|_| DecodeError::NegativeSize)?
            }
            Protocol::Compact => usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?,
            Protocol::Json => return json::base64(&mut self.bytes),
        };
        self.take(length)
    }

    /// A string's bytes, in any encoding.
    pub(crate) fn string(&mut self) -> Result<Bytes> {
        match self.protocol {
            Protocol::Json => json::string(&mut self.bytes),
            _ => self.binary(),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let bytes = self.string()?;
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| DecodeError::NotUtf8)
    }

    pub(crate) fn struct_begin(&mut self) -> Result<()> {
        if self.last_ids.len() >= MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        if self.protocol == Protocol::Json {
            json::expect(&mut self.bytes, b'{')?;
        }
        self.last_ids.push(0);
        Ok(())
    }

    /// The next field's id and type; none at the end of the struct.
    pub(crate) fn field_begin(&mut self) -> Result<Option<(i16, TType)>> {
        if self.protocol == Protocol::Json {
            return self.json_field_begin();
        }
        let first = self.byte()?;
        if first == 0 {
            self.last_ids.pop();
            return Ok(None);
        }
        if self.protocol != Protocol::Compact {
            let kind = TType::from_binary(first).ok_or(DecodeError::UnknownType(first))?;
            return Ok(Some((i16::from_be_bytes(self.array()?), kind)));
        }
        let kind = TType::from_compact(first & 0x0f).ok_or(DecodeError::UnknownType(first))?;
        let delta = i16::from(first >> 4);
        let last = self.last_ids.last().copied().unwrap_or(0);
        let id = match delta {
            0 => self.i16()?,
            _ => last.checked_add(delta).ok_or(DecodeError::Malformed("a field id out of range"))?,
        };
        if let Some(last) = self.last_ids.last_mut() {
            *last = id;
        }
        if kind == TType::Bool {
            self.pending_bool = Some(first & 0x0f == 1);
        }
        Ok(Some((id, kind)))
    }

    /// As `field_begin`, for JSON. Also reads the bracket that ends the previous field's object, and the
    /// one that ends the message after its outermost struct.
    fn json_field_begin(&mut self) -> Result<Option<(i16, TType)>> {
        let first = match self.last_ids.last_mut() {
            Some(last) => std::mem::replace(last, 1) == 0,
            None => return Err(DecodeError::Malformed("a field outside of a struct")),
        };
        let from = &mut self.bytes;
        if !first {
            json::expect(from, b'}')?;
        }
        if json::peek(from)? == b'}' {
            json::expect(from, b'}')?;
            self.last_ids.pop();
            if self.last_ids.is_empty() {
                json::expect(from, b']')?;
            }
            return Ok(None);
        }
        if !first {
            json::expect(from, b',')?;
        }
        let id = i16::try_from(json::quoted_integer(from)?);
        let id = id.map_err(|_| DecodeError::Malformed("a field id out of range"))?;
        json::expect(from, b':')?;
        json::expect(from, b'{')?;
        let kind = json::kind(from)?;
        json::expect(from, b':')?;
        Ok(Some((id, kind)))
    }

    /// Call it before each element of a list: JSON has a comma there.
    pub(crate) fn element(&mut self) -> Result<()> {
        if self.protocol == Protocol::Json { json::expect(&mut self.bytes, b',') } else { Ok(()) }
    }

    /// Call it after the last element of a list: JSON has a bracket there.
    pub(crate) fn list_end(&mut self) -> Result<()> {
        if self.protocol == Protocol::Json { json::expect(&mut self.bytes, b']') } else { Ok(()) }
    }

    /// A list's (or set's) element type and count. The count is at most the number of remaining bytes, so
    /// callers may allocate by it.
    pub(crate) fn list_begin(&mut self) -> Result<(TType, usize)> {
        if self.protocol == Protocol::Json {
            json::expect(&mut self.bytes, b'[')?;
            let kind = json::kind(&mut self.bytes)?;
            json::expect(&mut self.bytes, b',')?;
            let count = u64::try_from(json::integer(&mut self.bytes)?);
            return Ok((kind, self.count(count.map_err(|_| DecodeError::NegativeSize)?)?));
        }
        let (code, count) = match self.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                let code = self.byte()?;
                (code, u64::try_from(self.i32()?).map_err(|_| DecodeError::NegativeSize)?)
            }
            Protocol::Compact => {
                let first = self.byte()?;
                let count = if first >> 4 < 15 { u64::from(first >> 4) } else { self.varint()? };
                (first & 0x0f, count)
            }
            Protocol::Json => return Err(DecodeError::Malformed("a JSON list")),
        };
        let count = self.count(count)?;
        Ok((self.kind(code)?, count))
    }

    /// Skips a value of an unknown field.
    pub(crate) fn skip(&mut self, kind: TType) -> Result<()> {
        self.skip_at(kind, self.last_ids.len())
    }

    fn skip_at(&mut self, kind: TType, depth: usize) -> Result<()> {
        if self.protocol == Protocol::Json {
            return json::skip(&mut self.bytes);
        }
        if depth >= MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        match kind {
            TType::Bool => self.bool().map(drop),
            TType::I8 => self.byte().map(drop),
            TType::Double => self.take(8).map(drop),
            TType::I16 => self.i16().map(drop),
            TType::I32 => self.i32().map(drop),
            TType::I64 => self.i64().map(drop),
            TType::String => self.binary().map(drop),
            TType::Struct => {
                self.struct_begin()?;
                while let Some((_, kind)) = self.field_begin()? {
                    self.skip_at(kind, depth + 1)?;
                }
                Ok(())
            }
            TType::List | TType::Set => {
                let (kind, count) = self.list_begin()?;
                for _ in 0..count {
                    self.skip_at(kind, depth + 1)?;
                }
                Ok(())
            }
            TType::Map => {
                let Some((key, value, count)) = self.map_begin()? else { return Ok(()) };
                for _ in 0..count {
                    self.skip_at(key, depth + 1)?;
                    self.skip_at(value, depth + 1)?;
                }
                Ok(())
            }
        }
    }

    /// Types and count of a map; none if it is empty.
    fn map_begin(&mut self) -> Result<Option<(TType, TType, usize)>> {
        let (key, value, count) = match self.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                let (key, value) = (self.byte()?, self.byte()?);
                (key, value, u64::try_from(self.i32()?).map_err(|_| DecodeError::NegativeSize)?)
            }
            Protocol::Compact => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (kinds >> 4, kinds & 0x0f, count)
            }
            Protocol::Json => return Err(DecodeError::Malformed("a JSON map")),
        };
        if count == 0 {
            return Ok(None);
        }
        Ok(Some((self.kind(key)?, self.kind(value)?, self.count(count)?)))
    }

    fn kind(&self, code: u8) -> Result<TType> {
        let kind = match self.protocol {
            Protocol::Binary | Protocol::Unversioned => TType::from_binary(code),
            Protocol::Compact => TType::from_compact(code),
            Protocol::Json => None,
        };
        kind.ok_or(DecodeError::UnknownType(code))
    }

    fn count(&self, count: u64) -> Result<usize> {
        if count > self.bytes.len() as u64 {
            return Err(DecodeError::TooLong { claimed: count, limit: self.bytes.len() });
        }
        Ok(count as usize)
    }
}

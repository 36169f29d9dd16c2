//! Encodes values into one message, payloads by reference.

use crate::{Protocol, TType, Wire, json};
use bytes::{BufMut, Bytes, BytesMut};

/// Payloads of at least this many bytes become a segment of their own. Below, copying is cheaper
/// than one more entry for writev.
const SEGMENT_BYTES: usize = 4 << 10;

/// Room for the usual answer. In JSON, a file's status has some 350 bytes.
const FIRST_BYTES: usize = 512;

/// One encoded message: what to write to the socket, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The pieces, none empty.
    pub segments: Vec<Bytes>,
}

impl Encoded {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Copies all pieces into one.
    pub fn to_bytes(&self) -> Bytes {
        self.segments.concat().into()
    }
}

/// Writes the values of one message.
#[derive(Debug)]
pub struct Encoder {
    wire: Wire,
    /// The first segment. It stays mutable, since `finish` writes the frame's length into it.
    first: Option<BytesMut>,
    /// The other finished segments.
    segments: Vec<Bytes>,
    head: BytesMut,
    /// Compact: the previous field's id in each open struct. JSON: 0 before a struct's first field, then 1.
    last_ids: Vec<i16>,
    /// Compact: the id of a bool field whose header waits for its value.
    pending_bool: Option<i16>,
}

impl Encoder {
    /// Begins a message for `wire`.
    pub fn new(wire: Wire) -> Self {
        let mut head = BytesMut::with_capacity(FIRST_BYTES);
        if wire.framed {
            head.put_u32(0); // the length, known at the end
        }
        Self { wire, first: None, segments: Vec::new(), head, last_ids: Vec::new(), pending_bool: None }
    }

    /// Ends the message.
    pub fn finish(mut self) -> Encoded {
        if self.wire.protocol == Protocol::Json {
            self.head.put_u8(b']');
        }
        let length = self.first.as_ref().map_or(0, BytesMut::len)
            + self.segments.iter().map(Bytes::len).sum::<usize>()
            + self.head.len();
        let (mut first, last) = match self.first {
            Some(first) => (first, self.head),
            None => (self.head, BytesMut::new()),
        };
        if self.wire.framed {
            first[..4].copy_from_slice(&((length - 4) as u32).to_be_bytes());
        }
        self.segments.insert(0, first.freeze());
        if !last.is_empty() {
            self.segments.push(last.freeze());
        }
        Encoded { segments: self.segments }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.wire.protocol
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.head.put_slice(bytes);
    }

    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.head.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.head.put_u8(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        match (self.pending_bool.take(), self.wire.protocol) {
            (Some(id), _) => self.compact_field(id, if value { 1 } else { 2 }),
            (None, Protocol::Binary | Protocol::Unversioned) => self.head.put_u8(u8::from(value)),
            (None, Protocol::Compact) => self.head.put_u8(if value { 1 } else { 2 }),
            (None, Protocol::Json) => json::put_integer(&mut self.head, value.into()),
        }
    }

    pub(crate) fn i16(&mut self, value: i16) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => self.head.put_i16(value),
            Protocol::Compact => self.zigzag(value.into()),
            Protocol::Json => json::put_integer(&mut self.head, value.into()),
        }
    }

    pub(crate) fn i32(&mut self, value: i32) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => self.head.put_i32(value),
            Protocol::Compact => self.zigzag(value.into()),
            Protocol::Json => json::put_integer(&mut self.head, value.into()),
        }
    }

    pub(crate) fn i64(&mut self, value: i64) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => self.head.put_i64(value),
            Protocol::Compact => self.zigzag(value),
            Protocol::Json => json::put_integer(&mut self.head, value),
        }
    }

    fn length(&mut self, length: usize) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => self.head.put_u32(length as u32),
            Protocol::Compact => self.varint(length as u64),
            Protocol::Json => {} // a quote ends the string
        }
    }

    /// A string.
    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        if self.wire.protocol == Protocol::Json {
            return json::put_string(&mut self.head, bytes);
        }
        self.length(bytes.len());
        self.head.put_slice(bytes);
    }

    /// A string in any encoding, which isn't copied if it is large.
    pub(crate) fn string(&mut self, bytes: &Bytes) {
        match self.wire.protocol {
            Protocol::Json => self.slice(bytes),
            _ => self.binary(bytes),
        }
    }

    /// A payload, which isn't copied if it is large.
    pub(crate) fn binary(&mut self, bytes: &Bytes) {
        if self.wire.protocol == Protocol::Json {
            return json::put_base64(&mut self.head, bytes);
        }
        if bytes.len() < SEGMENT_BYTES {
            return self.slice(bytes);
        }
        self.length(bytes.len());
        let head = self.head.split();
        match self.first {
            None => self.first = Some(head),
            Some(_) if head.is_empty() => {}
            Some(_) => self.segments.push(head.freeze()),
        }
        self.segments.push(bytes.clone());
    }

    pub(crate) fn struct_begin(&mut self) {
        self.last_ids.push(0);
        if self.wire.protocol == Protocol::Json {
            self.head.put_u8(b'{');
        }
    }

    pub(crate) fn struct_end(&mut self) {
        let last = self.last_ids.pop();
        match self.wire.protocol {
            Protocol::Json if last == Some(0) => self.head.put_u8(b'}'),
            Protocol::Json => self.head.put_slice(b"}}"), // ends the last field's object, too
            _ => self.head.put_u8(0),
        }
    }

    #[doc(hidden)]
    pub fn field_begin(&mut self, id: i16, kind: TType) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                self.head.put_u8(kind as u8);
                self.head.put_i16(id);
            }
            Protocol::Compact if kind == TType::Bool => self.pending_bool = Some(id),
            Protocol::Compact => self.compact_field(id, kind.compact()),
            Protocol::Json => {
                let last = self.last_ids.last_mut().map_or(0, |last| std::mem::replace(last, 1));
                self.head.put_slice(if last == 0 { b"\"" } else { b"},\"" });
                json::put_integer(&mut self.head, id.into());
                self.head.put_slice(b"\":{\"");
                self.head.put_slice(json::type_name(kind).as_bytes());
                self.head.put_slice(b"\":");
            }
        }
    }

    fn compact_field(&mut self, id: i16, code: u8) {
        let last = self.last_ids.last_mut().map_or(0, |last| std::mem::replace(last, id));
        match i32::from(id) - i32::from(last) {
            delta @ 1..=15 => self.head.put_u8((delta as u8) << 4 | code),
            _ => {
                self.head.put_u8(code);
                self.zigzag(id.into());
            }
        }
    }

    pub(crate) fn list_begin(&mut self, kind: TType, count: usize) {
        match self.wire.protocol {
            Protocol::Binary | Protocol::Unversioned => {
                self.head.put_u8(kind as u8);
                self.head.put_u32(count as u32);
            }
            Protocol::Compact if count < 15 => self.head.put_u8((count as u8) << 4 | kind.compact()),
            Protocol::Compact => {
                self.head.put_u8(0xf0 | kind.compact());
                self.varint(count as u64);
            }
            Protocol::Json => {
                self.head.put_slice(b"[\"");
                self.head.put_slice(json::type_name(kind).as_bytes());
                self.head.put_slice(b"\",");
                json::put_integer(&mut self.head, count as i64);
            }
        }
    }

    /// Call it before each element of a list: JSON has a comma there.
    pub(crate) fn element(&mut self) {
        if self.wire.protocol == Protocol::Json {
            self.head.put_u8(b',');
        }
    }

    /// Call it after the last element of a list: JSON has a bracket there.
    pub(crate) fn list_end(&mut self) {
        if self.wire.protocol == Protocol::Json {
            self.head.put_u8(b']');
        }
    }
}

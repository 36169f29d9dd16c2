//! Encodes values into bytes, without copying large opaques.

use crate::nesting::Nesting;
use crate::{EncodeError, Opaque, Text, UNIT_BYTES};
use bytes::Bytes;

/// Opaques of at least this size are sent from their own memory, without a copy. Copying 8 KiB costs about as
/// much as one more slice in a gathering write (0.3 µs).
const GATHER_BYTES: usize = 8 << 10;

/// A flat buffer reserves 1/128 of a large opaque's size in addition. The bytes that follow, such as the
/// opaque's checksums, usually fit there. So the opaque isn't copied again to a larger buffer.
const BEHIND_PART: usize = 128;

/// A value of a type that an interface declares.
pub trait Encode {
    /// Appends the value. Large opaques aren't copied, so the encoder borrows them for `'v`.
    ///
    /// # Errors
    /// The value breaks a rule that its Rust type can't express: a declared limit, a fixed length, the
    /// deepest nesting, or a default arm whose discriminant has another arm.
    fn encode<'v>(&'v self, to: &mut Encoder<'v>) -> Result<(), EncodeError>;
}

/// Encodes one value into one vector. Copies everything.
///
/// # Errors
/// The errors of [`Encode::encode`].
pub fn to_vec<T: Encode>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut to = Encoder::default();
    value.encode(&mut to)?;
    Ok(to.finish().to_vec())
}

/// Collects encoded values.
#[derive(Debug, Default)]
pub struct Encoder<'v> {
    buffer: Vec<u8>,
    gathered: Vec<Gathered<'v>>,
    /// Whether to copy everything into the buffer.
    flat: bool,
    nesting: Nesting,
}

/// An opaque that comes after the first `at` bytes of the buffer.
#[derive(Debug, Clone)]
struct Gathered<'v> {
    at: usize,
    bytes: &'v [u8],
    /// The same bytes, if their ownership is shared.
    shared: Option<&'v Bytes>,
}

impl<'v> Encoder<'v> {
    /// An encoder that appends to the content of `buffer`, which can be a header or space for one.
    pub fn new(buffer: Vec<u8>) -> Self {
        Self { buffer, ..Self::default() }
    }

    /// As [`Encoder::new`], for callers that can send only one buffer. It copies everything into the buffer,
    /// once.
    pub fn flat(buffer: Vec<u8>) -> Self {
        Self { flat: true, ..Self::new(buffer) }
    }

    /// The buffer's initial content, followed by all appended bytes.
    pub fn finish(self) -> Encoded<'v> {
        Encoded { buffer: self.buffer, gathered: self.gathered }
    }

    /// `int`, `long`, and an enum's value.
    pub fn i32(&mut self, value: i32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// `unsigned int`, `unsigned long`.
    pub fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// `hyper`.
    pub fn i64(&mut self, value: i64) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// `unsigned hyper`.
    pub fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// `char`: it takes a whole unit of 4 bytes, like `int`.
    pub fn i8(&mut self, value: i8) {
        self.i32(value.into());
    }

    /// `unsigned char`: it takes a whole unit.
    pub fn u8(&mut self, value: u8) {
        self.u32(value.into());
    }

    /// `short`: it takes a whole unit.
    pub fn i16(&mut self, value: i16) {
        self.i32(value.into());
    }

    /// `unsigned short`: it takes a whole unit.
    pub fn u16(&mut self, value: u16) {
        self.u32(value.into());
    }

    /// `float`, bit for bit.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// `double`, bit for bit.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// `bool`.
    pub fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// `opaque[N]` from a Rust array.
    pub fn opaque_array<const N: usize>(&mut self, bytes: &'v [u8; N]) {
        self.payload(bytes, None);
    }

    /// `opaque[expected]`.
    ///
    /// # Errors
    /// The length isn't `expected`.
    pub fn opaque_exact(&mut self, bytes: &'v Opaque<'_>, expected: u32) -> Result<(), EncodeError> {
        check_exact(bytes.len(), expected)?;
        self.opaque_payload(bytes);
        Ok(())
    }

    /// `opaque<limit>`.
    ///
    /// # Errors
    /// It is longer than `limit` bytes.
    pub fn opaque(&mut self, bytes: &'v Opaque<'_>, limit: u32) -> Result<(), EncodeError> {
        self.length(bytes.len(), limit)?;
        self.opaque_payload(bytes);
        Ok(())
    }

    /// `string<limit>`.
    ///
    /// # Errors
    /// It is longer than `limit` bytes.
    pub fn text(&mut self, text: &'v Text<'_>, limit: u32) -> Result<(), EncodeError> {
        self.length(text.as_bytes().len(), limit)?;
        self.opaque_payload(text.as_opaque());
        Ok(())
    }

    /// `T items<limit>`; `encode` encodes each item.
    ///
    /// # Errors
    /// There are more items than `limit`, or the error of `encode`.
    pub fn list<T>(
        &mut self,
        items: &'v [T],
        limit: u32,
        encode: impl FnMut(&mut Self, &'v T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.length(items.len(), limit)?;
        self.items(items, encode)
    }

    /// `T items[expected]`; `encode` encodes each item.
    ///
    /// # Errors
    /// The number of items isn't `expected`, or the error of `encode`.
    pub fn array<T>(
        &mut self,
        items: &'v [T],
        expected: u32,
        encode: impl FnMut(&mut Self, &'v T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        check_exact(items.len(), expected)?;
        self.items(items, encode)
    }

    /// `T *item`: a bool that tells whether there is an item, then the item.
    ///
    /// # Errors
    /// The error of `encode`.
    pub fn option<T>(
        &mut self,
        item: Option<&'v T>,
        encode: impl FnOnce(&mut Self, &'v T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.bool(item.is_some());
        item.map_or(Ok(()), |item| encode(self, item))
    }

    /// `T *first`, where T ends in `T *next`: a true before each item, and a false at the end.
    ///
    /// # Errors
    /// The error of `encode`.
    pub fn chain<T>(
        &mut self,
        items: &'v [T],
        mut encode: impl FnMut(&mut Self, &'v T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        for item in items {
            self.bool(true);
            encode(self, item)?;
        }
        self.bool(false);
        Ok(())
    }

    /// A value of `T`, a type that contains itself. `fields` is the same number as for
    /// [`crate::Decoder::nested`]: that of the type's fields, without those that are decoded apart.
    ///
    /// # Errors
    /// The value is nested deeper than [`crate::Decoder::nested`] can decode, or the error of `encode`.
    pub fn nested<T>(
        &mut self,
        fields: usize,
        encode: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let outer = self.nesting;
        self.nesting = outer.within::<T>(fields).ok_or(EncodeError::TooDeep)?;
        let encoded = encode(self);
        self.nesting = outer;
        encoded
    }

    fn items<T>(
        &mut self,
        items: &'v [T],
        mut encode: impl FnMut(&mut Self, &'v T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        items.iter().try_for_each(|item| encode(self, item))
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(crate) fn length(&mut self, length: usize, limit: u32) -> Result<(), EncodeError> {
        let sent = u32::try_from(length).ok().filter(|sent| *sent <= limit);
        self.u32(sent.ok_or(EncodeError::TooLong { length, limit })?);
        Ok(())
    }

    fn opaque_payload(&mut self, opaque: &'v Opaque<'_>) {
        let shared = match opaque {
            Opaque::Borrowed(_) => None,
            Opaque::Shared(bytes) => Some(bytes),
        };
        self.payload(opaque, shared);
    }

    /// Appends bytes and their padding.
    fn payload(&mut self, bytes: &'v [u8], shared: Option<&'v Bytes>) {
        if self.flat || bytes.len() < GATHER_BYTES {
            if bytes.len() >= GATHER_BYTES {
                self.buffer.reserve(bytes.len() + bytes.len() / BEHIND_PART);
            }
            self.buffer.extend_from_slice(bytes);
        } else {
            self.gathered.push(Gathered { at: self.buffer.len(), bytes, shared });
        }
        self.buffer.extend_from_slice(&[0; UNIT_BYTES][..padding(bytes.len())]);
    }
}

/// The number of zeros that fill the last unit of an opaque of `length` bytes.
pub(crate) fn padding(length: usize) -> usize {
    length.wrapping_neg() % UNIT_BYTES
}

pub(crate) fn check_exact(length: usize, expected: u32) -> Result<(), EncodeError> {
    if u32::try_from(length) == Ok(expected) {
        Ok(())
    } else {
        Err(EncodeError::WrongLength { length, expected })
    }
}

/// Encoded values: pieces of one buffer, with large opaques between them.
#[derive(Debug, Clone)]
pub struct Encoded<'v> {
    buffer: Vec<u8>,
    gathered: Vec<Gathered<'v>>,
}

impl Encoded<'_> {
    /// The length of all pieces, in bytes.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.gathered.iter().map(|payload| payload.bytes.len()).sum::<usize>()
    }

    /// Whether there are no bytes, as for `void`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in order, without empty ones.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.gathered.iter().map(|payload| payload.at));
        let ends = self.gathered.iter().map(|payload| payload.at).chain([self.buffer.len()]);
        let payloads = self.gathered.iter().map(|payload| payload.bytes).chain([&[][..]]);
        starts
            .zip(ends)
            .zip(payloads)
            .flat_map(|((start, end), payload)| [&self.buffer[start..end], payload])
            .filter(|segment| !segment.is_empty())
    }

    /// All pieces, copied to one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        if self.gathered.is_empty() {
            return self.buffer.clone();
        }
        let mut whole = Vec::with_capacity(self.len());
        self.segments().for_each(|segment| whole.extend_from_slice(segment));
        whole
    }

    /// All pieces in one vector. Copies them only if there are several.
    pub fn into_vec(self) -> Vec<u8> {
        if self.gathered.is_empty() { self.buffer } else { self.to_vec() }
    }

    /// The pieces, for senders on other threads. Borrowed large opaques are copied; shared ones
    /// aren't.
    pub fn into_shared(self) -> Vec<Bytes> {
        let buffer = Bytes::from(self.buffer);
        let mut pieces = Vec::with_capacity(2 * self.gathered.len() + 1);
        let mut start = 0;
        for payload in self.gathered {
            pieces.push(buffer.slice(start..payload.at));
            pieces.push(payload.shared.map_or_else(|| Bytes::copy_from_slice(payload.bytes), Bytes::clone));
            start = payload.at;
        }
        pieces.push(buffer.slice(start..));
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    /// The buffer, for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

//! Decodes bytes into values, without copying opaques.

use crate::encode::padding;
use crate::nesting::Nesting;
use crate::{DecodeError, Opaque, Problem, Text};
use bytes::{Buf, Bytes};

/// A value of a type that an interface declares. If the value borrows from the message, `'m` is the message's
/// lifetime.
pub trait Decode<'m>: Sized {
    /// Decodes the value from the remaining bytes.
    ///
    /// # Errors
    /// The bytes aren't such a value.
    fn decode(from: &mut Decoder<'m>) -> Result<Self, DecodeError>;
}

/// Decodes one value, which must be the whole message. The value borrows from the message.
///
/// # Errors
/// The message isn't such a value, or continues after it.
pub fn from_bytes<'m, T: Decode<'m>>(message: &'m [u8]) -> Result<T, DecodeError> {
    Decoder::new(message).whole(T::decode)
}

/// Decodes one value, which must be the whole message. The value shares the message's memory.
///
/// # Errors
/// The errors of [`from_bytes`].
pub fn from_shared<T: Decode<'static>>(message: Bytes) -> Result<T, DecodeError> {
    Decoder::shared(message).whole(T::decode)
}

/// The remaining part of a message.
#[derive(Debug)]
pub struct Decoder<'m> {
    rest: Rest<'m>,
    length: usize,
    nesting: Nesting,
}

#[derive(Debug)]
enum Rest<'m> {
    Borrowed(&'m [u8]),
    Shared(Bytes),
}

type Decoded<T> = Result<T, DecodeError>;

impl<'m> Decoder<'m> {
    /// A decoder whose opaques borrow from the message.
    pub fn new(message: &'m [u8]) -> Self {
        Self { length: message.len(), rest: Rest::Borrowed(message), nesting: Nesting::default() }
    }

    /// A decoder whose opaques share the message's memory.
    pub fn shared(message: Bytes) -> Decoder<'static> {
        Decoder { length: message.len(), rest: Rest::Shared(message), nesting: Nesting::default() }
    }

    /// Decodes all remaining bytes by `decode`.
    ///
    /// # Errors
    /// The error of `decode`, or [`Problem::Trailing`] if it leaves bytes.
    pub fn whole<T>(mut self, decode: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        let value = decode(&mut self)?;
        match self.remaining() {
            0 => Ok(value),
            bytes => Err(self.error(Problem::Trailing { bytes })),
        }
    }

    /// The number of remaining bytes.
    pub fn remaining(&self) -> usize {
        match &self.rest {
            Rest::Borrowed(rest) => rest.len(),
            Rest::Shared(rest) => rest.len(),
        }
    }

    /// An error at the current position.
    pub fn error(&self, problem: Problem) -> DecodeError {
        DecodeError { problem, offset_bytes: self.length - self.remaining() }
    }

    /// `int`, `long`.
    ///
    /// # Errors
    /// The message ends too early. All methods below can return this error.
    pub fn i32(&mut self) -> Decoded<i32> {
        self.take().map(i32::from_be_bytes)
    }

    /// `unsigned int`, `unsigned long`.
    ///
    /// # Errors
    /// As [`Decoder::i32`].
    pub fn u32(&mut self) -> Decoded<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// `hyper`.
    ///
    /// # Errors
    /// As [`Decoder::i32`].
    pub fn i64(&mut self) -> Decoded<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// `unsigned hyper`.
    ///
    /// # Errors
    /// As [`Decoder::i32`].
    pub fn u64(&mut self) -> Decoded<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// `char`, signed.
    ///
    /// # Errors
    /// As [`Decoder::i32`], or the number is beyond the type's range.
    pub fn i8(&mut self) -> Decoded<i8> {
        self.narrow(Self::i32)
    }

    /// `unsigned char`.
    ///
    /// # Errors
    /// As [`Decoder::i8`].
    pub fn u8(&mut self) -> Decoded<u8> {
        self.narrow(Self::u32)
    }

    /// `short`.
    ///
    /// # Errors
    /// As [`Decoder::i8`].
    pub fn i16(&mut self) -> Decoded<i16> {
        self.narrow(Self::i32)
    }

    /// `unsigned short`.
    ///
    /// # Errors
    /// As [`Decoder::i8`].
    pub fn u16(&mut self) -> Decoded<u16> {
        self.narrow(Self::u32)
    }

    /// `float`, bit for bit.
    ///
    /// # Errors
    /// As [`Decoder::i32`].
    pub fn f32(&mut self) -> Decoded<f32> {
        self.u32().map(f32::from_bits)
    }

    /// `double`, bit for bit.
    ///
    /// # Errors
    /// As [`Decoder::i32`].
    pub fn f64(&mut self) -> Decoded<f64> {
        self.u64().map(f64::from_bits)
    }

    /// `bool`.
    ///
    /// # Errors
    /// As [`Decoder::i32`], or the value is neither 0 nor 1.
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error(Problem::NotABool(other))),
        }
    }

    /// `opaque[N]`, copied: frpcgen uses this only for small arrays.
    ///
    /// # Errors
    /// As [`Decoder::i32`], or the padding isn't zero.
    pub fn opaque_array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let bytes = self.take()?;
        self.padding(N)?;
        Ok(bytes)
    }

    /// `opaque[length]`.
    ///
    /// # Errors
    /// As [`Decoder::opaque_array`].
    pub fn opaque_exact(&mut self, length: u32) -> Decoded<Opaque<'m>> {
        let length = length as usize; // usize has at least 32 bits on every platform where std has sockets
        let bytes = self.take_bytes(length)?;
        self.padding(length)?;
        Ok(bytes)
    }

    /// `opaque<limit>`.
    ///
    /// # Errors
    /// As [`Decoder::opaque_array`], or the opaque is longer than `limit` bytes.
    pub fn opaque(&mut self, limit: u32) -> Decoded<Opaque<'m>> {
        let length = self.length(limit)?;
        self.opaque_exact(length)
    }

    /// `string<limit>`.
    ///
    /// # Errors
    /// As [`Decoder::opaque`].
    pub fn text(&mut self, limit: u32) -> Decoded<Text<'m>> {
        self.opaque(limit).map(Text::from_opaque)
    }

    /// `T items<limit>`. `decode` decodes each item, which has at least `item_bytes` bytes.
    ///
    /// # Errors
    /// There are more items than `limit` or than the remaining bytes can have, or the error of `decode`.
    pub fn list<T>(
        &mut self,
        limit: u32,
        item_bytes: usize,
        decode: impl FnMut(&mut Self) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = self.length(limit)?;
        self.items(count, item_bytes, decode)
    }

    /// `T items[count]`. `decode` decodes each item, which has at least `item_bytes` bytes.
    ///
    /// # Errors
    /// `count` is more than the remaining bytes can have, or the error of `decode`.
    pub fn items<T>(
        &mut self,
        count: u32,
        item_bytes: usize,
        mut decode: impl FnMut(&mut Self) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = count as usize;
        let remaining = self.remaining();
        if count > remaining / item_bytes.max(1) {
            return Err(self.error(Problem::Truncated));
        }
        // Reserve at most as much memory as there are remaining bytes, whatever count the message claims. The
        // vector then grows with the decoded items.
        let mut items = Vec::with_capacity(count.min(remaining / size_of::<T>().max(1)));
        for _ in 0..count {
            items.push(decode(self)?);
        }
        Ok(items)
    }

    /// `T items[N]` as an array; `decode` decodes each item.
    ///
    /// # Errors
    /// The error of `decode`.
    pub fn array<T, const N: usize>(
        &mut self,
        mut decode: impl FnMut(&mut Self) -> Decoded<T>,
    ) -> Decoded<[T; N]> {
        let items = (0..N).map(|_| decode(self)).collect::<Decoded<Vec<T>>>()?;
        items.try_into().map_err(|_| self.error(Problem::Truncated)) // can't fail: there are N items
    }

    /// `T *item`.
    ///
    /// # Errors
    /// The errors of [`Decoder::bool`], or of `decode`.
    pub fn option<T>(&mut self, decode: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<Option<T>> {
        if self.bool()? { decode(self).map(Some) } else { Ok(None) }
    }

    /// `T *first`, where T ends in `T *next`: decodes one item after another, without nesting.
    ///
    /// # Errors
    /// The errors of [`Decoder::bool`], or of `decode`.
    pub fn chain<T>(&mut self, mut decode: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let mut items = Vec::new();
        while self.bool()? {
            items.push(decode(self)?);
        }
        Ok(items)
    }

    /// A value of a type that contains itself. `fields` is the number of its fields, without those
    /// that are decoded [`apart`](Self::apart).
    ///
    /// # Errors
    /// The value is nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH), the values around it have more than
    /// [`MAX_NESTED_BYTES`](crate::MAX_NESTED_BYTES), or the error of `decode`.
    pub fn nested<T>(&mut self, fields: usize, decode: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        let outer = self.nesting;
        self.nesting = outer.within::<T>(fields).ok_or_else(|| self.error(Problem::TooDeep))?;
        let value = decode(self);
        self.nesting = outer;
        value
    }

    /// Runs `decode` in a separate stack frame.
    ///
    /// # Errors
    /// The error of `decode`.
    pub fn apart<T>(&mut self, decode: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        decode(self)
    }

    fn narrow<W, N>(&mut self, wide: impl FnOnce(&mut Self) -> Decoded<W>) -> Decoded<N>
    where
        W: Copy + Into<i64>,
        N: TryFrom<W>,
    {
        let value = wide(self)?;
        // Report the bits as they were sent, for signed types, too.
        N::try_from(value).map_err(|_| self.error(Problem::OutOfRange(value.into() as u32)))
    }

    pub(crate) fn take_bytes(&mut self, length: usize) -> Decoded<Opaque<'m>> {
        if length > self.remaining() {
            return Err(self.error(Problem::Truncated));
        }
        Ok(match &mut self.rest {
            Rest::Borrowed(rest) => {
                let (bytes, after) = rest.split_at(length);
                *rest = after;
                Opaque::Borrowed(bytes)
            }
            Rest::Shared(rest) => Opaque::Shared(rest.split_to(length)),
        })
    }

    pub(crate) fn length(&mut self, limit: u32) -> Decoded<u32> {
        let length = self.u32()?;
        if length > limit {
            return Err(self.error(Problem::TooLong { length, limit }));
        }
        Ok(length)
    }

    fn padding(&mut self, length: usize) -> Decoded<()> {
        for _ in 0..padding(length) {
            if self.take::<1>()? != [0] {
                return Err(self.error(Problem::Padding));
            }
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let taken = match &mut self.rest {
            Rest::Borrowed(rest) => rest.split_first_chunk().map(|(taken, after)| {
                *rest = after;
                *taken
            }),
            Rest::Shared(rest) => rest.first_chunk().copied().inspect(|_| rest.advance(N)),
        };
        taken.ok_or_else(|| self.error(Problem::Truncated))
    }
}

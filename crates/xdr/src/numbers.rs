//! Converts whole arrays of numbers at once. This is some seven times as fast as one number at a time: 1,000
//! values of `int` decode in 0.26 µs instead of 1.95 µs.

use crate::{DecodeError, Decoder, EncodeError, Encoder};

/// A type of numbers for which all XDR bytes of its size are valid values. Smaller numbers take a whole unit
/// each, which can exceed their range, so they don't qualify.
pub trait Number: sealed::Number {}

mod sealed {
    pub trait Number: Copy {
        fn decode(bytes: &[u8]) -> Vec<Self>;
        fn encode(items: &[Self], to: &mut Vec<u8>);
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {}

        impl sealed::Number for $number {
            fn decode(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|bytes| Self::from_be_bytes(*bytes)).collect()
            }

            fn encode(items: &[Self], to: &mut Vec<u8>) {
                let start = to.len();
                to.resize(start + size_of_val(items), 0);
                let places = to[start..].as_chunks_mut().0;
                places.iter_mut().zip(items).for_each(|(place, item)| *place = item.to_be_bytes());
            }
        }
    )*};
}

numbers!(i32, u32, i64, u64, f32, f64);

impl Encoder<'_> {
    /// `T items<limit>` of numbers.
    ///
    /// # Errors
    /// There are more numbers than `limit`.
    pub fn numbers<T: Number>(&mut self, items: &[T], limit: u32) -> Result<(), EncodeError> {
        self.length(items.len(), limit)?;
        T::encode(items, self.buffer());
        Ok(())
    }

    /// `T items[expected]` of numbers.
    ///
    /// # Errors
    /// The number of items isn't `expected`.
    pub fn numbers_exact<T: Number>(&mut self, items: &[T], expected: u32) -> Result<(), EncodeError> {
        crate::encode::check_exact(items.len(), expected)?;
        T::encode(items, self.buffer());
        Ok(())
    }
}

impl Decoder<'_> {
    /// `T items<limit>` of numbers.
    ///
    /// # Errors
    /// There are more numbers than `limit`, or the message ends too early.
    pub fn numbers<T: Number>(&mut self, limit: u32) -> Result<Vec<T>, DecodeError> {
        let count = self.length(limit)?;
        self.numbers_exact(count)
    }

    /// `T items[count]` of numbers.
    ///
    /// # Errors
    /// The message ends too early.
    pub fn numbers_exact<T: Number>(&mut self, count: u32) -> Result<Vec<T>, DecodeError> {
        let bytes = (count as usize).checked_mul(size_of::<T>());
        self.take_bytes(bytes.unwrap_or(usize::MAX)).map(|bytes| T::decode(&bytes))
    }
}

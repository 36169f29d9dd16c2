//! Record marking (RFC 5531, section 11): on a byte stream each message is a record. It travels in
//! fragments. A mark with the length precedes each fragment.

/// Bytes of a mark.
pub const MARK_BYTES: usize = 4;

/// The mark's bit for the last fragment of a record.
const LAST: u32 = 1 << 31;

/// Largest fragment that the mark's other bits can express.
pub const FRAGMENT_BYTES: usize = (LAST - 1) as usize;

/// The mark of a record of `len` bytes, at most [`FRAGMENT_BYTES`], in one fragment.
pub fn mark(len: usize) -> [u8; MARK_BYTES] {
    (len as u32 | LAST).to_be_bytes()
}

/// Reasons why no record can be read. The start of the next record is then unknown, so the stream
/// is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The record is larger than the limit, according to its marks.
    TooLarge,
    /// An empty fragment that isn't the last. A peer could send such fragments for ever.
    EmptyFragment,
}

/// Assembles a record in the buffer that receives its fragments, by removing the marks between
/// them.
#[derive(Clone, Debug)]
pub struct Assembly {
    limit: usize,
    len: usize,
    fragment_left: usize,
    in_last: bool,
}

impl Assembly {
    /// Records of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, len: 0, fragment_left: 0, in_last: false }
    }

    /// Bytes of the record so far. They are at the beginning of the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the record has no bytes so far.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the record that have arrived, or that its latest mark announces.
    pub fn announced(&self) -> usize {
        self.len + self.fragment_left
    }

    /// Adds bytes that have arrived: `buffer` holds the record's bytes so far, then the new ones.
    /// Returns how many bytes of the buffer are still in use: the record's, then those that can't
    /// be added yet. Also returns whether the record is whole. After a whole record,
    /// [`Assembly::begin_next`] begins another.
    ///
    /// # Errors
    /// A mark announces more than the limit (even before the bytes arrive), or an empty fragment
    /// that isn't the last.
    pub fn take_in(&mut self, buffer: &mut [u8]) -> Result<(usize, bool), RecordError> {
        let mut at = self.len;
        let whole = loop {
            if self.fragment_left > 0 {
                let more = self.fragment_left.min(buffer.len() - at);
                if more == 0 {
                    break false;
                }
                buffer.copy_within(at..at + more, self.len);
                self.len += more;
                self.fragment_left -= more;
                at += more;
            } else if self.in_last {
                break true;
            } else {
                let Some(mark) = buffer[at..].first_chunk::<MARK_BYTES>() else { break false };
                self.begin_fragment(u32::from_be_bytes(*mark))?;
                at += MARK_BYTES;
            }
        };
        let rest = buffer.len() - at;
        buffer.copy_within(at.., self.len);
        Ok((self.len + rest, whole))
    }

    fn begin_fragment(&mut self, mark: u32) -> Result<(), RecordError> {
        let length = (mark & !LAST) as usize;
        self.in_last = mark & LAST != 0;
        if length > self.limit - self.len {
            return Err(RecordError::TooLarge);
        }
        if length == 0 && !self.in_last {
            return Err(RecordError::EmptyFragment);
        }
        self.fragment_left = length;
        Ok(())
    }

    /// Begins the next record, at the start of a buffer.
    pub fn begin_next(&mut self) {
        *self = Self::new(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record in fragments of these lengths.
    fn fragments(record: &[u8], lengths: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        for (index, length) in lengths.iter().enumerate() {
            let last = if index + 1 == lengths.len() { LAST } else { 0 };
            out.extend_from_slice(&(*length as u32 | last).to_be_bytes());
            out.extend_from_slice(&record[at..at + length]);
            at += length;
        }
        out
    }

    /// Feeds a stream in pieces; returns its records.
    fn records(stream: &[u8], piece: usize, limit: usize) -> Result<Vec<Vec<u8>>, RecordError> {
        let (mut assembly, mut records, mut buffer) = (Assembly::new(limit), Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            buffer.extend_from_slice(piece);
            loop {
                let (kept, whole) = assembly.take_in(&mut buffer)?;
                buffer.truncate(kept);
                if !whole {
                    break;
                }
                let behind = buffer.split_off(assembly.len());
                records.push(std::mem::replace(&mut buffer, behind));
                assembly.begin_next();
            }
        }
        Ok(records)
    }

    #[test]
    fn records_are_found_whatever_fragments_and_pieces_they_come_in() {
        let record: Vec<u8> = (0..1000u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        let shapes: [&[usize]; 6] =
            [&[1000], &[1, 999], &[500, 500], &[333, 333, 333, 1], &[4, 996], &[1000, 0]];
        let stream: Vec<u8> = shapes.iter().flat_map(|shape| fragments(&record, shape)).collect();
        for piece in [1, 3, 4, 5, 7, 64, 1001, stream.len()] {
            assert_eq!(records(&stream, piece, 1000), Ok(vec![record.clone(); 6]), "pieces of {piece}");
        }
    }

    #[test]
    fn an_empty_record_is_one() {
        assert_eq!(records(&mark(0), 4, 10), Ok(vec![Vec::new()]));
    }

    #[test]
    fn what_marks_claim_beyond_the_limit_is_refused_before_it_arrives() {
        for claimed in [1001, FRAGMENT_BYTES] {
            assert_eq!(records(&mark(claimed), 4, 1000), Err(RecordError::TooLarge));
        }
        // The sum of several marks counts too.
        let first = fragments(&[7; 900], &[900, 0]);
        let stream = [&first[..904], &mark(101)[..]].concat();
        assert_eq!(records(&stream, 50, 1000), Err(RecordError::TooLarge));
        assert_eq!(records(&stream, 50, 1001), Ok(vec![]), "one byte less, and it is waited for");
    }

    #[test]
    fn fragments_of_nothing_dont_go_on_for_ever() {
        assert_eq!(records(&[0; 8], 8, 1000), Err(RecordError::EmptyFragment));
    }
}

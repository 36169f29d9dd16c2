//! A datanode's answer to a read: packets, each with its checksums.
//!
//! ```text
//! packet:   u32 length of this field, the checksums and the data
//!           u16 length of the header, header
//!           checksums, one for each chunk of data
//!           data
//! ```
//!
//! Data goes from the socket directly to the caller's buffer, and is checked there. The same read of the
//! socket also receives the next packet's head. Only that head, a few hundred bytes, is copied.

use super::super::wire::{PacketHeader, ReadOpChecksumInfo, crc_type};
use super::transfer::{OPERATION_TIMEOUT, damaged, receive_some, strange};
use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use std::io;
use std::ops::Range;
use std::time::Duration;
use strait_crc::{crc32, crc32c};
use tokio::io::AsyncRead;
use tokio::time::timeout;

/// `PacketReceiver.MAX_PACKET_SIZE`
const MAX_PACKET_BYTES: u32 = 16 << 20;
/// A packet's header is 25 bytes; later versions may add to it.
const MAX_HEADER_BYTES: usize = 1 << 10;
/// Both lengths of a packet.
const LENGTHS_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 4;
/// Likely length of the first packet's head: lengths, a header of 25 bytes, the checksums of 64 KiB
/// in chunks of 512 bytes.
const FIRST_HEAD_BYTES: usize = LENGTHS_BYTES + 25 + 512;
/// The usual length of a packet. If the caller wants only a part of a packet, the packet's memory grows in
/// steps of this size, as bytes arrive. So a claimed length alone allocates nothing.
const GROWTH_BYTES: usize = 64 << 10;

/// The packets of one range of a block, as far as they are received.
#[derive(Debug)]
pub(super) struct Packets {
    checksums: Checksums,
    /// Start of the next packet in the block.
    next_begin: u64,
    /// The next byte of the block that the caller gets.
    position: u64,
    /// End of the range.
    end: u64,
    /// Bytes from the socket that precede the next packet's data.
    head: BytesMut,
    /// Length of the latest packet's head. The next one usually has the same.
    usual_head: usize,
    /// Checked data from `position` on: the part of a packet that the caller hasn't taken yet.
    rest: Bytes,
    /// Longest permitted silence of the datanode.
    pub patience: Duration,
}

/// The part of a packet before its data.
struct Head {
    begin: u64,
    data_length: usize,
    checksums: Bytes,
}

impl Packets {
    /// The packets of `range`. `head` has the bytes that were received already.
    pub fn new(info: &ReadOpChecksumInfo, range: Range<u64>, head: BytesMut) -> io::Result<Self> {
        let checksums = Checksums::new(info)?;
        // The first packet begins at the chunk that contains the first byte.
        let skipped = range.start.checked_sub(info.chunk_offset);
        if skipped.is_none_or(|skipped| skipped > 0 && skipped >= checksums.chunk_bytes as u64) {
            return Err(strange("its first offset"));
        }
        Ok(Self {
            checksums,
            next_begin: info.chunk_offset,
            position: range.start,
            end: range.end,
            head,
            usual_head: FIRST_HEAD_BYTES,
            rest: Bytes::new(),
            patience: OPERATION_TIMEOUT,
        })
    }

    /// Position of the next byte in the block.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the range that are still to come.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// Appends the next `wanted` bytes of the range to `into`, which must have room for them. After an
    /// error, `into` has the checked bytes up to [`Packets::position`] and no others.
    pub async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        into: &mut BytesMut,
        wanted: usize,
    ) -> io::Result<()> {
        let end = self.position + wanted as u64;
        while self.position < end {
            if self.rest.is_empty() {
                self.next(stream, into, end).await?;
            }
            let step = self.rest.len().min((end - self.position) as usize);
            into.extend_from_slice(&self.rest.split_to(step));
            self.position += step as u64;
        }
        Ok(())
    }

    /// Receives the empty packet that ends the range. Then the stream is ready for the next
    /// operation.
    pub async fn finish(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let head = self.receive_head(stream).await?;
        match head.data_length == 0 && self.head.is_empty() {
            true => Ok(()),
            false => Err(strange("more bytes than requested")),
        }
    }

    /// Receives one packet: into `into` if the caller wants all of it, otherwise into `rest`.
    async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        into: &mut BytesMut,
        end: u64,
    ) -> io::Result<()> {
        let head = self.receive_head(stream).await?;
        let skipped = self.position - self.next_begin;
        if head.begin != self.next_begin || head.data_length as u64 <= skipped {
            return Err(strange("a packet out of order, or an early end"));
        }
        if skipped == 0 && head.data_length as u64 <= end - self.position {
            let begin = into.len();
            let received = self.receive_data(stream, into, &head).await;
            let checked = received.and_then(|()| self.checksums.verify(&head.checksums, &into[begin..]));
            if checked.is_err() {
                into.truncate(begin);
            }
            checked?;
            self.position += head.data_length as u64;
        } else {
            let mut data = BytesMut::new();
            self.receive_data(stream, &mut data, &head).await?;
            self.checksums.verify(&head.checksums, &data)?;
            data.advance(skipped as usize);
            self.rest = data.freeze();
        }
        self.next_begin += head.data_length as u64;
        Ok(())
    }

    async fn receive_head(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Head> {
        self.fill_head(stream, LENGTHS_BYTES).await?;
        let mut lengths = &self.head[..];
        let (payload_length, header_length) = (lengths.get_u32(), usize::from(lengths.get_u16()));
        if !(4..=MAX_PACKET_BYTES).contains(&payload_length) || header_length > MAX_HEADER_BYTES {
            return Err(strange("a packet's length"));
        }
        let body_length = payload_length as usize - 4;
        self.fill_head(stream, LENGTHS_BYTES + header_length).await?;
        let header = PacketHeader::decode(&self.head[LENGTHS_BYTES..LENGTHS_BYTES + header_length])
            .map_err(|error| strange(&error.to_string()))?;
        let data_length = usize::try_from(header.data_length).ok().filter(|length| *length <= body_length);
        let data_length = data_length.ok_or_else(|| strange("a packet's data length"))?;
        let begin = u64::try_from(header.offset_in_block).map_err(|_| strange("a negative offset"))?;
        let checksums_length = body_length - data_length;
        if checksums_length != self.checksums.length_for(data_length) {
            return Err(strange("the number of checksums"));
        }

        let length = LENGTHS_BYTES + header_length + checksums_length;
        self.fill_head(stream, length).await?;
        let mut checksums = self.head.split_to(length).freeze();
        checksums.advance(LENGTHS_BYTES + header_length);
        self.usual_head = length;
        Ok(Head { begin, data_length, checksums })
    }

    /// Receives until the head has at least `length` bytes.
    async fn fill_head(&mut self, stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<()> {
        while self.head.len() < length {
            // Requests the likely length of the whole head, so that it arrives with one read.
            let missing = length.max(self.usual_head) - self.head.len();
            timeout(self.patience, receive_some(stream, &mut self.head, missing)).await??;
        }
        Ok(())
    }

    /// Appends a packet's data to `into`. Bytes of the next packet's head go to `self.head`.
    async fn receive_data(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        into: &mut BytesMut,
        head: &Head,
    ) -> io::Result<()> {
        let begin = into.len();
        let early = self.head.len().min(head.data_length);
        into.extend_from_slice(&self.head.split_to(early));
        while into.len() - begin < head.data_length {
            let missing = head.data_length - (into.len() - begin);
            if into.capacity() == into.len() {
                into.reserve(missing.min(GROWTH_BYTES));
            }
            timeout(self.patience, receive_some(stream, into, missing + self.usual_head)).await??;
        }
        self.head.extend_from_slice(&into[begin + head.data_length..]);
        into.truncate(begin + head.data_length);
        Ok(())
    }
}

/// The checksum algorithm and chunk size of a block.
#[derive(Debug, Clone, Copy)]
struct Checksums {
    algorithm: Option<fn(&[u8]) -> u32>,
    chunk_bytes: usize,
}

impl Checksums {
    fn new(info: &ReadOpChecksumInfo) -> io::Result<Self> {
        let algorithm: Option<fn(&[u8]) -> u32> = match info.checksum.crc_type {
            crc_type::NULL => None,
            crc_type::CRC32 => Some(crc32),
            crc_type::CRC32C => Some(crc32c),
            other => return Err(strange(&format!("checksum type {other}"))),
        };
        let chunk_bytes = info.checksum.bytes_per_crc as usize;
        if chunk_bytes == 0 && algorithm.is_some() {
            return Err(strange("chunks of no bytes"));
        }
        Ok(Self { algorithm, chunk_bytes })
    }

    /// Number of checksum bytes for `data_length` bytes of data.
    fn length_for(&self, data_length: usize) -> usize {
        match self.algorithm {
            None => 0,
            Some(_) => data_length.div_ceil(self.chunk_bytes) * CHECKSUM_BYTES,
        }
    }

    fn verify(&self, stored: &[u8], data: &[u8]) -> io::Result<()> {
        let Some(algorithm) = self.algorithm else { return Ok(()) };
        let chunks = data.chunks(self.chunk_bytes).zip(stored.chunks_exact(CHECKSUM_BYTES));
        let mut chunks = chunks.map(|(chunk, stored)| algorithm(chunk).to_be_bytes() == stored);
        match chunks.all(|matches| matches) {
            true => Ok(()),
            false => Err(damaged("the bytes don't match their checksum")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::wire::ChecksumKind;
    use super::*;
    use proptest::prelude::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    const CHUNK_BYTES: usize = 4;
    const CONTENT: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

    /// The header of an answer that begins with the chunk at `chunk_offset`.
    fn info(crc_type: i32, bytes_per_crc: u32, chunk_offset: u64) -> ReadOpChecksumInfo {
        ReadOpChecksumInfo { checksum: ChecksumKind { crc_type, bytes_per_crc }, chunk_offset }
    }

    fn packet(range: Range<usize>) -> Vec<u8> {
        let data = &CONTENT[range.clone()];
        let header = PacketHeader {
            offset_in_block: range.start as i64,
            sequence: 0,
            last_packet_in_block: data.is_empty(),
            data_length: data.len() as i32,
            ..PacketHeader::default()
        };
        let header = header.encode_to_vec();
        let checksums: Vec<u8> =
            data.chunks(CHUNK_BYTES).flat_map(|chunk| crc32c::crc32c(chunk).to_be_bytes()).collect();
        let mut bytes = ((4 + checksums.len() + data.len()) as u32).to_be_bytes().to_vec();
        bytes.extend((header.len() as u16).to_be_bytes());
        bytes.extend(header);
        bytes.extend(checksums);
        bytes.extend(data);
        bytes
    }

    /// `CONTENT` in packets of 8 bytes, and the empty packet that ends it.
    fn packets() -> Vec<u8> {
        let starts = (0..CONTENT.len()).step_by(8);
        let mut bytes: Vec<u8> = starts.flat_map(|at| packet(at..(at + 8).min(CONTENT.len()))).collect();
        bytes.extend(packet(CONTENT.len()..CONTENT.len()));
        bytes
    }

    /// A socket that gives at most `piece` bytes at a time.
    struct Trickle<'a> {
        bytes: &'a [u8],
        piece: usize,
    }

    impl AsyncRead for Trickle<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let length = self.piece.min(self.bytes.len()).min(into.remaining());
            let (piece, rest) = self.bytes.split_at(length);
            into.put_slice(piece);
            self.bytes = rest;
            Poll::Ready(Ok(()))
        }
    }

    async fn read(bytes: &[u8], range: Range<u64>) -> io::Result<BytesMut> {
        let first_chunk = range.start - range.start % CHUNK_BYTES as u64;
        let info = info(crc_type::CRC32C, CHUNK_BYTES as u32, first_chunk);
        let mut packets = Packets::new(&info, range.clone(), BytesMut::new())?;
        let mut into = BytesMut::with_capacity((range.end - range.start) as usize);
        packets.read(&mut &bytes[..], &mut into, (range.end - range.start) as usize).await?;
        Ok(into)
    }

    #[tokio::test]
    async fn packets_are_joined_and_cut_to_the_range_however_they_come() {
        let all = packets();
        for piece in [1, 2, 7, 50, 1000] {
            for early in [0, 5, 40, all.len()] {
                let mut stream = Trickle { bytes: &all[early..], piece };
                let (whole, early) = (0..CONTENT.len() as u64, BytesMut::from(&all[..early]));
                let info = info(crc_type::CRC32C, CHUNK_BYTES as u32, 0);
                let mut packets = Packets::new(&info, whole, early).unwrap();
                let mut into = BytesMut::new();
                for wanted in [3, 13, 1, 15, 4] {
                    into.reserve(wanted);
                    packets.read(&mut stream, &mut into, wanted).await.unwrap();
                }
                assert_eq!(into, CONTENT);
                packets.finish(&mut stream).await.unwrap();
            }
        }
        let middle = [packet(4..12), packet(12..20)].concat();
        assert_eq!(read(&middle, 6..14).await.unwrap(), CONTENT[6..14]);
    }

    #[tokio::test]
    async fn after_a_flipped_bit_only_checked_bytes_are_there() {
        let mut bytes = [packet(0..8), packet(8..16)].concat();
        *bytes.last_mut().unwrap() ^= 1;
        let info = info(crc_type::CRC32C, CHUNK_BYTES as u32, 0);
        let mut packets = Packets::new(&info, 0..16, BytesMut::new()).unwrap();
        let mut into = BytesMut::with_capacity(16);
        let error = packets.read(&mut &bytes[..], &mut into, 16).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!((packets.position(), &into[..]), (8, &CONTENT[..8]));
    }

    #[tokio::test]
    async fn every_cut_is_an_error() {
        let whole = packet(0..8);
        for length in 0..whole.len() {
            let error = read(&whole[..length], 0..8).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}");
        }
    }

    #[tokio::test]
    async fn lengths_that_are_claimed_only_are_refused_and_cost_no_memory() {
        for claimed in [0, 3, (16 << 20) + 1, u32::MAX] {
            let bytes = [&claimed.to_be_bytes()[..], &[0; 40]].concat();
            assert_eq!(read(&bytes, 0..8).await.unwrap_err().kind(), io::ErrorKind::Other, "{claimed}");
        }
        // The packet claims the largest size, and none of its bytes arrive.
        let data_length: i32 = 12 << 20;
        let header = PacketHeader { data_length, ..PacketHeader::default() }.encode_to_vec();
        let checksums_length = data_length as usize / 4096 * 4;
        let payload_length = (4 + checksums_length + data_length as usize) as u32;
        let mut bytes = payload_length.to_be_bytes().to_vec();
        bytes.extend((header.len() as u16).to_be_bytes());
        bytes.extend(header);
        bytes.resize(bytes.len() + checksums_length + 10, 0);
        let mut packets = Packets::new(&info(crc_type::CRC32C, 4096, 0), 0..8, BytesMut::new()).unwrap();
        let mut into = BytesMut::with_capacity(8);
        let error = packets.read(&mut &bytes[..], &mut into, 8).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(packets.head.capacity() < 1 << 20 && into.capacity() < 1 << 20);
    }

    #[tokio::test]
    async fn kinds_of_checksums_that_make_no_sense_are_refused() {
        for (crc_type, chunk) in [(9, 512), (-1, 512), (crc_type::CRC32C, 0)] {
            assert!(Packets::new(&info(crc_type, chunk, 0), 0..8, BytesMut::new()).is_err());
        }
        assert!(Packets::new(&info(crc_type::NULL, 0, 0), 0..8, BytesMut::new()).is_ok());
    }

    proptest! {
        #[test]
        fn changed_bytes_cause_no_panic_and_are_never_returned(
            changes in proptest::collection::vec((0..400usize, any::<u8>()), 1..4),
            early in 0..100usize,
            piece in 1..600usize,
            range in (0..4u64, 0..36u64),
        ) {
            let mut bytes = packets();
            for (index, value) in changes {
                let index = index % bytes.len();
                bytes[index] = value;
            }
            let range = range.0.min(range.1)..range.0.max(range.1);
            let wanted = (range.end - range.start) as usize;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let mut stream = Trickle { bytes: &bytes[early..], piece };
                let info = info(crc_type::CRC32C, CHUNK_BYTES as u32, 0);
                let early = BytesMut::from(&bytes[..early]);
                let mut packets = Packets::new(&info, range.clone(), early).unwrap();
                let mut into = BytesMut::with_capacity(wanted);
                let outcome = packets.read(&mut stream, &mut into, wanted).await;
                if outcome.is_ok() {
                    prop_assert_eq!(&into[..], &CONTENT[range.start as usize..range.end as usize]);
                    let _ = packets.finish(&mut stream).await;
                }
                Ok(())
            })?;
        }
    }
}

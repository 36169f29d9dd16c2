//! The packets of a file that aren't acknowledged yet, in order. Does no I/O.

use super::super::wire::PacketHeader;
use super::cutter::Piece;
use bytes::{BufMut, BytesMut};
use prost::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use strait_store::budget::Reserved;

/// `DFSPacket.HEART_BEAT_SEQNO`
pub const HEARTBEAT: i64 = -1;

/// One packet.
#[derive(Debug, Clone)]
pub struct Packet {
    /// The packet's number. It is that of a heartbeat until the queue assigns another.
    sequence: i64,
    pub piece: Piece,
    /// An empty packet that ends its block.
    pub ends_block: bool,
    sync: bool,
    _memory: Option<Arc<Reserved>>,
}

impl Packet {
    /// A piece of a block. `memory` was reserved for the append that brought the bytes. If `sync`, the datanodes
    /// sync the block before they acknowledge the packet.
    pub fn of(piece: Piece, sync: bool, memory: Option<Arc<Reserved>>) -> Self {
        Self { sequence: HEARTBEAT, piece, ends_block: false, sync, _memory: memory }
    }

    /// The packet that ends a block of this length.
    pub fn end_of_block(length: u64) -> Self {
        Self { ends_block: true, ..Self::of(Piece::empty(length), false, None) }
    }

    /// A packet that tells a pipeline that its client is alive.
    pub fn heartbeat() -> Self {
        Self::of(Piece::empty(0), false, None)
    }

    /// Everything before the data: lengths, header, checksums (`PacketReceiver`).
    pub fn head(&self) -> BytesMut {
        let Piece { offset, data, checksums } = &self.piece;
        let header = PacketHeader {
            offset_in_block: *offset as i64,
            sequence: self.sequence,
            last_packet_in_block: self.ends_block,
            data_length: data.len() as i32,
            sync_block: self.sync.then_some(true),
        };
        let mut head = BytesMut::with_capacity(6 + header.encoded_len() + checksums.len());
        head.put_u32((4 + checksums.len() + data.len()) as u32);
        head.put_u16(header.encoded_len() as u16);
        header.encode(&mut head).expect("the buffer grows");
        head.extend_from_slice(checksums);
        head
    }

    /// The whole packet, copied.
    pub fn bytes(&self) -> BytesMut {
        let mut bytes = self.head();
        bytes.extend_from_slice(&self.piece.data);
        bytes
    }
}

/// The packets that aren't acknowledged yet.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Packet>,
    sent: VecDeque<Packet>,
    bytes: usize,
    last_queued: Option<i64>,
    last_acked: Option<i64>,
}

impl Queue {
    /// Adds a packet, and returns its number.
    pub fn push(&mut self, mut packet: Packet) -> i64 {
        let sequence = self.last_queued.map_or(0, |last| last + 1);
        packet.sequence = sequence;
        self.bytes += packet.piece.data.len();
        self.waiting.push_back(packet);
        self.last_queued = Some(sequence);
        sequence
    }

    /// The packet to send next, which counts as sent from now on. The packet that ends a block waits until
    /// all before it are acknowledged. So if a pipeline fails, that packet is the only one to send again, or
    /// it wasn't sent yet. The packets of the next block wait for its acknowledgement, since they take
    /// another pipeline.
    pub fn next(&mut self) -> Option<Packet> {
        if self.is_ending() || self.waiting.front()?.ends_block && !self.sent.is_empty() {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.sent.push_back(packet.clone());
        Some(packet)
    }

    /// Whether there is any packet to send or to wait for.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Takes the packet that a pipeline acknowledged. None if it isn't the next one in order.
    pub fn acked(&mut self, sequence: i64) -> Option<Packet> {
        if self.sent.front()?.sequence != sequence {
            return None;
        }
        let packet = self.sent.pop_front()?;
        self.bytes -= packet.piece.data.len();
        self.last_acked = Some(sequence);
        Some(packet)
    }

    /// After a failure: makes the unacknowledged packets wait to be sent again.
    pub fn rewind(&mut self) {
        while let Some(packet) = self.sent.pop_back() {
            self.waiting.push_front(packet);
        }
    }

    /// After a recovery that has ended a block: removes the packet that would end it, if that is the next
    /// one.
    pub fn take_end(&mut self) -> Option<Packet> {
        if !self.sent.is_empty() || !self.waiting.front()?.ends_block {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.last_acked = Some(packet.sequence);
        Some(packet)
    }

    /// Whether the packet that ends a block is the only one that was sent and not acknowledged.
    pub fn is_ending(&self) -> bool {
        self.sent.front().is_some_and(|packet| packet.ends_block)
    }

    /// Whether no packet waits for an acknowledgement. Others may wait to be sent.
    pub fn is_all_acked(&self) -> bool {
        self.sent.is_empty()
    }

    /// Bytes not acknowledged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of the latest packet added. None before the first.
    pub fn last_queued(&self) -> Option<i64> {
        self.last_queued
    }

    /// Whether the packet, and all before it, are acknowledged.
    pub fn is_acked(&self, sequence: Option<i64>) -> bool {
        self.last_acked >= sequence
    }

    /// Drops all packets: the file has failed.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sent.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn packet(length: usize, ends_block: bool) -> Packet {
        let mut packet = Packet::heartbeat();
        packet.piece.data = Bytes::from(vec![7; length]);
        packet.ends_block = ends_block;
        packet
    }

    #[test]
    fn packets_are_acknowledged_in_order_and_sent_again_after_a_failure() {
        let mut queue = Queue::default();
        for length in [10, 20, 30] {
            queue.push(packet(length, false));
        }
        let end = queue.push(packet(0, true));
        let next_block = queue.push(packet(40, false));
        for sequence in 0..3 {
            assert_eq!(queue.next().unwrap().sequence, sequence);
        }
        assert!(queue.next().is_none(), "the end waits for all before it");
        assert!(queue.acked(1).is_none(), "out of order");
        assert_eq!(queue.acked(0).unwrap().sequence, 0);
        assert_eq!(queue.bytes(), 50 + 40);
        assert!(queue.is_acked(Some(0)) && !queue.is_acked(Some(1)));

        queue.rewind();
        let again: Vec<_> = std::iter::from_fn(|| queue.next()).map(|packet| packet.sequence).collect();
        assert_eq!(again, [1, 2]);
        assert!(queue.take_end().is_none() && !queue.is_ending());
        assert!(queue.acked(1).is_some() && queue.acked(2).is_some());
        assert_eq!(queue.next().unwrap().sequence, end);
        assert!(queue.is_ending() && queue.next().is_none(), "another block has another pipeline");
        queue.rewind();
        assert_eq!(queue.take_end().unwrap().sequence, end);
        assert_eq!(queue.next().unwrap().sequence, next_block);
        assert!(queue.acked(next_block).is_some());
        assert!(queue.is_empty() && queue.is_acked(queue.last_queued()));
    }

    #[test]
    fn a_packets_head_is_javas() {
        let mut data = packet(3, false);
        (data.sequence, data.piece.offset) = (5, 512);
        data.piece.checksums = Bytes::from_static(b"SUM!");
        // PacketHeader.java: 25 bytes of header; all fields of fixed length.
        let head = data.head();
        assert_eq!(head[..6], [0, 0, 0, 4 + 4 + 3, 0, 25]);
        assert_eq!(
            head[6..31],
            [9, 0, 2, 0, 0, 0, 0, 0, 0, 17, 5, 0, 0, 0, 0, 0, 0, 0, 24, 0, 37, 3, 0, 0, 0]
        );
        assert_eq!(&head[31..], b"SUM!");
        data.sync = true;
        assert_eq!(data.head()[4..6], [0, 27]);
    }
}

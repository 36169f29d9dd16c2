//! Converts calls to datanodes, and their answers.

use super::{member_from_wire, member_to_wire, source_from_wire, source_to_wire};
use crate::{proofs::unsigned, wire};
use strait_kadoop_core::{
    ChunkId, Stamp,
    messages::{Continue, Digest, Digested, Piece, Read, Write},
};
use strait_xdr::Opaque;

/// A write, to the wire. The caller signs it.
pub fn write_to_wire(write: &Write) -> wire::KdWrite<'static> {
    wire::KdWrite {
        pass: unsigned(),
        chunk: write.chunk.0,
        stamp: write.stamp.0,
        pipeline: write.pipeline.iter().map(member_to_wire).collect(),
        offset: write.offset,
        bytes: Opaque::Shared(write.bytes.clone()),
    }
}

/// A write, from the wire. Its bytes share the message's memory.
pub fn write_from_wire(write: wire::KdWrite<'static>) -> Write {
    Write {
        chunk: ChunkId(write.chunk),
        stamp: Stamp(write.stamp),
        pipeline: write.pipeline.iter().map(member_from_wire).collect(),
        offset: write.offset,
        bytes: write.bytes.into_bytes(),
    }
}

/// The beginning of a chunk that continues another, to the wire. The caller signs it twice: for the chunk and
/// for the source.
pub fn continue_to_wire(begin: &Continue) -> wire::KdContinue {
    wire::KdContinue {
        pass: unsigned(),
        chunk: begin.chunk.0,
        stamp: begin.stamp.0,
        pipeline: begin.pipeline.iter().map(member_to_wire).collect(),
        source: source_to_wire(&begin.source),
        source_pass: unsigned(),
    }
}

/// The beginning of a chunk that continues another, from the wire.
pub fn continue_from_wire(begin: &wire::KdContinue) -> Continue {
    Continue {
        chunk: ChunkId(begin.chunk),
        stamp: Stamp(begin.stamp),
        pipeline: begin.pipeline.iter().map(member_from_wire).collect(),
        source: source_from_wire(&begin.source),
    }
}

/// A read, to the wire. The caller signs it.
pub fn read_to_wire(read: &Read) -> wire::KdRead {
    let Read { chunk, stamp, offset, length, acknowledged } = *read;
    wire::KdRead { pass: unsigned(), chunk: chunk.0, stamp: stamp.0, offset, length, acknowledged }
}

/// A read, from the wire.
pub fn read_from_wire(read: &wire::KdRead) -> Read {
    Read {
        chunk: ChunkId(read.chunk),
        stamp: Stamp(read.stamp),
        offset: read.offset,
        length: read.length,
        acknowledged: read.acknowledged,
    }
}

/// Bytes of a chunk, from the wire.
pub fn piece_from_wire(piece: wire::KdPiece<'static>) -> Piece {
    Piece { bytes: piece.bytes.into_bytes(), sums: piece.sums, visible: piece.visible }
}

/// The digest of a range of a chunk, from the wire.
pub fn digest_from_wire(answer: &wire::KdDigest) -> Digested {
    let wire::KdDigest { crc, length, visible, .. } = *answer;
    Digested { digest: Digest { crc, length }, visible }
}

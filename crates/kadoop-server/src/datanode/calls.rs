//! The service for a datanode's chunks. A token in each call authorizes it, and a proof in each answer shows
//! that the datanode made it.

use super::shared::Shared;
use std::{
    os::unix::ffi::OsStrExt as _,
    sync::Arc,
    time::{Duration, Instant},
};
use strait_flexrpc::{Request, stub::ServiceError};
use strait_kadoop_core::{
    ChunkId, Millis, Stamp,
    error::{Error, Result},
    messages::Order,
};
use strait_kadoop_wire::{
    convert::{continue_from_wire, member_from_wire, read_from_wire, write_from_wire},
    proofs::Procedure,
    tokens::Right,
    wire,
};

/// The service for a datanode's chunks.
pub(super) struct Chunks(pub Arc<Shared>);

type Answered<T> = std::result::Result<T, ServiceError>;

impl Chunks {
    /// Executes a call about an open chunk, if its token allows it.
    fn upto(
        &self,
        procedure: Procedure,
        of: wire::KdUpto,
        execute: impl FnOnce(ChunkId, Stamp, u32) -> Result<()>,
    ) -> Answered<wire::KdTold> {
        let witness = self.0.witness(&of, procedure, Right::Write)?;
        let result = witness.allowed.and_then(|()| execute(ChunkId(of.chunk), Stamp(of.stamp), of.length));
        Ok(witness.told(self.0.noted(result)))
    }

    /// Until when a call may wait: its deadline, but at most `most` from now.
    fn patience(&self, call: &Request, most: Millis) -> Instant {
        let most = Instant::now() + Duration::from_millis(most);
        call.deadline.map_or(most, |deadline| deadline.min(most))
    }
}

impl wire::KadoopDatanodeV1Service for Chunks {
    fn dn_null(&self, _: &Request) -> Answered<()> {
        Ok(())
    }

    fn dn_write(&self, call: &Request, write: wire::KdWrite<'static>) -> Answered<wire::KdTold> {
        let shared = &self.0;
        let witness = shared.witness(&write, Procedure::Write, Right::Write)?;
        let written = witness.allowed.and_then(|()| {
            let write = write_from_wire(write);
            let until = self.patience(call, shared.config.write_ms);
            match shared.change(|core| core.place(&write))? {
                None => shared.wait_for(|core, caller| core.write(caller, &write), until),
                Some(place) => {
                    let placed = place.put(&write);
                    shared.wait_for(|core, caller| core.finish(caller, &write, placed), until)
                }
            }
        });
        Ok(witness.told(shared.noted(written)))
    }

    fn dn_publish(&self, _: &Request, of: wire::KdUpto) -> Answered<wire::KdTold> {
        self.upto(Procedure::Publish, of, |chunk, stamp, length| {
            self.0.change(|core| core.publish(chunk, stamp, length))
        })
    }

    fn dn_sync(&self, _: &Request, of: wire::KdUpto) -> Answered<wire::KdTold> {
        self.upto(Procedure::Sync, of, |chunk, stamp, length| {
            self.0.sync_ahead(chunk)?;
            self.0.change(|core| core.sync(chunk, stamp, length))
        })
    }

    fn dn_seal(&self, _: &Request, of: wire::KdUpto) -> Answered<wire::KdTold> {
        self.upto(Procedure::Seal, of, |chunk, stamp, length| {
            self.0.seal(|core| core.begin_seal(chunk, stamp, length))
        })
    }

    fn dn_read(&self, _: &Request, read: wire::KdRead) -> Answered<wire::KdPiece<'_>> {
        let witness = self.0.witness(&read, Procedure::Read, Right::Read)?;
        let piece = witness.allowed.and_then(|()| self.0.read().read(&read_from_wire(&read)));
        if matches!(piece, Err(Error::Corrupt | Error::Disk)) {
            // Verify the replica here: the reader turns to another datanode, and needn't report this.
            let (chunk, stamp) = (ChunkId(read.chunk), Stamp(read.stamp));
            self.0.change(|core| core.obey(Order::Verify { chunk, stamp }));
        }
        Ok(witness.piece(self.0.noted(piece)))
    }

    fn dn_digest(&self, _: &Request, read: wire::KdRead) -> Answered<wire::KdDigest> {
        let witness = self.0.witness(&read, Procedure::Digest, Right::Read)?;
        let digested = witness.allowed.and_then(|()| self.0.read().digest(&read_from_wire(&read)));
        Ok(witness.digest(self.0.noted(digested)))
    }

    fn dn_probe(&self, _: &Request, probe: wire::KdProbe) -> Answered<wire::KdTold> {
        // Accept an expired token: a datanode's incarnation is no secret.
        let witness = self.0.witness(&probe, Procedure::Probe, Right::Write)?;
        Ok(witness.told(self.0.read().probe(member_from_wire(&probe.member))))
    }

    fn dn_lender(&self, _: &Request, of: wire::KdBorrower) -> Answered<wire::KdLender<'_>> {
        // Accept an expired token: the socket's path is no secret, either.
        let witness = self.0.witness(&of, Procedure::Lender, Right::Read)?;
        let place = self.0.lender().ok_or(Error::NotFound);
        Ok(witness.lender(place.map(|place| (place.path.as_os_str().as_bytes(), place.run))))
    }

    fn dn_continue(&self, call: &Request, of: wire::KdContinue) -> Answered<wire::KdTold> {
        let shared = &self.0;
        let witness = shared.witness(&of, Procedure::Continue, Right::Write)?;
        let begun = witness.allowed.and_then(|()| shared.demand_source(&of)).and_then(|()| {
            let (begin, until) = (continue_from_wire(&of), self.patience(call, shared.config.disk_ms));
            shared.wait_for(|core, caller| core.begin(caller, &begin), until)
        });
        Ok(witness.told(shared.noted(begun)))
    }
}

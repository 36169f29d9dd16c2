//! What a datanode answers. Each call brings a token for what it asks.

use super::shared::Shared;
use crate::{
    ChunkId, Millis, Stamp,
    error::{Error, Result},
    service::{
        convert::{continue_from_wire, member_from_wire, piece_to_wire, read_from_wire, write_from_wire},
        failure::refuse,
        keys::Right,
    },
    wire,
};
use std::{
    os::unix::ffi::OsStrExt as _,
    sync::Arc,
    time::{Duration, Instant},
};
use strait_flexrpc::{Request, stub::ServiceError};

/// A datanode's chunks.
pub(super) struct Chunks(pub Arc<Shared>);

type Answered<T> = std::result::Result<T, ServiceError>;

impl Chunks {
    /// What a call about an open chunk says, if its token allows it.
    fn upto(&self, of: &wire::KdUpto<'_>) -> Result<(ChunkId, Stamp, u32)> {
        let (chunk, stamp) = (ChunkId(of.chunk), Stamp(of.stamp));
        self.0.check(&of.token, chunk, stamp, Right::Write)?;
        Ok((chunk, stamp, of.length))
    }

    /// How long a call may wait for its turn.
    fn patience(&self, call: &Request, most: Millis) -> Instant {
        let most = Instant::now() + Duration::from_millis(most);
        call.deadline.map_or(most, |deadline| deadline.min(most))
    }
}

impl wire::KadoopDatanodeV1Service for Chunks {
    fn dn_null(&self, _: &Request) -> Answered<()> {
        Ok(())
    }

    fn dn_write(&self, call: &Request, write: wire::KdWrite<'static>) -> Answered<()> {
        let shared = &self.0;
        let (chunk, stamp) = (ChunkId(write.chunk), Stamp(write.stamp));
        let written = shared.check(&write.token, chunk, stamp, Right::Write).and_then(|()| {
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
        shared.noted(written).map_err(refuse)
    }

    fn dn_publish(&self, _: &Request, of: wire::KdUpto<'static>) -> Answered<()> {
        let published = self
            .upto(&of)
            .and_then(|(chunk, stamp, length)| self.0.change(|core| core.publish(chunk, stamp, length)));
        published.map_err(refuse)
    }

    fn dn_sync(&self, _: &Request, of: wire::KdUpto<'static>) -> Answered<()> {
        let synced = self.upto(&of).and_then(|(chunk, stamp, length)| {
            self.0.sync_ahead(chunk)?;
            self.0.change(|core| core.sync(chunk, stamp, length))
        });
        self.0.noted(synced).map_err(refuse)
    }

    fn dn_seal(&self, _: &Request, of: wire::KdUpto<'static>) -> Answered<()> {
        let sealed = self.upto(&of).and_then(|(chunk, stamp, length)| {
            self.0.sync_ahead(chunk)?;
            self.0.change(|core| core.seal(chunk, stamp, length))
        });
        self.0.noted(sealed).map_err(refuse)
    }

    fn dn_read(&self, _: &Request, read: wire::KdRead<'static>) -> Answered<wire::KdPiece<'_>> {
        let of = read_from_wire(&read);
        let piece =
            self.0.check(&read.token, of.chunk, of.stamp, Right::Read).and_then(|()| self.0.read().read(&of));
        self.0.noted(piece).map(piece_to_wire).map_err(refuse)
    }

    fn dn_probe(&self, _: &Request, member: wire::KdMember) -> Answered<()> {
        self.0.read().probe(member_from_wire(&member)).map_err(refuse)
    }

    fn dn_lender(&self, _: &Request) -> Answered<wire::KdLender<'_>> {
        let place = self.0.lender().ok_or_else(|| refuse(Error::NotFound))?;
        let path = place.path.as_os_str().as_bytes();
        Ok(wire::KdLender { path: path.into(), run: place.run })
    }

    fn dn_continue(&self, call: &Request, of: wire::KdContinue<'static>) -> Answered<()> {
        let shared = &self.0;
        let begin = continue_from_wire(&of);
        let source = &begin.source;
        let begun = shared
            .check(&of.token, begin.chunk, begin.stamp, Right::Write)
            .and_then(|()| shared.check(&of.source_token, source.chunk, source.stamp, Right::Read))
            .and_then(|()| {
                let until = self.patience(call, shared.config.disk_ms);
                shared.wait_for(|core, caller| core.begin(caller, &begin), until)
            });
        shared.noted(begun).map_err(refuse)
    }
}

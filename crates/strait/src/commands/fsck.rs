//! `fsck` finds files that have lost bytes, or have fewer replicas than they should.

use crate::cli::Operands;
use crate::context::{Context, Place};
use crate::failure::{Failure, Tally};
use crate::output::Output;
use futures::StreamExt;
use strait_store::{BlockLocation, ErrorKind, FileStatus, StorePath};

/// Checks each operand and its whole tree.
pub async fn fsck(context: &Context, operands: Operands) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut check = Check { out: context.output(), json: context.json, found: Found::default() };
    for uri in &context.expanded(&operands.uris, &mut tally).await? {
        let checked = check.operand(context, uri, &mut tally).await;
        tally.add(checked)?;
    }
    let Check { mut out, json, found } = check;
    found.tell(json, tally.has_failed(), &mut out)?;
    out.finish()?;
    tally.finish()?;
    // Each one was reported above.
    match found {
        Found { unknown: 1.., .. } => Err(Failure::Told(ErrorKind::Unavailable.row().exit)),
        Found { missing: 1.., .. } => Err(Failure::Told(ErrorKind::Corrupt.row().exit)),
        _ => Ok(()),
    }
}

struct Check {
    out: Output,
    json: bool,
    found: Found,
}

/// Counts of a check.
#[derive(Default)]
struct Found {
    directories: u64,
    files: u64,
    bytes: u64,
    blocks: u64,
    /// Blocks without a good replica, and ranges that no block covers.
    missing: u64,
    /// The same while not all replicas have been reported: they may still exist.
    unknown: u64,
    /// Blocks with fewer replicas than the file should have.
    too_few: u64,
}

impl Check {
    async fn operand(&mut self, context: &Context, uri: &str, tally: &mut Tally) -> Result<(), Failure> {
        let place = context.place(uri).await?;
        let status = place.stat().await?;
        if !status.is_directory() {
            return self.file(&place, &status).await;
        }
        // Depth first; memory holds the directories of one level.
        let mut waiting = vec![place];
        while let Some(place) = waiting.pop() {
            self.found.directories += 1;
            let listed = self.directory(&place, &mut waiting, tally).await;
            tally.add(listed)?;
        }
        Ok(())
    }

    async fn directory(
        &mut self,
        place: &Place,
        waiting: &mut Vec<Place>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let mut listing = place.fs.list(&place.who, &place.path);
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            if entry.link {
                continue;
            }
            let at = place.at(StorePath::parse(&entry.path)?);
            if entry.is_directory() {
                waiting.push(at);
            } else {
                tally.add(self.file(&at, &entry).await)?;
            }
        }
        Ok(())
    }

    async fn file(&mut self, place: &Place, status: &FileStatus) -> Result<(), Failure> {
        let locate = || place.fs.block_locations(&place.who, &place.path, 0..u64::MAX);
        let mut blocks = locate().await?;
        let mut settling = false;
        if !is_whole(&blocks, status.length) {
            // A store that can't tell knows all its replicas.
            settling = place.fs.status(&place.who).await.is_ok_and(|status| status.settling);
            if !settling {
                // It may have been settling while it located the blocks.
                blocks = locate().await?;
            }
        }
        self.found.files += 1;
        self.found.bytes += status.length;
        let mut covered = 0;
        for block in &blocks {
            self.found.blocks += 1;
            covered += block.length;
            if is_missing(block) {
                self.missing(place, block, status.replication, settling)?;
            } else if block.hosts.len() < usize::from(status.replication) {
                self.found.too_few += 1;
                self.problem(place, block, "too few replicas", status.replication)?;
            }
        }
        if covered < status.length {
            let (offset, length) = (covered, status.length - covered);
            let rest = BlockLocation { offset, length, hosts: vec![], addresses: vec![], corrupt: true };
            self.missing(place, &rest, status.replication, settling)?;
        }
        Ok(())
    }

    /// No datanode has it; or, if the store is `settling`, none has reported it yet.
    fn missing(
        &mut self,
        place: &Place,
        block: &BlockLocation,
        wanted: u16,
        settling: bool,
    ) -> Result<(), Failure> {
        let (count, what) = match settling {
            true => (&mut self.found.unknown, "not reported yet"),
            false => (&mut self.found.missing, "missing"),
        };
        *count += 1;
        self.problem(place, block, what, wanted)
    }

    fn problem(
        &mut self,
        place: &Place,
        block: &BlockLocation,
        what: &str,
        wanted: u16,
    ) -> Result<(), Failure> {
        let BlockLocation { offset, length, .. } = *block;
        let path = place.path.as_str();
        if self.json {
            return self.out.object([
                ("path", path.into()),
                ("problem", what.into()),
                ("offset", offset.into()),
                ("length", length.into()),
                ("replicas", block.hosts.len().into()),
                ("replication", wanted.into()),
            ]);
        }
        let (path, replicas) = (self.out.name(path).into_owned(), block.hosts.len());
        self.out.line(format_args!("{path}\t{offset}\t{length}\t{what}: {replicas} of {wanted} replicas"))
    }
}

fn is_missing(block: &BlockLocation) -> bool {
    block.corrupt || block.hosts.is_empty()
}

fn is_whole(blocks: &[BlockLocation], length: u64) -> bool {
    let covered: u64 = blocks.iter().map(|block| block.length).sum();
    covered >= length && !blocks.iter().any(is_missing)
}

impl Found {
    /// Healthy: every block has as many live replicas as its file wants. With `failed`, the check couldn't read everything, so the counts are incomplete.
    fn tell(&self, json: bool, failed: bool, out: &mut Output) -> Result<(), Failure> {
        let Self { directories, files, bytes, blocks, missing, unknown, too_few } = *self;
        let healthy = match (failed, missing + unknown + too_few) {
            (false, 0) => Some(true),
            (true, 0) => None,
            _ => Some(false),
        };
        if json {
            return out.object([
                ("directories", directories.into()),
                ("files", files.into()),
                ("bytes", bytes.into()),
                ("blocks", blocks.into()),
                ("missing", missing.into()),
                ("not_reported", unknown.into()),
                ("too_few_replicas", too_few.into()),
                ("healthy", healthy.into()),
            ]);
        }
        let verdict = match (unknown, missing) {
            (0, 0) if failed => "not known (not all could be looked at)",
            (0, 0) if too_few > 0 => "UNDER-REPLICATED",
            (0, 0) => "healthy",
            (0, _) => "CORRUPT",
            _ => "not known yet (safe mode: not all datanodes have reported)",
        };
        let unreported = if unknown > 0 { format!("{unknown} not reported yet, ") } else { String::new() };
        out.line(format_args!(
            "{verdict}: {files} files in {directories} directories, {bytes} bytes in {blocks} blocks, \
             {unreported}{missing} missing, {too_few} with too few replicas"
        ))
    }
}

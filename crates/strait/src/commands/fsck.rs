//! `fsck` finds files with missing blocks, too few replicas or damaged replicas.

use crate::cli::Fsck;
use crate::context::{Cluster, Context, Place};
use crate::failure::Failure;
use crate::output::Output;
use crate::tally::Tally;
use futures::StreamExt;
use strait_kadoop_client::Verified;
use strait_kadoop_core::Error as KadoopError;
use strait_store::{BlockLocation, Error, ErrorKind, FileStatus, StorePath};

/// Checks each operand and its whole tree.
pub async fn fsck(context: &Context, flags: Fsck) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut check =
        Check { out: context.output(), json: context.json, found: Found::default(), cluster: None };
    for uri in &context.expanded(&flags.operands.uris, &mut tally).await? {
        if flags.data {
            check.cluster = Some(context.cluster("fsck --data", uri).await?);
            check.found.replicas.get_or_insert(0);
        }
        let checked = check.operand(context, uri, &mut tally).await;
        tally.add(checked)?;
    }
    let Check { mut out, json, found, .. } = check;
    // An error was printed for each operand that couldn't be read. With --json, a script gets the counts in
    // any case.
    if json || !tally.has_failed() || found.directories + found.files > 0 {
        found.tell(json, tally.has_failed(), &mut out)?;
    }
    out.finish()?;
    tally.finish()?;
    // Each problem was reported above.
    match found {
        Found { unknown: 1.., .. } | Found { unread: 1.., missing: 0, damaged: 0, .. } => {
            Err(Failure::Told(ErrorKind::Unavailable.row().exit))
        }
        Found { missing: 1.., .. } | Found { damaged: 1.., .. } => {
            Err(Failure::Told(ErrorKind::Corrupt.row().exit))
        }
        _ => Ok(()),
    }
}

/// Whether the path was removed after it was listed, as a `put` removes its temporary file at the end: that
/// is no fault.
async fn has_vanished(place: &Place, checked: &Result<(), Failure>) -> bool {
    let is_missing = |error: &Error| error.kind() == ErrorKind::NotFound;
    matches!(checked, Err(Failure::Error(error)) if is_missing(error))
        && place.stat().await.is_err_and(|error| is_missing(&error))
}

struct Check {
    out: Output,
    json: bool,
    found: Found,
    /// The cluster whose replicas to read, with --data.
    cluster: Option<Cluster>,
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
    /// The same, before all datanodes have reported: the replicas may still exist.
    unknown: u64,
    /// Blocks with fewer replicas than their files should have.
    too_few: u64,
    /// Replicas that were read; `None` without --data.
    replicas: Option<u64>,
    /// Replicas that don't agree with their checksums.
    damaged: u64,
    /// Replicas that couldn't be read.
    unread: u64,
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
            if has_vanished(&place, &listed).await {
                self.found.directories -= 1;
                continue;
            }
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
                let checked = self.file(&at, &entry).await;
                if !has_vanished(&at, &checked).await {
                    tally.add(checked)?;
                }
            }
        }
        Ok(())
    }

    async fn file(&mut self, place: &Place, status: &FileStatus) -> Result<(), Failure> {
        let locate = || place.fs.block_locations(&place.who, &place.path, 0..u64::MAX);
        let mut blocks = locate().await?;
        let mut settling = false;
        if !is_whole(&blocks, status.length) {
            // A store that doesn't report its status knows all its replicas already.
            settling = place.fs.status(&place.who).await.is_ok_and(|status| status.settling);
            if !settling {
                // It may have been settling when it located the blocks.
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
        self.replicas(place).await
    }

    /// Reads all replicas of a file, one after the other, with --data.
    async fn replicas(&mut self, place: &Place) -> Result<(), Failure> {
        let Self { out, json, found, cluster: Some(cluster) } = self else { return Ok(()) };
        let named = |error: strait_store::Error| Failure::naming(error, "fsck", &place.path);
        let path = place.path.as_str().to_owned();
        let begun = cluster.operate("fsck", move |client, caller| client.verify(caller, &path));
        let mut verifier = begun.await.map_err(named)?;
        loop {
            let step = cluster.operate("fsck", move |_, _| {
                let read = verifier.step()?;
                Ok((verifier, read))
            });
            let (rest, read) = step.await.map_err(named)?;
            let Some(read) = read else { return Ok(()) };
            verifier = rest;
            found.replicas = found.replicas.map(|replicas| replicas + 1);
            if let Some(problem) = found.count(&read) {
                replica(out, *json, place, &read, &problem)?;
            }
        }
    }

    /// Reports a block without replicas: missing or, if the store is `settling`, not reported yet.
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

/// Prints a line for a replica with a problem.
fn replica(
    out: &mut Output,
    json: bool,
    place: &Place,
    read: &Verified,
    problem: &str,
) -> Result<(), Failure> {
    let Verified { offset, length, node, .. } = *read;
    let address = read.address.map(|address| address.to_string()).unwrap_or_default();
    let path = place.path.as_str();
    if json {
        return out.object([
            ("path", path.into()),
            ("problem", problem.into()),
            ("offset", offset.into()),
            ("length", length.into()),
            ("datanode", node.0.into()),
            ("address", address.into()),
        ]);
    }
    let path = out.name(path).into_owned();
    out.line(format_args!("{path}\t{offset}\t{length}\t{problem}: datanode {node} ({address})"))
}

fn is_missing(block: &BlockLocation) -> bool {
    block.corrupt || block.hosts.is_empty()
}

fn is_whole(blocks: &[BlockLocation], length: u64) -> bool {
    let covered: u64 = blocks.iter().map(|block| block.length).sum();
    covered >= length && !blocks.iter().any(is_missing)
}

impl Found {
    /// Counts a replica that was read. Returns its problem, if it has one.
    fn count(&mut self, read: &Verified) -> Option<String> {
        let failure = read.failure.as_ref()?;
        Some(match failure.error {
            KadoopError::Corrupt => {
                self.damaged += 1;
                "damaged".to_owned()
            }
            _ => {
                self.unread += 1;
                format!("not read ({failure})")
            }
        })
    }

    /// Prints the counts and the verdict. Healthy means: every block has as many live replicas as its file
    /// should have, and no replica that was read is damaged. With `failed`, some files couldn't be checked.
    fn tell(&self, json: bool, failed: bool, out: &mut Output) -> Result<(), Failure> {
        let Self { directories, files, bytes, blocks, missing, unknown, too_few, replicas, damaged, unread } =
            *self;
        let healthy = match (failed || unread > 0, missing + unknown + too_few + damaged) {
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
                ("replicas_read", replicas.into()),
                ("damaged_replicas", replicas.map(|_| damaged).into()),
                ("replicas_not_read", replicas.map(|_| unread).into()),
                ("healthy", healthy.into()),
            ]);
        }
        let verdict = match (unknown, missing) {
            (0, 0) if damaged > 0 => "DAMAGED",
            (0, 0) if failed || unread > 0 => "not known (some files couldn't be checked)",
            (0, 0) if too_few > 0 => "UNDER-REPLICATED",
            (0, 0) => "healthy",
            (0, _) => "CORRUPT",
            _ => "not known yet (safe mode: not all datanodes have reported)",
        };
        let unreported = if unknown > 0 { format!("{unknown} not reported yet, ") } else { String::new() };
        let read = replicas.map(|replicas| format!("; {replicas} replicas read, {damaged} damaged"));
        let read = read.unwrap_or_default();
        out.line(format_args!(
            "{verdict}: {files} files in {directories} directories, {bytes} bytes in {blocks} blocks, \
             {unreported}{missing} missing, {too_few} with too few replicas{read}"
        ))
    }
}

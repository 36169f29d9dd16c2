//! Writes the log.

use super::{
    MAX_FRAME_BYTES, checkpoints,
    frame::{HEADER_BYTES, parse_segment_header, segment_header, write_frame},
    mark::Mark,
    reader::{PIECE_BYTES, is_blank, read_segment},
    segment_name, segments,
};
use crate::{
    disk::{Disk, DiskFile},
    faults::{Fault, Faults},
};
use std::io;

/// The next segment's temporary name.
const NEXT: &str = "log.tmp";
/// If less than one part in this many is left of a segment, the journal prepares the next one. The
/// rest holds the transactions that the namenode decides before it learns that the disk is full.
const READY_BELOW: u64 = 8;

/// The log's end, to which records are appended. Don't use it after an error: the state on disk is
/// then unknown.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    disk: D,
    cluster: u64,
    segment_bytes: u64,
    faults: Faults,
    file: D::File,
    mark: Option<Mark<D::File>>,
    offset: u64,
    /// The next segment, prepared.
    next: Option<D::File>,
    /// Number of the first record that isn't on disk.
    next_sequence: u64,
    waiting: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl<D: Disk> Journal<D> {
    /// Begins a new segment with record `next_sequence`. A torn frame at the end of the previous
    /// segment stays there. The new segment's first number follows the last record before that frame,
    /// which shows that no record is missing.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn start(
        disk: D,
        cluster: u64,
        next_sequence: u64,
        segment_bytes: u64,
        faults: Faults,
    ) -> io::Result<Self> {
        if !faults.has(Fault::LogEndTrusted) {
            renew_end(&disk, cluster, next_sequence, faults)?;
        }
        let file = blank_segment(&disk, segment_bytes)?;
        begin_segment(&disk, &file, cluster, next_sequence, faults)?;
        let (mark, offset, next) = (None, HEADER_BYTES as u64, None);
        let (waiting, buffer) = (Vec::new(), Vec::new());
        Ok(Self {
            disk,
            cluster,
            segment_bytes,
            faults,
            file,
            mark,
            offset,
            next,
            next_sequence,
            waiting,
            buffer,
        })
    }

    /// Queues a record for the next commit.
    pub fn push(&mut self, record: Vec<u8>) {
        self.waiting.push(record);
    }

    /// Whether a commit would write anything.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes all queued records and syncs: one write and one sync, unless the records need several
    /// frames.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn commit(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|record| {
                bytes += record.len() + 4;
                bytes <= MAX_FRAME_BYTES
            });
            let count = fitting.count().max(1);
            self.write(&rest[..count])?;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn write(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        self.buffer.clear();
        write_frame(&mut self.buffer, self.cluster, self.next_sequence, records);
        if self.offset + self.buffer.len() as u64 > self.segment_bytes && self.offset > HEADER_BYTES as u64 {
            self.roll()?;
        }
        let last = self.next_sequence + records.len() as u64 - 1;
        if self.faults.has(Fault::MarkedEarly) {
            self.mark(last)?;
        }
        self.file.write_at(self.offset, &self.buffer)?;
        if !self.faults.has(Fault::LogNotSynced) {
            self.file.sync_data()?;
        }
        self.offset += self.buffer.len() as u64;
        self.next_sequence = last + 1;
        self.mark(last)
    }

    /// Keeps a mark beside the log from now on (see [`super::read_mark`]).
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn keep_mark(&mut self) -> io::Result<()> {
        self.mark = Some(Mark::set(&self.disk, self.cluster, self.next_sequence - 1)?);
        Ok(())
    }

    fn mark(&mut self, sequence: u64) -> io::Result<()> {
        let mark = self.mark.as_mut().filter(|_| !self.faults.has(Fault::MarkForgotten));
        mark.map_or(Ok(()), |mark| mark.note(sequence))
    }

    /// The file of the log's mark, if the mark has changed since the last call. Sync this file from time
    /// to time; the log can continue during the sync. After a power failure, a start then notices if
    /// records up to the synced mark are lost.
    pub fn mark_to_sync(&mut self) -> Option<D::File> {
        self.mark.as_mut()?.unsynced()
    }

    /// Frees the segment's unused preallocated bytes, so that the next start needn't read them. Call it
    /// at a clean end, without queued records.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn trim(&mut self) -> io::Result<()> {
        self.file.set_length(self.offset)
    }

    /// Ends the segment and begins the next, so that a checkpoint can cover all ended segments. Does nothing
    /// if the segment has no records. Call it while no records are queued.
    ///
    /// # Errors
    /// An I/O error of the disk. If there was only no room for the next segment ([`Journal::take_room`]), the
    /// log is still usable.
    pub fn roll(&mut self) -> io::Result<()> {
        if self.offset > HEADER_BYTES as u64 {
            self.take_room()?;
            let Some(file) = self.next.take() else { return Ok(()) };
            begin_segment(&self.disk, &file, self.cluster, self.next_sequence, self.faults)?;
            (self.file, self.offset) = (file, HEADER_BYTES as u64);
        }
        Ok(())
    }

    /// Reserves room for the next segment if the current one is nearly full.
    ///
    /// # Errors
    /// As [`Journal::take_room`].
    pub fn look_ahead(&mut self) -> io::Result<()> {
        let left = self.segment_bytes.saturating_sub(self.offset);
        if left < self.segment_bytes / READY_BELOW { self.take_room() } else { Ok(()) }
    }

    /// Reserves room for the next segment.
    ///
    /// # Errors
    /// An I/O error of the disk. Unlike other errors of the log, these are harmless: the caller can try again,
    /// and the current segment still takes records until it is full.
    pub fn take_room(&mut self) -> io::Result<()> {
        if self.next.is_none() {
            self.next = Some(blank_segment(&self.disk, self.segment_bytes)?);
        }
        Ok(())
    }
}

/// Rewrites the last segment, since readable bytes needn't be on disk: the previous run may have been
/// killed before a sync, or have ended after a failed one, which the kernel doesn't report again.
/// Answers from now on rely on this segment's records, up to the one before `next`.
fn renew_end<D: Disk>(disk: &D, cluster: u64, next: u64, faults: Faults) -> io::Result<()> {
    let names = disk.list()?;
    let Some(last) = segments(&names).last().copied() else { return Ok(()) };
    let name = segment_name(last);
    let (old, file) = (disk.open(&name)?, disk.create(NEXT)?);
    let length = old.length()?;
    for offset in (0..length).step_by(PIECE_BYTES) {
        let piece = old.read_vec(offset, PIECE_BYTES)?;
        if !is_blank(&piece) {
            file.write_at(offset, &piece)?;
        }
    }
    file.set_length(length)?;
    // Bytes that were only in memory may have been lost since the start read the log.
    let mut sequence = last;
    if parse_segment_header(&file.read_vec(0, HEADER_BYTES)?).is_some() {
        read_segment(&file, cluster, faults, &name, &mut sequence, &mut |_, _| Ok(()))
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    // If the log's end is lost, a checkpoint may still hold its records.
    let covered = checkpoints(&names).last().is_some_and(|last| last + 1 == next);
    if sequence != next && !(covered && sequence < next) {
        let why = format!("{name} has changed: it ended before record {next}, now before {sequence}");
        return Err(io::Error::other(why));
    }
    file.sync_data()?;
    disk.rename(NEXT, &name)?;
    // Sync before a later segment gets its name. Otherwise, if this start fails in between, the next
    // start would rewrite only that later segment.
    disk.sync_names()
}

/// Makes a preallocated segment, with a temporary name.
fn blank_segment<D: Disk>(disk: &D, bytes: u64) -> io::Result<D::File> {
    let make = || {
        let file = disk.create(NEXT)?;
        file.preallocate(bytes)?;
        Ok(file)
    };
    let made = make();
    if made.is_err() {
        // The failed file may occupy room that other files need.
        let _ = disk.remove(NEXT);
    }
    made
}

/// Writes the segment's header and gives it its final name. Both are on disk before any record in it.
fn begin_segment<D: Disk>(
    disk: &D,
    file: &D::File,
    cluster: u64,
    first: u64,
    faults: Faults,
) -> io::Result<()> {
    file.write_at(0, &segment_header(cluster, first))?;
    file.sync_data()?;
    disk.rename(NEXT, &segment_name(first))?;
    if !faults.has(Fault::SegmentNameNotSynced) {
        disk.sync_names()?;
    }
    Ok(())
}

//! Free room of the data directories, and the choice of one for the next replica.

use crate::error::{Error, Result};

/// A directory gets a new replica only if its free room is at least `1 / LEAST_PART` of the free room of
/// the emptiest directory.
const LEAST_PART: u64 = 4;

/// The bytes that each directory can take: its disk's last known room, minus the bytes taken since. So
/// a disk never gets so full that open replicas couldn't be sealed.
#[derive(Debug)]
pub(super) struct Room {
    /// The room of each directory. None if it isn't known.
    bytes: Vec<Option<u64>>,
    /// Bytes taken since the last update.
    taken: Vec<u64>,
    last: usize,
}

impl Room {
    pub fn new(directories: usize) -> Self {
        Self { bytes: vec![None; directories], taken: vec![0; directories], last: 0 }
    }

    /// Sets the room of each disk, as measured after the previous call. Subtracts the bytes taken since
    /// that call, since the measurement may be older than they are.
    pub fn set(&mut self, bytes: &[u64]) {
        for ((room, taken), bytes) in self.bytes.iter_mut().zip(&mut self.taken).zip(bytes) {
            *room = Some(bytes.saturating_sub(std::mem::take(taken)));
        }
    }

    /// Takes `bytes` of a directory's room.
    ///
    /// # Errors
    /// NoSpace: the directory has less room.
    pub fn take(&mut self, directory: usize, bytes: usize) -> Result<()> {
        if let Some(Some(room)) = self.bytes.get_mut(directory) {
            *room = room.checked_sub(bytes as u64).ok_or(Error::NoSpace)?;
            self.taken[directory] += bytes as u64;
        }
        Ok(())
    }

    /// Returns taken bytes that weren't written.
    pub fn give_back(&mut self, directory: usize, bytes: usize) {
        if let Some(Some(room)) = self.bytes.get_mut(directory) {
            *room += bytes as u64;
            self.taken[directory] = self.taken[directory].saturating_sub(bytes as u64);
        }
    }

    /// The directory for the next replica. Directories with room take turns, so that their disks work in
    /// parallel (HDFS: `RoundRobinVolumeChoosingPolicy`).
    ///
    /// # Errors
    /// Disk: no directory is left.
    pub fn next<D>(&mut self, directories: &[Option<D>]) -> Result<usize> {
        let works = |at: &usize| directories[*at].is_some();
        let room = |at: usize| self.bytes.get(at).copied().flatten().unwrap_or(u64::MAX);
        let all = (0..directories.len()).filter(works);
        let most = all.clone().map(room).max().ok_or(Error::Disk)?;
        let mut roomy = all.filter(|at| room(*at) >= most / LEAST_PART);
        let next = roomy.clone().find(|at| *at > self.last).or_else(|| roomy.next()).ok_or(Error::Disk)?;
        self.last = next;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKING: [Option<()>; 3] = [Some(()); 3];

    fn chosen(room: &mut Room, directories: &[Option<()>]) -> Vec<usize> {
        (0..4).map(|_| room.next(directories).unwrap()).collect()
    }

    #[test]
    fn directories_take_turns() {
        assert_eq!(chosen(&mut Room::new(3), &WORKING), [1, 2, 0, 1]);
        assert_eq!(chosen(&mut Room::new(3), &[Some(()), None, Some(())]), [2, 0, 2, 0]);
        assert_eq!(Room::new(1).next::<()>(&[None]), Err(Error::Disk));
    }

    #[test]
    fn one_with_much_less_room_than_others_gets_nothing() {
        let mut room = Room::new(3);
        room.set(&[10, 1_000, 900]);
        assert_eq!(chosen(&mut room, &WORKING), [1, 2, 1, 2]);
    }

    #[test]
    fn what_is_written_is_taken_off_until_more_is_known() {
        let mut room = Room::new(2);
        room.set(&[100, 100]);
        assert_eq!(room.take(1, 60), Ok(()));
        assert_eq!(room.take(1, 60), Err(Error::NoSpace));
        assert_eq!(room.take(1, 40), Ok(()));
        assert_eq!(chosen(&mut room, &WORKING[..2]), [0, 0, 0, 0]);
        // This room was measured before all of these writes.
        room.set(&[100, 150]);
        assert_eq!(room.take(1, 51), Err(Error::NoSpace));
        room.set(&[100, 150]);
        assert_eq!(room.take(1, 150), Ok(()));
        room.give_back(1, 150);
        assert_eq!(room.take(1, 150), Ok(()));
    }
}

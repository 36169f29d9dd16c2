//! Open files of replicas that nobody writes: few, however many replicas there are.
//!
//! A sealed replica's bytes never change, so its file may be closed and opened again at any time.

use crate::{ChunkId, Stamp};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The files that were used last.
#[derive(Debug)]
pub(super) struct OpenFiles<F> {
    most: usize,
    kept: Mutex<Kept<F>>,
}

#[derive(Debug)]
struct Kept<F> {
    files: BTreeMap<(ChunkId, Stamp), (F, u64)>,
    /// Number of uses so far.
    uses: u64,
}

impl<F: Clone> OpenFiles<F> {
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::new(Kept { files: BTreeMap::new(), uses: 0 }) }
    }

    /// The file of the replica's bytes, which `open` opens if it isn't here.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(&self, of: (ChunkId, Stamp), open: impl FnOnce() -> io::Result<F>) -> io::Result<F> {
        if let Some(file) = self.kept().used(of) {
            return Ok(file);
        }
        let file = open()?;
        let mut kept = self.kept();
        let least = kept.files.iter().min_by_key(|(_, (_, used))| *used).map(|(of, _)| *of);
        let gone = least.filter(|_| kept.files.len() >= self.most).and_then(|of| kept.files.remove(&of));
        let used = kept.next_use();
        kept.files.insert(of, (file.clone(), used));
        drop(kept);
        // Without the lock: closing a deleted file may free its space, which takes time.
        drop(gone);
        Ok(file)
    }

    /// Closes a replica's file, once all readers of this moment are done.
    pub fn close(&self, of: (ChunkId, Stamp)) -> Option<F> {
        self.kept().files.remove(&of).map(|(file, _)| file)
    }

    /// Closes all.
    pub fn clear(&self) {
        self.kept().files.clear();
    }

    fn kept(&self) -> MutexGuard<'_, Kept<F>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Clone> Kept<F> {
    fn used(&mut self, of: (ChunkId, Stamp)) -> Option<F> {
        let now = self.next_use();
        let (file, used) = self.files.get_mut(&of)?;
        *used = now;
        Some(file.clone())
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(files: &OpenFiles<u64>, chunk: u64) -> bool {
        let mut opened = false;
        let open = || {
            opened = true;
            Ok(chunk)
        };
        assert_eq!(files.get((ChunkId(chunk), Stamp(1)), open).unwrap(), chunk);
        opened
    }

    #[test]
    fn the_file_used_longest_ago_is_closed_for_another() {
        let files = OpenFiles::new(2);
        assert!(get(&files, 1) && get(&files, 2) && !get(&files, 1));
        assert!(get(&files, 3));
        assert!(!get(&files, 1) && !get(&files, 3) && get(&files, 2));
        assert_eq!(files.kept().files.len(), 2);
    }

    #[test]
    fn a_file_that_cant_be_opened_is_tried_again() {
        let files = OpenFiles::<u64>::new(2);
        assert!(files.get((ChunkId(1), Stamp(1)), || Err(io::Error::other("none"))).is_err());
        assert!(get(&files, 1));
        assert_eq!(files.close((ChunkId(1), Stamp(1))), Some(1));
        assert!(get(&files, 1));
    }
}

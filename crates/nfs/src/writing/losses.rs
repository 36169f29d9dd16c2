//! The verifiers of files' writes. A client compares a file's verifier before and after its unstable writes, and repeats
//! them if it has changed (RFC 1813, 3.3.7).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use strait_store::StorePath;
use tokio::time::Instant;

/// Most files whose losses are remembered. One more changes the verifiers of all files.
pub(super) const MOST_LOSSES: usize = 16_384;
/// Added to the base verifier when all losses are forgotten. No file has so many losses, so the new verifiers
/// differ from all earlier ones.
const LOSSES_OF_FILE: u64 = 1 << 32;

/// Losses of bytes that were acknowledged as unstable. A loss changes only the verifier of its file.
/// Otherwise, one user's repeated losses could make other users' clients repeat their writes forever.
pub struct Losses {
    /// The verifier of files without a loss, and the time from which it is valid. The server's start counts
    /// as a loss, since an earlier server may have been killed.
    base: (u64, Instant),
    /// The number of a file's losses, and the time of the latest. The key is a digest of the path, since
    /// paths take much memory. If two files have the same digest, they get new verifiers together, which is
    /// harmless.
    pub(super) of_files: HashMap<u64, (u64, Instant)>,
    digests: RandomState,
}

impl Losses {
    /// Without losses. The first verifier is `start`.
    pub fn since(start: u64) -> Self {
        Self { base: (start, Instant::now()), of_files: HashMap::new(), digests: RandomState::new() }
    }

    /// A file's verifier, and the time of its latest loss.
    pub fn of(&self, path: &StorePath) -> (u64, Instant) {
        let (base, since) = self.base;
        let of_file = self.of_files.get(&self.digests.hash_one(path));
        of_file.map_or((base, since), |(count, last)| (base + count, *last))
    }

    /// Counts a loss of the file, which changes its verifier.
    pub fn add(&mut self, path: &StorePath) {
        if self.of_files.len() >= MOST_LOSSES {
            // Forget the losses, and use verifiers that no client has seen.
            self.base = (self.base.0 + LOSSES_OF_FILE, Instant::now());
            self.of_files.clear();
        }
        let (count, last) = self.of_files.entry(self.digests.hash_one(path)).or_insert((0, Instant::now()));
        (*count, *last) = (*count + 1, Instant::now());
    }
}

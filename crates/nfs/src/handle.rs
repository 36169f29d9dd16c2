//! File handles: each names a path in at most 64 bytes, and stays valid after a restart.
//!
//! ```text
//!   short:  1  export (7)  path below the export, up to 56 bytes
//!   long:   2  export (7)  digest of the path (15)  its depth  digests of its names (40 in all)
//! ```
//!
//! The numbers in parentheses are lengths in bytes. `export` is a digest of the store's URI and the exported
//! directory.
//!
//! No store can find both files and directories by a number. So a handle names a path. For a long path, the
//! server walks down the directories, along the names with matching digests. So it needs no table on disk. A
//! handle that a client invents can only lead to a path below the export, where the store checks each user's
//! rights.

use crate::fault::{Answer, Fault};
use crate::wire::N3Status;
use futures::StreamExt;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use strait_store::{ErrorKind, FileSystem, Principal, StorePath};

const SHORT: u8 = 1;
const LONG: u8 = 2;
const MOST_BYTES: usize = crate::wire::N3_HANDLE_BYTES as usize;
const EXPORT_BYTES: usize = 7;
const HEAD_BYTES: usize = 1 + EXPORT_BYTES;
const DIGEST_BYTES: usize = 15;
/// Bytes for the digests of all names of a long path. In the deepest such path, each name has one byte.
const NAMES_BYTES: usize = MOST_BYTES - HEAD_BYTES - DIGEST_BYTES - 1;
/// Most bytes of a name's digest. Two names of one directory rarely have the same four bytes.
const NAME_BYTES: usize = 4;
/// Most directories that the walk follows at one level. A digest of one byte matches one in 256 names.
const MOST_CANDIDATES: usize = 256;
/// Most bytes of known long paths, those that were found or given to clients: 32 MiB.
const KNOWN_BYTES: usize = 32 << 20;

/// The handles of one export.
pub struct Handles {
    export: [u8; EXPORT_BYTES],
    root: StorePath,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    paths: HashMap<[u8; DIGEST_BYTES], StorePath>,
    bytes: usize,
}

impl Handles {
    /// The handles of the exported directory `root` of the store with this URI. For servers of other
    /// directories or stores, these handles are stale.
    pub fn new(store: &str, root: StorePath) -> Self {
        let export = digest(&[store.trim_end_matches('/').as_bytes(), b"\0", root.as_str().as_bytes()]);
        Self { export, root, known: Mutex::default() }
    }

    /// The exported directory.
    pub fn root(&self) -> &StorePath {
        &self.root
    }

    /// A number for the file system.
    pub fn fsid(&self) -> u64 {
        u64::from_be_bytes(digest(&[b"fsid", &self.export]))
    }

    /// A number for a path.
    pub fn fileid(&self, path: &StorePath) -> u64 {
        u64::from_be_bytes(digest(&[b"file", self.below(path).as_bytes()]))
    }

    /// The path below the export, without a slash before it.
    fn below<'p>(&self, path: &'p StorePath) -> &'p str {
        let rest = path.as_str().strip_prefix(self.root.as_str()).unwrap_or(path.as_str());
        rest.trim_start_matches('/')
    }

    /// The handle of a path within the export.
    ///
    /// # Errors
    /// `Nametoolong`: the path is longer than 56 bytes and has more than 40 names.
    pub fn of(&self, path: &StorePath) -> Answer<Vec<u8>> {
        let below = self.below(path);
        let mut handle = Vec::with_capacity(MOST_BYTES);
        handle.push(SHORT);
        handle.extend_from_slice(&self.export);
        if below.len() <= MOST_BYTES - HEAD_BYTES {
            handle.extend_from_slice(below.as_bytes());
            return Ok(handle);
        }
        let depth = below.split('/').count();
        let each = (NAMES_BYTES / depth).min(NAME_BYTES);
        if each == 0 {
            return Err(Fault(N3Status::Nametoolong));
        }
        handle[0] = LONG;
        let whole = digest(&[below.as_bytes()]);
        handle.extend_from_slice(&whole);
        handle.push(depth as u8);
        for name in below.split('/') {
            handle.extend_from_slice(&digest::<NAME_BYTES>(&[name.as_bytes()])[..each]);
        }
        self.remember(whole, path);
        Ok(handle)
    }

    fn remember(&self, whole: [u8; DIGEST_BYTES], path: &StorePath) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes > KNOWN_BYTES {
            *known = Known::default();
        }
        if known.paths.insert(whole, path.clone()).is_none() {
            known.bytes += path.as_str().len();
        }
    }

    /// The path of a handle. For an unknown long path, this lists each directory on the way, with the rights
    /// of `who`.
    ///
    /// # Errors
    /// `Badhandle`: the bytes aren't a handle. `Stale`: the handle belongs to another export, or no path
    /// matches it any more.
    pub async fn path(&self, store: &dyn FileSystem, who: &Principal, handle: &[u8]) -> Answer<StorePath> {
        let (head, rest) = handle.split_at_checked(HEAD_BYTES).ok_or(Fault(N3Status::Badhandle))?;
        if head[1..] != self.export {
            return Err(Fault(N3Status::Stale));
        }
        match head[0] {
            SHORT => self.short(rest),
            LONG => self.long(store, who, rest).await,
            _ => Err(Fault(N3Status::Badhandle)),
        }
    }

    fn short(&self, below: &[u8]) -> Answer<StorePath> {
        if below.is_empty() {
            return Ok(self.root.clone());
        }
        let text = std::str::from_utf8(below).map_err(|_| Fault(N3Status::Badhandle))?;
        let whole = format!("{}/{text}", self.root.as_str().trim_end_matches('/'));
        let path = StorePath::parse(&whole).map_err(|_| Fault(N3Status::Badhandle))?;
        // Refuse other spellings: each path has one handle, the one that the server makes.
        if path.as_str() == whole { Ok(path) } else { Err(Fault(N3Status::Badhandle)) }
    }

    async fn long(&self, store: &dyn FileSystem, who: &Principal, rest: &[u8]) -> Answer<StorePath> {
        let (whole, rest) = rest.split_first_chunk().ok_or(Fault(N3Status::Badhandle))?;
        let (depth, names) = rest.split_first().ok_or(Fault(N3Status::Badhandle))?;
        let each = NAMES_BYTES.checked_div((*depth).into()).unwrap_or(0).min(NAME_BYTES);
        if each == 0 || names.len() != each * usize::from(*depth) {
            return Err(Fault(N3Status::Badhandle));
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).paths.get(whole).cloned();
        if let Some(path) = known {
            return Ok(path);
        }
        let mut candidates = vec![self.root.clone()];
        for wanted in names.chunks(each) {
            candidates = fitting(store, who, candidates, wanted).await?;
        }
        let fits = |path: &StorePath| digest(&[self.below(path).as_bytes()]) == *whole;
        let path = candidates.into_iter().find(fits).ok_or(Fault(N3Status::Stale))?;
        self.remember(*whole, &path);
        Ok(path)
    }
}

/// The entries of these directories whose names have this digest.
async fn fitting(
    store: &dyn FileSystem,
    who: &Principal,
    directories: Vec<StorePath>,
    wanted: &[u8],
) -> Answer<Vec<StorePath>> {
    let mut found = Vec::new();
    for directory in directories {
        let mut entries = store.list(who, &directory);
        while let Some(entry) = entries.next().await {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => break,
                Err(error) => return Err(error.into()),
            };
            let fits = digest::<NAME_BYTES>(&[entry.name().as_bytes()]).starts_with(wanted);
            if fits && found.len() < MOST_CANDIDATES {
                found.extend(directory.join(entry.name()));
            }
        }
    }
    Ok(found)
}

/// The first bytes of the SHA-256 of these parts.
pub fn digest<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let whole = hash.finalize();
    std::array::from_fn(|at| whole[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::MemoryStore;

    fn path(text: &str) -> StorePath {
        StorePath::parse(text).unwrap()
    }

    fn handles() -> Handles {
        Handles::new("kadoop://host:1/", path("/base"))
    }

    /// The path that a new server finds for a handle of an earlier server.
    async fn found(store: &MemoryStore, handle: &[u8]) -> Answer<String> {
        let path = handles().path(store, &Principal::new("root"), handle).await;
        path.map(|path| path.as_str().to_owned())
    }

    #[tokio::test]
    async fn handles_survive_a_restart() {
        let (store, root) = (MemoryStore::new("root"), Principal::new("root"));
        let long = format!("/base/{}/{}/x", "d".repeat(200), "e".repeat(100));
        let deep = format!("/base{}", "/directory".repeat(40));
        for text in ["/base", "/base/a", "/base/a/b", &long, &deep] {
            store.mkdirs(&root, &path(text), None).await.unwrap();
            let handle = handles().of(&path(text)).unwrap();
            assert!(handle.len() <= MOST_BYTES);
            assert_eq!(found(&store, &handle).await.as_deref(), Ok(text));
        }
        let deeper = path(&format!("{deep}/x"));
        assert_eq!(handles().of(&deeper), Err(Fault(N3Status::Nametoolong)));
        store.remove(&root, &path(&long), true).await.unwrap();
        let gone = handles().of(&path(&long)).unwrap();
        assert_eq!(found(&store, &gone).await, Err(Fault(N3Status::Stale)));
    }

    #[tokio::test]
    async fn handles_of_others_and_invented_ones_lead_nowhere() {
        let store = MemoryStore::new("root");
        let stale = Handles::new("kadoop://other:1/", path("/base")).of(&path("/base/a")).unwrap();
        assert_eq!(found(&store, &stale).await, Err(Fault(N3Status::Stale)));
        let own = handles().of(&path("/base/a")).unwrap();
        let invented = |below: &[u8]| [&own[..HEAD_BYTES], below].concat();
        for below in [&b"../etc"[..], b"a/../../b", b"/a", b"a/", b"a//b", b"a\0", b"\xff"] {
            assert_eq!(found(&store, &invented(below)).await, Err(Fault(N3Status::Badhandle)), "{below:?}");
        }
        let mut long = invented(&[0; MOST_BYTES - HEAD_BYTES]);
        long[0] = LONG;
        for handle in [&long[..], &long[..20], &[], &[SHORT], &[9; 64]] {
            assert!(found(&store, handle).await.is_err());
        }
    }

    #[test]
    fn names_beside_the_export_are_not_below_it() {
        let handles = Handles::new("file:///", StorePath::root());
        assert_eq!(handles.below(&path("/a/b")), "a/b");
        assert_eq!(handles.below(handles.root()), "");
        assert_ne!(handles.fileid(&path("/a")), handles.fileid(&path("/b")));
    }
}

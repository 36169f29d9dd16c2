//! A writer's journal: every name and byte that a cluster has acknowledged to it.

use crate::{load::REPLICATION, support::superuser};
use bytes::Bytes;
use std::{collections::BTreeMap, ops::Range, time::Duration};
use strait_kadoop_client::Client;
use strait_testkit::wait_until;

/// Time within which acknowledged bytes are readable again.
const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Entries of a page of a listing.
const PAGE: u32 = 100;

/// A name that a writer has made.
#[derive(Debug, Clone)]
pub enum Entry {
    Directory,
    File(FileEntry),
    /// Nobody knows whether the last operation on it was executed.
    Doubtful,
}

/// Acknowledgements of a file's bytes.
#[derive(Debug, Clone, Default)]
pub struct FileEntry {
    /// Decides its bytes.
    pub seed: u64,
    /// Bytes given to the client library.
    pub written: usize,
    /// Bytes acknowledged as synced.
    pub synced: usize,
    /// Length after a close that succeeded.
    pub closed: Option<usize>,
    /// Bytes acknowledged as flushed, and how many replicas had them.
    pub flushed: usize,
    pub flushed_at: usize,
    /// Length of the log of strikes before that flush.
    pub strikes: usize,
}

impl FileEntry {
    /// Bytes that must be there. A flush counts if fewer datanodes than had the bytes were struck
    /// since: `log` names those that were.
    fn floor(&self, log: &[usize]) -> usize {
        let mut struck: Vec<usize> = log[self.strikes.min(log.len())..].to_vec();
        struck.sort_unstable();
        struck.dedup();
        match struck.len() < self.flushed_at {
            true => self.synced.max(self.flushed),
            false => self.synced,
        }
    }
}

/// Bytes of a file. Those of two files, or of two places in one, differ.
pub fn content(seed: u64, range: Range<usize>) -> Bytes {
    let word = |at: usize| {
        let mixed = (seed ^ (at as u64 / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 32)).to_le_bytes()[at % 8]
    };
    range.map(word).collect()
}

/// All that was acknowledged below one directory.
#[derive(Debug, Default)]
pub struct Journal {
    pub entries: BTreeMap<String, Entry>,
}

impl Journal {
    /// A file's entry.
    ///
    /// # Panics
    /// If there is none.
    pub fn file(&mut self, path: &str) -> &mut FileEntry {
        match self.entries.get_mut(path) {
            Some(Entry::File(file)) => file,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A rename, which moves a whole tree.
    pub fn rename(&mut self, from: &str, to: &str) {
        for path in self.tree(from) {
            let entry = self.entries.remove(&path).expect("it was just listed");
            self.entries.insert(format!("{to}{}", &path[from.len()..]), entry);
        }
    }

    /// A removal of a tree.
    pub fn remove(&mut self, path: &str) {
        for path in self.tree(path) {
            self.entries.remove(&path);
        }
    }

    /// An operation on these names failed, and may have been executed or not.
    pub fn doubt(&mut self, paths: &[&str]) {
        for path in paths {
            for path in self.tree(path) {
                self.entries.insert(path, Entry::Doubtful);
            }
            self.entries.insert((*path).to_owned(), Entry::Doubtful);
        }
    }

    fn tree(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let inside = |name: &&String| name.as_str() == path || name.starts_with(&below);
        self.entries.keys().filter(inside).cloned().collect()
    }

    /// Whether nobody knows what is at or below a name.
    fn is_doubtful(&self, path: &str) -> bool {
        let at_or_above = |doubtful: &str| path == doubtful || path.starts_with(&format!("{doubtful}/"));
        let doubtful =
            |(name, entry): (&String, &Entry)| matches!(entry, Entry::Doubtful) && at_or_above(name);
        self.entries.iter().any(doubtful)
    }

    /// Adds the differences between the journal and the cluster below `root`: names and bytes that are
    /// lost, doubled, or others. Once all writers have ended (`is_settled`), all that is there can be
    /// read. After the first difference it waits for no recovery.
    pub fn compare(
        &self,
        client: &Client,
        root: &str,
        strikes: &[usize],
        is_settled: bool,
        flaws: &mut Vec<String>,
    ) {
        flaws.extend(self.flaws_of_names(client, root));
        for (path, entry) in &self.entries {
            if let Entry::File(file) = entry {
                let deadline = if flaws.is_empty() { READ_DEADLINE } else { Duration::ZERO };
                let bounds = Bounds {
                    least: file.closed.unwrap_or_else(|| file.floor(strikes)),
                    most: file.closed.unwrap_or(file.written),
                };
                let mut flaw = None;
                wait_until(deadline, || match flaw_of_bytes(client, path, file.seed, &bounds, is_settled) {
                    Ok(()) => {
                        flaw = None;
                        true
                    }
                    Err(found) => {
                        let is_final = found.is_final;
                        flaw = Some(format!("{path}: {}, of {file:?}", found.why));
                        is_final
                    }
                });
                flaws.extend(flaw);
            }
        }
    }

    fn flaws_of_names(&self, client: &Client, root: &str) -> Vec<String> {
        let mut found = BTreeMap::new();
        list(client, root, &mut found);
        let mut flaws = Vec::new();
        for (path, entry) in &self.entries {
            let directory = match entry {
                Entry::Directory => true,
                Entry::File(_) => false,
                Entry::Doubtful => continue,
            };
            match found.get(path) {
                None => flaws.push(format!("{path}: the name is lost")),
                Some(is) if *is != directory => flaws.push(format!("{path}: not of its kind")),
                Some(_) => {}
            }
        }
        let unknown =
            found.keys().filter(|path| !self.entries.contains_key(*path) && !self.is_doubtful(path));
        flaws.extend(unknown.map(|path| format!("{path}: the name is there without an acknowledgement")));
        flaws
    }

    /// The reason why a closed file doesn't have exactly its replicas.
    pub fn not_whole(&self, client: &Client) -> Option<String> {
        self.entries.iter().find_map(|(path, entry)| match entry {
            Entry::File(FileEntry { closed: Some(length), .. }) => {
                let found = match client.locations(&superuser(), path, 0, u64::MAX) {
                    Ok(found) => found,
                    Err(failure) => return Some(format!("{path}: {failure}")),
                };
                let covered: u64 = found.iter().map(|part| part.length).sum();
                let odd = found.iter().find(|part| part.hosts.len() != usize::from(REPLICATION));
                match odd {
                    Some(odd) => Some(format!("{path}: {} replicas at {}", odd.hosts.len(), odd.offset)),
                    None if covered != *length as u64 => Some(format!("{path}: {covered} of {length} bytes")),
                    None => None,
                }
            }
            _ => None,
        })
    }
}

/// Names below a directory, and whether each is a directory.
fn list(client: &Client, directory: &str, found: &mut BTreeMap<String, bool>) {
    let mut after = String::new();
    loop {
        let page = client.list(&superuser(), directory, &after, PAGE).unwrap();
        for entry in &page.entries {
            let path = format!("{directory}/{}", entry.name);
            assert_eq!(found.insert(path.clone(), entry.directory), None, "{path} is listed twice");
            if entry.directory {
                list(client, &path, found);
            }
        }
        match page.entries.last() {
            Some(last) if page.more => after = last.name.to_string(),
            _ => return,
        }
    }
}

/// Lengths that a file may have.
struct Bounds {
    least: usize,
    most: usize,
}

/// A difference between a file and its journal.
struct Flaw {
    why: String,
    /// Errors and missing bytes may end with recovery. Other bytes, and bytes that nobody wrote, may
    /// not.
    is_final: bool,
}

fn flaw_of_bytes(
    client: &Client,
    path: &str,
    seed: u64,
    bounds: &Bounds,
    is_settled: bool,
) -> Result<(), Flaw> {
    let Bounds { least, most } = *bounds;
    let read = |bytes| client.open(&superuser(), path).and_then(|reader| reader.read_at(0, bytes));
    // Flushed bytes that are lost may be missed by readers until their idle writer goes on.
    let read = read(most + 1).or_else(|failure| if is_settled { Err(failure) } else { read(least) });
    let read = read.map_err(|failure| Flaw { why: failure.to_string(), is_final: false })?;
    let (is_final, why) = match read.len() {
        length if length > most => (true, format!("{length} bytes of {most} written")),
        length if read != content(seed, 0..length) => (true, format!("others among {length} bytes")),
        length if length < least => (false, format!("{length} bytes of {least} acknowledged")),
        _ => return Ok(()),
    };
    Err(Flaw { why, is_final })
}

//! The nodes that the kernel knows, and their names.
//!
//! A node's number is never reused. A node's path comes from its parents' names, so renaming a directory is
//! one change. A node without a name was removed, or replaced by another node.

use crate::ledger::{Counter, Ledger};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use strait_store::{Result, StorePath};

/// The number of the mount's own directory (FUSE_ROOT_ID).
pub const ROOT: u64 = 1;

/// A file's modification time and length when this mount last opened it for reading. If both are the same at
/// the next such opening, the bytes in the kernel's cache are still valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Last modification, in milliseconds since 1970.
    pub modified_ms: i64,
    /// The file's length.
    pub length: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Node {
    parent: u64,
    /// `None` once the node has no name.
    name: Option<Box<str>>,
    /// Number of references that the kernel holds.
    lookups: u64,
    /// Number of open handles, and of children that have a name or are in use.
    #[serde(skip)]
    uses: u64,
    /// Last change of attributes or name by this mount.
    changed: Option<SystemTime>,
    version: Option<Version>,
    /// When this process last changed the file's length or wrote its bytes to the store.
    #[serde(skip)]
    written: Option<Instant>,
}

/// All nodes, in a form for another process of the mount.
#[derive(Debug, Serialize, Deserialize)]
pub struct Known {
    last: u64,
    nodes: Vec<(u64, Node)>,
}

impl Known {
    /// The nodes as [`Ledger::node`] recorded them. Numbers up to `last` may have been assigned.
    ///
    /// # Errors
    /// A node's record can't be parsed.
    pub fn recorded<'a>(last: u64, recorded: impl Iterator<Item = (u64, &'a [u8])>) -> std::io::Result<Self> {
        let mut nodes = vec![(ROOT, Node::own())];
        for (number, bytes) in recorded {
            let node = serde_json::from_slice(bytes)?;
            match number {
                ROOT => nodes[0].1 = node,
                _ => nodes.push((number, node)),
            }
        }
        Ok(Self { last: last.max(ROOT), nodes })
    }
}

impl Node {
    /// The mount's own directory, as the kernel knows it at the start.
    fn own() -> Self {
        Self { parent: ROOT, name: None, lookups: 1, uses: 0, changed: None, version: None, written: None }
    }
}

/// All nodes.
#[derive(Debug)]
pub struct Nodes {
    /// Records each node, except its uses.
    ledger: Arc<Ledger>,
    /// The store's path of the mount's own directory.
    root: StorePath,
    nodes: HashMap<u64, Node>,
    by_name: HashMap<(u64, Box<str>), u64>,
    last: u64,
}

impl Nodes {
    /// Nodes with only the mount's own directory, which is `root` in the store.
    pub fn new(root: StorePath, ledger: Arc<Ledger>) -> Self {
        let nodes = HashMap::from([(ROOT, Node::own())]);
        Self { ledger, root, nodes, by_name: HashMap::new(), last: ROOT }
    }

    fn record(&self, number: u64) {
        self.ledger.node(number, self.nodes.get(&number));
    }

    /// Records all nodes.
    pub fn record_all(&self) {
        self.ledger.gives(Counter::Node, self.last);
        self.nodes.keys().for_each(|number| self.record(*number));
    }

    /// All nodes, without the uses by handles.
    pub fn known(&self) -> Known {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(number, node)| (*number, node.clone())).collect();
        nodes.sort_by_key(|(number, _)| *number);
        Known { last: self.last, nodes }
    }

    /// The nodes that another process knew. The caller adds the uses by its handles with [`Nodes::use_more`].
    ///
    /// # Errors
    /// The nodes don't form a tree.
    pub fn again(
        root: StorePath,
        ledger: Arc<Ledger>,
        known: Known,
    ) -> std::result::Result<Self, &'static str> {
        let mut all = Self { ledger, root, nodes: HashMap::new(), by_name: HashMap::new(), last: known.last };
        let mut children: HashMap<u64, Vec<u64>> = HashMap::new();
        for (number, node) in known.nodes {
            if number != ROOT {
                children.entry(node.parent).or_default().push(number);
                if let Some(name) = node.name.clone()
                    && all.by_name.insert((node.parent, name), number).is_some()
                {
                    return Err("two nodes have one name");
                }
            }
            if number > all.last || all.nodes.insert(number, node).is_some() {
                return Err("a node's number is wrong");
            }
        }
        // Check that all nodes are reachable from the root: paths are built by walking up to it.
        let (mut found, mut below) = (0, vec![ROOT]);
        while let Some(number) = below.pop() {
            let own = children.remove(&number).unwrap_or_default();
            let Some(node) = all.nodes.get_mut(&number) else { return Err("a node has no parent") };
            node.uses = own.len() as u64;
            found += 1;
            below.extend(own);
        }
        if found == all.nodes.len() { Ok(all) } else { Err("a node has no parent") }
    }

    /// The store's path of a node; `None` if the node has no name any more.
    pub fn path(&self, number: u64) -> Option<Result<StorePath>> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            let node = self.nodes.get(&at)?;
            names.push(node.name.as_deref()?);
            at = node.parent;
        }
        let mut path = self.root.as_str().trim_end_matches('/').to_owned();
        for name in names.iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        Some(if path.is_empty() { Ok(self.root.clone()) } else { StorePath::parse(&path) })
    }

    /// The number of the entry `name` of a directory, if the kernel knows it.
    pub fn find(&self, parent: u64, name: &str) -> Option<u64> {
        self.by_name.get(&(parent, name.into())).copied()
    }

    /// The number of an entry. Adds a reference of the kernel to it.
    pub fn looked_up(&mut self, parent: u64, name: &str) -> u64 {
        let key = (parent, Box::from(name));
        if let Some(number) = self.by_name.get(&key) {
            let number = *number;
            if let Some(node) = self.nodes.get_mut(&number) {
                node.lookups += 1;
            }
            self.record(number);
            return number;
        }
        self.last += 1;
        self.ledger.gives(Counter::Node, self.last);
        let name = Some(Box::from(name));
        let node = Node { parent, name, lookups: 1, uses: 0, changed: None, version: None, written: None };
        self.nodes.insert(self.last, node);
        self.by_name.insert(key, self.last);
        self.record(self.last);
        self.use_more(parent);
        self.last
    }

    /// Removes `times` references of the kernel to a node.
    pub fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
        }
        self.record(number);
        self.collect(number);
    }

    /// Records that a handle of the node was opened.
    pub fn use_more(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.uses += 1;
        }
    }

    /// Records that a handle of the node was closed.
    pub fn use_less(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.uses = node.uses.saturating_sub(1);
        }
        self.collect(number);
    }

    /// Removes all nodes without references. Their removal was lost when the earlier process was killed.
    pub fn collect_all(&mut self) {
        let numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.collect(number));
    }

    /// Removes a node without references, and then its parents that have none any more.
    fn collect(&mut self, number: u64) {
        let mut at = number;
        while at != ROOT
            && let Some(node) = self.nodes.get(&at)
            && node.lookups == 0
            && node.uses == 0
        {
            let Some(node) = self.nodes.remove(&at) else { return };
            self.record(at);
            if let Some(name) = node.name {
                self.by_name.remove(&(node.parent, name));
            }
            if let Some(parent) = self.nodes.get_mut(&node.parent) {
                parent.uses = parent.uses.saturating_sub(1);
            }
            at = node.parent;
        }
    }

    /// Records that an entry was removed or replaced.
    pub fn unlink(&mut self, parent: u64, name: &str) {
        if let Some(number) = self.by_name.remove(&(parent, name.into()))
            && let Some(node) = self.nodes.get_mut(&number)
        {
            node.name = None;
            node.changed = Some(SystemTime::now());
            self.record(number);
        }
    }

    /// Records that an entry got another name, and replaced the entry with that name.
    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) {
        self.unlink(to.0, to.1);
        let Some(number) = self.by_name.remove(&(from.0, from.1.into())) else { return };
        self.by_name.insert((to.0, to.1.into()), number);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.parent = to.0;
            node.name = Some(to.1.into());
            node.changed = Some(SystemTime::now());
        }
        self.record(number);
        self.use_more(to.0);
        self.use_less(from.0);
    }

    /// Remembers that this mount changed the node's attributes.
    pub fn change(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.changed = Some(SystemTime::now());
            self.record(number);
        }
    }

    /// Time of the last change of the node by this mount.
    pub fn changed(&self, number: u64) -> Option<SystemTime> {
        self.nodes.get(&number)?.changed
    }

    /// Whether a file has the same version as at its last opening. Remembers this version.
    pub fn same_version(&mut self, number: u64, version: Version) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        if node.version.as_ref() == Some(&version) {
            return true;
        }
        node.version = Some(version);
        self.record(number);
        false
    }

    /// Records that the file's status in the store changes: entries that were listed before are out of date.
    pub fn write(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.written = Some(Instant::now());
        }
    }

    /// Whether the file was written after `then`.
    pub fn is_written_since(&self, number: u64, then: Instant) -> bool {
        self.nodes.get(&number).and_then(|node| node.written).is_some_and(|written| written >= then)
    }

    /// Records that the file's bytes change, so that the kernel's cache of them isn't valid any more.
    pub fn forget_version(&mut self, number: u64) {
        self.write(number);
        if let Some(node) = self.nodes.get_mut(&number)
            && node.version.take().is_some()
        {
            self.record(number);
        }
    }

    /// Whether the node is this entry, or is beneath it.
    pub fn is_at_or_beneath(&self, number: u64, (parent, name): &(u64, Box<str>)) -> bool {
        let mut at = number;
        while at != ROOT
            && let Some(node) = self.nodes.get(&at)
            && node.name.is_some()
        {
            if node.parent == *parent && node.name.as_ref() == Some(name) {
                return true;
            }
            at = node.parent;
        }
        false
    }

    /// The directory that contains a node, and the node's name there.
    pub fn entry(&self, number: u64) -> Option<(u64, Box<str>)> {
        let node = self.nodes.get(&number)?;
        Some((node.parent, node.name.clone()?))
    }

    /// Whether `number` is the node `above`, or beneath it.
    pub fn is_within(&self, number: u64, above: u64) -> bool {
        let mut at = number;
        while at != above {
            match self.nodes.get(&at) {
                Some(node) if at != ROOT && node.name.is_some() => at = node.parent,
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Nodes {
        Nodes::new(StorePath::parse("/base").unwrap(), Arc::default())
    }

    fn path(nodes: &Nodes, number: u64) -> Option<String> {
        nodes.path(number).map(|path| path.unwrap().as_str().to_owned())
    }

    #[test]
    fn a_renamed_directory_takes_its_entries_along() {
        let mut nodes = nodes();
        let directory = nodes.looked_up(ROOT, "a");
        let file = nodes.looked_up(directory, "f");
        let other = nodes.looked_up(ROOT, "b");
        assert_eq!(path(&nodes, file).unwrap(), "/base/a/f");
        nodes.rename((ROOT, "a"), (other, "c"));
        assert_eq!(path(&nodes, file).unwrap(), "/base/b/c/f");
        assert_eq!(nodes.find(ROOT, "a"), None);
        assert!(nodes.is_within(file, other) && !nodes.is_within(other, file));
    }

    #[test]
    fn a_replaced_node_has_no_path_and_another_number_than_its_successor() {
        let mut nodes = nodes();
        let (old, new) = (nodes.looked_up(ROOT, "old"), nodes.looked_up(ROOT, "new"));
        nodes.rename((ROOT, "new"), (ROOT, "old"));
        assert_eq!(path(&nodes, old), None);
        assert_eq!(path(&nodes, new).unwrap(), "/base/old");
        assert_eq!(nodes.looked_up(ROOT, "old"), new);
    }

    #[test]
    fn nodes_go_when_kernel_handles_and_entries_are_done_with_them() {
        let mut nodes = nodes();
        let directory = nodes.looked_up(ROOT, "a");
        let file = nodes.looked_up(directory, "f");
        nodes.use_more(file);
        nodes.forget(directory, 1);
        nodes.forget(file, 1);
        assert_eq!(path(&nodes, file).unwrap(), "/base/a/f");
        nodes.use_less(file);
        assert_eq!(nodes.nodes.len(), 1);
        assert!(nodes.by_name.is_empty());
        let again = nodes.looked_up(ROOT, "a");
        assert!(again > file, "numbers are never given again");
    }

    #[test]
    fn another_process_knows_the_same_nodes() {
        let mut nodes = nodes();
        let directory = nodes.looked_up(ROOT, "a");
        let file = nodes.looked_up(directory, "f");
        nodes.looked_up(directory, "f");
        let removed = nodes.looked_up(directory, "g");
        nodes.unlink(directory, "g");
        nodes.use_more(file);
        let known = serde_json::to_vec(&nodes.known()).unwrap();
        let base = StorePath::parse("/base").unwrap();
        let mut again = Nodes::again(base, Arc::default(), serde_json::from_slice(&known).unwrap()).unwrap();
        again.use_more(file);
        assert_eq!(path(&again, file).unwrap(), "/base/a/f");
        assert_eq!((path(&again, removed), again.changed(removed)), (None, nodes.changed(removed)));
        // Both forget each node at the same time.
        for nodes in [&mut nodes, &mut again] {
            nodes.forget(directory, 1);
            nodes.forget(removed, 1);
            nodes.forget(file, 1);
            nodes.use_less(file);
            assert_eq!(nodes.nodes.len(), 3);
            nodes.forget(file, 1);
            assert_eq!(nodes.nodes.len(), 1);
            assert_eq!(nodes.looked_up(ROOT, "a"), removed + 1);
        }
    }

    #[test]
    fn nodes_that_are_no_tree_are_refused() {
        let refused = |text: &str| {
            let known = serde_json::from_str(text).unwrap();
            Nodes::again(StorePath::root(), Arc::default(), known).unwrap_err()
        };
        let node = |number: u64, parent: u64, name: &str| {
            format!(
                r#"[{number},{{"parent":{parent},"name":"{name}","lookups":1,"changed":null,"version":null}}]"#
            )
        };
        let root = node(1, 1, "");
        let all = |last: u64, nodes: &[String]| format!(r#"{{"last":{last},"nodes":[{}]}}"#, nodes.join(","));
        let turn = [root.clone(), node(2, 3, "a"), node(3, 2, "b")];
        assert_eq!(refused(&all(3, &turn)), "a node has no parent");
        assert_eq!(refused(&all(3, &turn[1..2])), "a node has no parent");
        assert_eq!(refused(&all(2, &[root.clone(), node(3, 1, "a")])), "a node's number is wrong");
        let twins = [root, node(2, 1, "a"), node(3, 1, "a")];
        assert_eq!(refused(&all(3, &twins)), "two nodes have one name");
    }

    #[test]
    fn unlinked_nodes_give_back_their_parents_too() {
        let mut nodes = nodes();
        let directory = nodes.looked_up(ROOT, "a");
        let file = nodes.looked_up(directory, "f");
        nodes.unlink(directory, "f");
        nodes.forget(file, 1);
        nodes.unlink(ROOT, "a");
        nodes.forget(directory, 1);
        assert_eq!(nodes.nodes.len(), 1);
    }
}

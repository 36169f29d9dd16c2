//! The namespace of the store in memory: plain data, no locks, no tasks.

use super::permission::{Access, READ, STICKY, TRAVERSE, WRITE, checked};
use crate::clock::now_ms;
use crate::{
    CreateOptions, ErrorKind, FileStatus, FileType, MAX_CONCAT_SOURCES, Principal, Result, SetAttributes,
    StorePath, arguments, fail,
};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

const DEFAULT_FILE_PERMISSION: u32 = 0o644;
const DEFAULT_DIRECTORY_PERMISSION: u32 = 0o755;
const DEFAULT_BLOCK_BYTES: u64 = 64 << 20;
const ROOT: NodeId = NodeId(0);

/// A file's flushed bytes. Readers keep them after the file is removed.
pub(super) type Content = Arc<Mutex<Vec<u8>>>;

/// A node's number, which is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u64);

struct Node {
    kind: Kind,
    access: Access,
    modified_ms: i64,
    accessed_ms: i64,
}

enum Kind {
    Directory(BTreeMap<String, NodeId>),
    File(File),
}

struct File {
    content: Content,
    being_written: bool,
    replication: u16,
    block_size: u64,
}

pub(super) struct Tree {
    nodes: HashMap<NodeId, Node>,
    next_id: u64,
    made_ms: i64,
    superuser: String,
}

impl Tree {
    pub(super) fn new(superuser: &str) -> Self {
        let access = Access {
            owner: superuser.to_owned(),
            group: superuser.to_owned(),
            permission: DEFAULT_DIRECTORY_PERMISSION,
        };
        let root = Node::new(Kind::Directory(BTreeMap::new()), access);
        let nodes = HashMap::from([(ROOT, root)]);
        Self { nodes, next_id: 1, made_ms: now_ms(), superuser: superuser.to_owned() }
    }

    pub(super) fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let id = self.resolve(who, path)?;
        Ok(self.status_of(id, path.as_str()))
    }

    /// Up to `limit` entries whose names come after `after`.
    pub(super) fn list_page(
        &self,
        who: &Principal,
        path: &StorePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileStatus>> {
        let id = self.resolve(who, path)?;
        let Kind::Directory(entries) = &self.node(id).kind else {
            return Ok(vec![self.status_of(id, path.as_str())]);
        };
        self.require(who, id, READ)?;
        let prefix = if path.is_root() { "" } else { path.as_str() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = entries.range::<str, _>((from, Bound::Unbounded)).take(limit);
        Ok(page.map(|(name, id)| self.status_of(*id, &format!("{prefix}/{name}"))).collect())
    }

    /// The file's identity, and its content.
    pub(super) fn open(&mut self, who: &Principal, path: &StorePath) -> Result<(Bytes, Content)> {
        let id = self.resolve(who, path)?;
        let content = self.file(id)?.content.clone();
        self.require(who, id, READ)?;
        self.node_mut(id).accessed_ms = now_ms();
        // Node numbers begin anew in each process, so the identity includes the time of the store's creation.
        let identity = [self.made_ms.to_le_bytes(), id.0.to_le_bytes()].concat();
        Ok((identity.into(), content))
    }

    /// Length, and bytes per block.
    pub(super) fn file_size(&self, who: &Principal, path: &StorePath) -> Result<(u64, u64)> {
        let id = self.resolve(who, path)?;
        let file = self.file(id)?;
        self.require(who, id, READ)?;
        Ok((super::lock(&file.content).len() as u64, file.block_size))
    }

    pub(super) fn create(
        &mut self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<NodeId> {
        let permission = checked(options.permission, DEFAULT_FILE_PERMISSION)?;
        let block_size = options.block_size.unwrap_or(DEFAULT_BLOCK_BYTES);
        if block_size == 0 {
            return fail(ErrorKind::InvalidArgument, "a block has at least one byte");
        }
        let Some(parent_path) = path.parent() else {
            return fail(ErrorKind::AlreadyExists, "the root is a directory");
        };
        let parent = self.make_directories(who, &parent_path, DEFAULT_DIRECTORY_PERMISSION)?;
        self.require(who, parent, TRAVERSE)?;
        if let Some(existing) = self.child(parent, path.name()) {
            match &self.node(existing).kind {
                Kind::Directory(_) => {
                    return fail(ErrorKind::AlreadyExists, "there is a directory of that name");
                }
                Kind::File(_) if !options.overwrite => {
                    return fail(ErrorKind::AlreadyExists, "there is a file of that name");
                }
                Kind::File(file) if file.being_written => return busy(),
                Kind::File(_) => {}
            }
            self.require(who, existing, WRITE)?;
            self.nodes.remove(&existing);
        } else {
            self.require(who, parent, WRITE)?;
        }
        let file = File {
            content: Content::default(),
            being_written: true,
            replication: options.replication.unwrap_or(1),
            block_size,
        };
        Ok(self.insert(parent, path.name(), Kind::File(file), who, permission))
    }

    /// The node to append to, and its length.
    pub(super) fn append(&mut self, who: &Principal, path: &StorePath) -> Result<(NodeId, u64)> {
        let id = self.writable(who, path)?;
        let file = self.file_mut(id)?;
        file.being_written = true;
        let length = super::lock(&file.content).len() as u64;
        Ok((id, length))
    }

    pub(super) fn truncate(&mut self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        let id = self.writable(who, path)?;
        let mut content = super::lock(&self.file(id)?.content);
        match usize::try_from(length) {
            Ok(length) if length <= content.len() => content.truncate(length),
            _ => return fail(ErrorKind::InvalidArgument, "the file is shorter than the new length"),
        }
        drop(content);
        self.node_mut(id).modified_ms = now_ms();
        Ok(())
    }

    /// Appends the sources' bytes to the target, and removes them.
    pub(super) fn concat(
        &mut self,
        who: &Principal,
        target: &StorePath,
        sources: &[StorePath],
    ) -> Result<()> {
        if sources.is_empty() || sources.len() > MAX_CONCAT_SOURCES {
            return fail(ErrorKind::InvalidArgument, "concat takes 1 to 1,000 source files");
        }
        let id = self.writable(who, target)?;
        let mut joined = super::lock(&self.file(id)?.content).clone();
        let mut moved = Vec::new();
        for source in sources {
            let named = |error: crate::Error| error.at("concat", source);
            let (parent, from) = self.joinable(who, target, source).map_err(named)?;
            if from == id || moved.contains(&from) {
                return fail(ErrorKind::InvalidArgument, "a file is named twice").map_err(named);
            }
            joined.extend_from_slice(&super::lock(&self.file(from)?.content));
            self.require_removal(who, parent, from).map_err(named)?;
            moved.push(from);
        }
        // A new value replaces the old bytes, which open readers may still use.
        self.file_mut(id)?.content = Arc::new(Mutex::new(joined));
        self.node_mut(id).modified_ms = now_ms();
        for source in sources {
            let parent = source.parent().map(|parent| self.resolve(who, &parent)).transpose()?;
            parent.into_iter().for_each(|parent| self.unlink(parent, source.name()));
        }
        Ok(())
    }

    /// A source of a concat, and its directory.
    fn joinable(&self, who: &Principal, target: &StorePath, source: &StorePath) -> Result<(NodeId, NodeId)> {
        let id = self.resolve(who, source)?;
        let file = self.file(id)?;
        self.require(who, id, READ)?;
        if file.being_written {
            return busy();
        }
        if super::lock(&file.content).is_empty() {
            return fail(ErrorKind::InvalidArgument, "an empty file can't be joined");
        }
        let Some(parent) = source.parent().filter(|parent| target.parent().as_ref() == Some(parent)) else {
            return fail(ErrorKind::InvalidArgument, "only files of one directory can be joined");
        };
        Ok((self.resolve(who, &parent)?, id))
    }

    /// Makes a writer's bytes visible.
    pub(super) fn publish(&mut self, id: NodeId, bytes: &[u8]) -> Result<()> {
        if !self.nodes.contains_key(&id) {
            return fail(ErrorKind::NotFound, "the file was removed while it was written");
        }
        super::lock(&self.file(id)?.content).extend_from_slice(bytes);
        self.node_mut(id).modified_ms = now_ms();
        Ok(())
    }

    /// Marks a writer's file as no longer being written.
    pub(super) fn release(&mut self, id: NodeId) {
        if let Some(Node { kind: Kind::File(file), .. }) = self.nodes.get_mut(&id) {
            file.being_written = false;
        }
    }

    pub(super) fn rename(
        &mut self,
        who: &Principal,
        from: &StorePath,
        to: &StorePath,
        replace: bool,
    ) -> Result<()> {
        let (from_parent, id) = self.removable(who, from)?;
        if from == to {
            return fail(ErrorKind::AlreadyExists, "the new name is the old one");
        }
        let Some(to_parent_path) = to.parent() else {
            return fail(ErrorKind::AlreadyExists, "the root is a directory");
        };
        if from.contains(to) {
            return Err(arguments::into_itself());
        }
        let to_parent = self.resolve(who, &to_parent_path)?;
        self.directory(to_parent)?;
        self.require(who, to_parent, WRITE | TRAVERSE)?;
        if let Some(existing) = self.child(to_parent, to.name()) {
            if !replace {
                return fail(ErrorKind::AlreadyExists, "the new name is taken");
            }
            self.require_removal(who, to_parent, existing)?;
            if to.contains(from) {
                return fail(ErrorKind::NotEmpty, "the target directory contains the source");
            }
            match (&self.node(id).kind, &self.node(existing).kind) {
                (Kind::File(_), Kind::File(_)) => {}
                (Kind::Directory(_), Kind::Directory(entries)) if entries.is_empty() => {}
                (Kind::Directory(_), Kind::Directory(_)) => {
                    return fail(ErrorKind::NotEmpty, "the target directory isn't empty");
                }
                (Kind::File(_), Kind::Directory(_)) => {
                    return fail(ErrorKind::IsADirectory, "a file can't replace a directory");
                }
                (Kind::Directory(_), Kind::File(_)) => {
                    return fail(ErrorKind::NotADirectory, "a directory can't replace a file");
                }
            }
            self.unlink(to_parent, to.name());
        }
        // The node keeps its number, so an open writer stays valid.
        self.entries_mut(from_parent).remove(from.name());
        self.entries_mut(to_parent).insert(to.name().to_owned(), id);
        Ok(())
    }

    pub(super) fn remove(&mut self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        let (parent, id) = self.removable(who, path)?;
        if let Kind::Directory(entries) = &self.node(id).kind
            && !entries.is_empty()
        {
            if !recursive {
                return fail(ErrorKind::NotEmpty, "the directory has entries");
            }
            self.require_removal_of_entries(who, id)?;
        }
        self.unlink(parent, path.name());
        Ok(())
    }

    pub(super) fn mkdirs(
        &mut self,
        who: &Principal,
        path: &StorePath,
        permission: Option<u32>,
    ) -> Result<()> {
        let permission = checked(permission, DEFAULT_DIRECTORY_PERMISSION)?;
        let at_itself = self.resolve(who, path).map(|id| self.directory(id).is_ok());
        match at_itself {
            Ok(true) => Ok(()),
            Ok(false) => fail(ErrorKind::AlreadyExists, "there is a file of that name"),
            Err(_) => self.make_directories(who, path, permission).map(drop),
        }
    }

    pub(super) fn set_attributes(
        &mut self,
        who: &Principal,
        path: &StorePath,
        set: &SetAttributes,
    ) -> Result<()> {
        let id = self.resolve(who, path)?;
        let superuser = self.is_superuser(who);
        let owner = superuser || *who.user == *self.node(id).access.owner;
        let joins = set.group.as_ref().is_none_or(|group| who.groups.contains(group));
        if !superuser && (set.owner.is_some() || !owner || !joins) {
            return fail(
                ErrorKind::PermissionDenied,
                "only the owner can set attributes, and only the superuser can set owners",
            );
        }
        let permission = checked(set.permission, self.node(id).access.permission)?;
        let node = self.node_mut(id);
        match (&mut node.kind, set.replication) {
            (Kind::File(_), Some(0)) => {
                return fail(ErrorKind::InvalidArgument, "a file has at least one replica");
            }
            (Kind::File(file), Some(replication)) => file.replication = replication,
            (Kind::Directory(_), Some(_)) => {
                return fail(ErrorKind::IsADirectory, "a directory has no replication");
            }
            (_, None) => {}
        }
        node.access.permission = permission;
        node.access.owner = set.owner.clone().unwrap_or_else(|| node.access.owner.clone());
        node.access.group = set.group.clone().unwrap_or_else(|| node.access.group.clone());
        node.modified_ms = set.modified_ms.unwrap_or(node.modified_ms);
        node.accessed_ms = set.accessed_ms.unwrap_or(node.accessed_ms);
        Ok(())
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let lengths = self.nodes.values().filter_map(|node| match &node.kind {
            Kind::File(file) => Some(super::lock(&file.content).len() as u64),
            Kind::Directory(_) => None,
        });
        lengths.sum()
    }

    /// The node at `path`; `who` must be able to traverse every directory above.
    fn resolve(&self, who: &Principal, path: &StorePath) -> Result<NodeId> {
        let mut id = ROOT;
        for name in path.relative().split('/').filter(|name| !name.is_empty()) {
            self.directory(id)?;
            self.require(who, id, TRAVERSE)?;
            match self.child(id, name) {
                Some(child) => id = child,
                None => return fail(ErrorKind::NotFound, "no such file or directory"),
            }
        }
        Ok(id)
    }

    /// The directory at `path`. If it is missing, makes it with its missing parents.
    fn make_directories(&mut self, who: &Principal, path: &StorePath, permission: u32) -> Result<NodeId> {
        match self.resolve(who, path) {
            Ok(id) => return self.directory(id).map(|_| id),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let Some(parent_path) = path.parent() else {
            return Ok(ROOT);
        };
        let parent = self.make_directories(who, &parent_path, DEFAULT_DIRECTORY_PERMISSION)?;
        self.require(who, parent, WRITE | TRAVERSE)?;
        Ok(self.insert(parent, path.name(), Kind::Directory(BTreeMap::new()), who, permission))
    }

    /// The file at `path`, if it has no writer and `who` may write it.
    fn writable(&self, who: &Principal, path: &StorePath) -> Result<NodeId> {
        let id = self.resolve(who, path)?;
        let being_written = self.file(id)?.being_written;
        self.require(who, id, WRITE)?;
        if being_written { busy() } else { Ok(id) }
    }

    /// The node at `path` and its directory, if `who` may remove it.
    fn removable(&self, who: &Principal, path: &StorePath) -> Result<(NodeId, NodeId)> {
        let Some(parent_path) = path.parent() else {
            return fail(ErrorKind::InvalidArgument, "the root can't be renamed or removed");
        };
        let id = self.resolve(who, path)?;
        let parent = self.resolve(who, &parent_path)?;
        self.require_removal(who, parent, id)?;
        Ok((parent, id))
    }

    fn require_removal(&self, who: &Principal, parent: NodeId, id: NodeId) -> Result<()> {
        self.require(who, parent, WRITE | TRAVERSE)?;
        let (directory, entry) = (&self.node(parent).access, &self.node(id).access);
        let owner = *who.user == *directory.owner || *who.user == *entry.owner;
        if directory.permission & STICKY != 0 && !owner && !self.is_superuser(who) {
            return fail(
                ErrorKind::PermissionDenied,
                "the directory is sticky, and another user owns the entry",
            );
        }
        Ok(())
    }

    fn require_removal_of_entries(&self, who: &Principal, directory: NodeId) -> Result<()> {
        let mut unchecked = vec![directory];
        while let Some(directory) = unchecked.pop() {
            for id in self.directory(directory)?.values() {
                self.require_removal(who, directory, *id)?;
                if self.directory(*id).is_ok() {
                    unchecked.push(*id);
                }
            }
        }
        Ok(())
    }

    fn require(&self, who: &Principal, id: NodeId, wanted: u32) -> Result<()> {
        if self.is_superuser(who) || self.node(id).access.allows(who, wanted) {
            return Ok(());
        }
        fail(ErrorKind::PermissionDenied, format!("permission denied to {}", who.user))
    }

    fn is_superuser(&self, who: &Principal) -> bool {
        *who.user == *self.superuser
    }

    fn insert(&mut self, parent: NodeId, name: &str, kind: Kind, who: &Principal, permission: u32) -> NodeId {
        let id = NodeId(self.next_id);
        self.next_id += 1;
        // The group comes from the directory, as in HDFS.
        let group = self.node(parent).access.group.clone();
        let access = Access { owner: who.user.to_string(), group, permission };
        self.nodes.insert(id, Node::new(kind, access));
        self.entries_mut(parent).insert(name.to_owned(), id);
        id
    }

    fn unlink(&mut self, parent: NodeId, name: &str) {
        let mut gone: Vec<NodeId> = self.entries_mut(parent).remove(name).into_iter().collect();
        while let Some(id) = gone.pop() {
            if let Some(Node { kind: Kind::Directory(entries), .. }) = self.nodes.remove(&id) {
                gone.extend(entries.into_values());
            }
        }
    }

    fn status_of(&self, id: NodeId, path: &str) -> FileStatus {
        let node = self.node(id);
        let (file_type, length, replication, block_size) = match &node.kind {
            Kind::Directory(_) => (FileType::Directory, 0, 0, 0),
            Kind::File(file) => {
                let length = super::lock(&file.content).len() as u64;
                (FileType::File, length, file.replication, file.block_size)
            }
        };
        FileStatus {
            path: path.to_owned(),
            file_type,
            length,
            replication,
            block_size,
            modified_ms: node.modified_ms,
            accessed_ms: node.accessed_ms,
            permission: node.access.permission,
            owner: node.access.owner.clone(),
            group: node.access.group.clone(),
            link: false,
        }
    }

    fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        self.directory(parent).ok()?.get(name).copied()
    }

    fn directory(&self, id: NodeId) -> Result<&BTreeMap<String, NodeId>> {
        match &self.node(id).kind {
            Kind::Directory(entries) => Ok(entries),
            Kind::File(_) => fail(ErrorKind::NotADirectory, "not a directory"),
        }
    }

    fn file(&self, id: NodeId) -> Result<&File> {
        match &self.node(id).kind {
            Kind::File(file) => Ok(file),
            Kind::Directory(_) => fail(ErrorKind::IsADirectory, "it is a directory"),
        }
    }

    fn file_mut(&mut self, id: NodeId) -> Result<&mut File> {
        match &mut self.node_mut(id).kind {
            Kind::File(file) => Ok(file),
            Kind::Directory(_) => fail(ErrorKind::IsADirectory, "it is a directory"),
        }
    }

    /// Entries of a node that the caller knows to be a directory.
    fn entries_mut(&mut self, id: NodeId) -> &mut BTreeMap<String, NodeId> {
        match &mut self.node_mut(id).kind {
            Kind::Directory(entries) => entries,
            Kind::File(_) => unreachable!("entries are only changed in directories"),
        }
    }

    /// Callers pass only numbers of live nodes, from a directory's entries in the same call.
    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("entries name live nodes")
    }
}

impl Node {
    fn new(kind: Kind, access: Access) -> Self {
        let now = now_ms();
        Self { kind, access, modified_ms: now, accessed_ms: now }
    }
}

fn busy<T>() -> Result<T> {
    fail(ErrorKind::Busy, "another writer has the file open")
}

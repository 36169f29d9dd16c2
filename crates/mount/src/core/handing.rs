//! The mount's state: sent to the next process that serves it, and received from the earlier one.

use super::{
    Access, Arc, AtomicU64, Body, Core, Counter, File, FileSystem, HIDDEN, Handle, Kept, Settings, StorePath,
    lock,
};
use crate::handover::{self, State, User};
use crate::listing::Listing;
use crate::logical::Logical;
use crate::nodes::Nodes;
use crate::plain::{Level, Plain};
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use strait_plfs::Container;
use strait_store::{Error, ErrorKind, Principal};

/// Number of files that are closed at the same time. Each close costs some round trips, during which programs
/// wait.
const CLOSING: usize = 32;

impl Core {
    /// Closes all writers, so that the next process finds all bytes in the store, and no lease. Files stay
    /// open for programs: the next write opens a new writer, in this process or the next.
    ///
    /// # Errors
    /// The reason why the mount can't be handed over.
    pub async fn close_writers(&self) -> Result<(), String> {
        let files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        if !self.store.capabilities().append {
            for file in &files {
                if let Body::Plain(plain) = &file.body
                    && plain.lock().await.is_dirty()
                {
                    let path = self.shown(file.node);
                    return Err(format!("{path} is being written, and its store can't append after a close"));
                }
            }
        }
        let closing = futures::stream::iter(files).map(async |file| {
            if let Body::Plain(plain) = &file.body
                && plain.lock().await.has_failed()
            {
                return Ok(()); // the next process reports the loss, too
            }
            self.settle_file(&file, Level::Closed).await.map_err(|fault| {
                let why = std::io::Error::from_raw_os_error(fault.0);
                format!("can't write the bytes of {} to the store: {why}", self.shown(file.node))
            })
        });
        let closed: Vec<Result<(), String>> = closing.buffer_unordered(CLOSING).collect().await;
        closed.into_iter().collect()
    }

    fn shown(&self, node: u64) -> String {
        self.path(node).map_or_else(|_| "a file".to_owned(), |path| path.to_string())
    }

    /// The state for the next process. Call [`Core::close_writers`] before, and keep requests out.
    pub async fn state(&self) -> State {
        let open: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        let mut places = HashMap::new();
        let mut files = Vec::with_capacity(open.len());
        for file in open {
            let body = match &file.body {
                Body::Logical(_) => handover::Body::Logical,
                Body::Plain(plain) => {
                    let (failed, identity) = plain.known().await;
                    let identity = identity.map(|identity| identity.to_vec());
                    let failed = failed.as_ref().map(handover::Failure::from);
                    handover::Body::Plain { failed, identity, written: None }
                }
            };
            places.insert(Arc::as_ptr(&file), files.len());
            files.push(handover::File { node: file.node, who: User::from(&file.who), body, number: 0 });
        }
        let open: Vec<(u64, Handle)> =
            lock(&self.handles).iter().map(|(number, handle)| (*number, handle.clone())).collect();
        let mut handles = Vec::with_capacity(open.len());
        for (number, handle) in open {
            handles.push(match handle {
                Handle::File { file, writes, appends } => {
                    let Some(file) = places.get(&Arc::as_ptr(&file)).copied() else { continue };
                    handover::Handle::File { number, file, writes, appends }
                }
                Handle::Directory(listing, node) => {
                    let listing = listing.lock().await;
                    let (who, path) = listing.of();
                    let (who, path) = (User::from(who), path.to_string());
                    handover::Handle::Directory { number, node, who, path }
                }
            });
        }
        State {
            nodes: lock(&self.nodes).known(),
            files,
            handles,
            last_handle: self.last_handle.load(Ordering::Relaxed),
            hidden: lock(&self.hidden).iter().map(|(node, who)| (*node, User::from(who))).collect(),
        }
    }

    /// Records the whole state that another process handed over.
    pub async fn record_all(&self) {
        let files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        for file in files {
            file.record();
            if let Body::Plain(plain) = &file.body {
                let (failed, identity) = plain.known().await;
                file.note().reading(identity.as_deref());
                if let Some(error) = failed {
                    file.note().failed(&handover::Failure::from(&error));
                }
            }
        }
        let handles: Vec<(u64, Handle)> =
            lock(&self.handles).iter().map(|(number, handle)| (*number, handle.clone())).collect();
        for (number, handle) in handles {
            self.ledger.handle(number, self.recorded(number, &handle).await, 0);
        }
        for (node, who) in lock(&self.hidden).iter() {
            self.ledger.hidden(*node, &User::from(who));
        }
        let (handle, file) = (&self.last_handle, &self.last_file);
        self.ledger.gives(Counter::Handle, handle.load(Ordering::Relaxed));
        self.ledger.gives(Counter::File, file.load(Ordering::Relaxed));
        lock(&self.nodes).record_all();
    }

    /// Completes what the earlier process began and no request will complete. Removes hidden files that no
    /// program has open. Flushes files that the earlier process was writing, so that other hosts can write
    /// them once they are closed here.
    pub async fn tidy(&self) {
        for node in &self.left {
            self.remove_hidden(*node).await;
            lock(&self.nodes).use_less(*node);
        }
        lock(&self.nodes).collect_all();
        let files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        let settling = futures::stream::iter(files).map(async |file| {
            if let Body::Plain(plain) = &file.body
                && plain.lock().await.is_dirty()
            {
                // A failure is logged, and the next sync or close of the file reports it, too.
                let _ = self.settle_file(&file, Level::Flushed).await;
            }
        });
        settling.buffer_unordered(CLOSING).collect::<()>().await;
    }

    /// A mount that continues with another process's state.
    ///
    /// # Errors
    /// The state contradicts itself.
    pub async fn again(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        settings: Settings,
        kept: Kept,
        state: State,
    ) -> Result<Self, &'static str> {
        let core = Self::new(store, root.clone(), settings, kept);
        *lock(&core.nodes) = Nodes::again(root, core.ledger.clone(), state.nodes)?;
        let principal = |who: &User| core.in_session(who.principal(&core.settings.identity));
        for (node, who) in &state.hidden {
            // The earlier process may have been killed after it recorded the removal and before it hid the
            // file.
            if core.path(*node).is_ok_and(|path| path.name().starts_with(HIDDEN)) {
                lock(&core.hidden).insert(*node, principal(who));
            }
        }
        let mut files = Vec::with_capacity(state.files.len());
        for file in state.files {
            let who = principal(&file.who);
            let access = match file.number {
                0 => core.access(&who),
                number => core.access_of(&who, number),
            };
            let body = core.body_again(file.node, &who, access, file.body).await;
            files.push(Arc::new(File { body, node: file.node, who }));
        }
        let mut last = state.last_handle;
        for handle in state.handles {
            let (number, node, handle) = match handle {
                handover::Handle::File { number, file, writes, appends } => {
                    let file = files.get(file).ok_or("a handle has no file")?.clone();
                    lock(&core.files).entry(file.key()).or_insert_with(|| (file.clone(), 0)).1 += 1;
                    (number, file.node, Handle::File { file, writes, appends })
                }
                handover::Handle::Directory { number, node, who, path } => {
                    let path = StorePath::parse(&path).map_err(|_| "a directory's path is wrong")?;
                    let listing = Listing::new(core.store.clone(), principal(&who), path);
                    (number, node, Handle::Directory(Arc::new(tokio::sync::Mutex::new(listing)), node))
                }
            };
            lock(&core.nodes).use_more(node);
            if lock(&core.handles).insert(number, handle).is_some() {
                return Err("two handles have one number");
            }
            last = last.max(number);
        }
        let mut left: Vec<u64> = lock(&core.hidden).keys().copied().collect();
        left.retain(|node| core.open_files(*node).is_empty());
        left.iter().for_each(|node| lock(&core.nodes).use_more(*node));
        Ok(Self { last_handle: AtomicU64::new(last), left, ..core })
    }

    /// Opens a file that the other process had open. If it can't be opened here, every use of it fails, as
    /// after lost bytes. The other files still work.
    async fn body_again(&self, node: u64, who: &Principal, access: Access, body: handover::Body) -> Body {
        match body {
            handover::Body::Plain { failed, identity, written } => {
                let (failed, identity) = (failed.map(Error::from), identity.map(bytes::Bytes::from));
                Body::Plain(Plain::again(access, failed, identity, written).await)
            }
            body @ (handover::Body::Logical | handover::Body::Unpublished(_)) => {
                let lost =
                    async |error| Body::Plain(Plain::again(access.clone(), Some(error), None, None).await);
                let Ok(path) = self.path(node) else {
                    return lost(Error::new(ErrorKind::NotFound, "the open file has no name any more")).await;
                };
                let open = || Container::open(self.store.clone(), who, &path);
                match self.settings.patience.with(open).await {
                    Ok(container) => {
                        let handover::Body::Unpublished(runs) = body else {
                            return Body::Logical(Logical::new(access, container));
                        };
                        match Logical::again(access.clone(), container, &runs) {
                            Ok(logical) => Body::Logical(logical),
                            Err(error) => lost(error).await,
                        }
                    }
                    Err(error) => {
                        tracing::warn!("{error}; it was open in the mount's earlier process");
                        lost(error).await
                    }
                }
            }
        }
    }
}

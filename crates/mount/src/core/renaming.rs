//! Removing and renaming, also of files that programs have open.

use super::{
    ASIDE, Answer, Body, Caller, Core, EACCES, EEXIST, EINVAL, EISDIR, EXDEV, Fault, File, HIDDEN, Held,
    Identity, encoded, lock, random,
};
use crate::claims::Claim;
use crate::handover::User;
use crate::plain::Level;
use std::ffi::OsStr;
use std::sync::Arc;
use strait_store::{ErrorKind, FileStatus, FileSystemExt, Principal, SetAttributes, StorePath};

impl Core {
    /// Waits for changes of names in progress. Until the claim is dropped, the node and the directories above
    /// keep their names.
    pub(super) async fn stay(&self, node: u64) -> Claim<'_> {
        self.claims.stay(node, &self.nodes).await
    }

    /// Waits for openings and other changes of these entries. Later ones wait until the claim is dropped.
    pub(super) async fn change(&self, entries: &[(u64, &str)]) -> Claim<'_> {
        let entries = entries.iter().map(|(parent, name)| (*parent, Box::from(*name))).collect();
        self.claims.change(entries, &self.nodes).await
    }

    /// Whether a node no longer has the path that it had when a request began. The caller must not hold a
    /// claim.
    pub(super) async fn has_moved(&self, node: u64, before: &StorePath) -> bool {
        drop(self.stay(node).await);
        self.path(node).is_ok_and(|path| path != *before)
    }

    /// Removes a file.
    pub async fn unlink(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<()> {
        self.check_writable()?;
        let (who, name, hidden) = (self.who(caller), encoded(name)?, self.hidden_name(caller));
        let changes = self.change(&[(parent, &name), (parent, &hidden)]).await;
        let path = self.entry(parent, &name)?;
        let node = lock(&self.nodes).find(parent, &name);
        if let Some(node) = node
            && !self.open_files(node).is_empty()
        {
            self.hide(caller, &who, (parent, &name), &hidden, node).await?;
            self.hidden_for_good(&who, node, changes).await;
            return Ok(());
        }
        let removed = async {
            if self.is_again(caller) {
                return self.unlink_again(&who, parent, &path, &hidden).await;
            }
            let (status, container) = self.status(&who, &path).await?;
            if status.is_directory() {
                return Err(Fault(EISDIR));
            }
            self.begins(caller);
            let remove = || self.store.remove(&who, &path, container.is_some());
            Ok(self.settings.patience.with(remove).await?)
        };
        self.or_gone(caller, removed.await)?;
        lock(&self.nodes).unlink(parent, &name);
        Ok(())
    }

    /// Completes a removal that a killed process began. That process may have left a part of a container, or
    /// a hidden file whose last handle it had closed.
    async fn unlink_again(&self, who: &Principal, parent: u64, path: &StorePath, hidden: &str) -> Answer<()> {
        if lock(&self.nodes).find(parent, hidden).is_some() {
            return Ok(()); // it is removed when its last handle is closed
        }
        let directory = path.parent().ok_or(Fault(EISDIR))?;
        self.remove_left(who, &directory.join(hidden)?).await;
        let remove = || self.store.remove(who, path, self.may_be_logical(path));
        Ok(self.settings.patience.with(remove).await?)
    }

    /// The hidden name of a file that a request removes or replaces while it is open.
    fn hidden_name(&self, caller: Caller) -> String {
        let number = match caller.request {
            0 => u64::from_le_bytes(random()),
            // A resent request gets the same name.
            request => self.nonce ^ request,
        };
        format!("{HIDDEN}{number:016x}")
    }

    /// Gives an open file its hidden name. This process removes the file with its last handle only after
    /// [`Core::hidden_for_good`]. If this process is killed, the next one removes it with its last handle.
    async fn hide(
        &self,
        caller: Caller,
        who: &Principal,
        (parent, name): (u64, &str),
        hidden: &str,
        node: u64,
    ) -> Answer<()> {
        // Record this first, so that after a kill the next process removes the file, too.
        self.ledger.hidden(node, &User::from(who));
        let moved = self.move_node(caller, who, (parent, name), (parent, hidden), Some(node), false).await;
        moved.inspect_err(|_| self.ledger.not_hidden(node))
    }

    /// From now on, the hidden file is removed with its last handle. Ends the change's claim.
    async fn hidden_for_good(&self, who: &Principal, node: u64, changes: Claim<'_>) {
        lock(&self.hidden).insert(node, who.clone());
        drop(changes);
        // The last handle may have been closed before.
        self.remove_hidden(node).await;
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<()> {
        self.check_writable()?;
        let (who, name) = (self.who(caller), encoded(name)?);
        let changes = self.change(&[(parent, &name)]).await;
        let path = self.entry(parent, &name)?;
        self.begins(caller);
        let remove = || self.store.remove(&who, &path, false);
        let mut removed = self.settings.patience.with(remove).await;
        let mut lifted = Vec::new();
        // If a killed process moved files out of the directory, their nodes may lack that move.
        if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotEmpty) || self.is_again(caller) {
            lifted = self.lift_hidden(caller, &who, parent, &name).await.unwrap_or_default();
            if removed.is_err() && !lifted.is_empty() {
                removed = self.settings.patience.with(remove).await;
            }
        }
        let answer = self.or_gone(caller, removed.map_err(Fault::from));
        if answer.is_ok() {
            lock(&self.nodes).unlink(parent, &name);
        }
        drop(changes);
        // The last handle may have been closed meanwhile.
        for node in lifted {
            self.remove_hidden(node).await;
        }
        answer
    }

    /// If a directory holds only removed files that programs have open, moves these into the directory above, since a
    /// program may remove the directory after all its files. Returns their nodes; some have moved if there is an error.
    async fn lift_hidden(
        &self,
        caller: Caller,
        who: &Principal,
        parent: u64,
        name: &str,
    ) -> Answer<Vec<u64>> {
        let Some(directory) = lock(&self.nodes).find(parent, name) else { return Ok(Vec::new()) };
        let mut hidden: Vec<(u64, Box<str>)> = {
            let (nodes, hidden) = (lock(&self.nodes), lock(&self.hidden));
            let entries = hidden.keys().filter_map(|node| Some((*node, nodes.entry(*node)?)));
            entries
                .filter(|(_, (above, _))| *above == directory)
                .map(|(node, (_, name))| (node, name))
                .collect()
        };
        if hidden.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.path(directory)?;
        let list = || self.store.list_all(who, &path, hidden.len() + 1);
        let present = match self.settings.patience.with(list).await {
            // A killed process has removed the directory.
            Err(error) if error.kind() == ErrorKind::NotFound && self.is_again(caller) => Vec::new(),
            listed => listed?,
        };
        if present.iter().any(|entry| !hidden.iter().any(|(_, name)| **name == *entry.name())) {
            return Ok(Vec::new()); // the directory stays, and so do these files
        }
        if !self.is_again(caller) {
            hidden.retain(|(_, name)| present.iter().any(|entry| *entry.name() == **name));
        }
        for entry in &present {
            self.keep_private(who, entry).await?;
        }
        let mut lifted = Vec::new();
        for (node, name) in hidden {
            let (from, to) = ((directory, &*name), (parent, &*name));
            self.move_node(caller, who, from, to, Some(node), false).await?;
            // This user has the rights in the directory above that the removal needs.
            lock(&self.hidden).insert(node, who.clone());
            self.ledger.hidden(node, &User::from(who));
            lifted.push(node);
        }
        Ok(lifted)
    }

    /// Only a file's owner moves it out of its directory, where users mount together, and nobody else may read it
    /// there: the directory may have been private.
    async fn keep_private(&self, who: &Principal, entry: &FileStatus) -> Answer<()> {
        if matches!(self.settings.identity, Identity::Caller) && entry.owner != *who.user {
            return Err(Fault(EACCES));
        }
        let private = entry.permission & 0o700;
        if entry.permission == private || !self.store.capabilities().permissions {
            return Ok(());
        }
        let set = SetAttributes { permission: Some(private), ..SetAttributes::default() };
        let path = StorePath::parse(&entry.path)?;
        Ok(self.settings.patience.with(|| self.store.set_attributes(who, &path, &set)).await?)
    }

    /// Renames an entry; with `replace`, it may replace another entry.
    pub async fn rename(
        &self,
        caller: Caller,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> Answer<()> {
        self.check_writable()?;
        let (who, hidden) = (self.who(caller), self.hidden_name(caller));
        let (from_name, to_name) = (encoded(from.1)?, encoded(to.1)?);
        let (from, to) = ((from.0, from_name.as_str()), (to.0, to_name.as_str()));
        let changes = self.change(&[from, to, (to.0, &hidden)]).await;
        let (from_path, to_path) = (self.entry(from.0, from.1)?, self.entry(to.0, to.1)?);
        if from_path == to_path {
            return if replace { Ok(()) } else { Err(Fault(EEXIST)) };
        }
        let (node, target) = {
            let nodes = lock(&self.nodes);
            (nodes.find(from.0, from.1), nodes.find(to.0, to.1))
        };
        // No store replaces a container in one step, nor replaces another file by a container.
        let mixes = self.may_be_logical(&from_path) || self.may_be_logical(&to_path);
        if self.is_again(caller) && node.is_none() {
            // The kernel knew the source, and now it isn't found: so the rename was executed, and the entry
            // with the new name is the source.
            if mixes {
                self.remove_left(&who, &self.aside(caller, &to_path)?).await;
            }
            return Ok(());
        }
        let target = target.filter(|target| replace && !self.open_files(*target).is_empty());
        if let Some(target) = target {
            // Before the target has lost its name, notice whether the source can get it.
            if let Some(node) = node {
                self.hold(node, false).await?;
            }
            self.hide(caller, &who, to, &hidden, target).await?;
        }
        let renamed = match mixes {
            true => self.replace_logical(caller, &who, from, to, (&from_path, &to_path), node, replace).await,
            false => self.move_node(caller, &who, from, to, node, replace).await,
        };
        match (&renamed, target) {
            (Ok(()), Some(target)) => self.hidden_for_good(&who, target, changes).await,
            // A failure of this move is logged. The request reports the first failure.
            (Err(_), Some(_)) => {
                let _ = self.move_node(caller, &who, (to.0, &hidden), to, target, false).await;
            }
            _ => {}
        }
        renamed
    }

    /// Renames the target to a temporary name, renames the source, and removes the target.
    #[allow(clippy::too_many_arguments)] // both names, in both of their forms
    async fn replace_logical(
        &self,
        caller: Caller,
        who: &Principal,
        from: (u64, &str),
        to: (u64, &str),
        paths: (&StorePath, &StorePath),
        node: Option<u64>,
        replace: bool,
    ) -> Answer<()> {
        let aside = self.aside(caller, paths.1)?;
        let source = self.status(who, paths.0).await;
        if self.is_again(caller) && source.as_ref().err() == Some(&Fault(ErrorKind::NotFound.row().errno)) {
            self.move_node(caller, who, from, to, node, replace).await?;
            self.remove_left(who, &aside).await;
            return Ok(());
        }
        let (source, from_container) = source?;
        if from_container.is_some() && !self.may_be_logical(paths.1) {
            return Err(Fault(EXDEV)); // then mv(1) copies: after a rename, programs would see a directory
        }
        let target = match self.status(who, paths.1).await {
            Ok((status, container)) => (status, container),
            Err(Fault(errno)) if errno == ErrorKind::NotFound.row().errno => {
                let moved = self.move_node(caller, who, from, to, node, false).await;
                if self.is_again(caller) && moved.is_ok() {
                    self.remove_left(who, &aside).await;
                }
                return moved;
            }
            Err(fault) => return Err(fault),
        };
        if !replace {
            return Err(Fault(EEXIST));
        }
        let (status, container) = target;
        if (from_container.is_none() && container.is_none()) || source.is_directory() || status.is_directory()
        {
            return self.move_node(caller, who, from, to, node, true).await;
        }
        self.begins(caller);
        self.store.rename(who, paths.1, &aside, false).await?;
        if let Err(fault) = self.move_node(caller, who, from, to, node, false).await {
            if let Err(error) = self.store.rename(who, &aside, paths.1, false).await {
                tracing::warn!("{error}; the replaced file stays as {aside}: remove it");
            }
            return Err(fault);
        }
        self.remove_left(who, &aside).await;
        Ok(())
    }

    /// The temporary name of an entry while another entry takes its name.
    fn aside(&self, caller: Caller, of: &StorePath) -> Answer<StorePath> {
        let Some(parent) = of.parent() else { return Err(Fault(EINVAL)) };
        Ok(parent.join(&self.hidden_name(caller).replacen(HIDDEN, ASIDE, 1))?)
    }

    /// Removes a file that programs can't reach by name any more.
    pub(super) async fn remove_left(&self, who: &Principal, path: &StorePath) {
        match self.settings.patience.with(|| self.store.remove(who, path, true)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("{error}; remove it with `strait rm -r`");
            }
            _ => {}
        }
    }

    /// Renames in the store and among the nodes. Requests for open files beneath wait until it is done.
    async fn move_node(
        &self,
        caller: Caller,
        who: &Principal,
        from: (u64, &str),
        to: (u64, &str),
        node: Option<u64>,
        replace: bool,
    ) -> Answer<()> {
        let join = |(parent, name): (u64, &str)| -> Answer<StorePath> { Ok(self.path(parent)?.join(name)?) };
        let removes = to.1.starts_with(HIDDEN);
        let held = match node {
            // A hidden file that gets its name back replaces nothing.
            Some(node) => self.hold(node, removes || from.1.starts_with(HIDDEN)).await?,
            None => Vec::new(),
        };
        let (from_path, to_path) = (join(from)?, join(to)?);
        self.begins(caller);
        let rename = || self.store.rename(who, &from_path, &to_path, replace);
        match self.settings.patience.with(rename).await {
            // The killed process may have executed the rename.
            Err(error) if self.is_again(caller) => {
                let gone = self.settings.patience.with(|| self.store.stat(who, &from_path)).await;
                if !gone.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                    return Err(error.into());
                }
                self.settings.patience.with(|| self.store.stat(who, &to_path)).await?;
            }
            renamed => renamed?,
        }
        lock(&self.nodes).rename(from, to);
        if let Some(node) = node
            && !removes
        {
            lock(&self.hidden).remove(&node);
            self.ledger.not_hidden(node);
        }
        for held in held {
            match held {
                Held::Plain(_guard, file) => {
                    if let Body::Plain(plain) = &file.body {
                        plain.forget_reader();
                    }
                }
                Held::Logical(mut state, node) => {
                    if let Ok(path) = self.path(node) {
                        state.moved(&path);
                    }
                }
            }
        }
        Ok(())
    }

    /// Closes the writers of all open files at a node and beneath it, and locks the files. A file that lost
    /// bytes can be removed, but not renamed: it could replace a complete file.
    async fn hold(&self, above: u64, removes: bool) -> Answer<Vec<Held>> {
        let mut files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        {
            let nodes = lock(&self.nodes);
            files.retain(|file| nodes.is_within(file.node, above));
        }
        // All renames lock in the same order, so that two of them don't deadlock.
        files.sort_by(|a, b| (a.node, &a.who.user).cmp(&(b.node, &b.who.user)));
        let mut held = Vec::with_capacity(files.len());
        for file in files {
            held.push(match &file.body {
                Body::Plain(plain) => {
                    let mut guard = plain.lock().await;
                    let settled = guard.settle(&self.path(file.node)?, Level::Closed).await;
                    if !(removes && guard.has_failed()) {
                        settled?;
                    }
                    Held::Plain(guard, file.clone())
                }
                Body::Logical(logical) => {
                    let mut guard = logical.lock().await;
                    match guard.close().await {
                        // The unpublished bytes stay in the open file.
                        Err(error) if removes => tracing::info!("{error}"),
                        closed => closed?,
                    }
                    Held::Logical(guard, file.node)
                }
            });
        }
        Ok(held)
    }
}

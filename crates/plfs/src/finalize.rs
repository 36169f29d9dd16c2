//! Replaces a container by a plain file, without copying bytes where possible.
//!
//! ```text
//!   plan ─→ rename the first log ─→ join the others to it ─→ rename the result ─→ remove the container
//! ```
//!
//! Dead bytes at a log's end (bytes that no read returns) are cut before the log is renamed or joined. Each
//! step is one operation of the store. A repeated call resumes after the last completed step.
//! If several calls run at once, some of them may fail, but no bytes are lost.

use crate::container::{Container, hidden_name};
use crate::index::Source;
use crate::layout::LogName;
use crate::plan::Plan;
use crate::view::Listed;
use std::collections::BTreeSet;
use strait_store::random::random;
use strait_store::{Error, ErrorKind, MAX_CONCAT_SOURCES, Result, StorePath, fail};

/// Bytes of the file whose index is examined at once.
const WINDOW: u64 = 256 << 20;

/// How a logical file becomes a plain one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The store joins the logs, and copies no bytes.
    Join {
        /// Number of logs.
        logs: usize,
    },
    /// All bytes are read and written.
    Rewrite {
        /// Number of bytes.
        bytes: u64,
        /// Why the logs can't be joined.
        why: String,
    },
}

/// The outcome of [`Container::finalize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finalized {
    /// The plain file's length.
    pub bytes: u64,
    /// Bytes that were read and written to make it.
    pub moved: u64,
}

impl Container {
    /// How [`Container::finalize`] would proceed now.
    ///
    /// # Errors
    /// Busy: a writer has the file open, or had it open when it crashed.
    pub async fn way(&self) -> Result<Way> {
        Ok(match self.plan().await? {
            Some(plan) if self.is_begun(&plan).await? => Way::Join { logs: plan.logs.len() },
            _ => match self.joinable().await? {
                Ok(logs) => Way::Join { logs: logs.len() },
                Err((bytes, why)) => Way::Rewrite { bytes, why },
            },
        })
    }

    /// Makes a plain file in the same store, and removes the container. The file appears under `to` in one
    /// step, complete. If each log has one contiguous part of the file and the store can join files, the logs
    /// become the file, and no bytes are copied.
    ///
    /// After an error, repeat the call: it resumes a join, and begins a copy anew. Until it succeeds, the
    /// container stays readable. `to` can be the container's own path. Then nothing has this path for a
    /// moment, between two renames. If the process ends between them, the container is in the same directory,
    /// under a name that begins with a dot.
    ///
    /// # Errors
    /// AlreadyExists: something has the path `to`. Busy: a writer has the file open, had it open when it
    /// crashed, or opened it during the call. After such a call, new writers can fail with Busy until a
    /// repeated call succeeds.
    pub async fn finalize(&self, to: &StorePath) -> Result<Finalized> {
        let planned = self.plan().await?;
        if let Some(plan) = &planned
            && self.is_begun(plan).await?
        {
            return self.join(plan, to).await;
        }
        if let Some(plan) = &planned
            && let Some(length) = self.copied_to(plan, to).await?
        {
            // An earlier call has renamed the copy to `to`.
            self.fs.remove(&self.who, self.path(), true).await?;
            return Ok(Finalized { bytes: length, moved: length });
        }
        self.demand_free(to).await?;
        // An earlier call may have written a plan, and then failed because a writer had opened the file.
        let listed = self.listed_logs().await?;
        match self.joinable().await? {
            Ok(logs) => {
                let plan = Plan { target: to.clone(), logs, copied: None };
                if planned.as_ref() != Some(&plan) {
                    self.write_plan(&plan, planned.is_some()).await?;
                }
                self.demand_unchanged(&listed).await?;
                self.begin(&plan).await?;
                self.join(&plan, to).await
            }
            Err(_) => self.rewrite(to, &listed, planned.is_some()).await,
        }
    }

    /// Whether the first log was renamed. From then on, no call changes the plan's list of logs.
    async fn is_begun(&self, plan: &Plan) -> Result<bool> {
        let Some(first) = plan.first() else { return Ok(false) };
        Ok(self.length_at(&self.layout.data(first)?).await?.is_none())
    }

    /// The length of `to`, if an earlier call has renamed the plan's copy to it.
    async fn copied_to(&self, plan: &Plan, to: &StorePath) -> Result<Option<u64>> {
        let Some((length, copy)) = &plan.copied else { return Ok(None) };
        let is_due = plan.target == *to && to != self.path() && self.length_at(copy).await?.is_none();
        Ok(if is_due { self.length_at(to).await?.filter(|there| there == length) } else { None })
    }

    /// Renames the first log of a plan to the file to which the others are joined. If another call has
    /// already done so, the rename fails.
    async fn begin(&self, plan: &Plan) -> Result<()> {
        let (name, own) = plan.logs[0];
        let first = self.layout.data(name)?;
        if self.length_at(&first).await?.is_some_and(|length| length > own) {
            // The dead bytes.
            self.fs.truncate(&self.who, &first, own).await?;
        }
        if plan.logs.len() == 1 {
            return Ok(());
        }
        self.fs.rename(&self.who, &first, &self.layout.joined()?, false).await
    }

    async fn rewrite(&self, to: &StorePath, listed: &[Listed], planned: bool) -> Result<Finalized> {
        let (copy, bytes) = self.copy_beside(to).await.map_err(|error| error.at("flatten to", to))?;
        let plan = Plan { target: to.clone(), logs: Vec::new(), copied: Some((bytes, copy.clone())) };
        let is_planned = self.write_plan(&plan, planned).await;
        let installed = async {
            is_planned.as_ref().map_err(Error::again)?;
            self.demand_unchanged(listed).await?;
            self.install(&copy, to).await
        };
        if let Err(error) = installed.await {
            // If these removals fail, the copy stays unused, since no other program knows its name. And new
            // writers get Busy until the call is repeated.
            let is_there = self.length_at(&copy).await.is_ok_and(|length| length.is_some());
            let _ = self.fs.remove(&self.who, &copy, false).await;
            // Keep the plan if another call wrote it, or if the copy was already renamed to `to`.
            if is_planned.is_ok() && is_there && matches!(self.plan().await, Ok(Some(now)) if now == plan) {
                let _ = self.fs.remove(&self.who, &self.layout.plan()?, false).await;
            }
            return Err(error);
        }
        Ok(Finalized { bytes, moved: bytes })
    }

    /// Joins those logs of a plan that aren't joined yet.
    async fn join(&self, plan: &Plan, to: &StorePath) -> Result<Finalized> {
        let done = Finalized { bytes: plan.length(), moved: 0 };
        let joined = match plan.logs[..] {
            [(only, _)] => self.layout.data(only)?,
            _ => self.layout.joined()?,
        };
        let Some(length) = self.length_at(&joined).await? else {
            return self.after_move(plan, to).await.map(|()| done);
        };
        self.demand_free(to).await?;
        if plan.target != *to {
            self.write_plan(&Plan { target: to.clone(), ..plan.clone() }, true).await?;
        }
        let mut start = 0;
        let mut left = Vec::new();
        for (name, bytes) in &plan.logs {
            if start >= length {
                left.push((*name, *bytes));
            }
            start += bytes;
            if (start - bytes..start).contains(&length) && length != start - bytes {
                let message = format!("its {length} bytes aren't the sum of the plan's first logs");
                return fail(ErrorKind::Corrupt, message).map_err(|error: Error| error.at("join", &joined));
            }
        }
        for step in left.chunks(MAX_CONCAT_SOURCES) {
            let mut sources = Vec::with_capacity(step.len());
            for (name, bytes) in step {
                let log = self.layout.data(*name)?;
                if self.length_at(&log).await?.is_some_and(|length| length > *bytes) {
                    self.fs.truncate(&self.who, &log, *bytes).await?;
                }
                sources.push(log);
            }
            self.fs.concat(&self.who, &joined, &sources).await?;
        }
        self.install(&joined, to).await?;
        Ok(done)
    }

    /// Completes an earlier call, which renamed the file to its target but didn't remove the container.
    async fn after_move(&self, plan: &Plan, to: &StorePath) -> Result<()> {
        let status = self.fs.stat(&self.who, &plan.target).await?;
        if plan.target != *to || status.length != plan.length() {
            let message = format!("an earlier call has moved its bytes to {}", plan.target);
            return fail(ErrorKind::InvalidArgument, message)
                .map_err(|error: Error| error.at("flatten", self.path()));
        }
        self.fs.remove(&self.who, self.path(), true).await
    }

    /// Renames a complete file to `to`, and removes the container.
    async fn install(&self, file: &StorePath, to: &StorePath) -> Result<()> {
        // The error names `to`, since the user doesn't know the temporary name.
        let named = |error: Error| Error::new(error.kind(), error.message().to_owned()).at("flatten to", to);
        if to != self.path() {
            self.fs.rename(&self.who, file, to, false).await.map_err(named)?;
            return self.fs.remove(&self.who, self.path(), true).await;
        }
        let parent = to.parent().unwrap_or_else(StorePath::root);
        let aside = parent.join(&hidden_name(to.name(), &random()))?;
        // This fails if another call has finished.
        self.check_place("flatten").await?;
        self.fs.rename(&self.who, to, &aside, false).await?;
        let file = match file.as_str().strip_prefix(to.as_str()) {
            Some(inside) if inside.starts_with('/') => StorePath::parse(&format!("{aside}{inside}"))?,
            _ => file.clone(),
        };
        if let Err(error) = self.fs.rename(&self.who, &file, to, false).await {
            // The container gets its name back, so that a repeated call finds it.
            let _ = self.fs.rename(&self.who, &aside, to, false).await;
            return Err(named(error));
        }
        self.fs.remove(&self.who, &aside, true).await
    }

    /// The length of a file; `None` if there is no such file.
    async fn length_at(&self, path: &StorePath) -> Result<Option<u64>> {
        match self.fs.stat(&self.who, path).await {
            Ok(status) => Ok(Some(status.length)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The logs whose bytes make the file, in order, each with its number of live bytes. If they can't be
    /// joined: the file's length, and the reason.
    async fn joinable(&self) -> Result<std::result::Result<Vec<(LogName, u64)>, (u64, String)>> {
        self.demand_closed().await?;
        let reader = self.reader().await?;
        let length = reader.length();
        let cannot = |why: String| Ok(Err((length, why)));
        let mut logs: Vec<(u32, u64)> = Vec::new();
        let mut seen = BTreeSet::new();
        for begin in (0..length).step_by(WINDOW as usize) {
            for piece in reader.pieces(begin..length.min(begin + WINDOW)).await? {
                let at = piece.logical.start;
                let bytes = piece.logical.end - at;
                let Some(Source { log, offset }) = piece.source else {
                    return cannot(format!("it has a hole at byte {at}"));
                };
                match logs.last_mut() {
                    Some((last, live)) if *last == log && *live == offset => *live += bytes,
                    _ if offset == 0 && seen.insert(log) => logs.push((log, bytes)),
                    _ => {
                        let rank = reader.rank(log);
                        return cannot(format!(
                            "the log of rank {rank} isn't one contiguous part of the file, as byte {at} of the \
                             file shows"
                        ));
                    }
                }
            }
        }
        let capabilities = self.fs.capabilities();
        if logs.is_empty() {
            return cannot("it is empty".to_owned());
        }
        if logs.len() > 1 && !capabilities.concat {
            return cannot("the store can't join files".to_owned());
        }
        let names = reader.writers();
        let logs: Vec<(LogName, u64)> =
            logs.iter().map(|(log, live)| (names[*log as usize], *live)).collect();
        for (name, live) in &logs {
            let log = self.layout.data(*name)?;
            if let Some(parts) = &self.parts
                && parts.lengths(&self.who, &log).await?.len() > 1
            {
                return cannot(format!("the log of rank {} has several parts", name.rank));
            }
            let there = self.length_at(&log).await?.unwrap_or(0);
            if there > *live && !capabilities.truncate {
                return cannot(format!("the store can't cut dead bytes from the log of rank {}", name.rank));
            }
            if there < *live {
                let message = format!("the log has {there} bytes, but its index describes {live}");
                return fail(ErrorKind::Corrupt, message).map_err(|error: Error| error.at("read", log));
            }
        }
        Ok(Ok(logs))
    }
}

//! Ending a container: its bytes become a plain file, without being moved where that is possible.
//!
//! ```text
//!   plan ─→ cut what is dead at the logs' ends ─→ join the logs ─→ rename ─→ remove the container
//! ```
//!
//! Each step is one change of the store, and repeating the call resumes after the last one.

use crate::container::{Container, hidden_name, random};
use crate::index::Source;
use crate::layout::LogName;
use crate::plan::Plan;
use std::collections::BTreeSet;
use strait_store::{Error, ErrorKind, MAX_CONCAT_SOURCES, Result, StorePath, fail};

/// Bytes of the file whose index is examined at once.
const WINDOW: u64 = 256 << 20;

/// How a logical file becomes a plain one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// So many logs are joined. The store moves no bytes.
    Join {
        /// The logs.
        logs: usize,
    },
    /// All bytes are read and written.
    Rewrite {
        /// The bytes.
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
    /// Bytes that were read and written for it.
    pub moved: u64,
}

impl Container {
    /// How [`Container::finalize`] would proceed now.
    ///
    /// # Errors
    /// Busy: a writer has the file open, or had it when it crashed.
    pub async fn way(&self) -> Result<Way> {
        Ok(match self.plan().await? {
            Some(plan) => Way::Join { logs: plan.logs.len() },
            None => match self.joinable().await? {
                Ok(logs) => Way::Join { logs: logs.len() },
                Err((bytes, why)) => Way::Rewrite { bytes, why },
            },
        })
    }

    /// Makes a plain file of the same store, which appears whole under its new name, and removes the
    /// container. Where each log has a contiguous part of the file, the logs become the file, and no
    /// bytes are moved.
    ///
    /// Repeat it after an error: it resumes. The container stays readable meanwhile. The new name may
    /// be the container's own; then the name is missing for a moment between two renames. If that fails
    /// in between, the container is beside it, under a name that begins with a dot.
    ///
    /// # Errors
    /// AlreadyExists: something has the new name. Busy: a writer has the file open, or had it when it
    /// crashed.
    pub async fn finalize(&self, to: &StorePath) -> Result<Finalized> {
        if let Some(plan) = self.plan().await? {
            return self.join(plan, to).await;
        }
        self.demand_free(to).await?;
        match self.joinable().await? {
            Ok(logs) => {
                let plan = Plan { target: to.clone(), logs };
                self.write_plan(&plan, false).await?;
                // A writer that came before the plan.
                if let Err(error) = self.demand_closed().await {
                    self.fs.remove(&self.who, &self.layout.plan()?, false).await?;
                    return Err(error);
                }
                self.join(plan, to).await
            }
            Err(_) => {
                let (copy, bytes) = self.copy_beside(to).await.map_err(|error| error.at("flatten to", to))?;
                self.demand_closed().await?;
                self.install(&copy, to).await?;
                Ok(Finalized { bytes, moved: bytes })
            }
        }
    }

    /// Joins the logs of a plan as far as they aren't yet.
    async fn join(&self, plan: Plan, to: &StorePath) -> Result<Finalized> {
        let done = Finalized { bytes: plan.length(), moved: 0 };
        let first = self.layout.data(plan.first())?;
        let status = match self.fs.stat(&self.who, &first).await {
            Ok(status) => status,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.after_move(&plan, to).await.map(|()| done);
            }
            Err(error) => return Err(error),
        };
        self.demand_free(to).await?;
        if plan.target != *to {
            self.write_plan(&Plan { target: to.clone(), ..plan.clone() }, true).await?;
        }
        let mut length = status.length;
        // Before the first join, the log may end with bytes that are dead.
        let own = plan.logs[0].1;
        let untouched = match plan.logs.get(1) {
            Some((second, _)) => self.length_of(*second).await?.is_some(),
            None => true,
        };
        if untouched && length > own {
            self.cut(plan.first(), own).await?;
            length = own;
        }
        let mut start = 0;
        let mut left = Vec::new();
        for (name, bytes) in &plan.logs {
            if start >= length {
                left.push((*name, *bytes));
            }
            start += bytes;
            if (start - bytes..start).contains(&length) && length != start - bytes {
                let message = format!("{length} bytes are no sum of the logs in the plan");
                return fail(ErrorKind::Corrupt, message).map_err(|error: Error| error.at("join", &first));
            }
        }
        for step in left.chunks(MAX_CONCAT_SOURCES) {
            let mut sources = Vec::with_capacity(step.len());
            for (name, bytes) in step {
                if self.length_of(*name).await?.is_some_and(|length| length > *bytes) {
                    self.cut(*name, *bytes).await?;
                }
                sources.push(self.layout.data(*name)?);
            }
            self.fs.concat(&self.who, &first, &sources).await?;
        }
        self.install(&first, to).await?;
        Ok(done)
    }

    /// An earlier call has moved the file to its name.
    async fn after_move(&self, plan: &Plan, to: &StorePath) -> Result<()> {
        let status = self.fs.stat(&self.who, &plan.target).await?;
        if plan.target != *to || status.length != plan.length() {
            let message = format!("its bytes are in {}, by an earlier call", plan.target);
            return fail(ErrorKind::InvalidArgument, message)
                .map_err(|error: Error| error.at("flatten", self.path()));
        }
        self.fs.remove(&self.who, self.path(), true).await
    }

    /// Gives a finished file its name, and removes the container.
    async fn install(&self, file: &StorePath, to: &StorePath) -> Result<()> {
        // The user knows only the new name.
        let named = |error: Error| Error::new(error.kind(), error.message().to_owned()).at("flatten to", to);
        if to != self.path() {
            self.fs.rename(&self.who, file, to, false).await.map_err(named)?;
            return self.fs.remove(&self.who, self.path(), true).await;
        }
        let parent = to.parent().unwrap_or_else(StorePath::root);
        let aside = parent.join(&hidden_name(to.name(), &random()))?;
        self.fs.rename(&self.who, to, &aside, false).await?;
        let file = match file.as_str().strip_prefix(to.as_str()) {
            Some(inside) if inside.starts_with('/') => StorePath::parse(&format!("{aside}{inside}"))?,
            _ => file.clone(),
        };
        self.fs.rename(&self.who, &file, to, false).await.map_err(named)?;
        self.fs.remove(&self.who, &aside, true).await
    }

    async fn cut(&self, name: LogName, length: u64) -> Result<()> {
        self.fs.truncate(&self.who, &self.layout.data(name)?, length).await
    }

    /// Bytes of a data log; None if it is gone.
    async fn length_of(&self, name: LogName) -> Result<Option<u64>> {
        match self.fs.stat(&self.who, &self.layout.data(name)?).await {
            Ok(status) => Ok(Some(status.length)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The logs that make the file, in order, each with its live bytes. Or the file's length, and the
    /// reason why there are none.
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
                            "the bytes of rank {rank} don't lie in one piece at byte {at}"
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
            let there = self.length_of(*name).await?.unwrap_or(0);
            if there > *live && !capabilities.truncate {
                return cannot(format!("the log of rank {} ends with bytes that are dead", name.rank));
            }
            if there < *live {
                let path = self.layout.data(*name)?;
                let message = format!("the log has {there} bytes, but its index tells of {live}");
                return fail(ErrorKind::Corrupt, message).map_err(|error: Error| error.at("read", path));
            }
        }
        Ok(Ok(logs))
    }
}

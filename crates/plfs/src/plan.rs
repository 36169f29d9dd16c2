//! The plan for joining a container's logs to a plain file. It tells where the bytes are during the join.
//!
//! ```text
//!   strait-plfs-plan 1
//!   target PATH                 the plain file's name
//!   log RANK.NONCE LENGTH       the logs whose bytes make the file, in order; or
//!   copied LENGTH PATH          a copy of all bytes, which is then renamed to the target
//!   sum CRC-32C                 of all lines before
//! ```
//!
//! The first log is renamed to `logs/joined`. Then the store appends further logs to that file, several in
//! each atomic step. So the file's length shows which logs are joined. Bytes move from their own log to this
//! file, and with it to the target. Readers look for them in these places, in this order. A single log is
//! renamed to the target directly.
//!
//! If the logs can't be joined, their bytes are copied, and the plan lists no log.
//!
//! While there is a plan, no new writer can begin. A plan is valid only if, after it was written, the logs
//! are still the same and no writer is open. Until the plan's first log is renamed, another call can replace
//! the plan.

use crate::container::{Container, hidden_name};
use crate::layout::LogName;
use crate::pattern::MAX_LENGTH;
use crate::view::Listed;
use bytes::Bytes;
use std::fmt::Write;
use std::sync::Arc;
use strait_crc::crc32c;
use strait_store::random::random;
use strait_store::{CreateOptions, Error, ErrorKind, FileReader, FileSystemExt, Result, StorePath, fail};

const HEAD: &str = "strait-plfs-plan 1";
/// Most bytes of a plan: enough for some 300,000 logs.
const MAX_PLAN_BYTES: usize = 16 << 20;

/// A plan: the logs that make the file, in order, or a copy of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The plain file.
    pub target: StorePath,
    /// The logs and their bytes, in order; none if the bytes are copied.
    pub logs: Vec<(LogName, u64)>,
    /// Length of the copy, and its temporary path.
    pub copied: Option<(u64, StorePath)>,
}

/// An open data log, wherever its bytes are now.
pub(crate) struct Opened {
    pub reader: Arc<dyn FileReader>,
    /// Offset of the log's first byte in the opened file.
    pub base: u64,
    pub path: StorePath,
}

impl Plan {
    /// Offset of the log's bytes in the plain file.
    pub fn start_of(&self, name: LogName) -> Option<u64> {
        let at = self.logs.iter().position(|(log, _)| *log == name)?;
        Some(self.logs[..at].iter().map(|(_, length)| length).sum())
    }

    /// The first log. The others are joined to it, after it was renamed.
    pub fn first(&self) -> Option<LogName> {
        self.logs.first().map(|(name, _)| *name)
    }

    /// The file's length.
    pub fn length(&self) -> u64 {
        self.logs.iter().map(|(_, length)| length).sum()
    }

    fn encode(&self) -> String {
        let mut text = format!("{HEAD}\ntarget {}\n", self.target);
        for (name, length) in &self.logs {
            // Writing to a string can't fail.
            let _ = writeln!(text, "log {} {length}", name.text());
        }
        if let Some((length, path)) = &self.copied {
            let _ = writeln!(text, "copied {length} {path}");
        }
        let sum = crc32c(text.as_bytes());
        let _ = writeln!(text, "sum {sum:08x}");
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).ok();
        if let Some(other) = text.and_then(|text| text.lines().next())
            && other != HEAD
            && other.starts_with("strait-plfs-plan ")
        {
            return fail(ErrorKind::Unsupported, "a later version of Strait wrote this plan");
        }
        match text.and_then(Self::parse) {
            Some(plan) => Ok(plan),
            None => fail(ErrorKind::Corrupt, "the plan for joining the logs is damaged"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let covered = &text[..body.len() + 1];
        let sum = u32::from_str_radix(sum.strip_prefix("sum ")?, 16).ok()?;
        if crc32c(covered.as_bytes()) != sum {
            return None;
        }
        let mut lines = body.lines().peekable();
        lines.next().filter(|head| *head == HEAD)?;
        let target = StorePath::parse(lines.next()?.strip_prefix("target ")?).ok()?;
        let copied = match lines.next_if(|line| line.starts_with("copied ")) {
            Some(line) => {
                let (length, path) = line.strip_prefix("copied ")?.split_once(' ')?;
                Some((length.parse().ok()?, StorePath::parse(path).ok()?))
            }
            None => None,
        };
        let log = |line: &str| {
            let (name, length) = line.strip_prefix("log ")?.split_once(' ')?;
            Some((LogName::parse(name)?, length.parse().ok()?))
        };
        let logs: Vec<(LogName, u64)> = lines.map(log).collect::<Option<_>>()?;
        let whole = logs.iter().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length));
        let is_sound = logs.is_empty() == copied.is_some() && whole.is_some_and(|whole| whole <= MAX_LENGTH);
        is_sound.then_some(Self { target, logs, copied })
    }
}

impl Container {
    /// The plan, if the logs are being joined.
    pub(crate) async fn plan(&self) -> Result<Option<Plan>> {
        let path = self.layout.plan()?;
        match self.fs.read_all(&self.who, &path, MAX_PLAN_BYTES).await {
            Ok(bytes) => Plan::decode(&bytes).map(Some).map_err(|error| error.at("read", &path)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a plan, which appears in one step, complete. With `replace`, it replaces an earlier plan.
    pub(crate) async fn write_plan(&self, plan: &Plan, replace: bool) -> Result<()> {
        let path = self.layout.plan()?;
        let hidden = self.path().join(&hidden_name("plan", &random()))?;
        let options = CreateOptions { overwrite: false, ..self.logs.clone() };
        let text = Bytes::from(plan.encode());
        let written = async {
            self.fs.write_all(&self.who, &hidden, &options, text).await?;
            if replace && !self.fs.capabilities().rename_replace {
                self.fs.remove(&self.who, &path, false).await?;
            }
            self.fs.rename(&self.who, &hidden, &path, replace && self.fs.capabilities().rename_replace).await
        };
        let written = written.await;
        if written.is_err() {
            // If this fails, the file stays, and no program reads it.
            let _ = self.fs.remove(&self.who, &hidden, false).await;
        }
        written
    }

    /// Opens a data log, or the file to which its bytes were moved.
    pub(crate) async fn open_data(&self, name: LogName) -> Result<Opened> {
        let path = self.layout.data(name)?;
        let missing = match self.fs.open(&self.who, &path).await {
            Ok(reader) => return Ok(Opened { reader: reader.into(), base: 0, path }),
            Err(error) if error.kind() == ErrorKind::NotFound => error,
            Err(error) => return Err(error),
        };
        let Some(plan) = self.plan().await? else { return Err(missing) };
        let Some(base) = plan.start_of(name) else { return Err(missing) };
        for path in [self.layout.joined()?, plan.target] {
            match self.fs.open(&self.who, &path).await {
                Ok(reader) => return Ok(Opened { reader: reader.into(), base, path }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(missing)
    }

    /// The writers that have not closed.
    pub(crate) async fn open_marks(&self) -> Result<Vec<LogName>> {
        let entries = self.fs.list_all(&self.who, &self.layout.open()?, usize::MAX).await?;
        Ok(entries.iter().filter_map(|entry| LogName::parse(entry.name())).collect())
    }

    /// Fails with Busy if writers opened the file after `listed` was read.
    pub(crate) async fn demand_unchanged(&self, listed: &[Listed]) -> Result<()> {
        self.demand_closed().await?;
        if self.listed_logs().await? == listed {
            return Ok(());
        }
        let message = "a writer opened and closed the file in the meantime; try again";
        Err(Error::new(ErrorKind::Busy, message).at("finalize", self.path()))
    }

    /// Fails with Busy if writers have the file open, or had it open when they crashed.
    pub(crate) async fn demand_closed(&self) -> Result<()> {
        match self.open_marks().await?.len() {
            0 => Ok(()),
            count => {
                let writers = if count == 1 { "a writer has" } else { "writers have" };
                let message = format!("{writers} it open; if they crashed, run strait ckpt recover");
                Err(Error::new(ErrorKind::Busy, message).at("finalize", self.path()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text_and_a_damaged_one_is_refused() {
        let log = |rank| LogName { rank, nonce: 7 };
        let target = StorePath::parse("/run/a plain file").unwrap();
        let plan = Plan { target, logs: vec![(log(3), 10), (log(1), 20)], copied: None };
        let text = plan.encode();
        assert_eq!(Plan::decode(text.as_bytes()).unwrap(), plan);
        assert_eq!((plan.start_of(log(1)), plan.start_of(log(2)), plan.length()), (Some(10), None, 30));
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert!(Plan::decode(&damaged).is_err(), "byte {at}");
        }
        let copied = Some((30, StorePath::parse("/run/.a plain file.plfs-7").unwrap()));
        let copy = Plan { logs: Vec::new(), copied: copied.clone(), ..plan.clone() };
        assert_eq!(Plan::decode(copy.encode().as_bytes()).unwrap(), copy);
        for (logs, copied) in [(Vec::new(), None), (plan.logs.clone(), copied)] {
            let odd = Plan { logs, copied, ..plan.clone() };
            assert!(Plan::decode(odd.encode().as_bytes()).is_err(), "{odd:?}");
        }
        let longest = |bytes| Plan { logs: vec![(log(3), MAX_LENGTH), (log(1), bytes)], ..plan.clone() };
        assert!(Plan::decode(longest(0).encode().as_bytes()).is_ok());
        assert!(Plan::decode(longest(1).encode().as_bytes()).is_err(), "longer than any file");
        assert_eq!(Plan::decode(b"strait-plfs-plan 2\n").unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

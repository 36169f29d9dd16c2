//! The container of a logical file: made, found, renamed and removed.

use crate::block::{ContainerId, MAX_EPOCH};
use crate::layout::{Layout, LogName};
use crate::random::random;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, join};
use std::sync::{Arc, OnceLock};
use strait_store::{
    CreateOptions, Error, ErrorKind, FileReader, FileSystem, FileSystemExt, Principal, Result, StorePath,
    fail,
};

/// Begin of a mark, before the container's id in hexadecimal digits.
const MARK: &str = "strait-plfs 1 ";
const MARK_BYTES: usize = MARK.len() + 32 + 1;

/// Settings of a new container.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Permission bits of the file, and so of the container's logs. The directories also get `x`
    /// wherever there is `r`.
    pub permission: Option<u32>,
    /// Settings of each log.
    pub logs: CreateOptions,
    /// The container's identity, which no other one may have; random by default. If a process was killed
    /// while it created a file, another one that gives the same identity leaves nothing behind.
    pub id: Option<[u8; 16]>,
}

/// When memory gives way to tables, and merging pays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Entries of the index in memory while blocks are applied: some 10 MB.
    pub entries: usize,
    /// Tables of a view. A read looks into each, and joining them takes a pass over all.
    pub tables: usize,
    /// Index logs, or their bytes, above which the last close merges. That costs some round trips, but saves
    /// each reader one or two for each log.
    pub logs: usize,
    pub bytes: u64,
}

pub(crate) const LIMITS: Limits = Limits { entries: 128 << 10, tables: 8, logs: 3, bytes: 64 << 10 };
/// So that tests of a few writes reach all of it.
const TINY_LIMITS: Limits = Limits { entries: 3, tables: 2, logs: 0, bytes: 0 };

impl Limits {
    /// Whether so many index logs are worth merging.
    pub fn are_reached(&self, logs: usize, bytes: u64) -> bool {
        logs > self.logs || bytes > self.bytes
    }
}

/// A logical file.
#[derive(Clone)]
pub struct Container {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) who: Principal,
    pub(crate) layout: Layout,
    pub(crate) id: ContainerId,
    /// The identity of the mark's file, once it was read.
    mark: Arc<OnceLock<Bytes>>,
    pub(crate) logs: CreateOptions,
    pub(crate) limits: Limits,
}

impl Container {
    /// Makes a logical file. It appears whole, on every node, under its name.
    ///
    /// # Errors
    /// AlreadyExists: a file, directory or container has the name.
    pub async fn create(
        fs: Arc<dyn FileSystem>,
        who: &Principal,
        path: &StorePath,
        options: &Options,
    ) -> Result<Self> {
        let failed = |error: Error| error.at("create", path);
        let Some(parent) = path.parent() else {
            return fail(ErrorKind::AlreadyExists, "the root can't be a file").map_err(failed);
        };
        // Renaming decides between those that make it at once.
        let id: ContainerId = options.id.unwrap_or_else(random);
        let hidden = parent.join(&hidden_name(path.name(), &id))?;
        let container = Self {
            layout: Layout::new(hidden.clone()),
            logs: CreateOptions { permission: options.permission, ..options.logs.clone() },
            fs,
            who: who.clone(),
            id,
            mark: Arc::default(),
            limits: LIMITS,
        };
        let made = async {
            let permission = options.permission.map(directory);
            match container.fill(permission).await {
                // A killed process's, which may still have its mark open.
                Err(error)
                    if options.id.is_some()
                        && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Busy) =>
                {
                    container.fs.remove(who, &hidden, true).await?;
                    container.fill(permission).await?;
                }
                filled => filled?,
            }
            container.fs.rename(who, &hidden, path, false).await
        };
        if let Err(error) = made.await {
            // It is nobody's, also if this fails.
            let _ = container.fs.remove(who, &hidden, true).await;
            return Err(failed(error));
        }
        Ok(Self { layout: Layout::new(path.clone()), ..container })
    }

    /// Makes the directories and the mark.
    async fn fill(&self, permission: Option<u32>) -> Result<()> {
        let layout = &self.layout;
        let directories = [layout.root().clone(), layout.logs()?, layout.open()?, layout.epochs()?];
        for directory in directories {
            self.fs.mkdirs(&self.who, &directory, permission).await?;
        }
        let mark = Bytes::from(format!("{MARK}{}\n", hexadecimal(&self.id)));
        self.fs.write_all(&self.who, &layout.mark()?, &self.logs, mark).await
    }

    /// Finds a logical file.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for a path without a container; Unsupported for one of a later version.
    pub async fn open(fs: Arc<dyn FileSystem>, who: &Principal, path: &StorePath) -> Result<Self> {
        let failed = |error: Error| error.at("open", path);
        let layout = Layout::new(path.clone());
        let (read, attributes) =
            join!(read_mark(fs.as_ref(), who, &layout), async { fs.stat(who, &layout.mark()?).await });
        let (reader, mark) = match read {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                fs.stat(who, path).await.map_err(failed)?;
                return fail(ErrorKind::InvalidArgument, "it is no PLFS container").map_err(failed);
            }
            Err(error) => return Err(error),
        };
        let id = id_of(&mark).map_err(failed)?;
        let attributes = attributes?;
        // Every writer's logs are as the maker wanted them; the mark is a file with these settings.
        let replication = fs.capabilities().replication.then_some(attributes.replication);
        let logs = CreateOptions {
            permission: Some(attributes.permission),
            replication,
            ..CreateOptions::default()
        };
        let mark = Arc::new(reader.identity().map_or_else(OnceLock::new, OnceLock::from));
        Ok(Self { fs, who: who.clone(), layout, id, mark, logs, limits: LIMITS })
    }

    /// With limits so low that a few writes reach them: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_tiny_limits(self) -> Self {
        Self { limits: TINY_LIMITS, ..self }
    }

    /// Its identity.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Its path.
    pub fn path(&self) -> &StorePath {
        self.layout.root()
    }

    /// Renames the file, as [`FileSystem::rename`] does. Its open writers fail at their next sync, unless
    /// [`Writer::moved`](crate::Writer::moved) tells them.
    pub async fn rename(&mut self, to: &StorePath, replace: bool) -> Result<()> {
        self.fs.rename(&self.who, self.path(), to, replace).await?;
        self.moved(to);
        Ok(())
    }

    /// Tells it that the file was renamed.
    pub fn moved(&mut self, to: &StorePath) {
        self.layout = Layout::new(to.clone());
    }

    /// Removes the file.
    pub async fn remove(self) -> Result<()> {
        self.fs.remove(&self.who, self.path(), true).await
    }

    /// The writers that have logs, in order.
    pub(crate) async fn log_names(&self) -> Result<Vec<LogName>> {
        let entries = self.fs.list(&self.who, &self.layout.logs()?);
        let names = entries.try_filter_map(async |entry| Ok(LogName::of_index(entry.name())));
        let mut names: Vec<LogName> = names.try_collect().await?;
        names.sort_unstable();
        Ok(names)
    }

    /// The last epoch that a writer published; 0 if none did.
    pub(crate) async fn epoch(&self) -> Result<u64> {
        let mut entries = self.fs.list(&self.who, &self.layout.epochs()?);
        let mut last = 0;
        while let Some(entry) = entries.next().await {
            last = last.max(entry?.name().parse().unwrap_or(0));
        }
        if last > MAX_EPOCH {
            let message = format!("the mark of epoch {last} is damaged, since no writer gets so far");
            return Err(Error::new(ErrorKind::Corrupt, message).at("read", self.layout.epoch(last)?));
        }
        Ok(last)
    }

    /// Publishes an epoch. Another writer may have published the same.
    pub(crate) async fn publish(&self, epoch: u64) -> Result<()> {
        let made = self.fs.write_all(&self.who, &self.layout.epoch(epoch)?, &self.logs, Bytes::new()).await;
        match made {
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Busy) => Ok(()),
            made => made,
        }
    }

    /// Permission of the container's directories.
    pub(crate) fn directory_permission(&self) -> Option<u32> {
        self.logs.permission.map(directory)
    }

    /// An error unless this container is still at its path.
    pub(crate) async fn check_place(&self) -> Result<()> {
        let moved = || {
            let message = "the file was removed, renamed or replaced while it was open";
            Error::new(ErrorKind::NotFound, message).at("write", self.path())
        };
        let opened = self.fs.open(&self.who, &self.layout.mark()?).await;
        // That file has the bytes that were read before.
        if let (Ok(reader), Some(known)) = (&opened, self.mark.get())
            && reader.identity().as_ref() == Some(known)
        {
            return Ok(());
        }
        let read = match opened {
            Ok(reader) => bytes_of_mark(reader.as_ref()).await.map(|mark| (reader, mark)),
            Err(error) => Err(error),
        };
        match read {
            Ok((reader, mark)) if id_of(&mark).is_ok_and(|id| id == self.id) => {
                reader.identity().map(|identity| self.mark.set(identity));
                Ok(())
            }
            Ok(_) => Err(moved()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(moved())
            }
            Err(error) => Err(error),
        }
    }
}

async fn read_mark(
    fs: &dyn FileSystem,
    who: &Principal,
    layout: &Layout,
) -> Result<(Box<dyn FileReader>, Bytes)> {
    let reader = fs.open(who, &layout.mark()?).await?;
    let mark = bytes_of_mark(reader.as_ref()).await?;
    Ok((reader, mark))
}

/// A byte more than a mark has, so that a longer file is none.
async fn bytes_of_mark(reader: &dyn FileReader) -> Result<Bytes> {
    reader.read_at(0, MARK_BYTES + 1).await
}

fn id_of(mark: &[u8]) -> Result<ContainerId> {
    let Ok(text) = std::str::from_utf8(mark) else {
        return fail(ErrorKind::Corrupt, "its mark is damaged");
    };
    let Some(digits) = text.strip_prefix(MARK).and_then(|text| text.strip_suffix('\n')) else {
        return match text.strip_prefix("strait-plfs ") {
            Some(_) => fail(ErrorKind::Unsupported, "a later version of Strait made the container"),
            None => fail(ErrorKind::Corrupt, "its mark is damaged"),
        };
    };
    match u128::from_str_radix(digits, 16) {
        Ok(id) if digits.len() == 32 => Ok(id.to_be_bytes()),
        _ => fail(ErrorKind::Corrupt, "its mark is damaged"),
    }
}

/// A file's permission, with leave to search wherever there is leave to read.
fn directory(permission: u32) -> u32 {
    permission | (permission & 0o444) >> 2
}

/// A name for a file or directory that gets `name` once it is whole. Its length is within a name's limit.
pub(crate) fn hidden_name(name: &str, id: &[u8; 16]) -> String {
    format!(".{}.plfs-{}", &name[..name.floor_char_boundary(150)], hexadecimal(id))
}

fn hexadecimal(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

//! The container of a logical file: creating, opening, renaming and removing it.

use crate::block::{ContainerId, MAX_EPOCH};
use crate::layout::{Layout, LogName};
use crate::parts::Parted;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, join};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use strait_store::random::random;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileReader, FileSystem, FileSystemExt, Principal, Result, StorePath,
    fail,
};
use tokio::time::{Instant, sleep};

/// First bytes of a container's mark. The format and the container's id follow, in hexadecimal digits.
const MARK: &str = "strait-plfs ";
const MARK_BYTES: usize = MARK.len() + 2 + 32 + 1;
/// A store that shows only closed files may reserve a new name by an empty file. While a mark is empty, `open`
/// looks again after each pause, for this time in all.
const EMPTY_PATIENCE: Duration = Duration::from_secs(3);
const EMPTY_PAUSE: Duration = Duration::from_millis(50);

/// The format of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Each log is one file.
    Whole = 1,
    /// Logs have parts: see [`Parted`].
    Parts = 2,
}

/// Settings of a new container.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Permission bits of the file, and so of the container's logs. The directories also get `x`
    /// wherever there is `r`.
    pub permission: Option<u32>,
    /// Settings of each log.
    pub logs: CreateOptions,
    /// The container's identity, which must be unique; random by default. If a process is killed while it
    /// creates a file, another process that retries with the same identity removes the leftovers.
    pub id: Option<[u8; 16]>,
}

/// Limits above which the index moves from memory to tables, and above which merging pays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most entries of the index in memory while blocks are applied: some 10 MB.
    pub entries: usize,
    /// Most tables of a view; more are joined into one. A read searches each table, and joining reads all.
    pub tables: usize,
    /// The last close merges the index logs if there are more than `logs` of them, or if they have more than
    /// `bytes`. Merging costs some round trips, but saves each reader one or two for each log.
    pub logs: usize,
    pub bytes: u64,
}

pub(crate) const LIMITS: Limits = Limits { entries: 128 << 10, tables: 8, logs: 3, bytes: 64 << 10 };
/// For tests: a few writes reach each limit.
const TINY_LIMITS: Limits = Limits { entries: 3, tables: 2, logs: 0, bytes: 0 };

impl Limits {
    /// Whether merging pays for this number of index logs with this number of bytes.
    pub fn are_reached(&self, logs: usize, bytes: u64) -> bool {
        logs > self.logs || bytes > self.bytes
    }
}

/// A logical file.
#[derive(Clone)]
pub struct Container {
    /// The store. If the logs have parts, it puts them together.
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) parts: Option<Parted>,
    pub(crate) who: Principal,
    pub(crate) layout: Layout,
    pub(crate) id: ContainerId,
    /// The store's identity of the mark's file, once the mark was read.
    mark: Arc<OnceLock<Bytes>>,
    pub(crate) logs: CreateOptions,
    pub(crate) limits: Limits,
}

impl Container {
    /// Creates a logical file. It appears under its path in one step, complete, on every node.
    ///
    /// # Errors
    /// AlreadyExists: a file, directory or container has the path.
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
        let id: ContainerId = options.id.unwrap_or_else(random);
        if Parted::is_needed(&fs.capabilities()) {
            return Self::create_parted(fs, who, path, options, id).await.map_err(failed);
        }
        // If several processes create the file at once, the rename decides which one succeeds.
        let hidden = parent.join(&hidden_name(path.name(), &id))?;
        let container = Self {
            layout: Layout::new(hidden.clone()),
            logs: CreateOptions { permission: options.permission, ..options.logs.clone() },
            fs,
            parts: None,
            who: who.clone(),
            id,
            mark: Arc::default(),
            limits: LIMITS,
        };
        let made = async {
            let permission = options.permission.map(directory);
            match container.fill(permission).await {
                // A killed process left it. Busy: the store still counts the mark as open.
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
            // If this fails, the directory stays unused.
            let _ = container.fs.remove(who, &hidden, true).await;
            return Err(failed(error));
        }
        Ok(Self { layout: Layout::new(path.clone()), ..container })
    }

    /// Creates a file whose logs have parts. Its mark alone makes it, since these stores need no directories, and
    /// rename none in one step.
    async fn create_parted(
        fs: Arc<dyn FileSystem>,
        who: &Principal,
        path: &StorePath,
        options: &Options,
        id: ContainerId,
    ) -> Result<Self> {
        let layout = Layout::new(path.clone());
        let logs = CreateOptions { permission: options.permission, ..options.logs.clone() };
        let once = CreateOptions { overwrite: false, ..logs.clone() };
        let taken = || fail(ErrorKind::AlreadyExists, "the name is taken");
        match fs.stat(who, path).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match fs.write_all(who, &layout.mark()?, &once, mark(Format::Parts, &id)).await {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => return taken(),
                    made => made?,
                }
            }
            Err(error) => return Err(error),
            // A killed process may have created it with the same identity.
            Ok(_) if options.id.is_none() => return taken(),
            Ok(_) => match Self::open(fs.clone(), who, path).await {
                Ok(there) if there.id == id => return Ok(Self { logs, ..there }),
                Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
                _ => return taken(),
            },
        }
        let (fs, parts) = Self::with_parts(fs);
        let mark = Arc::default();
        Ok(Self { layout, logs, fs, parts, who: who.clone(), id, mark, limits: LIMITS })
    }

    /// Refuses to write if a sync would promise nothing. A copy tool can bring such a container to such a store.
    pub(crate) fn demand_synced(&self) -> Result<()> {
        if self.parts.is_some() || !Parted::is_needed(&self.fs.capabilities()) {
            return Ok(());
        }
        let message = "this store keeps only closed files, so an open log has no synced bytes, and this container's logs \
                       can't have parts: an earlier version or another store made it; read it here, or flatten it \
                       and write a new one";
        fail(ErrorKind::Unsupported, message).map_err(|error: Error| error.at("write", self.path()))
    }

    fn with_parts(fs: Arc<dyn FileSystem>) -> (Arc<dyn FileSystem>, Option<Parted>) {
        let parts = Parted::new(fs);
        (Arc::new(parts.clone()), Some(parts))
    }

    /// Makes the directories and the mark.
    async fn fill(&self, permission: Option<u32>) -> Result<()> {
        let layout = &self.layout;
        let directories = [layout.root().clone(), layout.logs()?, layout.open()?, layout.epochs()?];
        for directory in directories {
            self.fs.mkdirs(&self.who, &directory, permission).await?;
        }
        self.fs.write_all(&self.who, &layout.mark()?, &self.logs, mark(Format::Whole, &self.id)).await
    }

    /// Opens a logical file.
    ///
    /// # Errors
    /// NotFound: nothing has the path. InvalidArgument: the path isn't a container. Unsupported: a later
    /// version of Strait made the container. Corrupt: the container's mark is damaged. Busy: the container's
    /// creation began, but hasn't ended within 3 s.
    pub async fn open(fs: Arc<dyn FileSystem>, who: &Principal, path: &StorePath) -> Result<Self> {
        let failed = |error: Error| error.at("open", path);
        let layout = Layout::new(path.clone());
        let (mut is_there, mut empty_until) = (false, None);
        let reserves = Parted::is_needed(&fs.capabilities());
        let ((reader, mark), attributes) = loop {
            let look =
                join!(read_mark(fs.as_ref(), who, &layout), async { fs.stat(who, &layout.mark()?).await });
            match look {
                (Ok((_, mark)), Ok(_)) if reserves && mark.is_empty() => {
                    let until = *empty_until.get_or_insert_with(|| Instant::now() + EMPTY_PATIENCE);
                    if Instant::now() >= until {
                        let message = "its creation hasn't ended; if its creator was killed, remove it by \
                                       `strait rm -r`";
                        return fail(ErrorKind::Busy, message).map_err(failed);
                    }
                    sleep(EMPTY_PAUSE).await;
                }
                (Ok(read), Ok(attributes)) => break (read, attributes),
                (Err(error), _) | (_, Err(error))
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
                {
                    if is_there {
                        return fail(ErrorKind::InvalidArgument, "it isn't a PLFS container").map_err(failed);
                    }
                    // A container appears with its mark, perhaps only after the look for it.
                    fs.stat(who, path).await.map_err(failed)?;
                    is_there = true;
                }
                (Err(error), _) | (_, Err(error)) => return Err(error),
            }
        };
        let (format, id) = parse(&mark).map_err(failed)?;
        // All writers use the settings of the container's creator. The mark was created with them.
        let replication = fs.capabilities().replication.then_some(attributes.replication);
        let logs = CreateOptions {
            permission: Some(attributes.permission),
            replication,
            ..CreateOptions::default()
        };
        let mark = Arc::new(reader.identity().map_or_else(OnceLock::new, OnceLock::from));
        let (fs, parts) = match format {
            Format::Whole => (fs, None),
            Format::Parts => Self::with_parts(fs),
        };
        Ok(Self { fs, parts, who: who.clone(), layout, id, mark, logs, limits: LIMITS })
    }

    /// For tests: limits that are so low that a few writes reach them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_tiny_limits(self) -> Self {
        Self { limits: TINY_LIMITS, ..self }
    }

    /// The container's identity.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The container's path.
    pub fn path(&self) -> &StorePath {
        self.layout.root()
    }

    /// Renames the file, as [`FileSystem::rename`] does. Open writers of the file fail at their next sync that
    /// has bytes to publish, at close, or (without logs) at their first write, unless
    /// [`Writer::moved`](crate::Writer::moved) gives them the new path.
    pub async fn rename(&mut self, to: &StorePath, replace: bool) -> Result<()> {
        self.fs.rename(&self.who, self.path(), to, replace).await?;
        self.moved(to);
        Ok(())
    }

    /// Sets the path after another call has renamed the file.
    pub fn moved(&mut self, to: &StorePath) {
        self.layout = Layout::new(to.clone());
    }

    /// Removes the file.
    pub async fn remove(self) -> Result<()> {
        self.fs.remove(&self.who, self.path(), true).await
    }

    /// The writers that have logs, by rank and nonce.
    pub(crate) async fn log_names(&self) -> Result<Vec<LogName>> {
        let entries = self.fs.list(&self.who, &self.layout.logs()?);
        let names = entries.try_filter_map(async |entry| Ok(LogName::of_index(entry.name())));
        let mut names: Vec<LogName> = names.try_collect().await?;
        names.sort_unstable();
        Ok(names)
    }

    /// The highest epoch that a writer published; 0 if none did.
    pub(crate) async fn epoch(&self) -> Result<u64> {
        let mut entries = self.fs.list(&self.who, &self.layout.epochs()?);
        let mut last = 0;
        while let Some(entry) = entries.next().await {
            last = last.max(entry?.name().parse().unwrap_or(0));
        }
        if last > MAX_EPOCH {
            let message = format!("the mark of epoch {last} is damaged: no writer reaches that epoch");
            return Err(Error::new(ErrorKind::Corrupt, message).at("read", self.layout.epoch(last)?));
        }
        Ok(last)
    }

    /// Publishes an epoch. Succeeds also if another writer has published or is publishing it.
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

    /// Checks that this container is still at its path. The error is NotFound if it isn't.
    pub(crate) async fn check_place(&self, operation: &'static str) -> Result<()> {
        let moved = || {
            let message = "the file was removed, renamed or replaced while it was open";
            Error::new(ErrorKind::NotFound, message).at(operation, self.path())
        };
        let opened = self.fs.open(&self.who, &self.layout.mark()?).await;
        // It is the same file, so its content is known.
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
            Ok((reader, mark)) if parse(&mark).is_ok_and(|(_, id)| id == self.id) => {
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

/// Reads one byte more than a mark has, so that a longer file isn't taken for a mark.
async fn bytes_of_mark(reader: &dyn FileReader) -> Result<Bytes> {
    reader.read_at(0, MARK_BYTES + 1).await
}

fn mark(format: Format, id: &ContainerId) -> Bytes {
    format!("{MARK}{} {}\n", format as u8, hexadecimal(id)).into()
}

fn parse(mark: &[u8]) -> Result<(Format, ContainerId)> {
    let damaged = || Error::new(ErrorKind::Corrupt, "the container's file .plfs is damaged");
    let text = std::str::from_utf8(mark).ok().and_then(|text| text.strip_prefix(MARK)).ok_or_else(damaged)?;
    let (format, digits) = text.split_once(' ').ok_or_else(damaged)?;
    let format = match format {
        "1" => Format::Whole,
        "2" => Format::Parts,
        _ => return fail(ErrorKind::Unsupported, "a later version of Strait made the container"),
    };
    let digits = digits.strip_suffix('\n').filter(|digits| digits.len() == 32).ok_or_else(damaged)?;
    let id = u128::from_str_radix(digits, 16).map_err(|_| damaged())?;
    Ok((format, id.to_be_bytes()))
}

/// The permission of a directory for a file's permission: `x` is added wherever there is `r`.
fn directory(permission: u32) -> u32 {
    permission | (permission & 0o444) >> 2
}

/// A temporary name for a file or directory that is renamed to `name` once it is complete. It is short enough
/// for the stores' limit on names.
pub(crate) fn hidden_name(name: &str, id: &[u8; 16]) -> String {
    format!(".{}.plfs-{}", &name[..name.floor_char_boundary(150)], hexadecimal(id))
}

fn hexadecimal(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

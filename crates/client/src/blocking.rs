//! Files of a gateway for programs without tokio: [`Client`] opens them, [`Reader`] is a `std::io::Read`,
//! `BufRead` and `Seek`, [`Writer`] a `std::io::Write`. They read ahead and gather bytes as those of
//! [`stream`] do. A long sequential read has a connection of its own, whose bytes the program's thread receives
//! straight into its memory.
//!
//! Calls wait in their thread. Each call that waits panics in a task of tokio: use [`StraitStore`] and [`stream`]
//! there, or `spawn_blocking`. A read of bytes that are present doesn't wait, nor does a write for which the
//! stream has room. So a program may panic only after 1 MiB.

use crate::stream::{self, session_user};
use crate::{CreateOptions, FileStatus, FileSystem, Options, Result, StorePath, StraitStore};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

/// Threads for connections. They only pass bytes on, so one keeps up with many files.
const THREADS: usize = 1;

/// A connection to a gateway, and a thread that serves it. Any number of threads can use it at once.
///
/// ```no_run
/// use std::io::{BufRead, Write};
/// use strait_client::blocking::Client;
/// use strait_client::{CreateOptions, Options};
///
/// # fn main() -> std::io::Result<()> {
/// let client = Client::connect("127.0.0.1:9090", Options::default())?;
/// let mut writer = client.create("/logs/greeting.txt", &CreateOptions::default())?;
/// writeln!(writer, "grüße")?;
/// writer.close()?; // now it is on stable storage
/// for line in client.open("/logs/greeting.txt")?.lines() {
///     println!("{}", line?);
/// }
/// client.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Client {
    store: StraitStore,
    background: Background,
}

/// The runtime, which ends with the last file and client that use it.
#[derive(Clone)]
struct Background(Arc<Owned>);

/// None only while it is dropped.
struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        // Without waiting, since a runtime that waits can't be dropped in a task.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Background {
    fn start() -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("strait-client").enable_all().build()?;
        Ok(Self(Arc::new(Owned(Some(runtime)))))
    }

    /// Runs `work` to its end in this thread.
    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.0.0.as_ref().expect("it is there until the last owner is dropped");
        runtime.block_on(work)
    }
}

impl Client {
    /// Connects to the gateway at `address`, `host:port`, and logs in.
    ///
    /// # Errors
    /// Those of [`StraitStore::connect`]; others if the system starts no thread.
    pub fn connect(address: &str, options: Options) -> Result<Self> {
        let background = Background::start()?;
        let store = background.wait(StraitStore::connect(address, options))?;
        Ok(Self { store, background })
    }

    /// Opens a file to read. The stream begins at its first byte.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`]; InvalidArgument if `path` isn't an absolute path.
    pub fn open(&self, path: &str) -> Result<Reader> {
        let stream = self.wait(self.store.open_stream(path))?.in_thread();
        Ok(Reader { stream, background: self.background.clone() })
    }

    /// Creates a file and its missing parents.
    ///
    /// # Errors
    /// Those of [`FileSystem::create`]; InvalidArgument if `path` isn't an absolute path.
    pub fn create(&self, path: &str, options: &CreateOptions) -> Result<Writer> {
        let stream = self.wait(self.store.create_stream(path, options))?;
        Ok(Writer { stream, background: self.background.clone() })
    }

    /// Opens a file to write at its end.
    ///
    /// # Errors
    /// Those of [`FileSystem::append`]; InvalidArgument if `path` isn't an absolute path.
    pub fn append(&self, path: &str) -> Result<Writer> {
        let stream = self.wait(self.store.append_stream(path))?;
        Ok(Writer { stream, background: self.background.clone() })
    }

    /// The status of a file or directory.
    ///
    /// # Errors
    /// Those of [`FileSystem::stat`]; InvalidArgument if `path` isn't an absolute path.
    pub fn stat(&self, path: &str) -> Result<FileStatus> {
        self.wait(self.store.stat(&session_user(), &StorePath::parse(path)?))
    }

    /// A directory's entries, in the store's order. The gateway sends them page by page.
    ///
    /// # Errors
    /// InvalidArgument if `path` isn't an absolute path. Errors of [`FileSystem::list`] are items.
    ///
    /// ```no_run
    /// # fn example(client: &strait_client::blocking::Client) -> std::io::Result<()> {
    /// for entry in client.list("/logs")? {
    ///     let entry = entry?;
    ///     println!("{} has {} bytes", entry.name(), entry.length);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, path: &str) -> Result<Entries> {
        let pages = self.store.list(&session_user(), &StorePath::parse(path)?);
        Ok(Entries { pages, background: self.background.clone() })
    }

    /// Makes a directory and its missing parents. Succeeds if the directory exists.
    ///
    /// # Errors
    /// Those of [`FileSystem::mkdirs`]; InvalidArgument if `path` isn't an absolute path.
    pub fn mkdirs(&self, path: &str) -> Result<()> {
        self.wait(self.store.mkdirs(&session_user(), &StorePath::parse(path)?, None))
    }

    /// Renames a file or directory. With `replace`, it replaces an existing file in one step.
    ///
    /// # Errors
    /// Those of [`FileSystem::rename`]; InvalidArgument if one of the paths isn't absolute.
    pub fn rename(&self, from: &str, to: &str, replace: bool) -> Result<()> {
        self.wait(self.store.rename(
            &session_user(),
            &StorePath::parse(from)?,
            &StorePath::parse(to)?,
            replace,
        ))
    }

    /// Removes a file or directory. A directory with entries needs `recursive`.
    ///
    /// # Errors
    /// Those of [`FileSystem::remove`]; InvalidArgument if `path` isn't an absolute path.
    pub fn remove(&self, path: &str, recursive: bool) -> Result<()> {
        self.wait(self.store.remove(&session_user(), &StorePath::parse(path)?, recursive))
    }

    /// The store behind the gateway, for all other operations: see [`Client::wait`].
    pub fn store(&self) -> &StraitStore {
        &self.store
    }

    /// Waits for an operation of [`Client::store`].
    ///
    /// # Panics
    /// In a task of tokio.
    ///
    /// ```no_run
    /// use strait_client::{FileSystem, Principal, StorePath};
    ///
    /// # fn example(client: &strait_client::blocking::Client) -> strait_client::Result<()> {
    /// // The gateway acts for the session's user, whatever the principal is.
    /// let (who, path) = (Principal::new(""), StorePath::parse("/logs/events.txt")?);
    /// client.wait(client.store().truncate(&who, &path, 4096))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.background.wait(work)
    }

    /// Ends the session on the gateway now instead of when it idles out, with all files that are open.
    ///
    /// # Errors
    /// Those of [`StraitStore::close`].
    pub fn close(self) -> Result<()> {
        self.wait(self.store.close())
    }
}

/// A file to read: a [`stream::Reader`] for programs without tokio.
///
/// ```no_run
/// use std::io::{Read, Seek, SeekFrom};
///
/// # fn example(client: &strait_client::blocking::Client) -> std::io::Result<()> {
/// let mut reader = client.open("/data/table")?;
/// reader.seek(SeekFrom::End(-8))?;
/// let mut footer = [0; 8];
/// reader.read_exact(&mut footer)?;
/// # Ok(())
/// # }
/// ```
pub struct Reader {
    stream: stream::Reader,
    background: Background,
}

impl Reader {
    /// The file's length in bytes, when it was opened.
    pub fn length(&self) -> u64 {
        self.stream.length()
    }

    /// Reads from `offset` until `into` is full or the file ends, and returns the number of bytes. Any number of
    /// threads can do this at once. It neither uses nor moves the stream's position, and doesn't read ahead.
    ///
    /// # Errors
    /// Those of [`FileReader::read_at`](crate::FileReader::read_at).
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.background.wait(self.stream.read_into(into, offset))
    }
}

impl BufRead for Reader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.stream.present().is_empty() {
            self.background.wait(self.stream.fill_buf())?;
        }
        Ok(self.stream.present())
    }

    fn consume(&mut self, bytes: usize) {
        self.stream.advance(bytes);
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.stream.present().is_empty() {
            return self.background.wait(self.stream.read(into));
        }
        let bytes = Read::read(&mut self.stream.present(), into)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.stream.seek_to(to)
    }
}

/// A file to write: a [`stream::Writer`] for programs without tokio, with the same promises.
///
/// Call [`close`](Self::close) at the end. A writer that is dropped without it is abandoned: flushed bytes
/// survive, and others may get lost.
///
/// ```no_run
/// use std::io::Write;
///
/// # fn example(client: &strait_client::blocking::Client) -> std::io::Result<()> {
/// let mut writer = client.append("/logs/events.txt")?;
/// writer.write_all(b"an event\n")?;
/// writer.flush()?; // readers who open the file now see it
/// writer.close()?; // it is on stable storage
/// # Ok(())
/// # }
/// ```
pub struct Writer {
    stream: stream::Writer,
    background: Background,
}

impl Writer {
    /// The file's length in bytes with all bytes that were written here.
    pub fn position(&self) -> u64 {
        self.stream.position()
    }

    /// Number of replicas that certainly have all bytes, as of the latest flush, sync or close. None if
    /// the store doesn't know it.
    pub fn replicas(&self) -> Option<u32> {
        self.stream.replicas()
    }

    /// Waits until all bytes written so far are on stable storage.
    ///
    /// # Errors
    /// Those of [`FileWriter::sync`](crate::FileWriter::sync), and of earlier writes.
    pub fn sync(&mut self) -> io::Result<()> {
        self.background.wait(self.stream.sync())
    }

    /// Puts all bytes on stable storage, and closes the file. A second call does nothing. If the store keeps the
    /// file open after an error, a further call tries again.
    ///
    /// # Errors
    /// Those of [`FileWriter::close`](crate::FileWriter::close), and of earlier writes.
    pub fn close(&mut self) -> io::Result<()> {
        self.background.wait(self.stream.shutdown())
    }
}

impl Write for Writer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.stream.gather(data) {
            0 => self.background.wait(self.stream.write(data)),
            bytes => Ok(bytes),
        }
    }

    /// Waits until the bytes written so far are visible to readers who open the file afterwards.
    fn flush(&mut self) -> io::Result<()> {
        self.background.wait(self.stream.flush())
    }
}

/// A directory's entries: see [`Client::list`].
pub struct Entries {
    pages: BoxStream<'static, Result<FileStatus>>,
    background: Background,
}

impl Iterator for Entries {
    type Item = Result<FileStatus>;

    fn next(&mut self) -> Option<Self::Item> {
        self.background.wait(self.pages.next())
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

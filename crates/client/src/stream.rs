//! Files as streams of tokio: [`Reader`] is an `AsyncRead`, `AsyncBufRead` and `AsyncSeek`, [`Writer`] an
//! `AsyncWrite`. [`blocking`](crate::blocking) has the same for programs without tokio.
//!
//! Both work over any store's [`FileReader`](crate::FileReader) and [`FileWriter`](crate::FileWriter). Their
//! errors contain the store's [`Error`](crate::Error), which names the operation and the path:
//!
//! ```
//! use strait_client::{Error, ErrorKind};
//!
//! let error = std::io::Error::from(Error::new(ErrorKind::Busy, "another writer").at("append to", "/a"));
//! assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
//! assert_eq!(error.to_string(), "append to /a: another writer (Busy)");
//! let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).unwrap();
//! assert_eq!((own.kind(), own.path()), (ErrorKind::Busy, "/a"));
//! ```

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

use crate::{CreateOptions, FileSystem, Principal, Result, StorePath, StraitStore};

/// The principal of all calls: the gateway executes each as the session's user.
pub(crate) fn session_user() -> Principal {
    Principal::new("")
}

impl StraitStore {
    /// Opens a file as a stream to read, which begins at its first byte.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`]; InvalidArgument if `path` isn't an absolute path.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// use strait_client::{Options, StraitStore};
    /// use tokio::io::AsyncBufReadExt;
    ///
    /// let store = StraitStore::connect("127.0.0.1:9090", Options::default()).await?;
    /// let mut lines = store.open_stream("/logs/events.txt").await?.lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     println!("{line}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_stream(&self, path: &str) -> Result<Reader> {
        Ok(Reader::named(self.open(&session_user(), &StorePath::parse(path)?).await?, path))
    }

    /// Creates a file and its missing parents, as a stream to write.
    ///
    /// # Errors
    /// Those of [`FileSystem::create`]; InvalidArgument if `path` isn't an absolute path.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// use strait_client::{CreateOptions, Options, StraitStore};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let store = StraitStore::connect("127.0.0.1:9090", Options::default()).await?;
    /// let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    /// let mut writer = store.create_stream("/logs/greeting.txt", &options).await?;
    /// writer.write_all("grüße\n".as_bytes()).await?;
    /// writer.shutdown().await?; // now it is on stable storage
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_stream(&self, path: &str, options: &CreateOptions) -> Result<Writer> {
        Ok(Writer::named(self.create(&session_user(), &StorePath::parse(path)?, options).await?, path))
    }

    /// Opens a file as a stream to write at its end.
    ///
    /// # Errors
    /// Those of [`FileSystem::append`]; InvalidArgument if `path` isn't an absolute path.
    pub async fn append_stream(&self, path: &str) -> Result<Writer> {
        Ok(Writer::named(self.append(&session_user(), &StorePath::parse(path)?).await?, path))
    }
}

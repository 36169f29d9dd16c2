//! A file under a temporary name, until it is complete.

use std::sync::Arc;
use std::time::Duration;
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileWriter, Principal, Result, StorePath};
use strait_telemetry::Seldom;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts a gateway's temporary files, so that its end can wait for their removal.
#[derive(Clone)]
pub struct Temporaries(Arc<Semaphore>);

impl Temporaries {
    /// More than a gateway can have.
    const MOST: u32 = 1 << 24;

    /// No files so far.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(Self::MOST as usize)))
    }

    /// Waits until each has its real name or was removed.
    pub async fn end(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.0.acquire_many(Self::MOST)).await.is_err() {
            tracing::warn!("shutdown: some temporary files may be left; strait rm --stale removes them");
        }
    }
}

/// A file with a temporary name. If this is dropped before [`Temporary::rename`] has succeeded, a task
/// removes the file, even if the client has left.
pub struct Temporary {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    counted: Option<OwnedSemaphorePermit>,
    /// Whether dropping this leaves the file: it has its real name, is the only version, or wasn't made.
    stays: bool,
}

impl Temporary {
    /// For a file at `path`. Call it before the store makes the file, since the client may leave while the
    /// store makes it.
    pub fn new(all: &Temporaries, fs: Arc<dyn FileSystem>, who: Principal, path: StorePath) -> Self {
        Self { fs, who, path, counted: all.0.clone().try_acquire_owned().ok(), stays: false }
    }

    /// Its present path.
    pub fn path(&self) -> &StorePath {
        &self.path
    }

    /// Makes the file.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn create(&mut self, options: &CreateOptions) -> Result<Box<dyn FileWriter>> {
        let made = self.fs.create(&self.who, &self.path, options).await;
        if let Err(error) = &made {
            // The file wasn't made, so there is nothing to remove, unless the outcome is unknown.
            self.stays = error.kind() != ErrorKind::OutcomeUnknown;
        }
        made
    }

    /// Gives the file its real name. Drop the future only before its first poll or after its end.
    ///
    /// # Errors
    /// The store's errors. AlreadyExists: the name is taken, and `replace` is false.
    pub async fn rename(mut self, to: StorePath, replace: bool) -> Result<()> {
        let at_once = self.fs.capabilities().rename_replace;
        if replace && !at_once {
            // The store can't replace a file in one step.
            match self.fs.remove(&self.who, &to, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                // From here on this is the only version of the file.
                _ => self.stays = true,
            }
        }
        self.fs.rename(&self.who, &self.path, &to, replace && at_once).await?;
        self.stays = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (fs, who, path) = (self.fs.clone(), self.who.clone(), self.path.clone());
        let counted = self.counted.take();
        runtime.spawn(async move {
            let _counted = counted;
            match fs.remove(&who, &path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    static LEFT: Seldom = Seldom::new();
                    if let Some(left_out) = LEFT.may_write() {
                        tracing::warn!(%error, left_out, "a temporary file couldn't be removed");
                    }
                }
                _ => {}
            }
        });
    }
}

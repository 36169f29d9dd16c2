//! Making a plain file of a logical one.

use crate::container::Container;
use futures::{StreamExt, TryStreamExt, stream};
use strait_store::{CreateOptions, Error, ErrorKind, MAX_CHUNK_BYTES, Result, StorePath, fail};

/// Pieces that are read while earlier ones are written: 32 MiB.
const AHEAD: usize = 8;

impl Container {
    /// Writes the file's bytes to a plain file of the same store, which appears whole under the new
    /// name. The container stays as it is. Returns the bytes written.
    ///
    /// # Errors
    /// AlreadyExists: something has the new name.
    pub async fn flatten(&self, to: &StorePath) -> Result<u64> {
        let failed = |error: Error| error.at("flatten to", to);
        let (Some(parent), name) = (to.parent(), to.name()) else {
            return fail(ErrorKind::AlreadyExists, "the root can't be a file").map_err(failed);
        };
        if self.path().contains(to) {
            return fail(ErrorKind::InvalidArgument, "the new name is within the container").map_err(failed);
        }
        match self.fs.stat(&self.who, to).await {
            Ok(_) => return fail(ErrorKind::AlreadyExists, "it is there already").map_err(failed),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let hidden = parent.join(&crate::container::hidden_name(name, &crate::container::random()))?;
        let made = async {
            let bytes = self.copy_to(&hidden).await?;
            let renamed = self.fs.rename(&self.who, &hidden, to, false).await;
            // The user knows only the new name.
            renamed.map_err(|error| Error::new(error.kind(), error.message().to_owned()))?;
            Ok(bytes)
        };
        let made: Result<u64> = made.await;
        if made.is_err() {
            // Nobody knows its name, also if this fails.
            let _ = self.fs.remove(&self.who, &hidden, false).await;
        }
        made.map_err(failed)
    }

    async fn copy_to(&self, to: &StorePath) -> Result<u64> {
        let reader = self.reader().await?;
        let options = CreateOptions { overwrite: false, ..self.logs.clone() };
        let mut writer = self.fs.create(&self.who, to, &options).await?;
        let offsets = (0..reader.length()).step_by(MAX_CHUNK_BYTES);
        let mut pieces = stream::iter(offsets).map(|at| reader.read_at(at, MAX_CHUNK_BYTES)).buffered(AHEAD);
        while let Some(piece) = pieces.try_next().await? {
            writer.append(piece).await?;
        }
        writer.close().await?;
        Ok(reader.length())
    }
}

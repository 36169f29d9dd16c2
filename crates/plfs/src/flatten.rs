//! Copies a logical file to a plain file.

use crate::container::{Container, hidden_name};
use crate::reader::Reader;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use strait_store::random::random;
use strait_store::{CreateOptions, Error, ErrorKind, MAX_CHUNK_BYTES, Result, StorePath, fail};

/// Pieces of 4 MiB that are read ahead while earlier ones are written.
const AHEAD: usize = 8;
/// Most parts that are written at once, and the smallest part in bytes: each part is a file, which costs some
/// round trips.
const MOST_PARTS: u64 = 8;
const LEAST_PART: u64 = 64 << 20;

impl Container {
    /// Copies the file's bytes to a plain file in the same store. That file appears under `to` in one step,
    /// complete. The container stays as it is. Returns the number of bytes.
    ///
    /// # Errors
    /// AlreadyExists: something has the path `to`.
    pub async fn flatten(&self, to: &StorePath) -> Result<u64> {
        let failed = |error: Error| error.at("flatten to", to);
        if self.path() == to {
            return fail(ErrorKind::AlreadyExists, "this is the container's own path").map_err(failed);
        }
        self.demand_free(to).await?;
        let (hidden, bytes) = self.copy_beside(to).await.map_err(failed)?;
        match self.fs.rename(&self.who, &hidden, to, false).await {
            Ok(()) => Ok(bytes),
            Err(error) => {
                // If this fails, the file stays unused: no other program knows its name.
                let _ = self.fs.remove(&self.who, &hidden, false).await;
                // The error names `to`, since the user doesn't know the temporary name.
                Err(failed(Error::new(error.kind(), error.message().to_owned())))
            }
        }
    }

    /// Checks that nothing has the path `to`, except this container. Returns the parent directory.
    pub(crate) async fn demand_free(&self, to: &StorePath) -> Result<StorePath> {
        let failed = |error: Error| error.at("flatten to", to);
        let Some(parent) = to.parent() else {
            return fail(ErrorKind::AlreadyExists, "the root can't be a file").map_err(failed);
        };
        if self.path() == to {
            return Ok(parent);
        }
        if self.path().contains(to) {
            return fail(ErrorKind::InvalidArgument, "the new path is within the container").map_err(failed);
        }
        match self.fs.stat(&self.who, to).await {
            Ok(_) => fail(ErrorKind::AlreadyExists, "it exists already").map_err(failed),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(parent),
            Err(error) => Err(error),
        }
    }

    /// Copies all bytes to a file with a temporary name beside `to`: several parts at once, if the store can
    /// join files. Returns the file's path and length.
    pub(crate) async fn copy_beside(&self, to: &StorePath) -> Result<(StorePath, u64)> {
        let parent = to.parent().unwrap_or_else(StorePath::root);
        let hidden = parent.join(&hidden_name(to.name(), &random()))?;
        let reader = self.reader().await?;
        let parts = match self.fs.capabilities().concat {
            true => (reader.length() / LEAST_PART).clamp(1, MOST_PARTS),
            false => 1,
        };
        // A multiple of the largest read, so that no read of a part is short except its last.
        let each = reader.length().div_ceil(parts).next_multiple_of(MAX_CHUNK_BYTES as u64);
        let path = |part: u64| match part {
            0 => Ok(hidden.clone()),
            part => parent.join(&format!("{}.{part}", hidden.name())),
        };
        let paths: Vec<StorePath> = (0..parts).map(path).collect::<Result<_>>()?;
        let copies = paths.iter().zip(0..).map(|(path, part)| {
            let end = ((part + 1) * each).min(reader.length());
            self.copy_part(&reader, (part * each).min(end)..end, path)
        });
        let made = async {
            try_join_all(copies).await?;
            // The last parts are empty if rounding left nothing for them.
            let filled = reader.length().div_ceil(each.max(1)).max(1) as usize;
            if filled > 1 {
                self.fs.concat(&self.who, &hidden, &paths[1..filled]).await?;
            }
            for empty in &paths[filled..] {
                self.fs.remove(&self.who, empty, false).await?;
            }
            Ok(reader.length())
        };
        match made.await {
            Ok(length) => Ok((hidden, length)),
            Err(error) => {
                for path in &paths {
                    // If this fails, the file stays unused: no other program knows its name.
                    let _ = self.fs.remove(&self.who, path, false).await;
                }
                Err(error)
            }
        }
    }

    async fn copy_part(&self, reader: &Reader, range: Range<u64>, to: &StorePath) -> Result<()> {
        let options = CreateOptions { overwrite: false, ..self.logs.clone() };
        let mut writer = self.fs.create(&self.who, to, &options).await?;
        let offsets = range.clone().step_by(MAX_CHUNK_BYTES);
        let piece = |at: u64| reader.read_at(at, (range.end - at).min(MAX_CHUNK_BYTES as u64) as usize);
        let mut pieces = stream::iter(offsets).map(piece).buffered(AHEAD);
        while let Some(piece) = pieces.try_next().await? {
            writer.append(piece).await?;
        }
        writer.close().await.map(drop)
    }
}

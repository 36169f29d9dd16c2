//! Renames: copies within the endpoint, then removals. A rename isn't atomic; the capabilities say so.

use crate::errors::{Sent, change, typed};
use crate::keys::{MARKER, moved};
use crate::reservation::Reservation;
use crate::room::TURN_BYTES;
use crate::writer::MAX_PARTS;
use crate::{AT_ONCE, Found, ObjectStore, reader};
use bytes::Bytes;
use futures::future::TryFutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use hyper::header::{HeaderValue, IF_NONE_MATCH};
use object_store::path::Path;
use object_store::{CopyMode, CopyOptions, Error as Failed, ObjectMeta, ObjectStoreExt, PutMode, PutOptions};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result, StorePath, arguments, fail};
use tokio::time::timeout;

/// Size of the largest object that S3 copies by one request.
const MAX_COPY_BYTES: u64 = 5 << 30;
/// Size of the pieces of a larger object, which is copied through this process.
const PIECE_BYTES: u64 = 16 << 20;
/// Size of the pieces of an object above 156 GiB, at most. So one of 312 GiB can be copied.
const MAX_PIECE_BYTES: u64 = TURN_BYTES as u64;
/// Longest time of a piece's way here, which has a turn: an endpoint that sends a little now and then would
/// keep it.
const PIECE_PATIENCE: Duration = Duration::from_secs(300);

impl ObjectStore {
    pub(crate) async fn rename_at(&self, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        if from.is_root() {
            return fail(ErrorKind::InvalidArgument, "the root can't be renamed");
        }
        if from != to && from.contains(to) && matches!(self.find(from).await?, Found::Directory) {
            return Err(arguments::into_itself());
        }
        let source = self.find(from).await?;
        if matches!(source, Found::Nothing) {
            return fail(ErrorKind::NotFound, "no such file or directory");
        }
        if from == to {
            return fail(ErrorKind::AlreadyExists, "the new name is the same as the old one");
        }
        let target = self.find(to).await?;
        if matches!(target, Found::Nothing) {
            self.check_new_name(to).await?;
        } else if !replace {
            return fail(ErrorKind::AlreadyExists, "the new name is taken");
        }
        match (source, target) {
            (Found::File(..), Found::Directory) => {
                fail(ErrorKind::IsADirectory, "the new name is a directory")
            }
            (Found::Directory, Found::File(..)) => fail(ErrorKind::NotADirectory, "the new name is a file"),
            (Found::File(key, meta), _) => self.rename_file(from, &key, &meta, to, replace).await,
            _ => self.rename_directory(from, to, replace).await,
        }
    }

    async fn check_new_name(&self, to: &StorePath) -> Result<()> {
        self.check_parents(to).await?;
        let Some(parent) = to.parent() else { return Ok(()) };
        match self.find(&parent).await? {
            Found::Directory => Ok(()),
            Found::File(..) => fail(ErrorKind::NotADirectory, "the parent of the new name is a file"),
            Found::Nothing => fail(ErrorKind::NotFound, "the parent of the new name doesn't exist"),
        }
    }

    async fn rename_file(
        &self,
        from: &StorePath,
        key: &Path,
        meta: &ObjectMeta,
        to: &StorePath,
        replace: bool,
    ) -> Result<()> {
        self.copy(key, meta.size, &self.keys.file(to)?, replace).await?;
        let removed = async {
            self.keep_parent(from).await?;
            match self.head(key).await? {
                Some(there) if version(&there) != version(meta) => fail(ErrorKind::Busy, CHANGED),
                _ => self.delete(key).await,
            }
        };
        removed.await.map_err(|error| half_done(error, "the file now has both names; remove the old one"))
    }

    async fn rename_directory(&self, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        if replace && self.is_filled(to).await? {
            return fail(ErrorKind::NotEmpty, "the new name is a directory with entries");
        }
        let marker = self.keys.marker(to)?;
        let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
        // Without `replace`, only one of several concurrent renames to a name can create the marker.
        let marked = self.bucket.put_opts(&marker, Bytes::new().into(), PutOptions::from(mode));
        change(None, marked).await?;
        let (old, new) = (self.keys.directory(from), self.keys.directory(to));
        let mut pages = self.pages(from);
        let part_copied = |error| {
            half_done(error, "all files are under the old name, some also under the new one; remove those")
        };
        let mut copied_versions = HashSet::new();
        while let Some(page) = pages.try_next().await.map_err(part_copied)? {
            copied_versions.extend(page.iter().map(version));
            let copies = page.into_iter().filter(|meta| meta.location.as_ref() != format!("{old}{MARKER}"));
            let copies = copies.map(|meta| (moved(&meta.location, &old, &new), meta));
            let copied = stream::iter(copies.collect::<Vec<_>>()).map(|(to, meta)| async move {
                let Some(to) = to else {
                    return fail(
                        ErrorKind::Unsupported,
                        "the directory is a folder that a web console made; it can't be renamed here",
                    );
                };
                if meta.size > 0 {
                    return self.copy(&meta.location, meta.size, &to, true).await;
                }
                // A listing shows a console's folder `a/` as an empty `a`, even beside a file `a`. HEAD finds
                // only the file.
                match self.head(&meta.location).await? {
                    Some(file) => self.copy(&meta.location, file.size, &to, true).await,
                    None => self.put_empty(&to.clone().join(MARKER)).await,
                }
            });
            copied.buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(part_copied)?;
        }
        let removed = async {
            self.keep_parent(from).await?;
            // Keep the files that other clients have written since.
            match self.remove_tree(from, |meta| copied_versions.contains(&version(meta))).await? {
                true => Ok(()),
                false => fail(ErrorKind::Busy, CHANGED),
            }
        };
        removed.await.map_err(|error| {
            half_done(error, "all files are under the new name, some also under the old one; remove those")
        })
    }

    async fn copy(&self, from: &Path, size: u64, to: &Path, replace: bool) -> Result<()> {
        if size > MAX_COPY_BYTES {
            return self.copy_through(from, size, to, replace).await;
        }
        let copied = async {
            if size == 0 {
                // S3's conditional copy consists of parts, which can't be empty.
                let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
                let put = self.bucket.put_opts(to, Bytes::new().into(), PutOptions::from(mode));
                return put.await.map(drop);
            }
            let mode = if replace { CopyMode::Overwrite } else { CopyMode::Create };
            self.bucket.copy_opts(from, to, CopyOptions::new().with_mode(mode)).await
        };
        match replace {
            true => copied.await.map_err(|error| typed(error, Sent::Repeatable)),
            false => change(None, copied).await,
        }
    }

    /// Copies through this process, piece by piece. Another client may take the new name during the copy. So,
    /// unless `replace`, the upload's completion has the condition that the name is free. If the service
    /// accepts no such condition, an empty object reserves the name first.
    pub(crate) async fn copy_through(&self, from: &Path, size: u64, to: &Path, replace: bool) -> Result<()> {
        let Some(piece) = piece_bytes(size) else {
            return fail(
                ErrorKind::Unsupported,
                "an object above 312 GiB can't be renamed; use the service's own tools",
            );
        };
        let copy = Copy { from, size, piece, to };
        if replace {
            return self.upload_copy(copy, Taken::Replaced).await;
        }
        if !self.bucket.takes_conditional_uploads() {
            let reserved = Reservation::take(self.bucket.clone(), to.clone()).await?;
            let copied = self.upload_copy(copy, Taken::Reserved(&reserved)).await;
            if copied.is_err() {
                reserved.release().await;
            }
            return copied;
        }
        if self.head(to).await?.is_some() {
            return fail(ErrorKind::AlreadyExists, "the new name is taken");
        }
        self.upload_copy(copy, Taken::Refused).await
    }

    async fn upload_copy(&self, copy: Copy<'_>, taken: Taken<'_>) -> Result<()> {
        let Copy { from, size, piece, to } = copy;
        let failed = |error| typed(error, Sent::Repeatable);
        let there = self.bucket.head(from).await.map_err(failed)?;
        if there.size != size {
            return fail(ErrorKind::Busy, CHANGED);
        }
        let version = there.e_tag;
        let mut upload = self.bucket.put_multipart_opts(to, Default::default()).await.map_err(failed)?;
        let copied = async {
            let mut start = 0;
            while start < size {
                let end = (start + piece).min(size);
                let _turn = self.turns.turn((end - start) as usize).await?;
                let piece = reader::get(&self.bucket, from, version.clone(), start..end);
                let Ok(bytes) = timeout(PIECE_PATIENCE, piece).await else {
                    let message = "the endpoint sent a piece of the object too slowly; repeat the rename";
                    return Err(Error::new(ErrorKind::TimedOut, message).with_retry_safe(true));
                };
                let bytes = bytes?;
                upload.put_part(bytes.into()).await.map_err(failed)?;
                start = end;
            }
            let condition = match taken {
                Taken::Replaced => None,
                Taken::Reserved(reserved) => {
                    reserved.check().await?;
                    reserved.condition()
                }
                Taken::Refused => Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            };
            let completed = upload.complete().map_err(|error| match error {
                Failed::Precondition { path, source } => Failed::AlreadyExists { path, source },
                other => other,
            });
            change(condition, completed).await.map(drop)
        };
        let copied = copied.await;
        if copied.is_err() {
            let _ = upload.abort().await;
        }
        copied
    }
}

/// A copy through this process.
#[derive(Clone, Copy)]
struct Copy<'c> {
    from: &'c Path,
    size: u64,
    /// Bytes of a piece.
    piece: u64,
    to: &'c Path,
}

/// Bytes of the pieces of an object of this size. None if it would have too many pieces.
fn piece_bytes(size: u64) -> Option<u64> {
    let least = size.div_ceil(MAX_PARTS as u64).next_multiple_of(1 << 20);
    (least <= MAX_PIECE_BYTES).then_some(least.max(PIECE_BYTES))
}

/// The effect of a copy if an object has the new name.
enum Taken<'r> {
    Replaced,
    /// It replaces this empty object, which reserves the name.
    Reserved(&'r Reservation),
    Refused,
}

const CHANGED: &str = "another client wrote to it during the rename";

/// Stands for one version of one object. A rename keeps one for each of a directory's objects, so it is small.
fn version(meta: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    meta.location.as_ref().hash(&mut hasher);
    match &meta.e_tag {
        Some(tag) => tag.hash(&mut hasher),
        None => (meta.last_modified.timestamp(), meta.size).hash(&mut hasher),
    }
    hasher.finish()
}

fn half_done(error: Error, state: &'static str) -> Error {
    Error::new(error.kind(), format!("{}; {state}", error.message())).with_retry_safe(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_any_size_has_legal_pieces() {
        let least = 5 << 20;
        let few = PIECE_BYTES * MAX_PARTS as u64;
        for size in [MAX_COPY_BYTES + 1, few, few + 1, 200 << 30, 2 * few - 1, 2 * few] {
            let piece = piece_bytes(size).unwrap();
            assert!((least..=MAX_PIECE_BYTES).contains(&piece), "{size}: {piece}");
            assert!(size.div_ceil(piece) <= MAX_PARTS as u64, "{size}: {piece}");
        }
        assert_eq!((piece_bytes(few), piece_bytes(few + 1)), (Some(16 << 20), Some(17 << 20)));
        assert_eq!(piece_bytes(2 * few + 1), None, "it fails before it sends anything");
    }
}

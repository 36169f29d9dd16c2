//! Objects that are being written: files under temporary names.

use crate::convert::{self, Named, encode, meta};
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::fmt;
use std::sync::Arc;
use strait_store::random::try_random;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileSystem, FileWriter, Principal, StorePath, append_all,
};
use tokio::sync::{mpsc, oneshot};

/// Prefix of temporary names. Listings leave out files with this prefix.
const DRAFT: &str = ".strait-put-";
/// Number of random bytes in a temporary name.
const RANDOM_BYTES: usize = 8;

/// Whether the file of this name is an object that is being written.
pub fn is_draft(name: &str) -> bool {
    name.starts_with(DRAFT)
}

/// An object that is being written.
pub struct Draft {
    files: Arc<dyn FileSystem>,
    who: Principal,
    location: Path,
    path: StorePath,
    writer: Box<dyn FileWriter>,
}

impl Draft {
    /// Creates a temporary file in the directory of the object's final name.
    pub async fn begin(files: Arc<dyn FileSystem>, who: Principal, location: &Path) -> Result<Self> {
        let target = encode(location)?;
        let random = try_random::<RANDOM_BYTES>().map_err(|_| {
            let error = Error::new(ErrorKind::Internal, "the system returned no random bytes");
            convert::error(error, location.as_ref())
        })?;
        let name = format!("{DRAFT}{:016x}", u64::from_ne_bytes(random));
        let directory = target.parent().unwrap_or_else(StorePath::root);
        let path = directory.join(&name).named(location)?;
        let writer = files.create(&who, &path, &CreateOptions::default()).await.named(location)?;
        Ok(Self { files, who, location: location.clone(), path, writer })
    }

    /// Appends any number of bytes.
    pub async fn append(&mut self, bytes: Bytes) -> Result<()> {
        append_all(self.writer.as_mut(), bytes).await.named(&self.location)
    }

    /// Puts the bytes on stable storage, and gives the object its name.
    pub async fn publish(mut self, replace: bool) -> Result<PutResult> {
        let mut is_only_version = false;
        match self.try_publish(replace, &mut is_only_version).await {
            Ok(result) => Ok(result),
            Err(error) => {
                if !is_only_version {
                    self.discard().await;
                }
                Err(error)
            }
        }
    }

    async fn try_publish(&mut self, replace: bool, is_only_version: &mut bool) -> Result<PutResult> {
        self.writer.close().await.named(&self.location)?;
        let target = encode(&self.location)?;
        convert::rename(self.files.as_ref(), &self.who, &self.path, &target, replace, is_only_version)
            .await
            .named(&self.location)?;
        // The object is there, even if its status isn't to be had.
        let status = self.files.stat(&self.who, &target).await.ok();
        Ok(PutResult {
            e_tag: status.and_then(|status| meta(&status, self.location.clone()).e_tag),
            version: None,
            extensions: Default::default(),
        })
    }

    /// Removes the temporary file. If that fails, the file remains, but no listing shows it.
    pub async fn discard(self) {
        let Self { files, who, path, writer, .. } = self;
        drop(writer);
        let _ = files.remove(&who, &path, false).await;
    }
}

/// One part, and the channel for its outcome.
type Part = (PutPayload, oneshot::Sender<Result<()>>);

/// An upload in parts. A file only grows, so a task appends them in the order of `put_part`.
pub struct Upload {
    /// None after the end of the parts.
    parts: Option<mpsc::UnboundedSender<Part>>,
    draft: tokio::task::JoinHandle<(Draft, bool)>,
    location: Path,
    over: bool,
}

impl Upload {
    /// An upload to this draft.
    pub fn new(draft: Draft) -> Self {
        // Unbounded because `put_part` can't wait. The caller bounds the queue by awaiting earlier parts.
        let (parts, incoming) = mpsc::unbounded_channel();
        let location = draft.location.clone();
        Self { parts: Some(parts), draft: tokio::spawn(append_parts(draft, incoming)), location, over: false }
    }

    /// Waits until the queued parts are appended. Returns the draft, and whether it has all parts.
    async fn finish(&mut self) -> Result<(Draft, bool)> {
        if std::mem::replace(&mut self.over, true) {
            let ended = Error::new(ErrorKind::InvalidArgument, "the upload has ended");
            return Err(convert::error(ended, self.location.as_ref()));
        }
        self.parts = None;
        Ok((&mut self.draft).await?)
    }
}

async fn append_parts(mut draft: Draft, mut parts: mpsc::UnboundedReceiver<Part>) -> (Draft, bool) {
    let mut whole = true;
    while let Some((payload, outcome)) = parts.recv().await {
        let mut appended = Ok(());
        for bytes in payload {
            if whole {
                appended = draft.append(bytes).await;
                whole = appended.is_ok();
            }
        }
        if !whole && appended.is_ok() {
            let earlier = Error::new(ErrorKind::Unavailable, "an earlier part of the upload failed");
            appended = Err(convert::error(earlier, draft.location.as_ref()));
        }
        let _ = outcome.send(appended); // the caller may not wait for it
    }
    (draft, whole)
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (outcome, result) = oneshot::channel();
        let sent = self.parts.as_ref().is_some_and(|parts| parts.send((payload, outcome)).is_ok());
        let location = self.location.clone();
        async move {
            let ended = || Error::new(ErrorKind::InvalidArgument, "the upload has ended");
            match result.await {
                Ok(appended) if sent => appended,
                _ => Err(convert::error(ended(), location.as_ref())),
            }
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (draft, whole) = self.finish().await?;
        if whole {
            return draft.publish(true).await;
        }
        draft.discard().await;
        let failed = Error::new(ErrorKind::Unavailable, "a part of the upload failed");
        Err(convert::error(failed, self.location.as_ref()))
    }

    async fn abort(&mut self) -> Result<()> {
        self.finish().await?.0.discard().await;
        Ok(())
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.location)
    }
}

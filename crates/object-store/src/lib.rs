//! A store of Strait as an [`ObjectStore`], for DataFusion, delta-rs, Lance and others.
//!
//! ```text
//!   DataFusion, delta-rs … ── ObjectStore
//!                                │
//!                             Objects ── names, conditions, ranges, listings
//!                             Upload  ── parts, in order, to a file without a name yet
//!                                │
//!                            FileSystem ── a gateway (strait-client), or any other store
//! ```
//!
//! An object appears under its name only when it is complete: it is written to a temporary file in the
//! same directory, which is then renamed. The first object of a directory creates the directory, which
//! remains as a common prefix after its last object is removed.
//!
//! This room must never: show an incomplete object; list its own temporary files; hold a whole object in
//! memory, except a payload that the caller passed.

mod convert;
mod upload;

use async_trait::async_trait;
use bytes::Bytes;
use convert::{Named, decode, encode, meta};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    RenameTargetMode, Result,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use strait_client::{Options, StraitStore};
use strait_store::{ErrorKind, FileReader, FileStatus, FileSystem, MAX_CHUNK_BYTES, Principal};
use upload::{Draft, Upload};

/// Bytes of one read. A chunk of 1 MiB measured best for gateways.
const READ_BYTES: u64 = 1 << 20;
/// Attempts to open an object that is replaced all the time.
const OPENINGS: u32 = 3;
/// Concurrent reads of one object: 16 MiB in flight fill a link of 1 Gbit/s with a round trip of 134 ms.
const READS_AHEAD: usize = 16;
/// Concurrent removals.
const REMOVALS: usize = 8;

/// A store as an object store: each file is an object.
#[derive(Clone)]
pub struct Objects {
    files: Arc<dyn FileSystem>,
    who: Principal,
    name: Arc<str>,
}

impl Objects {
    /// The objects of the store behind the gateway at `address`, `host:port`.
    ///
    /// # Errors
    /// Those of [`StraitStore::connect`].
    pub async fn connect(address: &str, options: Options) -> strait_store::Result<Self> {
        let store = StraitStore::connect(address, options).await?;
        // The gateway does everything as the session's user, whatever this principal says.
        let name = format!("strait://{address}/");
        Ok(Self::new(Arc::new(store), Principal::new(""), &name))
    }

    /// The objects of any store. All operations act as `who`; `name` appears in messages.
    pub fn new(files: Arc<dyn FileSystem>, who: Principal, name: &str) -> Self {
        Self { files, who, name: name.into() }
    }

    async fn status(&self, location: &Path) -> Result<FileStatus> {
        let status = self.files.stat(&self.who, &encode(location)?).await.named(location)?;
        if status.is_directory() {
            let directory = strait_store::Error::new(ErrorKind::NotFound, "a directory isn't an object");
            return Err(convert::error(directory, location.as_ref()));
        }
        Ok(status)
    }

    /// Opens an object. The status is that of the opened version.
    async fn open(&self, location: &Path) -> Result<(FileStatus, Box<dyn FileReader>)> {
        let mut tries = 0;
        loop {
            let status = self.status(location).await?;
            let reader = self.files.open(&self.who, &encode(location)?).await.named(location)?;
            tries += 1;
            // A file may be replaced between the two calls. One that grows all the time ends where it was opened.
            if status.length == reader.length() || tries == OPENINGS {
                return Ok((FileStatus { length: reader.length(), ..status }, reader));
            }
        }
    }

    async fn draft(&self, location: &Path) -> Result<Draft> {
        Draft::begin(self.files.clone(), self.who.clone(), location).await
    }

    /// Streams the bytes of a range, with several reads in flight.
    fn stream(
        reader: Arc<dyn FileReader>,
        range: Range<u64>,
        location: &Path,
    ) -> BoxStream<'static, Result<Bytes>> {
        let location = location.clone();
        let chunks: Vec<Range<u64>> = chunks(&range).collect();
        stream::iter(chunks)
            .map(move |chunk| {
                let (reader, location) = (reader.clone(), location.clone());
                async move { read(reader.as_ref(), chunk).await.named(&location) }
            })
            .buffered(READS_AHEAD)
            .boxed()
    }

    async fn copy_to_draft(&self, from: &Path, draft: &mut Draft) -> Result<()> {
        let mut bytes = self.get_opts(from, GetOptions::default()).await?.into_stream();
        while let Some(chunk) = bytes.try_next().await? {
            draft.append(chunk).await?;
        }
        Ok(())
    }
}

/// Splits `range` into pieces, each for one read.
fn chunks(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = range.end;
    (range.start..end).step_by(READ_BYTES as usize).map(move |start| start..end.min(start + READ_BYTES))
}

/// All bytes of a range; an error if the file has fewer now.
async fn read(reader: &dyn FileReader, range: Range<u64>) -> strait_store::Result<Bytes> {
    let wanted = (range.end - range.start) as usize;
    let first = reader.read_at(range.start, wanted.min(MAX_CHUNK_BYTES)).await?;
    if first.len() == wanted {
        return Ok(first);
    }
    let mut whole = Vec::from(first);
    while whole.len() < wanted {
        let length = (wanted - whole.len()).min(MAX_CHUNK_BYTES);
        let more = reader.read_at(range.start + whole.len() as u64, length).await?;
        if more.is_empty() {
            return strait_store::fail(ErrorKind::Unavailable, "the object became shorter while it was read");
        }
        whole.extend_from_slice(&more);
    }
    Ok(whole.into())
}

#[async_trait]
impl ObjectStore for Objects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mode = match options.mode {
            PutMode::Overwrite => true,
            PutMode::Create => false,
            PutMode::Update(_) => return Err(missing("a conditional update")),
        };
        if !options.attributes.is_empty() {
            return Err(missing("attributes of objects"));
        }
        let mut draft = self.draft(location).await?;
        for part in payload {
            if let Err(error) = draft.append(part).await {
                draft.discard().await;
                return Err(error);
            }
        }
        draft.publish(mode).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !options.attributes.is_empty() {
            return Err(missing("attributes of objects"));
        }
        Ok(Box::new(Upload::new(self.draft(location).await?)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (status, reader) = match options.head {
            true => (self.status(location).await?, None),
            false => {
                let (status, reader) = self.open(location).await?;
                (status, Some(reader))
            }
        };
        let meta = meta(&status, location.clone());
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range
                .as_range(meta.size)
                .map_err(|error| Error::Generic { store: convert::STORE, source: Box::new(error) })?,
            None => 0..meta.size,
        };
        let payload = match reader {
            Some(reader) if !range.is_empty() => Self::stream(reader.into(), range.clone(), location),
            _ => stream::empty().boxed(),
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes: object_store::Attributes::default(),
            extensions: object_store::Extensions::default(),
        })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .map(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    // Object stores have no directories: removing one fails as NotFound.
                    this.status(&location).await?;
                    this.files.remove(&this.who, &encode(&location)?, false).await.named(&location)?;
                    Ok(location)
                }
            })
            .buffered(REMOVALS)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        stream::try_unfold(vec![prefix.unwrap_or_default()], move |mut directories| {
            let this = this.clone();
            async move {
                let Some(directory) = directories.pop() else { return Ok(None) };
                let listed = this.list_with_delimiter(Some(&directory)).await?;
                directories.extend(listed.common_prefixes.into_iter().rev());
                Ok::<_, Error>(Some((stream::iter(listed.objects.into_iter().map(Ok)), directories)))
            }
        })
        .try_flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let directory = prefix.cloned().unwrap_or_default();
        let mut listed =
            ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        let path = encode(&directory)?;
        match self.files.stat(&self.who, &path).await {
            Ok(status) if status.is_directory() => {}
            Ok(_) => return Ok(listed), // a file is an object, and no prefix of others
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(listed);
            }
            Err(error) => return Err(convert::error(error, directory.as_ref())),
        }
        let mut entries = self.files.list(&self.who, &path);
        while let Some(entry) = entries.next().await {
            let entry = entry.named(&directory)?;
            if upload::is_draft(entry.name()) {
                continue;
            }
            // Some names of files can't be in an object path. Such files aren't listed.
            let Ok(location) = decode(&entry.path) else { continue };
            if !entry.is_directory() {
                listed.objects.push(meta(&entry, location));
            } else if !entry.link {
                listed.common_prefixes.push(location);
            }
        }
        listed.objects.sort_by(|one, other| one.location.cmp(&other.location));
        listed.common_prefixes.sort();
        Ok(listed)
    }

    /// Copies the bytes through this process, because stores have no copy operation.
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.status(from).await?;
        let mut draft = self.draft(to).await?;
        if let Err(error) = self.copy_to_draft(from, &mut draft).await {
            draft.discard().await;
            return Err(error);
        }
        draft.publish(options.mode == CopyMode::Overwrite).await?;
        Ok(())
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.status(from).await?;
        let target = encode(to)?;
        if let Some(parent) = target.parent() {
            self.files.mkdirs(&self.who, &parent, None).await.named(to)?;
        }
        let replace = options.target_mode == RenameTargetMode::Overwrite;
        let from = encode(from)?;
        convert::rename(self.files.as_ref(), &self.who, &from, &target, replace, &mut false).await.named(to)
    }
}

fn missing(operation: &str) -> Error {
    Error::NotImplemented { operation: operation.to_owned(), implementer: convert::STORE.to_owned() }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strait({})", self.name)
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

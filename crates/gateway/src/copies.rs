//! `copyToLocalFile` and `copyFromLocalFile`: between a store and a directory of the gateway's host
//! that its operator named.
//!
//! A copy gets its name when it is complete. If it fails, or its client leaves, the former file stays
//! as it was. A copy takes memory for one chunk from the budget that all clients share.

use crate::config::LocalRoot;
use crate::context::{Caller, Context};
use crate::errors::required;
use crate::legacy::{caller, path};
use crate::legacy_names as names;
use crate::temporary::Temporary;
use crate::turns;
use std::path::Path;
use std::sync::Arc;
use strait_store::random::random;
use strait_store::{CreateOptions, Error, ErrorKind, FileSystem, Principal, Result, StorePath};
use strait_wire::{CopyArgs, Text};

/// A copy holds one chunk of this size. Larger ones gain little, since a copy waits for each
/// of its two stores in turn.
const CHUNK_BYTES: usize = 1 << 20;

pub async fn copy_to_local(context: &Context, args: CopyArgs) -> Result<bool> {
    let caller = caller(context, &None)?;
    let local = local_end(context, &caller, args.dest)?;
    copy(context, &caller, &store_end(&caller, args.src)?, &local).await
}

pub async fn copy_from_local(context: &Context, args: CopyArgs) -> Result<bool> {
    let caller = caller(context, &None)?;
    let local = local_end(context, &caller, args.src)?;
    copy(context, &caller, &local, &store_end(&caller, args.dest)?).await
}

/// One end of a copy.
#[derive(Clone)]
struct End {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    /// The path as the client knows it. For a local file it includes the directory that `path` is
    /// relative to.
    shown: StorePath,
}

impl End {
    /// Makes an error of this end name the client's path. The store's error names the file that the store
    /// was called for, which can be the one with the name `temporary`.
    fn failed(&self, operation: &'static str, error: Error, temporary: &str) -> Error {
        let message = error.message().replace(temporary, self.path.name());
        Error::new(error.kind(), message)
            .with_retry_safe(error.retry_safe())
            .at(operation, &self.shown)
            .caused_by(error)
    }
}

fn store_end(caller: &Caller, text: Option<Text>) -> Result<End> {
    let path = path(caller, text)?;
    Ok(End { fs: caller.session.store.fs.clone(), who: caller.who.clone(), shown: path.clone(), path })
}

/// A path on the gateway's host, within the directory its operator named.
fn local_end(context: &Context, caller: &Caller, text: Option<Text>) -> Result<End> {
    let text = required(text, "the local path")?.0;
    let local_root = context.shared.local_root.clone();
    // The server of 2009 took relative paths from its own directory.
    let base = local_root.as_ref().map_or(Path::new("/"), |root| &root.path);
    let asked = match text.starts_with(b"/") {
        true => names::path("", &text)?,
        false => names::path("", &[base.as_os_str().as_encoded_bytes(), b"/", &text].concat())?,
    };
    let refuse = |message: String| Err(Error::new(ErrorKind::PermissionDenied, message).at("copy", &asked));
    let Some(LocalRoot { path: root, fs, .. }) = local_root else {
        return refuse(
            "copies to and from the gateway's own disk are off; its operator can allow a directory with --local-root"
                .to_owned(),
        );
    };
    let Ok(inside) = Path::new(asked.as_str()).strip_prefix(&root) else {
        return refuse(format!("copies may read and write only files below {}", root.display()));
    };
    let path = StorePath::parse(&format!("/{}", inside.display()))?;
    Ok(End { fs, who: caller.who.clone(), path, shown: asked })
}

/// Copies one file. It replaces an existing file, but no directory, as Hadoop's
/// `copyFromLocalFile`.
async fn copy(context: &Context, caller: &Caller, source: &End, target: &End) -> Result<bool> {
    let _change = caller.session.begin_change()?;
    let budget = &context.shared.budget;
    let _memory = budget.wait(&budget.holder(&context.key()), CHUNK_BYTES).await;
    let name = format!(".strait-copy-{:016x}", u64::from_be_bytes(random()));
    let unreadable = |error| source.failed("copy from", error, &name);
    let unwritable = |error| target.failed("copy to", error, &name);
    let reader = source.fs.open(&source.who, &source.path).await.map_err(unreadable)?;
    let is_directory =
        target.fs.stat(&target.who, &target.path).await.is_ok_and(|there| there.is_directory());
    let Some(directory) = target.path.parent().filter(|_| !is_directory) else {
        let message = "the target is a directory; give the path of a file in it";
        return Err(unwritable(Error::new(ErrorKind::IsADirectory, message)));
    };
    let umask = context.shared.local_root.as_ref().map_or(0o077, |root| root.umask);
    let permission = permission(source, target, umask).await.map_err(unreadable)?;
    let options = CreateOptions { permission, ..CreateOptions::default() };
    // Made before the store makes the file, so that the file is removed even if the client leaves.
    let all = &context.shared.temporaries;
    let mut temporary = Temporary::new(all, target.fs.clone(), target.who.clone(), directory.join(&name)?);
    let mut writer = temporary.create(&options).await.map_err(unwritable)?;
    let mut offset = 0;
    loop {
        let bytes = reader.read_at(offset, CHUNK_BYTES).await.map_err(unreadable)?;
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
        writer.append(bytes).await.map_err(unwritable)?;
    }
    writer.close().await.map_err(unwritable)?;
    turns::to_its_end(temporary.rename(target.path.clone(), true)).await.map_err(unwritable)?;
    Ok(true)
}

/// The permission bits of a copy: the source's, without those that the umask removes. None if either
/// store has no permissions.
async fn permission(source: &End, target: &End, umask: u32) -> Result<Option<u32>> {
    if !source.fs.capabilities().permissions || !target.fs.capabilities().permissions {
        return Ok(None);
    }
    let status = source.fs.stat(&source.who, &source.path).await?;
    Ok(Some(status.permission & 0o777 & !umask))
}

//! `copyToLocalFile` and `copyFromLocalFile`: between a store and a directory of the gateway's host
//! that its operator named.
//!
//! A copy gets its name when it is whole. If it fails, or its client leaves, the former file stays
//! as it was. For its chunks a copy takes a part of the memory that clients share.

use crate::config::LocalRoot;
use crate::context::{Caller, Context};
use crate::errors::required;
use crate::legacy::{caller, path};
use crate::legacy_names as names;
use crate::random::random;
use crate::turns;
use std::path::Path;
use std::sync::Arc;
use strait_store::{CreateOptions, Error, ErrorKind, FileSystem, Principal, Result, StorePath};
use strait_telemetry::Seldom;
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
    /// Names the client's path in a failure of this end: an adapter names the file that it was
    /// called for, which may be the `temporary` one.
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
        return refuse(format!("only files below {} may be copied to and from", root.display()));
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
        let message = "a directory; give the path of a file in it";
        return Err(unwritable(Error::new(ErrorKind::IsADirectory, message)));
    };
    let file = End { path: directory.join(&name)?, ..target.clone() };
    let umask = context.shared.local_root.as_ref().map_or(0o077, |root| root.umask);
    let permission = permission(source, target, umask).await.map_err(unreadable)?;
    let options = CreateOptions { permission, ..CreateOptions::default() };
    // From before it is made, since the client may leave meanwhile.
    let mut temporary = Temporary { file, stays: false };
    let End { fs, who, path, .. } = &temporary.file;
    let mut writer = match fs.create(who, path, &options).await {
        Ok(writer) => writer,
        Err(error) => {
            // There is nothing to remove, unless the store can't tell.
            temporary.stays = error.kind() != ErrorKind::OutcomeUnknown;
            return Err(unwritable(error));
        }
    };
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
    let (renamed, to) = (rename(temporary, target.clone()), unwritable);
    turns::to_its_end(renamed).await.map_err(to)?;
    Ok(true)
}

/// The permission bits of a copy: the source's, as far as the umask leaves them. None if either
/// store has no permissions.
async fn permission(source: &End, target: &End, umask: u32) -> Result<Option<u32>> {
    if !source.fs.capabilities().permissions || !target.fs.capabilities().permissions {
        return Ok(None);
    }
    let status = source.fs.stat(&source.who, &source.path).await?;
    Ok(Some(status.permission & 0o777 & !umask))
}

/// Gives the copy its name. Drop this only before its first poll or after its end.
async fn rename(mut copy: Temporary, to: End) -> Result<()> {
    let replaces = to.fs.capabilities().rename_replace;
    if !replaces {
        // The store can't replace a file in one step.
        match to.fs.remove(&to.who, &to.path, false).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            // From here on the copy is the only version of the file.
            _ => copy.stays = true,
        }
    }
    to.fs.rename(&to.who, &copy.file.path, &to.path, replaces).await?;
    copy.stays = true;
    Ok(())
}

/// A file that a task of its own removes when this is dropped, even if the copy ends because its
/// client left.
struct Temporary {
    file: End,
    /// It has its real name, or is the only version of the file.
    stays: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let file = self.file.clone();
        runtime.spawn(async move {
            match file.fs.remove(&file.who, &file.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    static LEFT: Seldom = Seldom::new();
                    if let Some(left_out) = LEFT.may_write() {
                        tracing::warn!(%error, left_out, "a temporary file is left");
                    }
                }
                _ => {}
            }
        });
    }
}

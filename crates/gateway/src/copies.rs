//! `copyToLocalFile` and `copyFromLocalFile`: between a store and a directory
//! of the gateway's host that its operator named.
//!
//! A copy gets its name when it is whole: one that fails, or whose client goes
//! away, leaves what was there before as it was.

use crate::config::LocalRoot;
use crate::context::{Caller, Context};
use crate::legacy::{caller, path};
use crate::random::random;
use std::path::Path;
use std::sync::Arc;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileReader, FileSystem, MAX_CHUNK_BYTES, Principal, Result, StorePath,
    fail,
};
use strait_wire::{CopyArgs, Text};

pub async fn copy_to_local(context: &Context, args: CopyArgs) -> Result<bool> {
    let caller = caller(context, &None)?;
    let local = local_end(context, &caller, args.dest)?;
    copy(&store_end(&caller, args.src)?, &local).await
}

pub async fn copy_from_local(context: &Context, args: CopyArgs) -> Result<bool> {
    let caller = caller(context, &None)?;
    let local = local_end(context, &caller, args.src)?;
    copy(&local, &store_end(&caller, args.dest)?).await
}

/// One end of a copy.
#[derive(Clone)]
struct End {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
}

fn store_end(caller: &Caller, text: Option<Text>) -> Result<End> {
    Ok(End { fs: caller.session.store.fs.clone(), who: caller.who.clone(), path: path(text)? })
}

/// A path on the gateway's host, within the directory its operator named.
fn local_end(context: &Context, caller: &Caller, text: Option<Text>) -> Result<End> {
    let Some(LocalRoot { path: root, fs }) = context.shared.local_root.clone() else {
        let message = "copies to and from the gateway's own disk are off; its operator can allow a directory with \
                       --local-root";
        return fail(ErrorKind::PermissionDenied, message);
    };
    let asked = path(text)?;
    let Ok(inside) = Path::new(asked.as_str()).strip_prefix(&root) else {
        let message = format!("only files below {} may be copied to and from", root.display());
        return Err(Error::new(ErrorKind::PermissionDenied, message).at("copy", &asked));
    };
    let path = StorePath::parse(&format!("/{}", inside.display()))?;
    Ok(End { fs, who: caller.who.clone(), path })
}

/// Copies one file; what there was gives way, as with Hadoop's
/// `copyFromLocalFile`.
async fn copy(source: &End, target: &End) -> Result<bool> {
    let reader = source.fs.open(&source.who, &source.path).await?;
    let Some(directory) = target.path.parent() else {
        return fail(ErrorKind::IsADirectory, "the root is a directory")
            .map_err(|error: Error| error.at("copy to", &target.path));
    };
    let name = format!(".strait-copy-{:016x}", u64::from_be_bytes(random()));
    let file = End { path: directory.join(&name)?, ..target.clone() };
    let mut temporary = Temporary { file, named: false };
    write(reader.as_ref(), &temporary.file).await?;
    rename(&temporary.file, target).await?;
    temporary.named = true;
    Ok(true)
}

async fn write(reader: &dyn FileReader, to: &End) -> Result<()> {
    let mut writer = to.fs.create(&to.who, &to.path, &CreateOptions::default()).await?;
    let mut offset = 0;
    loop {
        let bytes = reader.read_at(offset, MAX_CHUNK_BYTES).await?;
        if bytes.is_empty() {
            return writer.close().await;
        }
        offset += bytes.len() as u64;
        writer.append(bytes).await?;
    }
}

async fn rename(from: &End, to: &End) -> Result<()> {
    let replaces = to.fs.capabilities().rename_replace;
    if !replaces {
        // The store can't do it in one step.
        match to.fs.remove(&to.who, &to.path, false).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    to.fs.rename(&to.who, &from.path, &to.path, replaces).await
}

/// A file that is removed when this is dropped, by a task of its own: also
/// when the copy is given up because its client has gone.
struct Temporary {
    file: End,
    /// It has its real name.
    named: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.named {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let file = self.file.clone();
        runtime.spawn(async move {
            match file.fs.remove(&file.who, &file.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(%error, "a temporary file is left");
                }
                _ => {}
            }
        });
    }
}

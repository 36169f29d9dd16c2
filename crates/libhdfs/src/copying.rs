//! Copying and moving files and trees, within a store or between two.

use crate::failure::{Failure, Outcome};
use crate::filesystem::{Connection, Side};
use futures::StreamExt;
use std::sync::Arc;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileStatus, FileSystem, MAX_CHUNK_BYTES, Principal, Result, StorePath,
    fail,
};

/// The target path for a file or directory called `name`: `to` itself, or, if `to` is a directory, `name`
/// within it.
pub async fn settled(
    store: &Arc<dyn FileSystem>,
    who: &Principal,
    name: &str,
    to: &StorePath,
) -> Result<StorePath> {
    match store.stat(who, to).await {
        Ok(status) if status.is_directory() => to.join(name),
        Ok(_) => Ok(to.clone()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(to.clone()),
        Err(error) => Err(error),
    }
}

/// Copies a file or a tree. Overwrites an existing file. With `remove`, it moves: it removes the source
/// afterwards, or, if both connections have the same store and user, renames it.
pub fn copy(
    source: &Connection,
    from: &StorePath,
    target: &Connection,
    to: &StorePath,
    remove: bool,
) -> Outcome<()> {
    let same = source.is_same_store(target);
    let checked = |to: &StorePath| match same && from.contains(to) {
        true => fail(ErrorKind::InvalidArgument, format!("{from} can't be copied into itself, to {to}")),
        false => Ok(()),
    };
    if from.is_root() && (remove || same) {
        return Err(Failure::invalid("the root directory can't be moved, or copied within its store"));
    }
    source.run_with(target, async |here, there| {
        let status = here.store.stat(here.who, from).await?;
        let to = settled(there.store, there.who, from.name(), to).await?;
        checked(&to)?;
        if remove && same && source.is_same_user(target) {
            return here.store.rename(here.who, from, &to, true).await;
        }
        copy_tree(here, status, there, to).await?;
        if remove { here.store.remove(here.who, from, true).await } else { Ok(()) }
    })
}

async fn copy_tree(here: Side<'_>, status: FileStatus, there: Side<'_>, to: StorePath) -> Result<()> {
    let mut left = vec![(status, to)];
    while let Some((status, to)) = left.pop() {
        let from = StorePath::parse(&status.path)?;
        if !status.is_directory() {
            copy_file(here, &from, there, &to).await?;
            continue;
        }
        if status.link {
            // The link could lead out of the tree, or form a cycle.
            return fail(ErrorKind::InvalidArgument, "links to directories can't be copied")
                .map_err(|error: Error| error.at("copy", &from));
        }
        there.store.mkdirs(there.who, &to, None).await?;
        let mut entries = here.store.list(here.who, &from);
        while let Some(entry) = entries.next().await {
            let entry = entry?;
            let to = to.join(entry.name())?;
            left.push((entry, to));
        }
    }
    Ok(())
}

async fn copy_file(here: Side<'_>, from: &StorePath, there: Side<'_>, to: &StorePath) -> Result<()> {
    let reader = here.store.open(here.who, from).await?;
    let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let mut writer = there.store.create(there.who, to, &options).await?;
    let mut offset = 0;
    loop {
        let piece = reader.read_at(offset, MAX_CHUNK_BYTES).await?;
        if piece.is_empty() {
            break;
        }
        offset += piece.len() as u64;
        writer.append(piece).await?;
    }
    writer.close().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::Target;

    #[test]
    fn a_file_isnt_copied_or_moved_onto_itself_by_another_user_either() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        std::fs::write(&kept, b"content").unwrap();
        let as_user = |user: &str| {
            let target = Target { user: Some(user.to_owned()), ..Target::default() };
            Connection::open(&target).unwrap()
        };
        let (ada, bob) = (as_user("ada"), as_user("bob"));
        let path = StorePath::parse(kept.to_str().unwrap()).unwrap();
        for remove in [false, true] {
            let refused = copy(&ada, &path, &bob, &path, remove).unwrap_err();
            assert!(refused.to_string().contains("into itself"), "{refused}");
            assert_eq!(std::fs::read(&kept).unwrap(), b"content");
        }
    }
}

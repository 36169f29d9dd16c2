//! `chmod`, `chown` and `setrep`.

use super::mode::Mode;
use crate::cli::{Chmod, Chown, Setrep};
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::output::Output;
use futures::StreamExt;
use strait_store::{FileStatus, FileSystemExt, SetAttributes, StorePath};

/// Changes permission bits.
pub async fn chmod(context: &Context, chmod: Chmod) -> Result<(), Failure> {
    let mode = Mode::parse(&chmod.mode)?;
    let change = |status: &FileStatus| {
        let permission = mode.apply(status.permission, status.is_directory());
        Some(SetAttributes { permission: Some(permission), ..SetAttributes::default() })
    };
    each(context, "chmod", &chmod.operands.uris, chmod.recursive, change).await
}

/// Changes owner and group.
pub async fn chown(context: &Context, chown: Chown) -> Result<(), Failure> {
    let (owner, group) = chown.owner.split_once(':').unwrap_or((&chown.owner, ""));
    if group.contains(':') {
        return Err(Failure::usage(format!("chown {}: more than one colon; give OWNER:GROUP", chown.owner)));
    }
    let given = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let set = SetAttributes { owner: given(owner), group: given(group), ..SetAttributes::default() };
    if set == SetAttributes::default() {
        return Err(Failure::usage("chown: give an owner, a group or both: OWNER:GROUP"));
    }
    each(context, "chown", &chown.operands.uris, chown.recursive, |_| Some(set.clone())).await
}

/// Changes replication.
pub async fn setrep(context: &Context, setrep: Setrep) -> Result<(), Failure> {
    let set = SetAttributes { replication: Some(setrep.replication), ..SetAttributes::default() };
    // Directories have no replication. For a named directory the command walks its tree, as `hdfs dfs` does.
    let change = |status: &FileStatus| (!status.is_directory()).then(|| set.clone());
    each(context, "setrep", &setrep.operands.uris, true, change).await
}

/// Sets the attributes that `change` returns on each operand, and beneath it if requested. It skips links
/// beneath, as chmod(1) and chown(1) do: their targets may lie elsewhere.
async fn each(
    context: &Context,
    operation: &str,
    uris: &[String],
    recursive: bool,
    change: impl Fn(&FileStatus) -> Option<SetAttributes>,
) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut out = context.output();
    for uri in &context.expanded(uris, &mut tally).await? {
        let top = async {
            let place = context.place(uri).await?;
            let status = place.stat().await?;
            // Change the directory first: access to its entries may need the new rights.
            set(&place, &status, &change, operation, &mut out).await?;
            Ok((place, status))
        };
        let (place, status) = match top.await {
            Ok(top) => top,
            Err(failure) => {
                tally.add(Err(failure))?;
                continue;
            }
        };
        if !recursive || !status.is_directory() {
            continue;
        }
        let mut beneath = place.fs.walk(&place.who, &place.path);
        while let Some(entry) = beneath.next().await {
            let done = async {
                let entry = entry?;
                if entry.link {
                    return Ok(());
                }
                set(&place.at(StorePath::parse(&entry.path)?), &entry, &change, operation, &mut out).await
            };
            tally.add(done.await)?;
        }
    }
    tally.finish()
}

async fn set(
    place: &Place,
    status: &FileStatus,
    change: &impl Fn(&FileStatus) -> Option<SetAttributes>,
    operation: &str,
    out: &mut Output,
) -> Result<(), Failure> {
    let Some(set) = change(status) else { return Ok(()) };
    place.fs.set_attributes(&place.who, &place.path, &set).await?;
    out.done(operation, &place.path, [])
}

//! `mkdir` and `touch`.

use super::targets::{WITH_PARENTS, check_directory};
use crate::cli::{Mkdir, Touch};
use crate::context::{Context, Place};
use crate::failure::Failure;
use strait_store::clock::now_ms;
use strait_store::{CreateOptions, ErrorKind, SetAttributes};

/// Makes each directory.
pub async fn mkdir(context: &Context, mkdir: Mkdir) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut out = context.output();
    for uri in &mkdir.operands.uris {
        let made = async {
            let place = context.place(uri).await?;
            if !mkdir.parents {
                check_new(&place).await?;
            }
            place.fs.mkdirs(&place.who, &place.path, None).await?;
            out.done("mkdir", &place.path, [])
        };
        tally.add(made.await)?;
    }
    tally.finish()
}

/// The store's `mkdirs` succeeds where `mkdir -p` does. Without -p, an existing path and a missing parent are
/// errors.
async fn check_new(place: &Place) -> Result<(), Failure> {
    if place.find_target().await?.is_some() {
        return Err(Failure::at(ErrorKind::AlreadyExists, "mkdir", &place.path, "it is there already"));
    }
    match place.path.parent() {
        Some(parent) => check_directory("mkdir", place, &parent, "-p makes it too").await,
        None => Ok(()),
    }
}

/// Creates each file, or sets its times to now.
pub async fn touch(context: &Context, touch: Touch) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut out = context.output();
    for uri in &touch.operands.uris {
        let touched = async {
            let place = context.place(uri).await?;
            match one(&place, &touch).await? {
                true => out.done("touch", &place.path, []),
                false => Ok(()),
            }
        };
        tally.add(touched.await)?;
    }
    tally.finish()
}

/// Whether there was a file to touch, or it was created.
async fn one(place: &Place, touch: &Touch) -> Result<bool, Failure> {
    if place.find_target().await?.is_none() {
        if touch.no_create {
            return Ok(false);
        }
        if place.slash {
            let why = "no such directory; create it with mkdir";
            return Err(Failure::at(ErrorKind::NotFound, "touch", &place.path, why));
        }
        if let Some(parent) = place.path.parent() {
            check_directory("touch", place, &parent, WITH_PARENTS).await?;
        }
        let mut writer = place.fs.create(&place.who, &place.path, &CreateOptions::default()).await?;
        writer.close().await?;
        return Ok(true);
    }
    let now = now_ms();
    let both = touch.access == touch.modification;
    let set = SetAttributes {
        accessed_ms: (both || touch.access).then_some(now),
        modified_ms: (both || touch.modification).then_some(now),
        ..SetAttributes::default()
    };
    place.fs.set_attributes(&place.who, &place.path, &set).await?;
    Ok(true)
}

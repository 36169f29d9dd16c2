//! `mkdir` and `touch`.

use crate::cli::{Mkdir, Touch};
use crate::context::{Context, Place};
use crate::failure::{Failure, Tally};
use std::time::{SystemTime, UNIX_EPOCH};
use strait_store::{CreateOptions, ErrorKind, SetAttributes};

/// Makes each directory.
pub async fn mkdir(context: &Context, mkdir: Mkdir) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for uri in &mkdir.operands.uris {
        let made = async {
            let place = context.place(uri).await?;
            if !mkdir.parents {
                check_new(&place).await?;
            }
            Ok(place.fs.mkdirs(&place.who, &place.path, None).await?)
        };
        tally.add(made.await)?;
    }
    tally.finish()
}

/// The store's own mkdirs is `mkdir -p`; without -p more is an error.
async fn check_new(place: &Place) -> Result<(), Failure> {
    let refuse =
        |kind: ErrorKind, why| Err(Failure::of(kind, format!("mkdir {}: {why} ({kind})", place.path)));
    if place.find().await?.is_some() {
        return refuse(ErrorKind::AlreadyExists, "it is there already".to_owned());
    }
    match place.path.parent() {
        Some(parent) if place.at(parent.clone()).find().await?.is_none() => {
            refuse(ErrorKind::NotFound, format!("no directory {parent}; -p makes it too"))
        }
        _ => Ok(()),
    }
}

/// Makes each file, or sets its times to now.
pub async fn touch(context: &Context, touch: Touch) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for uri in &touch.operands.uris {
        let touched = async { one(&context.place(uri).await?, &touch).await };
        tally.add(touched.await)?;
    }
    tally.finish()
}

async fn one(place: &Place, touch: &Touch) -> Result<(), Failure> {
    if place.find().await?.is_none() {
        if touch.no_create {
            return Ok(());
        }
        let writer = place.fs.create(&place.who, &place.path, &CreateOptions::default()).await?;
        return Ok(writer.close().await?);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let both = touch.access == touch.modification;
    let set = SetAttributes {
        accessed_ms: (both || touch.access).then_some(now),
        modified_ms: (both || touch.modification).then_some(now),
        ..SetAttributes::default()
    };
    Ok(place.fs.set_attributes(&place.who, &place.path, &set).await?)
}

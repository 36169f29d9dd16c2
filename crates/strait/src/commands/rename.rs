//! `mv`.

use crate::cli::Mv;
use crate::context::{Context, Place};
use crate::failure::{Failure, Tally};
use strait_store::{ErrorKind, FileStatus, StorePath};

/// Moves each source to the target, within one store.
pub async fn mv(context: &Context, mut mv: Mv) -> Result<(), Failure> {
    let (Some(target), Some(first)) = (mv.operands.pop(), mv.operands.first()) else {
        return Err(Failure::usage("mv: what is to go where?"));
    };
    let first = context.place(first).await?;
    let target = match target.starts_with('/') {
        true => first.at(StorePath::parse(&target)?),
        false => context.place(&target).await?,
    };
    let into = target.find().await?.as_ref().is_some_and(FileStatus::is_directory);
    if !into && mv.operands.len() > 1 {
        let kind = ErrorKind::NotADirectory;
        let what = format!("mv {}: not a directory, and there are several sources ({kind})", target.path);
        return Err(Failure::of(kind, what));
    }
    let mut tally = Tally::default();
    for uri in &mv.operands {
        tally.add(one(context, uri, &target, into, mv.force).await)?;
    }
    tally.finish()
}

async fn one(context: &Context, uri: &str, target: &Place, into: bool, force: bool) -> Result<(), Failure> {
    let place = context.place(uri).await?;
    if place.store != target.store {
        return Err(Failure::usage(format!(
            "mv: {} and {} are two stores; copy with get and put",
            place.store, target.store
        )));
    }
    let to = if into { target.path.join(place.path.name())? } else { target.path.clone() };
    Ok(place.fs.rename(&place.who, &place.path, &to, force).await?)
}

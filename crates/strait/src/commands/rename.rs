//! `mv`.

use super::targets::{Targets, WITH_PARENTS, check_directory};
use crate::cli::Mv;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::output::Output;
use strait_store::{Error, ErrorKind, FileStatus, StorePath};

/// Moves each source to the target, within one store.
pub async fn mv(context: &Context, mut mv: Mv) -> Result<(), Failure> {
    let (Some(named), Some(first)) = (mv.operands.pop(), mv.operands.first()) else {
        return Err(Failure::usage("mv: target missing: strait mv URI… TARGET"));
    };
    let first = context.place(first).await?;
    let target = match named.starts_with('/') {
        true => first.at(StorePath::parse(&named)?),
        // [`Place::stat`] would refuse a slash at the end; it is checked below.
        false => Place { slash: false, ..context.place(&named).await? },
    };
    let mut tally = context.tally();
    let sources = context.expanded(&mv.operands, &mut tally).await?;
    if sources.is_empty() {
        return tally.finish();
    }
    let there = target.find_target().await?;
    let into = there.as_ref().is_some_and(FileStatus::is_directory);
    let refuse = |why: &str| Err(Failure::at(ErrorKind::NotADirectory, "mv", &target.path, why));
    if there.is_some() && !into && sources.len() > 1 {
        return refuse("the target must be a directory, because there are several sources");
    }
    if !into && (named.ends_with('/') || sources.len() > 1) {
        if there.is_some() {
            return refuse("not a directory");
        }
        check_directory("mv", &target, &target.path, WITH_PARENTS).await?;
    }
    let mut seen = Targets::of("mv");
    let mut moves = Vec::with_capacity(sources.len());
    for uri in &sources {
        match source(context, uri, &target, into).await {
            Ok((place, to)) => {
                seen.add(uri, &to)?;
                moves.push((place, to));
            }
            Err(failure) => tally.add(Err(failure))?,
        }
    }
    let mut out = context.output();
    for (place, to) in moves {
        tally.add(one(place, to, mv.force, &mut out).await)?;
    }
    tally.finish()
}

/// A source, and its target.
async fn source(
    context: &Context,
    uri: &str,
    target: &Place,
    into: bool,
) -> Result<(Place, StorePath), Failure> {
    let place = context.place(uri).await?;
    if place.store != target.store {
        return Err(Failure::usage(format!(
            "mv: {} and {} are different stores; copy with get and put",
            place.store, target.store
        )));
    }
    let to = if into { target.path.join(place.path.name())? } else { target.path.clone() };
    Ok((place, to))
}

async fn one(place: Place, to: StorePath, force: bool, out: &mut Output) -> Result<(), Failure> {
    match place.fs.rename(&place.who, &place.path, &to, force).await {
        Ok(()) => out.done("mv", &to, [("from", place.path.as_str().into())]),
        Err(error) => Err(explained(error, &place, &to, force).await),
    }
}

/// The failure of a rename. A store names the source in its error, but often the target is the cause.
async fn explained(error: Error, source: &Place, to: &StorePath, force: bool) -> Failure {
    let at_target = |why: String| Failure::at(error.kind(), "mv", to, why);
    match error.kind() {
        ErrorKind::AlreadyExists if source.path == *to => at_target("source and target are equal".to_owned()),
        ErrorKind::AlreadyExists if !force => at_target("it is there already; -f replaces it".to_owned()),
        ErrorKind::AlreadyExists
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::NotEmpty => Failure::naming(error, "mv", to),
        ErrorKind::NotFound => match (source.find().await, to.parent()) {
            (Ok(Some(_)), Some(parent)) => {
                let checked = check_directory("mv", &source.at(to.clone()), &parent, WITH_PARENTS).await;
                checked.err().unwrap_or_else(|| error.into())
            }
            _ => error.into(),
        },
        _ => error.into(),
    }
}

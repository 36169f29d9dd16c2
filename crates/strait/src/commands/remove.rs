//! `rm`.

use super::leftovers::{is_unfinished_get, is_unfinished_put};
use crate::cli::Rm;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::glob;
use crate::output::Output;
use crate::tally::Tally;
use futures::StreamExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_store::{Error, ErrorKind, FileStatus, FileSystemExt, StorePath};

/// Age at which an unfinished file of `put` counts as abandoned: hardly any copy takes a day. HDFS reports
/// the start time of a file that is being written.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Removes each operand.
pub async fn rm(context: &Context, rm: Rm) -> Result<(), Failure> {
    let mut tally = context.tally();
    let mut out = context.output();
    let mut uris = Vec::with_capacity(rm.operands.uris.len());
    for uri in &rm.operands.uris {
        match glob::expand(context, uri).await {
            Ok(found) => uris.extend(found),
            // A pattern without a match is more likely a mistake than a missing name, so print a warning.
            Err(Failure::Error(error)) if rm.force && error.kind() == ErrorKind::NotFound => {
                context.messages().warn(&error.to_string());
            }
            Err(failure) => tally.add(Err(failure))?,
        }
    }
    for uri in &uris {
        let place = match context.place(uri).await {
            Ok(place) => place,
            Err(failure) => {
                tally.add(Err(failure))?;
                continue;
            }
        };
        match rm.stale {
            true => sweep(context, &place, &mut tally, &mut out).await?,
            false => tally.add(one(&place, &rm, &mut out).await)?,
        }
    }
    tally.finish()
}

async fn one(place: &Place, rm: &Rm, out: &mut Output) -> Result<(), Failure> {
    let removed = async {
        // `rm` removes even an empty directory only with -r.
        let looks = !rm.recursive || place.slash;
        let unseen = match if looks { Some(place.stat().await) } else { None } {
            Some(Ok(status)) if status.is_directory() && !rm.recursive => {
                let why = "it is a directory; use -r to remove it and its contents";
                return Err(Failure::at(ErrorKind::IsADirectory, "rm", &place.path, why));
            }
            // The path may be a link to a missing path, or to one outside the store.
            Some(Err(error)) if !place.slash && is_of_link(&error) => Some(error),
            Some(looked) => looked.map(|_| None)?,
            None => None,
        };
        match place.fs.remove(&place.who, &place.path, rm.recursive).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(unseen.unwrap_or(error).into()),
            removed => Ok(removed?),
        }
    };
    match removed.await {
        Err(Failure::Error(error)) if error.kind() == ErrorKind::NotFound && rm.force => Ok(()),
        Err(failure) => Err(failure),
        Ok(()) => out.done("rm", &place.path, []),
    }
}

/// Whether stat, which follows links, can fail with this error at a link.
fn is_of_link(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// Removes the temporary files of killed `put`s at a place and beneath it; on this host those of `get`s, too.
/// Prints how many files it kept because they are too young.
async fn sweep(context: &Context, place: &Place, tally: &mut Tally, out: &mut Output) -> Result<(), Failure> {
    let local = place.store.starts_with("file:");
    let is_leftover = |name: &str| is_unfinished_put(name) || local && is_unfinished_get(name);
    let mut young = 0;
    let mut beneath = place.fs.walk(&place.who, &place.path);
    while let Some(entry) = beneath.next().await {
        let swept = async {
            let entry = entry?;
            if entry.is_directory() || !is_leftover(entry.name()) {
                return Ok(());
            }
            if !is_old(&entry) {
                young += 1;
                return Ok(());
            }
            let place = place.at(StorePath::parse(&entry.path)?);
            match place.fs.remove(&place.who, &place.path, false).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()), // another process removed it
                Err(error) => Err(error.into()),
                Ok(()) => out.done("rm", &place.path, []),
            }
        };
        tally.add(swept.await)?;
    }
    if young > 0 {
        let files = if young == 1 { "1 temporary file is" } else { &format!("{young} temporary files are") };
        let hours = STALE_AFTER.as_secs() / 3_600;
        context.messages().warn(&format!(
            "rm --stale {}{}: {files} younger than {hours} h and kept: a {} may still write there",
            place.store,
            place.path,
            if local { "`put` or `get`" } else { "`put`" }
        ));
    }
    Ok(())
}

fn is_old(entry: &FileStatus) -> bool {
    let oldest_alive = SystemTime::now().checked_sub(STALE_AFTER).unwrap_or(UNIX_EPOCH);
    let oldest_alive_ms = oldest_alive.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    entry.modified_ms < oldest_alive_ms
}

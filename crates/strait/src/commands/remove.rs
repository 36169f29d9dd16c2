//! `rm`.

use crate::cli::Rm;
use crate::context::Context;
use crate::failure::{Failure, Tally};
use strait_store::ErrorKind;

/// Removes each operand.
pub async fn rm(context: &Context, rm: Rm) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for uri in &rm.operands.uris {
        tally.add(one(context, uri, &rm).await)?;
    }
    tally.finish()
}

async fn one(context: &Context, uri: &str, rm: &Rm) -> Result<(), Failure> {
    let place = context.place(uri).await?;
    if !rm.recursive {
        // Even an empty one: that `rm` takes a directory has to be said.
        match place.stat().await {
            Ok(status) if status.is_directory() => {
                let kind = ErrorKind::IsADirectory;
                let what = format!("rm {}: a directory; -r removes it with all in it ({kind})", place.path);
                return Err(Failure::of(kind, what));
            }
            Err(error) if error.kind() == ErrorKind::NotFound && rm.force => return Ok(()),
            found => found.map(drop)?,
        }
    }
    match place.fs.remove(&place.who, &place.path, rm.recursive).await {
        Err(error) if error.kind() == ErrorKind::NotFound && rm.force => Ok(()),
        removed => Ok(removed?),
    }
}

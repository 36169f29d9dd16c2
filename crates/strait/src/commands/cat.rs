//! `cat`.

use super::pump;
use crate::cli::Operands;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::progress::Progress;
use std::fs::File;
use std::os::fd::AsFd;

/// Prints each operand.
pub async fn cat(context: &Context, operands: Operands) -> Result<(), Failure> {
    let mut tally = context.tally();
    for uri in &context.expanded(&operands.uris, &mut tally).await? {
        let printed = async { print(&context.place(uri).await?).await };
        tally.add(printed.await)?;
    }
    tally.finish()
}

/// Writes a file to standard output.
pub async fn print(place: &Place) -> Result<(), Failure> {
    if place.slash {
        place.stat().await?; // fails unless it is a directory; opening that fails below
    }
    let reader = place.fs.open(&place.who, &place.path).await?;
    let path = place.path.as_str();
    pump::out_of_store(reader.as_ref(), path, stdout()?, &Progress::new(false), Failure::output).await?;
    Ok(())
}

/// Standard output, without the line buffer of `std::io::stdout`.
fn stdout() -> Result<File, Failure> {
    let descriptor = std::io::stdout().as_fd().try_clone_to_owned().map_err(Failure::output)?;
    Ok(descriptor.into())
}

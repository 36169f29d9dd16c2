//! `du`.

use super::list::is_entered;
use crate::cli::Du;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::format;
use crate::output::Output;
use crate::tally::Tally;
use futures::StreamExt;
use strait_store::{FileStatus, StorePath};

/// Prints how many bytes the files beneath each operand have: a line for each entry of a directory, or with
/// `--summarize` one for the operand.
pub async fn du(context: &Context, du: Du) -> Result<(), Failure> {
    let mut usage = Usage { out: context.output(), tally: context.tally(), json: context.json, how: du };
    for uri in &context.expanded(&usage.how.operands.uris, &mut usage.tally).await? {
        let counted = usage.operand(context, uri).await;
        usage.tally.add(counted)?;
    }
    usage.out.finish()?;
    usage.tally.finish()
}

struct Usage {
    out: Output,
    tally: Tally,
    json: bool,
    how: Du,
}

/// The contents of a tree.
#[derive(Default)]
struct Sum {
    bytes: u64,
    files: u64,
    directories: u64,
}

impl Sum {
    fn add(&mut self, entry: &FileStatus) {
        match entry.is_directory() {
            true => self.directories += 1,
            false => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(entry.length);
            }
        }
    }
}

impl Usage {
    async fn operand(&mut self, context: &Context, uri: &str) -> Result<(), Failure> {
        let place = context.place(uri).await?;
        let status = place.stat().await?;
        if self.how.summarize || !status.is_directory() {
            return self.tree(&place, &status).await;
        }
        let mut listing = place.fs.list(&place.who, &place.path);
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            self.tree(&place, &entry).await?;
        }
        Ok(())
    }

    /// Prints the sum of the tree at `top`, and reports directories that can't be listed.
    async fn tree(&mut self, place: &Place, top: &FileStatus) -> Result<(), Failure> {
        let mut sum = Sum::default();
        sum.add(top);
        // Depth first; memory holds the directories of one level.
        let mut waiting = if is_entered(top) { vec![top.path.clone()] } else { Vec::new() };
        while let Some(path) = waiting.pop() {
            if let Err(failure) = directory(place, &path, &mut sum, &mut waiting).await {
                self.tally.add(Err(failure))?;
            }
        }
        self.print(&top.path, &sum)
    }

    fn print(&mut self, path: &str, sum: &Sum) -> Result<(), Failure> {
        if self.json {
            return self.out.object([
                ("path", path.into()),
                ("bytes", sum.bytes.into()),
                ("files", sum.files.into()),
                ("directories", sum.directories.into()),
            ]);
        }
        let bytes = match self.how.human_readable {
            true => format::size(sum.bytes),
            false => sum.bytes.to_string(),
        };
        let name = self.out.name(path).into_owned();
        self.out.line(format_args!("{bytes}\t{name}"))
    }
}

/// Adds a directory's entries to `sum`, and its subdirectories to `waiting`.
async fn directory(
    place: &Place,
    path: &str,
    sum: &mut Sum,
    waiting: &mut Vec<String>,
) -> Result<(), Failure> {
    // Renames can make trees that are deeper than any path.
    let path = StorePath::parse(path).map_err(|error| error.at("list", path))?;
    let mut listing = place.fs.list(&place.who, &path);
    while let Some(entry) = listing.next().await {
        let entry = entry?;
        sum.add(&entry);
        if is_entered(&entry) {
            waiting.push(entry.path);
        }
    }
    Ok(())
}

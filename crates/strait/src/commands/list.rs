//! `ls`.

use crate::cli::Ls;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::format;
use crate::output::Output;
use crate::tally::Tally;
use futures::StreamExt;
use strait_store::{FileStatus, StorePath};

/// Lists each operand.
pub async fn ls(context: &Context, ls: Ls) -> Result<(), Failure> {
    let mut lister = Lister { out: context.output(), json: context.json, how: ls };
    let mut tally = context.tally();
    for uri in &context.expanded(&lister.how.operands.uris, &mut tally).await? {
        let listed = lister.operand(context, uri, &mut tally).await;
        tally.add(listed)?;
    }
    lister.out.finish()?;
    tally.finish()
}

struct Lister {
    out: Output,
    json: bool,
    how: Ls,
}

impl Lister {
    async fn operand(&mut self, context: &Context, uri: &str, tally: &mut Tally) -> Result<(), Failure> {
        let place = context.place(uri).await?;
        if place.slash {
            place.stat().await?;
        }
        if self.how.directory {
            let status = place.stat().await?;
            return self.print(&[status]);
        }
        // Depth first; memory holds the directories of one level.
        let mut waiting = vec![place];
        while let Some(place) = waiting.pop() {
            let directories = match self.directory(&place).await {
                Ok(directories) => directories,
                Err(failure) => {
                    tally.add(Err(failure))?;
                    continue;
                }
            };
            for path in directories.iter().rev().filter(|_| self.how.recursive) {
                // Renames can make trees that are deeper than any path.
                match StorePath::parse(path) {
                    Ok(path) => waiting.push(place.at(path)),
                    Err(error) => tally.add(Err(error.at("list", path).into()))?,
                }
            }
        }
        Ok(())
    }

    /// Prints one directory, and returns its subdirectories for -R.
    async fn directory(&mut self, place: &Place) -> Result<Vec<String>, Failure> {
        let mut listing = place.fs.list(&place.who, &place.path);
        let mut entries = Vec::new();
        let mut directories = Vec::new();
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            if self.how.unsorted {
                self.print(std::slice::from_ref(&entry))?;
                if self.how.recursive && is_entered(&entry) {
                    directories.push(entry.path);
                }
            } else {
                entries.push(entry);
            }
        }
        self.sort(&mut entries);
        self.print(&entries)?;
        directories.extend(entries.into_iter().filter(is_entered).map(|entry| entry.path));
        Ok(directories)
    }

    fn sort(&self, entries: &mut [FileStatus]) {
        entries.sort_unstable_by(|a, b| {
            let first = match () {
                () if self.how.by_time => b.modified_ms.cmp(&a.modified_ms),
                () if self.how.by_size => b.length.cmp(&a.length),
                () => std::cmp::Ordering::Equal,
            };
            first.then_with(|| a.path.cmp(&b.path))
        });
        if self.how.reverse {
            entries.reverse();
        }
    }

    fn print(&mut self, entries: &[FileStatus]) -> Result<(), Failure> {
        if self.json {
            return entries.iter().try_for_each(|entry| self.out.status(entry));
        }
        if self.how.paths_only {
            return entries.iter().try_for_each(|entry| {
                let name = self.out.name(&entry.path);
                self.out.line(name)
            });
        }
        let rows: Vec<[String; 4]> = entries.iter().map(|entry| self.columns(entry)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        for (entry, [replication, owner, group, size]) in entries.iter().zip(&rows) {
            let name = self.out.name(&entry.path);
            self.out.line(format_args!(
                "{} {replication:>w0$} {owner:<w1$} {group:<w2$} {size:>w3$} {} {}",
                format::permission(entry),
                format::local_minute(entry.modified_ms),
                name,
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3],
            ))?;
        }
        Ok(())
    }

    fn columns(&self, entry: &FileStatus) -> [String; 4] {
        let replication = match entry.replication {
            0 => "-".to_owned(),
            replicas => replicas.to_string(),
        };
        let size = match self.how.human_readable {
            true => format::size(entry.length),
            false => entry.length.to_string(),
        };
        let name = |text| self.out.name(text).into_owned();
        [replication, name(&entry.owner), name(&entry.group), size]
    }
}

/// Whether -R and `du` enter the entry. As in ls(1), they don't enter links to directories: they could lead in
/// circles.
pub fn is_entered(entry: &FileStatus) -> bool {
    entry.is_directory() && !entry.link
}

//! `ckpt`: logical files of many writers (PLFS), which are directories of a store.

use crate::cli::{Ckpt, CkptAction, Convert, Flatten, Map};
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::output::{Output, Row};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::fmt::Write;
use strait_plfs::{Container, Converted, Extent, Finalized, LogName, Reader, Way};
use strait_store::{ErrorKind, StorePath};

/// Bytes of the file whose map is in memory at a time.
const WINDOW: u64 = 256 << 20;

/// Width of a picture in columns, and height of a writer's row in pixels.
const COLUMNS: u64 = 1_000;
const ROW: usize = 14;
/// Width of the rows' labels, in pixels.
const MARGIN: usize = 90;

/// Runs the requested action.
pub async fn ckpt(context: &Context, ckpt: Ckpt) -> Result<(), Failure> {
    let mut out = context.output();
    let operands = match ckpt.action {
        CkptAction::Map(map) => {
            draw(context, &map, &mut out).await?;
            return out.finish();
        }
        CkptAction::Flatten(flags) => {
            flatten(context, &flags, &mut out).await?;
            return out.finish();
        }
        CkptAction::Import(flags) => {
            convert(context, &flags, "import", &mut out).await?;
            return out.finish();
        }
        CkptAction::Export(flags) => {
            convert(context, &flags, "export", &mut out).await?;
            return out.finish();
        }
        CkptAction::Ls(ref operands)
        | CkptAction::Check(ref operands)
        | CkptAction::Recover(ref operands) => operands,
    };
    let mut tally = context.tally();
    for uri in &context.expanded(&operands.uris, &mut tally).await? {
        let acted = async {
            let place = context.place(uri).await?;
            let container = open(&place).await?;
            match ckpt.action {
                CkptAction::Ls(_) => writers(context, &container, &mut out).await,
                CkptAction::Check(_) => check(context, &container, &mut out).await,
                _ => recover(context, &container, &mut out).await,
            }
        };
        tally.add(acted.await)?;
    }
    out.finish()?;
    tally.finish()
}

async fn open(place: &Place) -> Result<Container, Failure> {
    Ok(Container::open(place.fs.clone(), &place.who, &place.path).await?)
}

async fn writers(context: &Context, container: &Container, out: &mut Output) -> Result<(), Failure> {
    let mut rows: Vec<Row<8>> = Vec::new();
    for writer in container.writers().await? {
        let state = match (writer.closed, writer.torn) {
            (true, _) => "closed",
            (false, 0) => "open",
            (false, _) => "torn",
        };
        if context.json {
            out.object([
                ("path", container.path().as_str().into()),
                ("rank", writer.rank.into()),
                ("nonce", format!("{:016x}", writer.nonce).into()),
                ("bytes", writer.bytes.into()),
                ("entries", writer.entries.into()),
                ("epoch", writer.epoch.into()),
                ("state", state.into()),
                ("note", writer.note.into()),
            ])?;
            continue;
        }
        rows.push([
            out.name(container.path().as_str()).into_owned(),
            writer.rank.to_string(),
            format!("{:016x}", writer.nonce),
            writer.bytes.to_string(),
            writer.entries.to_string(),
            writer.epoch.to_string(),
            state.to_owned(),
            out.name(&writer.note).into_owned(),
        ]);
    }
    out.table(&rows)
}

/// Prints each fault in the logs; fails with Corrupt if there is one.
async fn check(context: &Context, container: &Container, out: &mut Output) -> Result<(), Failure> {
    let problems = container.check().await?;
    for problem in &problems {
        if context.json {
            out.object([
                ("path", container.path().as_str().into()),
                ("log", problem.path.as_str().into()),
                ("kind", problem.error.kind().to_string().into()),
                ("message", problem.error.message().into()),
            ])?;
        } else {
            out.line(format_args!(
                "{}\t{}",
                out.name(problem.path.as_str()).into_owned(),
                problem.error.message()
            ))?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(Failure::at(ErrorKind::Corrupt, "check", container.path(), faults(count))),
    }
}

fn faults(count: usize) -> String {
    format!("{count} fault{} in its logs", if count == 1 { "" } else { "s" })
}

async fn recover(context: &Context, container: &Container, out: &mut Output) -> Result<(), Failure> {
    let recovery = container.recover().await?;
    let states = [("ended", &recovery.ended), ("live", &recovery.live)];
    for (state, writers) in states {
        for (rank, nonce) in writers {
            let nonce = format!("{nonce:016x}");
            if context.json {
                out.object([
                    ("path", container.path().as_str().into()),
                    ("rank", (*rank).into()),
                    ("nonce", nonce.into()),
                    ("state", state.into()),
                ])?;
            } else {
                let path = out.name(container.path().as_str()).into_owned();
                out.line(format_args!("{path}\t{rank}\t{nonce}\t{state}"))?;
            }
        }
    }
    Ok(())
}

async fn flatten(context: &Context, flags: &Flatten, out: &mut Output) -> Result<(), Failure> {
    let place = context.place(&flags.uri).await?;
    let target = match flags.target.starts_with('/') {
        true => place.at(StorePath::parse(&flags.target)?),
        false => context.place(&flags.target).await?,
    };
    if target.store != place.store {
        let why = "this is another store; flatten within the store, then copy with get and put".to_owned();
        return Err(Failure::at(ErrorKind::InvalidArgument, "flatten to", &target.path, why));
    }
    let container = open(&place).await?;
    let from = ("from", place.path.as_str().into());
    if flags.keep {
        let bytes = container.flatten(&target.path).await?;
        return out.done("flatten", &target.path, [from, ("bytes", bytes.into()), ("moved", bytes.into())]);
    }
    if let Way::Rewrite { bytes, why } = container.way().await? {
        // Warn before the rewriting begins: it may take long.
        context.messages().warn(&format!("flatten {}: rewriting {bytes} bytes, since {why}", place.path));
    }
    let Finalized { bytes, moved } = container.finalize(&target.path).await?;
    out.done("flatten", &target.path, [from, ("bytes", bytes.into()), ("moved", moved.into())])
}

/// Imports or exports a container of PLFS 2.5, between any two stores.
async fn convert(
    context: &Context,
    flags: &Convert,
    operation: &str,
    out: &mut Output,
) -> Result<(), Failure> {
    let from = context.place(&flags.uri).await?;
    let to = match flags.target.starts_with('/') {
        true => from.at(StorePath::parse(&flags.target)?),
        false => context.place(&flags.target).await?,
    };
    let Converted { length, writers } = match operation {
        "import" => {
            let who = (&from.who, &to.who);
            Container::import((from.fs.clone(), &from.path), (to.fs.clone(), &to.path), who).await?
        }
        _ => open(&from).await?.export(to.fs.clone(), &to.who, &to.path).await?,
    };
    let details =
        [("from", from.path.as_str().into()), ("bytes", length.into()), ("writers", writers.into())];
    out.done(operation, &to.path, details)
}

async fn draw(context: &Context, flags: &Map, out: &mut Output) -> Result<(), Failure> {
    let place = context.place(&flags.uri).await?;
    let reader = open(&place).await?.reader().await?;
    match &flags.svg {
        Some(file) => {
            let picture = picture(&place.path, &reader).await?;
            std::fs::write(file, picture).map_err(|error| Failure::local(error, "write", file))
        }
        None => list(context, &place.path, &reader, out).await,
    }
}

/// Prints the ranges in order. Adjacent ranges of the same writer are printed as one.
async fn list(context: &Context, path: &StorePath, reader: &Reader, out: &mut Output) -> Result<(), Failure> {
    let mut last: Option<Extent> = None;
    let mut windows = windows(reader);
    while let Some(extents) = windows.try_next().await? {
        for extent in extents {
            match &mut last {
                Some(before) if before.writer == extent.writer && before.range.end == extent.range.start => {
                    before.range.end = extent.range.end;
                }
                _ => {
                    if let Some(whole) = last.replace(extent) {
                        line(context, path, &whole, out)?;
                    }
                }
            }
        }
    }
    last.map_or(Ok(()), |whole| line(context, path, &whole, out))
}

fn line(context: &Context, path: &StorePath, extent: &Extent, out: &mut Output) -> Result<(), Failure> {
    let (offset, length) = (extent.range.start, extent.range.end - extent.range.start);
    let nonce = extent.writer.map(|writer| format!("{:016x}", writer.nonce));
    if context.json {
        return out.object([
            ("path", path.as_str().into()),
            ("offset", offset.into()),
            ("length", length.into()),
            ("rank", extent.writer.map(|writer| writer.rank).into()),
            ("nonce", nonce.into()),
        ]);
    }
    match (extent.writer, nonce) {
        (Some(writer), Some(nonce)) => out.line(format_args!("{offset}\t{length}\t{}\t{nonce}", writer.rank)),
        _ => out.line(format_args!("{offset}\t{length}\thole\t-")),
    }
}

/// All ranges in order, read in windows of [`WINDOW`] bytes.
fn windows(reader: &Reader) -> BoxStream<'_, Result<Vec<Extent>, strait_store::Error>> {
    let length = reader.length();
    let starts = (0..length.div_ceil(WINDOW)).map(|window| window * WINDOW);
    stream::iter(starts).then(move |start| reader.written_by(start..(start + WINDOW).min(length))).boxed()
}

/// Draws a row for each writer. A column is the darker, the more of its bytes the writer wrote.
async fn picture(path: &StorePath, reader: &Reader) -> Result<String, Failure> {
    let writers = reader.writers();
    let column = reader.length().div_ceil(COLUMNS).max(1);
    let mut bytes = vec![vec![0_u64; COLUMNS as usize]; writers.len()];
    let mut windows = windows(reader);
    while let Some(extents) = windows.try_next().await? {
        for Extent { range, writer } in extents {
            let Some(row) = writer.and_then(|writer| writers.iter().position(|one| *one == writer)) else {
                continue;
            };
            for at in range.start / column..range.end.div_ceil(column) {
                let shared = range.end.min((at + 1) * column) - range.start.max(at * column);
                bytes[row][at as usize] += shared;
            }
        }
    }
    let (width, height) = (MARGIN + COLUMNS as usize, (writers.len() + 2) * ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"4\" y=\"{}\">{}, {} bytes; a column is {column}</text>\n",
        ROW - 3,
        escaped(path.as_str()),
        reader.length()
    );
    for (row, (writer, columns)) in writers.iter().zip(&bytes).enumerate() {
        svg_row(&mut svg, (row + 1) * ROW, *writer, columns, column);
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn svg_row(svg: &mut String, y: usize, writer: LogName, columns: &[u64], column: u64) {
    // Writing to a string can't fail.
    let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">rank {}</text>", y + ROW - 4, writer.rank);
    let mut at = 0;
    while at < columns.len() {
        let alike = columns[at..].iter().take_while(|bytes| **bytes == columns[at]).count();
        if columns[at] > 0 {
            let share = columns[at] as f64 / column as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{y}\" width=\"{alike}\" height=\"{}\" fill=\"#1f5fa8\" \
                 fill-opacity=\"{share:.3}\"/>",
                MARGIN + at,
                ROW - 2
            );
        }
        at += alike;
    }
}

/// Text within XML.
fn escaped(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().map(plain).collect::<String>().replace('&', "&amp;").replace('<', "&lt;")
}

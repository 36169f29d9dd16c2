//! `locate`, `checksum` and `df`.

use crate::cli::{Df, Operands};
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::format;
use crate::output::Output;
use serde_json::Value;
use strait_store::hex;

/// Prints one line for each block: path, offset, length, hosts.
pub async fn locate(context: &Context, operands: Operands) -> Result<(), Failure> {
    let mut out = context.output();
    let mut tally = context.tally();
    for uri in &context.expanded(&operands.uris, &mut tally).await? {
        let located = async { blocks(&context.place(uri).await?, context.json, &mut out).await };
        tally.add(located.await)?;
    }
    out.finish()?;
    tally.finish()
}

async fn blocks(place: &Place, json: bool, out: &mut Output) -> Result<(), Failure> {
    let blocks = place.fs.block_locations(&place.who, &place.path, 0..u64::MAX).await?;
    for block in blocks {
        if json {
            out.object([
                ("path", place.path.as_str().into()),
                ("offset", block.offset.into()),
                ("length", block.length.into()),
                ("hosts", block.hosts.into()),
                ("addresses", block.addresses.into()),
                ("corrupt", block.corrupt.into()),
            ])?;
        } else {
            let path = out.name(place.path.as_str());
            let hosts = block.hosts.join(",");
            let hosts = out.name(&hosts);
            out.line(format_args!("{path}\t{}\t{}\t{hosts}", block.offset, block.length))?;
        }
    }
    Ok(())
}

/// Prints one line for each file: path, algorithm, value.
pub async fn checksum(context: &Context, operands: Operands) -> Result<(), Failure> {
    let mut out = context.output();
    let mut tally = context.tally();
    for uri in &context.expanded(&operands.uris, &mut tally).await? {
        let summed = async {
            let place = context.place(uri).await?;
            let checksum = place.fs.checksum(&place.who, &place.path).await?;
            let value = hex::encode(&checksum.value);
            if context.json {
                return out.object([
                    ("path", place.path.as_str().into()),
                    ("algorithm", checksum.algorithm.into()),
                    ("value", value.into()),
                ]);
            }
            let (path, algorithm) = (out.name(place.path.as_str()), out.name(&checksum.algorithm));
            out.line(format_args!("{path}\t{algorithm}\t{value}"))
        };
        tally.add(summed.await)?;
    }
    out.finish()?;
    tally.finish()
}

/// Prints one line for each store: its URI, capacity, used, remaining.
pub async fn df(context: &Context, df: Df) -> Result<(), Failure> {
    let mut out = context.output();
    let mut tally = context.tally();
    for uri in &df.operands.uris {
        let told = async {
            let place = context.place(uri).await?;
            place.stat().await?; // a missing path is an error, as in df(1)
            let status = place.fs.status(&place.who).await?;
            if context.json {
                return out.object([
                    ("store", Value::from(place.store)),
                    ("capacity", status.capacity.into()),
                    ("used", status.used.into()),
                    ("remaining", status.remaining.into()),
                ]);
            }
            let shown = |bytes: u64| match df.human_readable {
                true => format::size(bytes),
                false => bytes.to_string(),
            };
            out.line(format_args!(
                "{}\tcapacity {}\tused {}\tremaining {}",
                place.store,
                shown(status.capacity),
                shown(status.used),
                shown(status.remaining)
            ))
        };
        tally.add(told.await)?;
    }
    out.finish()?;
    tally.finish()
}

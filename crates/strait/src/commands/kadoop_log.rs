//! `kadoop-log` prints a Kadoop namenode's log in readable form.

use crate::cli::{KadoopLog, KadoopLogAction};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use strait_kadoop_core::log::{LogError, Tail};
use strait_kadoop_core::namenode::Transaction;
use strait_kadoop_server::dump_log;

/// Runs the requested action.
pub fn kadoop_log(context: &Context, flags: KadoopLog) -> Result<(), Failure> {
    match flags.action {
        KadoopLogAction::Dump { directory } => dump(context, &directory),
    }
}

fn dump(context: &Context, directory: &Path) -> Result<(), Failure> {
    let mut out = context.output();
    let mut told = Ok(());
    let read = dump_log(directory, |sequence, transaction| {
        if told.is_ok() {
            told = line(context.json, &mut out, sequence, transaction);
        }
        told.is_ok()
    });
    told?;
    let tail = read.map_err(|error| {
        let why = match error {
            // A directory without a log is a wrong name, not a failed disk.
            LogError::Disk(absent) if absent.kind() == ErrorKind::NotFound => absent.to_string(),
            other => other.to_string(),
        };
        Failure::other(format!("{}: {why}", directory.display()))
    })?;
    out.finish()?;
    if let Tail::Torn { segment, offset } = tail {
        context.messages().warn(&format!(
            "{segment} ends at byte {offset} in an incomplete write: a crash cut it short, or it still runs"
        ));
    }
    Ok(())
}

fn line(json: bool, out: &mut Output, sequence: u64, transaction: &Transaction) -> Result<(), Failure> {
    if json {
        let transaction = serde_json::to_value(transaction).map_err(|error| {
            Failure::other(format!("record {sequence} can't be printed as JSON: {error}"))
        })?;
        return out.line(json!({"sequence": sequence, "transaction": transaction}));
    }
    let request = match &transaction.request {
        Some((id, _)) => format!("client {} request {}", id.client.0, id.number),
        None => "-".to_owned(),
    };
    let records: Vec<String> = transaction.records.iter().map(|record| format!("{record:?}")).collect();
    let line = format!("{sequence}\t{request}\t{}", records.join("; "));
    let line = out.name(&line).into_owned();
    out.line(line)
}

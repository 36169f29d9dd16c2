//! `stat`.

use crate::cli::Stat;
use crate::context::Context;
use crate::failure::Failure;
use crate::format;
use crate::output::Output;
use strait_store::FileStatus;

/// Prints the status of each operand.
pub async fn stat(context: &Context, stat: Stat) -> Result<(), Failure> {
    let mut out = context.output();
    let mut tally = context.tally();
    for uri in &context.expanded(&stat.operands.uris, &mut tally).await? {
        tally.add(one(context, uri, stat.format.as_deref(), &mut out).await)?;
    }
    out.finish()?;
    tally.finish()
}

async fn one(context: &Context, uri: &str, format: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let status = context.place(uri).await?.stat().await?;
    match format {
        Some(format) => {
            let text = formatted(format, &status, out)?;
            out.line(text)
        }
        None if context.json => out.status(&status),
        None => described(&status, out),
    }
}

fn kind(status: &FileStatus) -> &'static str {
    // The terms of `hdfs dfs -stat %F`.
    if status.is_directory() { "directory" } else { "regular file" }
}

fn described(status: &FileStatus, out: &mut Output) -> Result<(), Failure> {
    let (path, owner, group) = (out.name(&status.path), out.name(&status.owner), out.name(&status.group));
    out.line(format_args!("path         {path}"))?;
    out.line(format_args!("type         {}", kind(status)))?;
    out.line(format_args!("length       {}", status.length))?;
    out.line(format_args!("permission   {} ({:04o})", format::permission(status), status.permission))?;
    out.line(format_args!("owner        {owner}"))?;
    out.line(format_args!("group        {group}"))?;
    out.line(format_args!("modified     {} UTC", format::utc_second(status.modified_ms)))?;
    if status.accessed_ms != 0 {
        out.line(format_args!("accessed     {} UTC", format::utc_second(status.accessed_ms)))?;
    }
    if !status.is_directory() {
        out.line(format_args!("replication  {}", status.replication))?;
        out.line(format_args!("block size   {}", status.block_size))?;
    }
    Ok(())
}

/// `format` with its `%` letters replaced, as in `hdfs dfs -stat`, and %p by the whole path.
fn formatted(format: &str, status: &FileStatus, out: &Output) -> Result<String, Failure> {
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('a') => text.push_str(&format!("{:o}", status.permission)),
            Some('A') => text.push_str(&format::permission(status)),
            Some('b') => text.push_str(&status.length.to_string()),
            Some('F') => text.push_str(kind(status)),
            Some('g') => text.push_str(&out.name(&status.group)),
            Some('n') => text.push_str(&out.name(status.name())),
            Some('o') => text.push_str(&status.block_size.to_string()),
            Some('p') => text.push_str(&out.name(&status.path)),
            Some('r') => text.push_str(&status.replication.to_string()),
            Some('u') => text.push_str(&out.name(&status.owner)),
            Some('x') => text.push_str(&format::utc_second(status.accessed_ms)),
            Some('X') => text.push_str(&status.accessed_ms.to_string()),
            Some('y') => text.push_str(&format::utc_second(status.modified_ms)),
            Some('Y') => text.push_str(&status.modified_ms.to_string()),
            Some('%') => text.push('%'),
            other => {
                let letter = other.map(String::from).unwrap_or_default();
                return Err(Failure::usage(format!("stat: unknown format %{letter}; see --help")));
            }
        }
    }
    Ok(text)
}

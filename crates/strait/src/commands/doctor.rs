//! `doctor`: checks a store step by step, and tells how to fix each failure.

use crate::cli::Doctor;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::format::escaped;
use crate::output::Output;
use futures::{StreamExt, TryStreamExt};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use strait_client::reach::connect_to_any;
use strait_store::clock::now_ms;
use strait_store::{CreateOptions, ErrorKind, FileSystemExt, MAX_CHUNK_BYTES, Scheme, StoreUri};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Time limit for each step: longer than any store's own limits for one request.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time limit for resolving a name, and for connecting. Longer than the 5 s that the C library waits for the first
/// name server before it asks the second one.
const REACH_PATIENCE: Duration = Duration::from_secs(8);
/// Bytes written and read to measure the throughput. They take some seconds at 2 MB/s.
const PROBE_BYTES: usize = 4 * MAX_CHUNK_BYTES;
/// Largest number of entries that are listed: a page of most stores.
const MAX_LISTED: usize = 1_000;
/// Above this difference of clocks, logins and signatures fail sooner or later (S3: 15 min; Kerberos: 5 min).
const SKEW: Duration = Duration::from_secs(60);

/// The result of one check.
enum Verdict {
    Ok(String),
    /// The fault, and the remedy.
    Bad(String, &'static str),
    /// The check was skipped, for this reason.
    Left(&'static str),
}
use Verdict::{Bad, Left, Ok as Good};

struct Report {
    out: Output,
    json: bool,
    failed: usize,
}

/// Checks the store of a URI. Prints one line for each check.
pub async fn doctor(context: &Context, doctor: Doctor) -> Result<(), Failure> {
    let text = context.absolute(&doctor.uri)?.into_owned();
    let uri = context.uri(&text)?;
    let mut report = Report { out: context.output(), json: context.json, failed: 0 };
    reach(context, &uri, &mut report).await?;
    match timeout(PATIENCE, context.place(&text)).await {
        Err(_) => {
            report.tell("open", Bad(silent(), "look at the server's log, and for a firewall between"))?
        }
        Ok(Err(failure)) => report.tell("open", refused(&failure))?,
        Ok(Ok(place)) => {
            report.tell("open", Good(capabilities(context, &uri, &place)))?;
            report.tell("version", version(&place).await)?;
            inside(&place, doctor.read_only, &mut report).await?;
        }
    }
    report.out.finish()?;
    match report.failed {
        0 => Ok(()),
        failed => Err(Failure::other(format!("doctor: {failed} of the checks failed"))),
    }
}

/// Checks the name resolution and the connection.
async fn reach(context: &Context, uri: &StoreUri, report: &mut Report) -> Result<(), Failure> {
    let Some((host, port)) = strait_store_any::endpoint(uri, &context.stores()?) else {
        let why = match uri.scheme() {
            Scheme::Plugin => "the plugin connects by itself",
            Scheme::Libhdfs => "the library connects by itself",
            _ => "no host in the URI",
        };
        report.tell("resolve", Left(why))?;
        return report.tell("connect", Left(why));
    };
    let began = Instant::now();
    let found = timeout(REACH_PATIENCE, lookup_host((host.as_str(), port))).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let why = format!("{host}: {error}");
            return report.tell("resolve", Bad(why, "correct the host's name, /etc/hosts or the DNS"));
        }
        Err(_) => {
            let why = format!("{host}: no answer within {} s", REACH_PATIENCE.as_secs());
            return report
                .tell("resolve", Bad(why, "check that each name server in /etc/resolv.conf answers"));
        }
    };
    let first = addresses.first().map_or_else(String::new, |address| address.ip().to_string());
    let found = match addresses.len() {
        0 | 1 => format!("{host} has the address {first}, {}", ms(began)),
        several => format!("{host} has {several} addresses, the first is {first}, {}", ms(began)),
    };
    report.tell("resolve", Good(found))?;
    let began = Instant::now();
    let fix = "start the server, correct the port, or open the firewall";
    let verdict = match connect_to_any(&addresses, (began + REACH_PATIENCE).into()).await {
        Ok(_) => Good(format!("{host}:{port} accepts, {}", ms(began))),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            Bad(format!("{host}:{port}: no connection within {} s", REACH_PATIENCE.as_secs()), fix)
        }
        Err(error) => Bad(format!("{host}:{port}: {error}"), fix),
    };
    report.tell("connect", verdict)
}

fn capabilities(context: &Context, uri: &StoreUri, place: &Place) -> String {
    let flags = place.fs.capabilities().flags();
    let has: Vec<&str> = flags.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let can = has.join(" ");
    match (uri.scheme(), context.user()) {
        (Scheme::Strait, Some(user)) => format!("as {user}; can: {can}"),
        // Without a login, the gateway's operator decides who clients are.
        (Scheme::Strait, None) => format!("without a login; can: {can}"),
        _ => format!("as {}; can: {can}", place.who.user),
    }
}

/// The version of the server or the library, and of this program.
async fn version(place: &Place) -> Verdict {
    match timeout(PATIENCE, place.fs.about()).await {
        Ok(Ok(Some(name))) => Good(format!("{name}; this is strait {}", env!("CARGO_PKG_VERSION"))),
        Ok(Ok(None)) => Left("this kind of store reports no version"),
        Ok(Err(error)) => refused(&error.into()),
        Err(_) => Bad(silent(), "see the server's log"),
    }
}

/// Checks that need the open store.
async fn inside(place: &Place, read_only: bool, report: &mut Report) -> Result<(), Failure> {
    let began = Instant::now();
    let listing = place.fs.list(&place.who, &place.path).take(MAX_LISTED);
    let listed = timeout(PATIENCE, listing.try_collect::<Vec<_>>()).await;
    let is_missing = matches!(&listed, Ok(Err(error)) if error.kind() == ErrorKind::NotFound);
    // A file is listed as itself.
    let is_file = matches!(&listed, Ok(Ok(entries)) if entries.len() == 1
        && !entries[0].is_directory() && entries[0].path == place.path.to_string());
    let verdict = match listed {
        Err(_) => Bad(silent(), "see the server's log"),
        Ok(Err(error)) => refused(&error.into()),
        Ok(Ok(entries)) => {
            let more = if entries.len() == MAX_LISTED { " or more" } else { "" };
            Good(format!("{} has {}{more} entries, {}", place.path, entries.len(), ms(began)))
        }
    };
    report.tell("list", verdict)?;
    // Writing would make a missing directory.
    let why = is_missing.then_some("the directory is missing").or(read_only.then_some("--read-only"));
    let why = is_file.then_some("the URI names a file; name a directory for this check").or(why);
    if let Some(why) = why {
        for check in ["write", "clock", "read", "rename", "remove"] {
            report.tell(check, Left(why))?;
        }
        return Ok(());
    }
    let name = format!(".strait-doctor-{:x}", now_ms());
    let probe = place.entry(&name)?;
    let outcome = timeout(PATIENCE, probing(&probe, report)).await;
    // Remove the file after a failed check, too.
    let removed = timeout(PATIENCE, probe.fs.remove(&probe.who, &probe.path, false)).await;
    match outcome {
        Err(_) => report.tell("write", Bad(silent(), "see the server's log, and its disks"))?,
        Ok(outcome) => outcome?,
    }
    match removed {
        Ok(Ok(())) => report.tell("remove", Good(String::new())),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            report.tell("remove", Left("no file to remove"))
        }
        Ok(Err(error)) => report.tell("remove", refused(&error.into())),
        Err(_) => report.tell("remove", Bad(silent(), "remove .strait-doctor-* later")),
    }
}

/// Writes, examines, reads and renames a temporary file. Stops at the first check that fails.
async fn probing(probe: &Place, report: &mut Report) -> Result<(), Failure> {
    let content: Vec<u8> =
        (0..PROBE_BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (began, began_ms) = (Instant::now(), now_ms());
    let options = CreateOptions::default();
    let bytes = bytes::Bytes::from(content);
    let written = probe.fs.write_all(&probe.who, &probe.path, &options, bytes.clone()).await;
    match written {
        Ok(()) => report.tell("write", Good(rate(began)))?,
        Err(error) => return report.tell("write", refused(&error.into())),
    }
    let (status, ended_ms) = (probe.stat().await, now_ms());
    match status {
        Ok(status) => report.tell("clock", skew(status.modified_ms, began_ms, ended_ms))?,
        Err(error) => return report.tell("clock", refused(&error.into())),
    }
    let began = Instant::now();
    match probe.fs.read_all(&probe.who, &probe.path, PROBE_BYTES).await {
        Ok(read) if read == bytes => report.tell("read", Good(rate(began)))?,
        Ok(_) => {
            let why = "the bytes differ from those written".to_owned();
            return report.tell("read", Bad(why, "stop using this store, and check its disks and network"));
        }
        Err(error) => return report.tell("read", refused(&error.into())),
    }
    let other = probe.at(strait_store::StorePath::parse(&format!("{}-renamed", probe.path))?);
    let renamed = async {
        probe.fs.rename(&probe.who, &probe.path, &other.path, false).await?;
        probe.fs.rename(&probe.who, &other.path, &probe.path, false).await
    };
    let is_atomic = probe.fs.capabilities().atomic_rename;
    let how = if is_atomic { "in one step" } else { "by copying and removing, not in one step" };
    match renamed.await {
        Ok(()) => report.tell("rename", Good(how.to_owned())),
        Err(error) => report.tell("rename", refused(&error.into())),
    }
}

/// The difference between the store's clock and this host's.
fn skew(modified_ms: i64, began_ms: i64, ended_ms: i64) -> Verdict {
    /// Some stores keep whole seconds only.
    const COARSE_MS: i64 = 1_000;
    let early = (began_ms - COARSE_MS - modified_ms).max(0);
    let late = (modified_ms - ended_ms).max(0);
    let differs = early.max(late);
    let text = match differs {
        0 => "agrees with this host's".to_owned(),
        ms if early > 0 => format!("{:.1} s behind this host's", ms as f64 / 1_000.0),
        ms => format!("{:.1} s ahead of this host's", ms as f64 / 1_000.0),
    };
    match u128::from(differs.unsigned_abs()) > SKEW.as_millis() {
        true => Bad(text, "synchronize both clocks, as with chrony"),
        false => Good(text),
    }
}

/// A failed check, with the usual remedy for its kind of error. The message may name a more exact one.
fn refused(failure: &Failure) -> Verdict {
    let kind = match failure {
        Failure::Error(error) => error.kind(),
        _ => ErrorKind::Internal,
    };
    let fix = match kind {
        ErrorKind::Unauthenticated => "log in, or correct or renew the credentials",
        ErrorKind::PermissionDenied => "ask the store's operator for permission, or use another directory",
        ErrorKind::NotFound => "correct the URI: no file or store has that name",
        ErrorKind::Unavailable | ErrorKind::TimedOut => "start the server, or correct the address",
        ErrorKind::NoSpace => "free space, or add a disk",
        ErrorKind::InvalidArgument => "correct the URI or the flag",
        ErrorKind::Unsupported => "the store can't do this; see `strait stores`",
        _ => "see the server's log",
    };
    Bad(failure.message().unwrap_or_default(), fix)
}

impl Report {
    fn tell(&mut self, check: &str, verdict: Verdict) -> Result<(), Failure> {
        let (state, detail, fix) = match verdict {
            Good(detail) => ("ok", detail, ""),
            Bad(detail, fix) => ("FAILED", detail, fix),
            Left(why) => ("left out", why.to_owned(), ""),
        };
        self.failed += usize::from(state == "FAILED");
        if self.json {
            return self.out.object([
                ("check", check.into()),
                ("state", state.to_lowercase().into()),
                ("detail", detail.into()),
                ("fix", fix.into()),
            ]);
        }
        self.out.line(
            format_args!("{check:8} {state:8} {}", escaped(&detail.replace(['\n', '\r'], " ")))
                .to_string()
                .trim_end(),
        )?;
        match fix {
            "" => Ok(()),
            fix => self.out.line(format_args!("{:17} fix: {fix}", "")),
        }
    }
}

fn silent() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

fn ms(began: Instant) -> String {
    format!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3)
}

fn rate(began: Instant) -> String {
    let seconds = began.elapsed().as_secs_f64();
    format!("{} MiB in {seconds:.2} s, {:.0} MB/s", PROBE_BYTES >> 20, PROBE_BYTES as f64 / 1e6 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_within_the_time_of_the_write() {
        assert!(matches!(skew(10_500, 11_000, 12_000), Good(text) if text.starts_with("agrees")));
        assert!(matches!(skew(5_000, 11_000, 12_000), Good(text) if text == "5.0 s behind this host's"));
        assert!(
            matches!(skew(1_000_000, 11_000, 12_000), Bad(text, _) if text == "988.0 s ahead of this host's")
        );
    }
}

//! The inputs of `run`, and the hosts that hold them.

use crate::cli::{Launcher, Run};
use crate::context::Context;
use crate::failure::{Failure, Tally};
use futures::StreamExt;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use strait_dispatch::{Input, Schedule, finished, joblog};
use strait_store::ErrorKind;

/// Files whose blocks are asked for at once.
const ASKED_AT_ONCE: usize = 16;
/// The host's name in the job log if commands run on this one, as GNU parallel writes it.
const HERE: &str = ":";
/// Longest host name (RFC 1035).
const MAX_HOST_BYTES: usize = 253;

/// Inputs and hosts, by their numbers.
pub struct Found {
    /// The inputs' URIs.
    pub uris: Vec<String>,
    /// Their sizes and hosts.
    pub inputs: Vec<Input>,
    /// Their places in the order of all inputs, from 1.
    pub sequences: Vec<usize>,
    /// The hosts' names.
    pub hosts: Vec<String>,
}

/// Finds the inputs that are to be processed. Inputs that can't be located count as failures.
pub async fn find(context: &Context, flags: &Run, tally: &mut Tally) -> Result<Found, Failure> {
    let mut uris = Vec::new();
    for uri in &flags.uris {
        match uri.as_str() {
            "-" => uris.extend(listed(flags.null)?),
            _ => uris.extend(context.expanded(std::slice::from_ref(uri), tally).await?),
        }
    }
    let log = match (&flags.joblog, flags.resume) {
        (Some(path), true) if path.exists() => {
            std::fs::read_to_string(path).map_err(|error| Failure::local(error, "read", path))?
        }
        _ => String::new(),
    };
    let done: HashSet<&str> = finished(&log);
    let mut wanted = Vec::new();
    for (index, uri) in uris.iter().enumerate() {
        let uri = context.absolute(uri)?.into_owned();
        if done.is_empty() || !done.contains(joblog::title(&flags.command, &uri).as_str()) {
            wanted.push((index + 1, uri));
        }
    }
    let located: Vec<_> = futures::stream::iter(wanted)
        .map(|(sequence, uri)| async move {
            let located = locate(context, &uri).await;
            (sequence, uri, located)
        })
        .buffered(ASKED_AT_ONCE)
        .collect()
        .await;
    let mut hosts = Hosts::of(flags)?;
    let mut found = Found { uris: Vec::new(), inputs: Vec::new(), sequences: Vec::new(), hosts: Vec::new() };
    for (sequence, uri, located) in located {
        tally.add(located.map(|(bytes, names)| {
            let places = names.iter().filter_map(|name| hosts.number(name, context)).collect();
            found.inputs.push(Input { bytes, hosts: places });
            found.uris.push(uri);
            found.sequences.push(sequence);
        }))?;
    }
    found.hosts = hosts.names;
    if found.hosts.is_empty() && !found.uris.is_empty() {
        return Err(Failure::usage(
            "no store names a host that holds these files; choose hosts with --host, or run the commands on \
             this one with --launcher local",
        ));
    }
    Ok(found)
}

/// Prints where each command would run.
pub fn print_plan(context: &Context, found: &Found) -> Result<(), Failure> {
    let mut out = context.output();
    let schedule = Schedule::new(found.inputs.clone(), found.hosts.len());
    for (number, host) in found.hosts.iter().enumerate() {
        for input in schedule.queue(number) {
            let (bytes, uri) = (found.inputs[input].bytes, &found.uris[input]);
            if context.json {
                let fields =
                    [("host", host.as_str().into()), ("bytes", bytes.into()), ("uri", uri.as_str().into())];
                out.object(fields)?;
            } else {
                let uri = out.name(uri);
                out.line(format_args!("{host}\t{bytes}\t{uri}"))?;
            }
        }
    }
    out.finish()
}

/// The URIs on standard input.
fn listed(by_nul: bool) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::at(ErrorKind::InvalidArgument, "read", "standard input", error.to_string())
    })?;
    let end = if by_nul { '\0' } else { '\n' };
    Ok(text.split(end).filter(|uri| !uri.is_empty()).map(str::to_owned).collect())
}

/// A file's length, and the hosts that hold it, the one with the most bytes first.
async fn locate(context: &Context, uri: &str) -> Result<(u64, Vec<String>), Failure> {
    let place = context.place(uri).await?;
    let status = place.stat().await?;
    if status.is_directory() {
        let why = "it is a directory; name its files, for example with /*";
        return Err(Failure::at(ErrorKind::IsADirectory, "run a command on", uri, why));
    }
    let blocks = place.fs.block_locations(&place.who, &place.path, 0..u64::MAX).await?;
    let mut held: HashMap<String, u64> = HashMap::new();
    for block in blocks {
        for host in block.hosts {
            *held.entry(host).or_default() += block.length;
        }
    }
    let mut hosts: Vec<(String, u64)> = held.into_iter().collect();
    hosts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok((status.length, hosts.into_iter().map(|(host, _)| host).collect()))
}

/// Hosts that may run commands.
struct Hosts {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// Others that stores name are hosts, too.
    takes_more: bool,
}

impl Hosts {
    fn of(flags: &Run) -> Result<Self, Failure> {
        let (names, takes_more) = match flags.launcher {
            Launcher::Local => (vec![HERE.to_owned()], false),
            Launcher::Ssh => (flags.hosts.clone(), flags.hosts.is_empty()),
        };
        if flags.launcher == Launcher::Ssh
            && let Some(wrong) = names.iter().find(|name| !is_host(name))
        {
            return Err(Failure::usage(format!("--host {wrong:?}: not the name or address of a host")));
        }
        let numbers = names.iter().cloned().zip(0..).collect();
        Ok(Self { names, numbers, takes_more })
    }

    /// The number of a host that a store names. A hostile store may name anything.
    fn number(&mut self, name: &str, context: &Context) -> Option<usize> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        if !self.takes_more {
            return None;
        }
        if !is_host(name) {
            context.messages().warn(&format!("the store names {name:?} as a host, which can't be one"));
            return None;
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        Some(self.names.len() - 1)
    }
}

/// Whether ssh may be given this as a host: a name or an address, and nothing that reads as an option,
/// a user or a path.
fn is_host(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    !name.is_empty() && name.len() <= MAX_HOST_BYTES && !name.starts_with('-') && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn only_names_and_addresses_are_hosts() {
        for good in ["node-1.lab", "10.0.0.1", "::1", "a_b"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "-oProxyCommand=x", "a b", "root@a", "a;b", "a\nb", "$(x)", "a/b", &"a".repeat(254)] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}

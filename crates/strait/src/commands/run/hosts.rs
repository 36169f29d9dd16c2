//! The hosts that can run commands: hosts that the stores name, hosts that the user names, or the nodes of a
//! Slurm cluster. Names from a store aren't trusted: a hostile store can name anything.

use crate::cli::{Launcher, Run};
use crate::context::Context;
use crate::failure::Failure;
use std::collections::HashMap;
use std::net::ToSocketAddrs;
use std::process::{Command, Stdio};

/// This host's name in the job log, as in GNU parallel.
const HERE: &str = ":";
/// Longest host name (RFC 1035).
const MAX_HOST_BYTES: usize = 253;

/// The hosts found so far.
pub struct Hosts {
    names: Vec<String>,
    /// Numbers by name. `None`: several nodes have the name, or the host isn't allowed to run commands.
    numbers: HashMap<String, Option<usize>>,
    kind: Kind,
    /// Patterns of hosts that may get the login; `None` if no store needs one.
    lend_to: Option<Vec<String>>,
    /// Hosts that the stores name, but that aren't allowed to get the login.
    unlent: Vec<String>,
}

#[derive(PartialEq)]
enum Kind {
    /// Hosts that the user names.
    Named,
    /// Hosts that stores name.
    OfStores,
    /// Nodes of the Slurm cluster. Only nodes that the stores name are used.
    Nodes { names: Vec<String>, numbers: HashMap<String, Option<usize>> },
}

impl Hosts {
    /// The hosts that the flags give. [`number`](Self::number) adds those that the stores name.
    pub async fn of<'a>(
        context: &Context,
        flags: &Run,
        uris: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let (names, kind) = match flags.launcher {
            Launcher::Local => (vec![HERE.to_owned()], Kind::Named),
            _ if flags.hosts.is_empty() && flags.launcher == Launcher::Slurm => {
                let (names, numbers) = ask_nodes().await?;
                (Vec::new(), Kind::Nodes { names, numbers })
            }
            Launcher::Ssh if flags.hosts.is_empty() => (Vec::new(), Kind::OfStores),
            Launcher::Ssh | Launcher::Slurm => (flags.hosts.clone(), Kind::Named),
        };
        if flags.launcher != Launcher::Local
            && let Some(wrong) = names.iter().find(|name| !is_host(name))
        {
            return Err(Failure::usage(format!("--host {wrong:?}: not the name or address of a host")));
        }
        let mut numbers: HashMap<String, Option<usize>> =
            names.iter().cloned().zip((0..).map(Some)).collect();
        if flags.launcher == Launcher::Slurm && kind == Kind::Named {
            // The stores may name the user's nodes by other names.
            let (nodes, of_nodes) = ask_nodes().await?;
            let own = |node: Option<usize>| {
                let node = nodes.get(node?)?;
                names.iter().position(|name| name == node)
            };
            numbers.extend(of_nodes.into_iter().map(|(alias, node)| (alias, own(node))));
        }
        let needs_login = kind == Kind::OfStores && context.lends_for(uris);
        let lend_to = needs_login.then(|| flags.lend_to.clone());
        Ok(Self { names, numbers, kind, lend_to, unlent: Vec::new() })
    }

    /// The number of a host that a store names; `None` if it isn't allowed to run commands.
    pub fn number(&mut self, name: &str, context: &Context) -> Option<usize> {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let name = match &self.kind {
            Kind::Named => return None,
            Kind::Nodes { names, numbers } => names[(*numbers.get(name)?)?].clone(),
            Kind::OfStores if !is_host(name) => {
                context
                    .messages()
                    .warn(&format!("the store names the host {name:?}, which isn't a valid host name"));
                self.numbers.insert(name.to_owned(), None);
                return None;
            }
            Kind::OfStores => name.to_owned(),
        };
        if let Some(patterns) = &self.lend_to
            && !patterns.iter().any(|pattern| matches(pattern, &name))
        {
            self.unlent.push(name.clone());
            self.numbers.insert(name, None);
            return None;
        }
        // The node may already be known by another of its names.
        let number = self.names.iter().position(|known| *known == name).unwrap_or(self.names.len());
        if number == self.names.len() {
            self.names.push(name.clone());
        }
        self.numbers.insert(name, Some(number));
        Some(number)
    }

    /// All hosts.
    ///
    /// # Errors
    /// `are_needed` is set, and there is no host.
    pub fn names(self, are_needed: bool) -> Result<Vec<String>, Failure> {
        if !self.names.is_empty() || !are_needed {
            return Ok(self.names);
        }
        let why = match (self.unlent.first(), &self.kind) {
            (Some(host), _) => format!(
                "the store needs a login, which none of its hosts may get (one is {host}); choose hosts with \
                 --lend-to or --host"
            ),
            (None, Kind::Nodes { .. }) => {
                "no node of the Slurm cluster holds these files; choose nodes with --host".to_owned()
            }
            (None, _) => {
                "no store names a host that holds these files; choose hosts with --host, or run the \
                          commands on this one with --launcher local"
                    .to_owned()
            }
        };
        Err(Failure::usage(why))
    }
}

/// Whether this is safe as a host argument of ssh or srun: a name or an address, not an option, a user, a
/// path or a list.
fn is_host(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    !name.is_empty() && name.len() <= MAX_HOST_BYTES && !name.starts_with('-') && name.bytes().all(plain)
}

/// Whether a pattern matches this host. A `*` in the pattern stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern.eq_ignore_ascii_case(name),
        Some((start, rest)) => {
            let Some((head, tail)) = name.split_at_checked(start.len()) else { return false };
            let ends = || (0..=tail.len()).filter_map(|at| tail.get(at..)).any(|tail| matches(rest, tail));
            head.eq_ignore_ascii_case(start) && ends()
        }
    }
}

/// The nodes' names, and the numbers of nodes by all their names and addresses.
type Nodes = (Vec<String>, HashMap<String, Option<usize>>);

/// As [`nodes`], without blocking this thread.
async fn ask_nodes() -> Result<Nodes, Failure> {
    let asked = tokio::task::spawn_blocking(nodes).await;
    asked.unwrap_or_else(|error| Err(Failure::other(format!("can't ask Slurm for its nodes: {error}"))))
}

/// The nodes of the Slurm allocation that this process runs in, else of the whole cluster.
fn nodes() -> Result<Nodes, Failure> {
    let mut sinfo = Command::new("sinfo");
    sinfo.args(["--noheader", "--Node", "--responding", "--Format=NodeList:|,NodeHost:|,NodeAddr:|"]);
    if let Some(own) = std::env::var_os("SLURM_JOB_NODELIST") {
        sinfo.arg("--nodes").arg(own);
    }
    let told = sinfo.stdin(Stdio::null()).output();
    let told = told.map_err(|error| Failure::local(error, "run", "sinfo".as_ref()))?;
    if !told.status.success() {
        let why = String::from_utf8_lossy(&told.stderr);
        return Err(Failure::other(format!("can't ask Slurm for its nodes (sinfo): {}", why.trim())));
    }
    Ok(listed_nodes(&String::from_utf8_lossy(&told.stdout), |address| {
        let resolved = (address, 0).to_socket_addrs().ok();
        resolved.into_iter().flatten().map(|address| address.ip().to_string()).collect()
    }))
}

/// Parses the nodes from sinfo's lines. A line has a name, a host and an address, each followed by a bar. A
/// node of several partitions has several lines.
fn listed_nodes(lines: &str, resolve: impl Fn(&str) -> Vec<String>) -> Nodes {
    let (mut names, mut all): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    for line in lines.lines() {
        let mut fields = line.split('|').map(str::trim);
        let (Some(node), Some(host), Some(address)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if !is_host(node) || names.iter().any(|known| known == node) {
            continue;
        }
        let mut aliases = vec![node.to_owned(), host.to_owned(), address.to_owned()];
        aliases.extend(resolve(address));
        aliases.sort_unstable();
        aliases.dedup();
        names.push(node.to_owned());
        all.push(aliases);
    }
    let mut numbers: HashMap<String, Option<usize>> = HashMap::new();
    for (number, aliases) in all.into_iter().enumerate() {
        for alias in aliases {
            numbers.entry(alias).and_modify(|known| *known = None).or_insert(Some(number));
        }
    }
    // A node's own name takes precedence over an equal alias of another node.
    numbers.extend(names.iter().cloned().zip((0..).map(Some)));
    (names, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_are_hosts() {
        for good in ["node-1.lab", "10.0.0.1", "::1", "a_b"] {
            assert!(is_host(good), "{good}");
        }
        let bad = ["", "-oProxyCommand=x", "a b", "root@a", "a;b", "a\nb", "$(x)", "a/b", "n[1-9]", "a,b"];
        for bad in bad.into_iter().chain([&*"a".repeat(254)]) {
            assert!(!is_host(bad), "{bad}");
        }
    }

    #[test]
    fn a_pattern_means_hosts() {
        for (pattern, host) in
            [("a", "A"), ("*", "x"), ("*.lab", "n1.lab"), ("10.0.*", "10.0.3.4"), ("n*-*", "n1-2")]
        {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in
            [("a", "ab"), ("*.lab", "n1.lab.evil"), ("", "a"), ("n*", "m1"), ("nodes", "no")]
        {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn nodes_have_many_names_and_a_shared_one_means_none() {
        let lines = "n1|here|10.0.0.1|\nn1|here|10.0.0.1|\nn2|here|two.lab|\nn[3-4]|x|y|\n";
        let resolve = |name: &str| if name == "two.lab" { vec!["10.0.0.2".to_owned()] } else { vec![] };
        let (names, numbers) = listed_nodes(lines, resolve);
        assert_eq!(names, ["n1", "n2"]);
        let number = |alias: &str| numbers.get(alias).copied().flatten();
        assert_eq!(
            ["n1", "10.0.0.1", "n2", "two.lab", "10.0.0.2", "here", "n3"].map(number),
            [Some(0), Some(0), Some(1), Some(1), Some(1), None, None]
        );
    }
}

//! The host on which a daemon runs.

use crate::http::{HttpAnswer, http_request};
use crate::network::Host;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;

/// This machine, on 127.0.0.1, or a host of a network.
#[derive(Debug, Clone, Default)]
pub(super) struct Site(Option<Host>);

impl Site {
    /// The host with this index, modulo the number of hosts; this machine if there are none.
    pub(super) fn of(hosts: &[Host], index: usize) -> Self {
        Self(hosts.get(index % hosts.len().max(1)).cloned())
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.0.as_ref().map_or(Ipv4Addr::LOCALHOST, Host::address)
    }

    /// Makes `command` run there.
    pub(super) fn place(&self, mut command: Command) -> Command {
        if let Some(host) = &self.0 {
            host.enter(&mut command);
        }
        command
    }

    /// As [`http_request`], but sent from this host.
    pub(super) fn http(&self, method: &str, address: &str, target: &str) -> io::Result<HttpAnswer> {
        match &self.0 {
            Some(host) => host.run(|| http_request(method, address, target)),
            None => http_request(method, address, target),
        }
    }
}

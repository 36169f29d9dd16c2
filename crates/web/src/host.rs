//! The host that a request names.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The host of a `Host` field or of an absolute target: `HOST[:PORT]`, without a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host<'a> {
    /// An IP address.
    Address,
    /// A name, whose characters aren't checked.
    Name(&'a str),
}

impl<'a> Host<'a> {
    /// Parses it. None if something else than a port follows the host.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (host, after) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, after) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (Self::Address, after)
            }
            None => {
                let (name, after) = text.split_at(text.find(':').unwrap_or(text.len()));
                let is_address = name.parse::<Ipv4Addr>().is_ok();
                (if is_address { Self::Address } else { Self::Name(name) }, after)
            }
        };
        match after.strip_prefix(':') {
            None => after.is_empty().then_some(host),
            Some("") => Some(host),
            Some(port) => {
                let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
                is_port.then_some(host)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_followed_by_a_port_or_nothing() {
        for (text, host) in [
            ("localhost", Host::Name("localhost")),
            ("localhost:", Host::Name("localhost")),
            ("files.example:65535", Host::Name("files.example")),
            ("127.0.0.1:9090", Host::Address),
            ("[::1]", Host::Address),
            ("[::1]:9090", Host::Address),
            ("", Host::Name("")),
        ] {
            assert_eq!(Host::parse(text), Some(host), "{text}");
        }
        for text in [
            "localhost:1@evil.example",
            "localhost:65536",
            "localhost:+1",
            "localhost: 1",
            "127.0.0.1:x:y",
            "127.0.0.1:1:2",
            "[::1]x",
            "[::1]:x",
            "[evil]:1",
            "[::1",
            "::1",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}

//! The origin of a connection: its address, or on loopback its user.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The source of a connection. A server's limits give each origin a share. On loopback it is a user
/// of this host, since every user can use any loopback address; otherwise an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A user of this host, by number.
    LocalUser(u32),
    /// An address. In IPv6 a host owns its whole /64 (RFC 4291, section 2.5.4),
    /// so the lower half is zero.
    Address(IpAddr),
}

impl Origin {
    /// The origin of a connection: its local user if the kernel named one, else its address.
    pub fn of(user: Option<u32>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::of_address(address), Self::LocalUser)
    }

    /// The origin of an address without a known local user. All loopback addresses are one origin,
    /// since a local program can use any of 127.0.0.0/8.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            loopback if loopback.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocalUser(user) => write!(f, "local user {user}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_origin_and_a_mapped_address_is_ipv4() {
        let origin = |address: &str| Origin::of_address(address.parse().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("127.0.0.1"), origin("127.3.2.1"));
        assert_eq!(origin("127.0.0.1"), origin("::1"));
    }
}

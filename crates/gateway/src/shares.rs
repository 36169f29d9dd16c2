//! Places of which no address gets more than it leaves to others: for
//! connections, sessions, and logins that wait.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that clients take.
pub struct Shares {
    places: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    in_all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A place, given back when dropped.
pub struct Share {
    of: Arc<Shares>,
    client: IpAddr,
}

impl Shares {
    /// All free.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, taken: Mutex::default() })
    }

    /// A place for a client at `address`; none if all are taken, or if it has as
    /// many as are free: alone it gets half of them. This host's own programs
    /// may have all: they share one address, and it is theirs.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Share> {
        let client = client(address);
        let mut taken = self.lock();
        let free = self.places.saturating_sub(taken.in_all);
        let had = taken.by_client.get(&client).copied().unwrap_or(0);
        if free == 0 || (had >= free && !client.is_loopback()) {
            return None;
        }
        taken.in_all += 1;
        taken.by_client.insert(client, had + 1);
        Some(Share { of: self.clone(), client })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Every critical section here leaves the counts whole.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.in_all -= 1;
        if let Some(had) = taken.by_client.get_mut(&self.client) {
            *had -= 1;
            if *had == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// Who an address stands for: in IPv6 whoever has one has its whole /64
/// (RFC 4291, section 2.5.4).
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_for(shares: &Arc<Shares>, address: &str) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(address.parse().unwrap())).collect()
    }

    #[test]
    fn one_address_leaves_as_much_to_others_as_it_has() {
        let shares = Shares::new(16);
        let first = all_for(&shares, "192.0.2.1");
        assert_eq!(first.len(), 8);
        let second = all_for(&shares, "192.0.2.2");
        assert_eq!(second.len(), 4);
        drop(first);
        assert_eq!(all_for(&shares, "192.0.2.3").len(), 6, "places come back");
        drop(second);
        assert!(shares.lock().by_client.is_empty(), "nobody who has left is remembered");
    }

    #[test]
    fn this_hosts_programs_may_have_all() {
        let shares = Shares::new(16);
        assert_eq!(all_for(&shares, "127.0.0.1").len(), 16);
        assert_eq!(all_for(&shares, "::1").len(), 16);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_a_mapped_address_is_ipv4() {
        let shares = Shares::new(16);
        let _first = all_for(&shares, "2001:db8::1");
        assert!(shares.take("2001:db8::2".parse().unwrap()).is_none());
        let other = all_for(&shares, "2001:db8:0:1::1");
        assert_eq!(other.len(), 4);
        drop(other);
        let _mapped = all_for(&shares, "::ffff:192.0.2.1");
        assert!(shares.take("192.0.2.1".parse().unwrap()).is_none());
    }
}

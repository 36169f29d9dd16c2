//! Limits on logins: how many run at a time, and how soon one may follow a failed one.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Most passwords checked at a time: each takes some 20 ms of a core and 19 MiB (argon2id).
const AT_ONCE: usize = 4;
/// Most passwords checked at a time for one address: half of all.
const AT_ONCE_OF_ONE: usize = AT_ONCE / 2;
/// Pause before the second attempt; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, after many failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Most pairs of user and address whose failures are remembered, at some 100 bytes each.
const PAIRS: usize = 65_536;

/// The logins under way, and the recent failures.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    under_way: HashMap<Origin, usize>,
    failed: HashMap<Pair, Failed>,
}

type Pair = (String, Origin);

/// The address that an attempt is counted under. An IPv6 host owns a whole /64 (RFC 4291, section
/// 2.5.4), so the lower half of an IPv6 address is set to zero. All loopback addresses become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            loopback if loopback.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
            v4 => v4,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    times: u32,
    again_at: Instant,
}

/// The reason why the namenode doesn't check a login's password now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Later {
    /// Too many checks are under way.
    Crowded,
    /// This user's latest login from this origin failed, and the pause after it isn't over.
    Failed,
}

impl Attempts {
    /// Permits a check of a password now, or says why not. Call [`Attempts::end`] after the check.
    pub(super) fn begin(&mut self, user: &str, from: Origin, now: Instant) -> Result<(), Later> {
        if self.failed.get(&(user.to_owned(), from)).is_some_and(|failed| now < failed.again_at) {
            return Err(Later::Failed);
        }
        let of_all: usize = self.under_way.values().sum();
        let of_one = self.under_way.entry(from).or_default();
        if of_all >= AT_ONCE || *of_one >= AT_ONCE_OF_ONE {
            return Err(Later::Crowded);
        }
        *of_one += 1;
        Ok(())
    }

    pub(super) fn end(&mut self, user: &str, from: Origin, failed: bool, now: Instant) {
        if let Some(of_one) = self.under_way.get_mut(&from) {
            *of_one -= 1;
        }
        self.under_way.retain(|_, count| *count > 0);
        let pair = (user.to_owned(), from);
        if !failed {
            self.failed.remove(&pair);
            return;
        }
        if self.failed.len() >= PAIRS {
            // Evict the pairs whose pause is over. If all pauses still run, evict all pairs.
            self.failed.retain(|_, failed| now < failed.again_at);
            if self.failed.len() >= PAIRS {
                self.failed.clear();
            }
        }
        let times = self.failed.get(&pair).map_or(0, |failed| failed.times);
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE);
        self.failed.insert(pair, Failed { times: times + 1, again_at: now + pause });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Origin = Origin(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    const THERE: Origin = Origin(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)));

    #[test]
    fn a_host_is_one_origin_whichever_of_its_addresses_it_uses() {
        let origin = |address: &str| Origin::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), HERE);
        assert_eq!(origin("127.3.2.1"), origin("::1"));
    }

    #[test]
    fn each_failure_of_a_pair_doubles_its_pause_and_nobody_elses() {
        let (mut attempts, mut now) = (Attempts::default(), Instant::now());
        for pause_ms in [250, 500, 1_000, 2_000] {
            attempts.begin("alice", HERE, now).unwrap();
            attempts.end("alice", HERE, true, now);
            assert_eq!(attempts.begin("alice", HERE, now), Err(Later::Failed));
            for (user, from) in [("bob", HERE), ("alice", THERE)] {
                attempts.begin(user, from, now).unwrap();
                attempts.end(user, from, false, now);
            }
            now += Duration::from_millis(pause_ms);
        }
        attempts.begin("alice", HERE, now).unwrap();
        attempts.end("alice", HERE, false, now);
        attempts.begin("alice", HERE, now).unwrap();
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..AT_ONCE_OF_ONE {
            attempts.begin("alice", HERE, now).unwrap();
        }
        assert_eq!(attempts.begin("bob", HERE, now), Err(Later::Crowded));
        attempts.begin("bob", THERE, now).unwrap();
        attempts.end("alice", HERE, false, now);
        attempts.begin("bob", HERE, now).unwrap();
    }

    #[test]
    fn what_strangers_make_it_remember_is_bounded() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for number in 0..=PAIRS {
            let user = number.to_string();
            attempts.begin(&user, HERE, now).unwrap();
            attempts.end(&user, HERE, true, now);
        }
        assert!(attempts.failed.len() <= PAIRS && attempts.under_way.is_empty());
    }
}

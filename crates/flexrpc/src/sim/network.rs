//! The virtual network: datagrams that may suffer any fault, and streams that stay in order until
//! they are cut.

use crate::proto::Micros;

/// Random numbers from a seed (SplitMix64), the same on every machine.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which isn't zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with a probability of `percent`.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The faults of a schedule's world. The seed enables or disables each fault, so that schedules
/// differ in kind and not only in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) loss: u64,
    pub(super) duplication: u64,
    pub(super) damage: u64,
    pub(super) longest_delay: Micros,
    pub(super) cuts: u64,
    pub(super) restarts: u64,
    pub(super) stalls: u64,
    pub(super) forgetful: bool,
    /// Whether members have a key.
    pub(super) keyed: bool,
    /// Percentage of requests that a stranger without the key copies.
    pub(super) forgeries: u64,
    /// How often each server changes its forwarding rule.
    pub(super) flips: u64,
}

impl Weather {
    pub(super) fn of(random: &mut Random) -> Self {
        let mut maybe = |most: u64| if random.percent(50) { random.below(most) + 1 } else { 0 };
        Self {
            loss: maybe(40),
            duplication: maybe(50),
            damage: maybe(15),
            cuts: maybe(40),
            restarts: maybe(3),
            stalls: maybe(40),
            forgetful: maybe(1) == 1,
            longest_delay: if maybe(1) == 1 { 120_000 } else { 3_000 },
            keyed: maybe(1) == 1,
            forgeries: maybe(30),
            flips: maybe(30),
        }
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) alive: bool,
    pub(super) owner: Owner,
    pub(super) server: usize,
    /// The server's incarnation that accepted it.
    pub(super) incarnation: u64,
    /// Bytes arrive in order: none before these times.
    pub(super) to_server: Micros,
    pub(super) to_owner: Micros,
}

/// The end that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Caller(usize),
    /// A server's relay.
    Relay(usize, u64),
    /// A stranger without the key.
    Stranger(Victim),
}

/// The true caller to which a stranger replays answers, and how they reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Caller(usize),
    Stream(usize),
}

/// The path by which a frame came, and by which its answer returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Datagram(usize),
    Stream(usize),
    /// A stranger's datagram.
    Stranger(Victim),
}

/// Flips one bit.
pub(super) fn damage(bytes: &mut [u8], random: &mut Random) {
    let bit = random.below(bytes.len() as u64 * 8) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
}

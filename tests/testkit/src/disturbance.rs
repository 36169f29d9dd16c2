//! A network that loses, repeats and overtakes. Needs `iptables` beside what
//! [`Network`] needs.

use crate::failure::Result;
use crate::network::{Host, Network};

/// What becomes of the packets that a host sends to the others: each share is of
/// 1, and a packet is chosen at random.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Disturbance {
    /// Don't arrive. The sender isn't told.
    pub lost: f64,
    /// Arrive twice.
    pub repeated: f64,
    /// Take a lane of 200 kbit/s, so that later ones overtake them.
    pub overtaken: f64,
}

/// A packet of 100 bytes holds the next one back for 4 ms, one of 1,500 for
/// 60 ms: long enough for calls and retransmissions to pass.
const SLOW_LANE: &str = "rate 200kbit quantum 1500 burst 15 cburst 15";
/// The rate of the other, where the link has none of its own.
const FAST_RATE: &str = "10gbit";

impl Network {
    /// Disturbs what a host sends from now on, in place of what disturbed it
    /// before; the default disturbs nothing.
    ///
    /// # Errors
    /// `iptables` or `tc` is missing or refuses.
    pub fn disturb(&self, index: usize, disturbance: Disturbance) -> Result<()> {
        let Disturbance { lost, repeated, overtaken } = disturbance;
        let sender = self.host(index);
        let from = sender.address();
        sender.execute("iptables", "-t mangle -F POSTROUTING")?;
        for (_, host) in self.hosts().iter().enumerate().filter(|(other, _)| *other != index) {
            // Lost where they arrive: a sender is told of what its own rules drop.
            let chain = format!("from-{index}");
            // It fails where the chain is there already.
            let _ = host.execute("iptables", &format!("-N {chain}"));
            let hook = format!("INPUT -s {from} -j {chain}");
            if host.execute("iptables", &format!("-C {hook}")).is_err() {
                host.execute("iptables", &format!("-A {hook}"))?;
            }
            host.execute("iptables", &format!("-F {chain}"))?;
            if lost > 0.0 {
                host.execute("iptables", &format!("-A {chain} {} -j DROP", chosen(lost)))?;
            }
            if repeated > 0.0 {
                let to = host.address();
                let rule = format!("-A POSTROUTING -d {to} {} -j TEE --gateway {to}", chosen(repeated));
                sender.execute("iptables", &format!("-t mangle {rule}"))?;
            }
        }
        if overtaken > 0.0 {
            lanes(sender)?;
            let rule = format!("-A POSTROUTING -o eth0 {} -j CLASSIFY --set-class 1:2", chosen(overtaken));
            sender.execute("iptables", &format!("-t mangle {rule}"))?;
        }
        Ok(())
    }
}

/// The match of a random share.
fn chosen(share: f64) -> String {
    format!("-m statistic --mode random --probability {share:.6}")
}

/// Two lanes in place of the link's one queue.
fn lanes(host: &Host) -> Result<()> {
    let fast = host.rate().map_or(FAST_RATE.to_owned(), |rate| rate.to_string());
    host.execute("tc", "qdisc replace dev eth0 root handle 1: htb default 1")?;
    host.execute(
        "tc",
        &format!("class replace dev eth0 parent 1: classid 1:1 htb rate {fast} quantum 60000"),
    )?;
    host.execute("tc", &format!("class replace dev eth0 parent 1: classid 1:2 htb {SLOW_LANE}"))
}

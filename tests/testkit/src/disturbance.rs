//! A network that loses, duplicates and reorders packets. Needs `iptables` in addition to
//! [`Network`]'s needs.

use crate::failure::Result;
use crate::network::{Host, Network};

/// Effects on the packets that a host sends to the others. Each share is a fraction of 1, and
/// packets are chosen at random.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Disturbance {
    /// Share of packets lost, without a signal to the sender.
    pub lost: f64,
    /// Share of packets that arrive twice.
    pub repeated: f64,
    /// Share of packets that take a lane of 200 kbit/s, so that later ones overtake them.
    pub overtaken: f64,
}

/// In this lane, a packet of 100 bytes takes 4 ms, and one of 1,500 bytes 60 ms. In that time, later calls
/// and retransmissions overtake it.
const SLOW_LANE: &str = "rate 200kbit quantum 1500 burst 15 cburst 15";
/// Rate of the fast lane if the link isn't shaped.
const FAST_RATE: &str = "10gbit";

impl Network {
    /// Disturbs a host's packets from now on. Replaces an earlier disturbance; the default one does nothing.
    ///
    /// # Errors
    /// `iptables` or `tc` is missing or refuses.
    pub fn disturb(&self, index: usize, disturbance: Disturbance) -> Result<()> {
        let Disturbance { lost, repeated, overtaken } = disturbance;
        let sender = self.host(index);
        let from = sender.address();
        sender.execute("iptables", "-t mangle -F POSTROUTING")?;
        for (_, host) in self.hosts().iter().enumerate().filter(|(other, _)| *other != index) {
            // Drop packets at the receiver: the sender's kernel reports drops by local rules to the program.
            let chain = format!("from-{index}");
            // This fails if the chain exists already.
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

    /// From now on, answers each TCP packet between two hosts with a reset to its sender.
    ///
    /// # Errors
    /// `iptables` is missing or refuses.
    pub fn reset(&self, a: usize, b: usize) -> Result<()> {
        self.change_resets("-A", a, b)
    }

    /// Undoes a [`Network::reset`].
    ///
    /// # Errors
    /// As [`Network::reset`]; also if there was no reset.
    pub fn end_reset(&self, a: usize, b: usize) -> Result<()> {
        self.change_resets("-D", a, b)
    }

    fn change_resets(&self, change: &str, a: usize, b: usize) -> Result<()> {
        for (from, to) in [(a, b), (b, a)] {
            let sender = self.host(from).address();
            let rule = format!("{change} INPUT -p tcp -s {sender} -j REJECT --reject-with tcp-reset");
            self.host(to).execute("iptables", &rule)?;
        }
        Ok(())
    }
}

/// The iptables match for a random share of packets.
fn chosen(share: f64) -> String {
    format!("-m statistic --mode random --probability {share:.6}")
}

/// Replaces the link's single queue by a fast and a slow lane.
fn lanes(host: &Host) -> Result<()> {
    let fast = host.rate().map_or(FAST_RATE.to_owned(), |rate| rate.to_string());
    host.execute("tc", "qdisc replace dev eth0 root handle 1: htb default 1")?;
    host.execute(
        "tc",
        &format!("class replace dev eth0 parent 1: classid 1:1 htb rate {fast} quantum 60000"),
    )?;
    host.execute("tc", &format!("class replace dev eth0 parent 1: classid 1:2 htb {SLOW_LANE}"))
}

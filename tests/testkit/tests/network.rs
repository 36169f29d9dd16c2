//! Hosts in network namespaces. Needs root, and skips without it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use strait_testkit::wait::{eventually, pause};
use strait_testkit::{Disturbance, Host, LinkRate, Network};

const PORT: u16 = 7777;

/// None if the tests don't run as root.
fn network(hosts: usize, rate: Option<LinkRate>) -> Option<Network> {
    match rustix::process::geteuid().is_root() {
        true => Some(Network::start(hosts, rate).unwrap()),
        false => {
            strait_testkit::skip("hosts in network namespaces", "root");
            None
        }
    }
}

fn listen(host: &Host) -> TcpListener {
    host.run(|| TcpListener::bind((host.address(), PORT)).unwrap())
}

fn connect(from: &Host, to: &Host) -> std::io::Result<TcpStream> {
    let address = SocketAddr::from((to.address(), PORT));
    from.run(|| TcpStream::connect_timeout(&address, Duration::from_millis(500)))
}

#[test]
fn hosts_hear_each_other_and_no_other_network() {
    let (Some(network), Some(other)) = (network(2, None), network(2, None)) else { return };
    let listener = listen(network.host(1));
    let mut here = connect(network.host(0), network.host(1)).unwrap();
    let (mut there, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), network.host(0).address());
    here.write_all(b"x").unwrap();
    there.read_exact(&mut [0]).unwrap();
    // The same addresses, without a listener.
    let error = connect(other.host(0), other.host(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_command_runs_on_its_host() {
    let Some(network) = network(1, None) else { return };
    let output = network.host(0).command("ip").args(["-4", "-brief", "address"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&network.host(0).address().to_string()), "{said}");
}

/// Sends to two other hosts at once, and to the second one ten times as much. Returns their numbers in the
/// order in which they have received everything. If their links are equally fast, the first one is first.
fn order_of_arrival(network: &Network) -> Vec<usize> {
    let (arrived, arrivals) = mpsc::channel();
    let pairs = [(1, 500_000), (2, 5_000_000)].map(|(host, bytes)| {
        let listener = listen(network.host(host));
        let here = connect(network.host(0), network.host(host)).unwrap();
        (host, vec![0; bytes], here, listener.accept().unwrap().0)
    });
    thread::scope(|scope| {
        for (host, bytes, mut here, mut there) in pairs {
            let (arrived, mut received) = (arrived.clone(), vec![1; bytes.len()]);
            scope.spawn(move || here.write_all(&bytes).unwrap());
            scope.spawn(move || {
                there.read_exact(&mut received).unwrap();
                arrived.send(host).unwrap();
            });
        }
    });
    drop(arrived);
    arrivals.iter().collect()
}

/// 500 kB take a second.
const SLOW: LinkRate = LinkRate::mbit(4);
const FAST: LinkRate = LinkRate::mbit(2_000);

#[test]
fn a_link_carries_no_more_than_its_rate() {
    let Some(mut network) = network(3, Some(SLOW)) else { return };
    // The sender's own link must not hold up the fast receiver.
    network.set_rate(0, FAST).unwrap();
    network.set_rate(2, FAST).unwrap();
    assert_eq!(order_of_arrival(&network), [2, 1]);
}

#[test]
fn a_link_can_be_slowed_down() {
    let Some(mut network) = network(3, Some(FAST)) else { return };
    network.set_rate(1, SLOW).unwrap();
    assert_eq!(order_of_arrival(&network), [2, 1]);
}

#[test]
fn links_carry_large_packets_if_they_are_told_to() {
    let Some(network) = network(2, None) else { return };
    network.set_packet_bytes(9_000).unwrap();
    assert_eq!(arrivals(&network, 10).len(), 10);
    let links = network.host(0).command("ip").args(["link", "show", "eth0"]).output().unwrap();
    let said = String::from_utf8_lossy(&links.stdout).into_owned();
    assert!(said.contains("mtu 9000"), "{said}");
}

#[test]
fn a_cut_is_between_two_hosts_and_can_be_mended() {
    let Some(network) = network(3, None) else { return };
    let _listeners: Vec<_> = network.hosts().iter().map(listen).collect();
    network.cut(0, 1).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        let error = connect(network.host(from), network.host(to)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "silence, not a refusal");
    }
    connect(network.host(0), network.host(2)).unwrap();
    network.mend(0, 1).unwrap();
    let heard = || connect(network.host(0), network.host(1)).is_ok();
    eventually("the host is heard again", heard);
}

#[test]
fn an_unplugged_host_hears_nobody_until_it_is_plugged_in() {
    let Some(network) = network(2, None) else { return };
    let _listener = listen(network.host(1));
    network.unplug(1).unwrap();
    assert!(connect(network.host(0), network.host(1)).is_err());
    network.plug(1).unwrap();
    let heard = || connect(network.host(0), network.host(1)).is_ok();
    eventually("the host is heard again", heard);
}

/// The numbers of the `count` datagrams that arrive, in order of arrival.
fn arrivals(network: &Network, count: u32) -> Vec<u32> {
    let to = SocketAddr::from((network.host(1).address(), PORT));
    let receiver = network.host(1).run(|| UdpSocket::bind(to).unwrap());
    let sender = network.host(0).run(|| UdpSocket::bind((network.host(0).address(), 0)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                sender.send_to(&number.to_be_bytes(), to).unwrap();
                pause("like calls: one after another, not all at once", Duration::from_micros(50));
            }
        });
        let mut number = [0; 4];
        let mut arrived = Vec::new();
        while receiver.recv(&mut number).is_ok() {
            arrived.push(u32::from_be_bytes(number));
        }
        arrived
    })
}

fn overtaken(arrived: &[u32]) -> usize {
    arrived.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// None if the tests don't run as root, or iptables is missing.
fn disturbed(disturbance: Disturbance) -> Option<Network> {
    let network = network(2, None)?;
    let iptables = network.host(0).command("iptables").arg("--version").output();
    if iptables.is_err() {
        strait_testkit::skip("a disturbed network", "iptables");
        return None;
    }
    network.disturb(0, disturbance).unwrap();
    Some(network)
}

const DATAGRAMS: u32 = 1_000;

#[test]
fn a_share_of_packets_is_lost_until_the_network_is_calm_again() {
    let Some(network) = disturbed(Disturbance { lost: 0.2, ..Disturbance::default() }) else { return };
    let arrived = arrivals(&network, DATAGRAMS);
    assert!((600..950).contains(&arrived.len()), "{}", arrived.len());
    network.disturb(0, Disturbance::default()).unwrap();
    assert_eq!(arrivals(&network, DATAGRAMS).len(), DATAGRAMS as usize);
}

#[test]
fn a_share_of_packets_arrives_twice() {
    let Some(network) = disturbed(Disturbance { repeated: 0.2, ..Disturbance::default() }) else { return };
    let mut arrived = arrivals(&network, DATAGRAMS);
    assert!((1_050..1_400).contains(&arrived.len()), "{}", arrived.len());
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived.len(), DATAGRAMS as usize, "and none is lost");
}

#[test]
fn a_share_of_packets_is_overtaken() {
    let Some(network) = disturbed(Disturbance { overtaken: 0.2, ..Disturbance::default() }) else { return };
    let arrived = arrivals(&network, DATAGRAMS);
    assert!(overtaken(&arrived) > 10, "{}", overtaken(&arrived));
}

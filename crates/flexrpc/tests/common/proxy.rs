//! A bad network between caller and callee.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A small generator: the network's dice needn't be good ones.
struct Dice(u64);

impl Dice {
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Loses 2 %, duplicates 10 %, and holds 10 % back behind later datagrams.
pub fn udp_proxy(server: SocketAddr, stop: Arc<AtomicBool>) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    front.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let address = front.local_addr().unwrap();
    std::thread::spawn(move || {
        // Behind the proxy each caller has a socket of its own.
        let mut backs: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut dice = Dice(0x1234_5678_9abc_def1);
        let mut held: VecDeque<(Vec<u8>, SocketAddr, bool)> = VecDeque::new();
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let mut arrived = Vec::new();
            if let Ok((len, caller)) = front.recv_from(&mut buffer) {
                arrived.push((buffer[..len].to_vec(), caller, true));
                backs.entry(caller).or_insert_with(|| {
                    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                    back.connect(server).unwrap();
                    back.set_nonblocking(true).unwrap();
                    back
                });
            }
            for (caller, back) in &backs {
                while let Ok(len) = back.recv(&mut buffer) {
                    arrived.push((buffer[..len].to_vec(), *caller, false));
                }
            }
            for datagram in arrived {
                let copies = if dice.percent(2) { 0 } else { 1 + usize::from(dice.percent(10)) };
                for _ in 0..copies {
                    if dice.percent(10) {
                        held.push_back(datagram.clone());
                    } else {
                        held.push_front(datagram.clone());
                    }
                }
            }
            for _ in 0..held.len().saturating_sub(dice.below(3) as usize) {
                let Some((bytes, caller, to_server)) = held.pop_front() else { break };
                // A server that restarts refuses datagrams: lost, too.
                let _ = if to_server { backs[&caller].send(&bytes) } else { front.send_to(&bytes, caller) };
            }
        }
    });
    address
}

/// Cuts connections after a random number of bytes.
pub fn tcp_proxy(server: SocketAddr) -> SocketAddr {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut dice = Dice(0xfeed_beef_1234_5671);
        for caller in front.incoming().flatten() {
            let Ok(callee) = TcpStream::connect(server) else { continue };
            for (mut from, mut to) in [
                (caller.try_clone().unwrap(), callee.try_clone().unwrap()),
                (callee.try_clone().unwrap(), caller.try_clone().unwrap()),
            ] {
                let mut left = 100 + dice.below(6_000) as usize;
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(len) = from.read(&mut buffer) {
                        if len == 0 || to.write_all(&buffer[..len.min(left)]).is_err() || len >= left {
                            break;
                        }
                        left -= len;
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

//! A bad network between caller and callee, which counts its faults.

use rustix::net::sockopt;
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strait_testkit::wait::pause;

/// After one of this many datagrams, or pieces of a stream, a [`PAUSE`] follows.
const PAUSE_EVERY: u64 = 2_000;

/// Length of a pause: long enough for a forgetful server to forget callers that are silent during
/// it.
const PAUSE: Duration = Duration::from_millis(120);

/// The proxy closes a socket towards the server if its caller hasn't used it for this time.
const BACK_KEPT: Duration = Duration::from_secs(3);

/// The faults, over all proxies that share the counters.
#[derive(Debug, Default)]
pub struct Faults {
    pub lost: AtomicUsize,
    pub duplicated: AtomicUsize,
    pub reordered: AtomicUsize,
    pub paused: AtomicUsize,
    /// Connections ended in an orderly way in mid-stream.
    pub cut: AtomicUsize,
    /// Connections reset in mid-stream.
    pub reset: AtomicUsize,
}

impl Faults {
    fn pause(&self, dice: &mut Dice) {
        if dice.below(PAUSE_EVERY) == 0 {
            count(&self.paused);
            pause("the network is silent", PAUSE);
        }
    }
}

fn count(of: &AtomicUsize) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// A small random generator: the network's random numbers needn't be good.
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

/// Loses 2 %, duplicates 10 %, and delays 10 % behind later datagrams.
pub fn udp_proxy(server: SocketAddr, faults: &Arc<Faults>, stop: Arc<AtomicBool>) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    front.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let address = front.local_addr().unwrap();
    let faults = Arc::clone(faults);
    std::thread::spawn(move || {
        // Each active caller has a socket of its own behind the proxy.
        let mut backs: HashMap<SocketAddr, (UdpSocket, Instant)> = HashMap::new();
        let mut dice = Dice(0x1234_5678_9abc_def1);
        let mut held: VecDeque<(Vec<u8>, SocketAddr, bool)> = VecDeque::new();
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let mut arrived = Vec::new();
            if let Ok((len, caller)) = front.recv_from(&mut buffer) {
                arrived.push((buffer[..len].to_vec(), caller, true));
                let back = backs.entry(caller).or_insert_with(|| {
                    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                    back.connect(server).unwrap();
                    back.set_nonblocking(true).unwrap();
                    (back, Instant::now())
                });
                back.1 = Instant::now();
            }
            backs.retain(|_, (_, used)| used.elapsed() < BACK_KEPT);
            for (caller, (back, _)) in &backs {
                while let Ok(len) = back.recv(&mut buffer) {
                    arrived.push((buffer[..len].to_vec(), *caller, false));
                }
            }
            for datagram in arrived {
                faults.pause(&mut dice);
                let copies = if dice.percent(2) { 0 } else { 1 + usize::from(dice.percent(10)) };
                match copies {
                    0 => count(&faults.lost),
                    1 => {}
                    _ => count(&faults.duplicated),
                }
                for _ in 0..copies {
                    if dice.percent(10) {
                        count(&faults.reordered);
                        held.push_back(datagram.clone());
                    } else {
                        held.push_front(datagram.clone());
                    }
                }
            }
            for _ in 0..held.len().saturating_sub(dice.below(3) as usize) {
                let Some((bytes, caller, to_server)) = held.pop_front() else { break };
                // A restarting server refuses datagrams, which also loses them.
                let _ = match backs.get(&caller) {
                    Some((back, _)) if to_server => back.send(&bytes),
                    _ if to_server => continue,
                    _ => front.send_to(&bytes, caller),
                };
            }
        }
    });
    address
}

/// Ends connections after a random number of bytes, every second one by a reset.
pub fn tcp_proxy(server: SocketAddr, faults: &Arc<Faults>) -> SocketAddr {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    let faults = Arc::clone(faults);
    std::thread::spawn(move || {
        let mut dice = Dice(0xfeed_beef_1234_5671);
        for caller in front.incoming().flatten() {
            let Ok(callee) = TcpStream::connect(server) else { continue };
            let _ = caller.set_nodelay(true).and_then(|()| callee.set_nodelay(true));
            let resets = dice.percent(50);
            if resets {
                for end in [&caller, &callee] {
                    // Closing then drops the bytes under way and sends a reset.
                    sockopt::set_socket_linger(end, Some(Duration::ZERO)).unwrap();
                }
            }
            for (from, to) in [
                (caller.try_clone().unwrap(), callee.try_clone().unwrap()),
                (callee.try_clone().unwrap(), caller.try_clone().unwrap()),
            ] {
                let left = 100 + dice.below(6_000) as usize;
                let dice = Dice(dice.0 | 1);
                let faults = Arc::clone(&faults);
                std::thread::spawn(move || pass_on(from, to, left, resets, dice, &faults));
            }
        }
    });
    address
}

fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    mut left: usize,
    resets: bool,
    mut dice: Dice,
    faults: &Faults,
) {
    let mut buffer = [0; 4096];
    while let Ok(len) = from.read(&mut buffer) {
        faults.pause(&mut dice);
        if len == 0 || to.write_all(&buffer[..len.min(left)]).is_err() {
            break;
        }
        if len >= left {
            count(if resets { &faults.reset } else { &faults.cut });
            break;
        }
        left -= len;
    }
    // This also wakes the other direction's thread, which drops both sockets.
    let ends = if resets { Shutdown::Read } else { Shutdown::Both };
    let _ = from.shutdown(ends);
    let _ = to.shutdown(ends);
}

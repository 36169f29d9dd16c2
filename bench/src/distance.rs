//! A long-distance link: a proxy in this process that forwards bytes in both directions, at a limited rate
//! and after a delay.
//!
//! It simulates only the wire. There is no loss, and no slow start of a TCP connection over that distance.

use crate::Result;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes that are forwarded together. At 1 Gbit/s they take half a millisecond, which is the precision
/// of the delay.
const PIECE_BYTES: usize = 64 << 10;
/// How far the wire may be booked ahead before the sender has to wait, like a router's queue.
const QUEUE: Duration = Duration::from_millis(10);

/// Most bytes of one connection that are in flight or wait for the receiver: several times the capacity of a
/// wire with 1 Gbit/s and 50 ms.
const MAX_FLIGHT_BYTES: usize = 16 << 20;

/// A running proxy. Its threads end with their connections, and the accepting thread with the
/// process.
pub struct Distance {
    /// The address to use in place of the target's.
    pub address: SocketAddr,
}

/// One direction of the wire, shared by all connections.
struct Wire {
    bytes_per_second: f64,
    delay: Duration,
    free_at: Mutex<Instant>,
}

/// The bytes in flight on one connection.
#[derive(Default)]
struct Flight {
    pieces: Mutex<Pieces>,
    changed: Condvar,
}

#[derive(Default)]
struct Pieces {
    /// Pieces with their arrival times. An empty piece marks the end.
    queue: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Distance {
    /// Starts a proxy to `target`, over a wire with this round-trip time and with `bytes_per_second` in each
    /// direction.
    pub fn start(target: SocketAddr, round_trip: Duration, bytes_per_second: f64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let wire = || {
            let free_at = Mutex::new(Instant::now());
            Arc::new(Wire { bytes_per_second, delay: round_trip / 2, free_at })
        };
        let (there, back) = (wire(), wire());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // If the target can't be reached, end the connection, as the target's host would.
                if let Ok(far) = TcpStream::connect(target) {
                    let _ = join(near, far, &there, &back);
                }
            }
        });
        Ok(Self { address })
    }
}

fn join(near: TcpStream, far: TcpStream, there: &Arc<Wire>, back: &Arc<Wire>) -> std::io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    carry(near.try_clone()?, far.try_clone()?, there);
    carry(far, near, back);
    Ok(())
}

/// Starts two threads: one receives bytes, the other sends them when they are due.
fn carry(mut from: TcpStream, mut to: TcpStream, wire: &Arc<Wire>) {
    let (wire, flight) = (Arc::clone(wire), Arc::new(Flight::default()));
    let landing = Arc::clone(&flight);
    thread::spawn(move || {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let count = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.unwrap_or(0),
            };
            let sent = wire.send(count);
            flight.depart(sent + wire.delay, buffer[..count].to_vec());
            if count == 0 {
                return;
            }
            thread::sleep(sent.saturating_duration_since(Instant::now() + QUEUE));
        }
    });
    thread::spawn(move || {
        let mut broken = false;
        while let Some(piece) = landing.arrive() {
            if !broken && to.write_all(&piece).is_err() {
                // End the connection, which the sender notices, and drop later bytes.
                broken = true;
                let _ = to.shutdown(Shutdown::Both);
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

impl Wire {
    /// Books the wire for these bytes, after all earlier ones. Returns when the last of them has left.
    fn send(&self, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*free_at).max(Instant::now());
        *free_at = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        *free_at
    }
}

impl Flight {
    fn depart(&self, arrival: Instant, piece: Vec<u8>) {
        let full = |pieces: &mut Pieces| pieces.bytes > MAX_FLIGHT_BYTES;
        let mut pieces = self.wait_while(full);
        pieces.bytes += piece.len();
        pieces.queue.push_back((arrival, piece));
        self.changed.notify_one();
    }

    /// The next piece, once it is due; None at the end.
    fn arrive(&self) -> Option<Vec<u8>> {
        let mut pieces = self.wait_while(|pieces| pieces.queue.is_empty());
        let (arrival, piece) = pieces.queue.pop_front()?;
        pieces.bytes -= piece.len();
        drop(pieces);
        self.changed.notify_one();
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        (!piece.is_empty()).then_some(piece)
    }

    fn wait_while(&self, condition: impl FnMut(&mut Pieces) -> bool) -> MutexGuard<'_, Pieces> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.wait_while(pieces, condition).unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 20e6;
    const ROUND_TRIP: Duration = Duration::from_millis(80);

    fn far_away() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let distance = Distance::start(listener.local_addr().unwrap(), ROUND_TRIP, RATE).unwrap();
        let near = TcpStream::connect(distance.address).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn an_answer_takes_a_round_trip_at_least() {
        let (mut near, mut far) = far_away();
        let start = Instant::now();
        near.write_all(b"a").unwrap();
        far.read_exact(&mut [0]).unwrap();
        far.write_all(b"b").unwrap();
        near.read_exact(&mut [0]).unwrap();
        assert!(start.elapsed() >= ROUND_TRIP);
    }

    #[test]
    fn bytes_come_whole_and_no_faster_than_the_wire() {
        let (mut near, mut far) = far_away();
        let sent: Vec<u8> = (0..2_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let expected = sent.clone();
        let start = Instant::now();
        let sender = thread::spawn(move || near.write_all(&sent).unwrap());
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        let took = start.elapsed().as_secs_f64();
        sender.join().unwrap();
        assert!(got == expected);
        assert!(took >= expected.len() as f64 / RATE, "{took} s");
    }
}

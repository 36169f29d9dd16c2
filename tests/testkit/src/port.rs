use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

/// The ports to choose from: below Linux's ephemeral ports (32768 and up). An outgoing connection could take
/// an ephemeral port before the server binds it, or during the server's restart.
const PORTS: Range<u16> = 10_000..32_768;

/// A TCP port on 127.0.0.1 that is free now. Never returns the same port twice in one process.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let given = given.get_or_insert_default();
    for _ in 0..10_000 {
        // Each RandomState has other random keys, so its hash is random enough here.
        let random = RandomState::new().hash_one(()) % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + random as u16;
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("no free port between {} and {}", PORTS.start, PORTS.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        // Wait: a child that another test has just forked holds a copy of every descriptor, including that
        // of `free_port`'s listener, until it calls exec.
        let bound = || TcpListener::bind((Ipv4Addr::LOCALHOST, first)).is_ok();
        crate::wait::eventually("the port can be bound", bound);
    }
}

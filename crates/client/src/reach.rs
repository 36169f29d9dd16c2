//! Connections to a host with several addresses.

use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Connects to the first address that accepts. Each gets an equal share of the time that is left, so that a silent
/// address leaves time for those after it.
///
/// # Errors
/// The last address's: TimedOut if it was silent. AddrNotAvailable without an address.
pub async fn connect_to_any(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpSocket};

    const LIMIT: Duration = Duration::from_millis(400);

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next_one() {
        let full = TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        // Once nobody accepts these, Linux drops further requests for a connection.
        let mut waiting = Vec::new();
        while let Ok(connected) = timeout(LIMIT / 4, TcpStream::connect(silent)).await {
            waiting.push(connected.unwrap());
        }
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let accepts = open.local_addr().unwrap();
        let reached = connect_to_any(&[silent, accepts], Instant::now() + LIMIT).await.unwrap();
        assert_eq!(reached.peer_addr().unwrap(), accepts);
        let failed = connect_to_any(&[silent], Instant::now() + LIMIT).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    }
}

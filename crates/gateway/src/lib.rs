//! Floor 4: the Thrift gateway.

mod config;
mod passwords;

pub use config::{Access, Config, ConfiguredStore, Limits};
pub use passwords::PasswordFile;

use std::future::Future;
use std::net::SocketAddr;

/// A gateway that listens and doesn't serve yet.
pub struct Gateway {
    local: SocketAddr,
}

impl Gateway {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The address is in use or isn't this host's.
    pub async fn bind(address: SocketAddr, _config: Config) -> std::io::Result<Self> {
        Ok(Self { local: address })
    }

    /// Where it listens; the port is real even if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until `shutdown` is done, then lets requests in flight end
    /// (within [`Limits::drain`]) and closes what is open.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        shutdown.await
    }
}

//! The callees to which a server passes chain calls on. The caller names the address of a chain's
//! next callee. Without a rule, any caller could make the server connect to any address that it
//! reaches, and send bytes there.

use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The callees to which a server passes chain calls on. For any other callee the server ends the
/// chain with [`crate::Refusal::ForwardingDenied`], and no callee executes the call.
#[derive(Clone, Default)]
pub enum Forwarding {
    /// Any callee, if only holders of the cluster key or of trusted certificates may call this
    /// server. Otherwise only callees on loopback, and only if the server itself listens on
    /// loopback.
    #[default]
    Guarded,
    /// Any callee. Without a key, use this only in networks in which every caller may reach every
    /// host.
    Anywhere,
    /// None: this server ends every chain.
    Nowhere,
    /// The callees that the predicate allows: see [`Forwarding::only`].
    Only(Arc<Predicate>),
}

/// Decides about each chain call, on the thread that passes the call on. So it mustn't block.
pub type Predicate = dyn Fn(SocketAddr) -> bool + Send + Sync;

impl Forwarding {
    /// Passes calls on to callees for which `allowed` returns true. The server asks it about each
    /// call, so it may depend on state that changes while the server runs.
    /// [`crate::Server::set_forwarding`] replaces it. A panic counts as `false`. The predicate gets
    /// IPv4-mapped IPv6 addresses as IPv4 addresses.
    pub fn only(allowed: impl Fn(SocketAddr) -> bool + Send + Sync + 'static) -> Self {
        Self::Only(Arc::new(allowed))
    }

    /// Whether a server that listens at `listen` may pass a call on to `next`.
    pub(crate) fn allows(&self, next: SocketAddr, listen: SocketAddr, knows_callers: bool) -> bool {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (next, listen) = (canonical(next), canonical(listen));
        match self {
            Self::Guarded => knows_callers || (next.ip().is_loopback() && listen.ip().is_loopback()),
            Self::Anywhere => true,
            Self::Nowhere => false,
            Self::Only(allowed) => catch_unwind(AssertUnwindSafe(|| allowed(next))).unwrap_or(false),
        }
    }
}

impl fmt::Debug for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guarded => "Guarded",
            Self::Anywhere => "Anywhere",
            Self::Nowhere => "Nowhere",
            Self::Only(_) => "Only(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn without_a_key_only_loopback_passes_on_to_loopback() {
        let allows = |next, listen, key| Forwarding::default().allows(at(next), at(listen), key);
        assert!(allows("127.0.0.9:7", "127.0.0.1:1", false));
        assert!(allows("[::ffff:127.0.0.1]:7", "[::1]:1", false));
        for next in ["10.0.0.1:7", "0.0.0.0:7", "[::]:7", "[::ffff:10.0.0.1]:7", "169.254.169.254:80"] {
            assert!(!allows(next, "127.0.0.1:1", false), "{next}");
            assert!(allows(next, "127.0.0.1:1", true), "{next}");
        }
        // If other hosts can reach the server, it mustn't give them access to services on its
        // loopback.
        assert!(!allows("127.0.0.1:7", "10.0.0.1:1", false));
        assert!(!allows("127.0.0.1:7", "0.0.0.0:1", false));
    }

    #[test]
    fn a_predicate_is_asked_even_with_a_key_and_its_panic_is_a_no() {
        let seventh = Forwarding::only(|next| next == at("10.0.0.1:7"));
        for key in [true, false] {
            assert!(seventh.allows(at("[::ffff:10.0.0.1]:7"), at("10.0.0.2:1"), key));
            assert!(!seventh.allows(at("10.0.0.1:8"), at("10.0.0.2:1"), key));
            assert!(!Forwarding::Nowhere.allows(at("127.0.0.1:7"), at("127.0.0.1:1"), key));
            assert!(Forwarding::Anywhere.allows(at("10.0.0.1:7"), at("10.0.0.2:1"), key));
        }
        let panics = Forwarding::only(|_| panic!("as asked"));
        assert!(!panics.allows(at("127.0.0.1:7"), at("127.0.0.1:1"), true));
    }
}

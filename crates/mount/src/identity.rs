//! The user of the store in whose name a mount acts.

use strait_store::Principal;

/// For whom the mount acts.
#[derive(Debug, Clone)]
pub enum Identity {
    /// Always for this user of the store.
    One(Principal),
    /// For the calling process's user and groups, by their names on this host.
    Caller,
}

//! The store's user that a mount acts as.

use strait_store::Principal;

/// The user that the mount acts as.
#[derive(Debug, Clone)]
pub enum Identity {
    /// Always this user of the store.
    One(Principal),
    /// The calling process's user and groups, by their names on this host.
    Caller,
}

//! Random bytes for names and keys, with an error for the user.

use crate::failure::Failure;

/// `N` random bytes from the kernel.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    strait_store::random::try_random()
        .map_err(|error| Failure::other(format!("can't get random bytes from the kernel: {error}")))
}

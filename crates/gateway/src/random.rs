//! Numbers nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};

/// `N` bytes of the kernel's.
///
/// # Panics
/// If the kernel has none to give: a gateway with guessable handles must not
/// run.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    // Up to 256 bytes come whole (getrandom(2)).
    let filled = getrandom(&mut bytes[..], GetRandomFlags::empty());
    assert_eq!(filled, Ok(N), "the kernel gives no random numbers");
    bytes
}

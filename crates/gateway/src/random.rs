//! Unguessable numbers.

use rustix::rand::{GetRandomFlags, getrandom};

/// `N` bytes from the kernel.
///
/// # Panics
/// If the kernel gives none: a gateway with guessable handles must not run.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    // The kernel gives up to 256 bytes in one piece (getrandom(2)).
    let filled = getrandom(&mut bytes[..], GetRandomFlags::empty());
    assert_eq!(filled, Ok(N), "the kernel gives no random numbers");
    bytes
}

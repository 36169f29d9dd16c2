//! Random bytes from the kernel, which nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// `N` random bytes. With 8 bytes or more, the same ones practically never come twice.
///
/// # Panics
/// If the kernel gives none: a program with guessable handles or secrets must not run.
pub fn random<const N: usize>() -> [u8; N] {
    try_random().expect("the kernel gives no random bytes")
}

/// As [`random`], but the caller reports the error.
///
/// # Errors
/// The kernel gives none.
pub fn try_random<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "the kernel gives up to 256 bytes in one piece (getrandom(2))") };
    let mut bytes = [0; N];
    match getrandom(&mut bytes[..], GetRandomFlags::empty())? {
        filled if filled == N => Ok(bytes),
        filled => Err(io::Error::other(format!("the kernel gives {filled} random bytes, not {N}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_differ_each_time() {
        assert_ne!(random::<16>(), random::<16>());
        assert_ne!(try_random::<256>().unwrap(), [0; 256]);
    }
}

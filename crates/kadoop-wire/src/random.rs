//! Random numbers and bytes.

use std::io;

/// A random nonzero number.
///
/// # Errors
/// The system can't produce one.
pub fn random() -> io::Result<u64> {
    Ok(u64::from_le_bytes(bytes()?).max(1))
}

/// `N` random bytes.
///
/// # Errors
/// The system can't produce them.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

//! Random numbers from the kernel.

/// Bytes that nobody can guess, or draws again.
///
/// # Panics
/// If the kernel gives none.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(N), "the kernel gives no random numbers");
    bytes
}

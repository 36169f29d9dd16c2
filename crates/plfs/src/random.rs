//! Random numbers from the kernel.

/// Random bytes that nobody can guess. With 8 bytes or more, the same ones practically never come twice.
///
/// # Panics
/// If the kernel gives no random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(N), "the kernel gives no random numbers");
    bytes
}

//! Random choices that a seed repeats.

/// A generator (SplitMix64; Steele, Lea and Flood, 2014).
pub struct Random(u64);

impl Random {
    /// From this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Of 64 random bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which isn't zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One of them.
    pub fn choose<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len() as u64) as usize]
    }
}

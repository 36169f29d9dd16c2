//! Bytes written to a logical file that aren't published yet. This mount's reads must already show them.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint runs of bytes by their offsets. Later writes replace earlier ones.
#[derive(Debug, Default)]
pub struct Overlay {
    runs: BTreeMap<u64, Bytes>,
    bytes: usize,
}

impl Overlay {
    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        self.cut(offset..end);
        self.bytes += data.len();
        self.runs.insert(offset, data);
    }

    /// Removes the bytes of `range`.
    fn cut(&mut self, range: Range<u64>) {
        let before = self.runs.range(..range.start).next_back().map(|(at, run)| (*at, run.clone()));
        if let Some((at, run)) = before {
            let end = at + run.len() as u64;
            if end > range.start {
                self.bytes -= (end - range.start) as usize;
                self.runs.insert(at, run.slice(..(range.start - at) as usize));
                if end > range.end {
                    let rest = run.slice((range.end - at) as usize..);
                    self.bytes += rest.len();
                    self.runs.insert(range.end, rest);
                    return;
                }
            }
        }
        while let Some((at, run)) = self.runs.range(range.clone()).next().map(|(at, run)| (*at, run.clone()))
        {
            self.runs.remove(&at);
            self.bytes -= run.len();
            let end = at + run.len() as u64;
            if end > range.end {
                let rest = run.slice((range.end - at) as usize..);
                self.bytes += rest.len();
                self.runs.insert(range.end, rest);
            }
        }
    }

    /// Number of bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    /// All runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, Bytes)> {
        self.runs.iter().map(|(at, run)| (*at, run.clone()))
    }

    /// The runs within `range`, cut at its ends.
    pub fn within(&self, range: Range<u64>) -> Vec<(u64, Bytes)> {
        let first = self.runs.range(..range.start).next_back().map_or(range.start, |(at, _)| *at);
        let runs = self.runs.range(first..range.end);
        let cut = runs.filter_map(|(at, run)| {
            let (from, to) = (range.start.max(*at), range.end.min(at + run.len() as u64));
            (from < to).then(|| (from, run.slice((from - at) as usize..(to - at) as usize)))
        });
        cut.collect()
    }
}

/// The bytes of `offset..end`. `runs` cover `base`, which begins at `offset`; `base` covers zeros.
pub fn compose(offset: u64, end: u64, base: Bytes, runs: &[(u64, Bytes)]) -> Bytes {
    let length = (end - offset) as usize;
    match runs {
        [] if base.len() == length => return base,
        [(at, run)] if *at == offset && run.len() == length => return run.clone(),
        _ => {}
    }
    let mut whole = BytesMut::zeroed(length);
    let based = base.len().min(length);
    whole[..based].copy_from_slice(&base[..based]);
    for (at, run) in runs {
        let place = (at - offset) as usize;
        whole[place..place + run.len()].copy_from_slice(run);
    }
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_a_plain_array_of_bytes_does() {
        // A small random generator with a fixed seed: the same steps in each test run.
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut overlay, mut plain) = (Overlay::default(), vec![None; 400]);
        for step in 0..5_000_u32 {
            let (offset, length) = (next(300), next(100));
            let byte = step as u8;
            overlay.write(offset, Bytes::from(vec![byte; length as usize]));
            plain[offset as usize..(offset + length) as usize].fill(Some(byte));
            let (from, to) = (next(200), 200 + next(200));
            let mut seen = vec![None; 400];
            for (at, run) in overlay.within(from..to) {
                for (place, byte) in run.iter().enumerate() {
                    seen[at as usize + place] = Some(*byte);
                }
            }
            assert_eq!(seen[from as usize..to as usize], plain[from as usize..to as usize], "step {step}");
            assert_eq!(overlay.bytes(), plain.iter().flatten().count());
        }
    }

    #[test]
    fn runs_lie_over_the_base_and_the_base_over_zeros() {
        let runs = [(12, Bytes::from_static(b"xy"))];
        assert_eq!(&compose(10, 16, Bytes::from_static(b"abc"), &runs)[..], b"abxy\0\0");
    }
}

//! Paired measurement: two systems run in turn, and each run is compared with its neighbour.

use crate::Result;

/// Several measurements of one figure.
#[derive(Debug, Clone)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// A sample of these values; there must be at least one.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            1 => self.0[middle],
            _ => (self.0[middle - 1] + self.0[middle]) / 2.0,
        }
    }

    /// Spread of the values: (largest − smallest) / median.
    pub fn spread(&self) -> f64 {
        match (self.0.first(), self.0.last()) {
            (Some(least), Some(most)) if self.median() > 0.0 => (most - least) / self.median(),
            _ => 0.0,
        }
    }
}

/// Measurements of two systems in turn, and their ratio pair by pair.
pub struct Pair {
    /// Our system's values.
    pub ours: Sample,
    /// The other system's values.
    pub other: Sample,
    /// Ours ÷ other, for each pair.
    pub ratio: Sample,
}

/// Measures `ours` and `other` in turn, `runs` times each. The first run of each isn't counted.
pub fn interleave(
    runs: usize,
    mut ours: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<Pair> {
    ours()?;
    other()?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        a.push(ours()?);
        b.push(other()?);
    }
    let ratio = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    Ok(Pair { ours: Sample::new(a), other: Sample::new(b), ratio: Sample::new(ratio) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_taken_pair_by_pair() {
        // A machine that slows down by half midway doesn't change the ratio.
        let speeds = [1.0, 1.0, 1.0, 2.0, 2.0];
        let (mut i, mut j) = (0, 0);
        let pair = interleave(
            5,
            || {
                i += 1;
                Ok(if i == 1 { 0.0 } else { 3.0 * speeds[i - 2] })
            },
            || {
                j += 1;
                Ok(if j == 1 { 0.0 } else { speeds[j - 2] })
            },
        )
        .unwrap();
        assert_eq!(pair.ratio.median(), 3.0);
        assert_eq!(pair.ratio.spread(), 0.0);
        assert_eq!(pair.ours.median(), 3.0);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Sample::new(vec![4.0, 1.0, 3.0, 2.0]).median(), 2.5);
    }
}

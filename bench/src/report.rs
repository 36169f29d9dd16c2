//! Prints rows as a table, as JSON, and as a picture.

use crate::Result;
use crate::pairs::{Pair, Sample};
use plotters::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Directory of results; not committed.
const RESULTS: &str = "bench/results";

/// The better direction of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// One line of a suite's table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the measured case.
    pub case: String,
    /// Unit of the figures.
    pub unit: String,
    /// The better direction.
    pub better: Better,
    /// Our figure, the median.
    pub ours: f64,
    /// Figure of the bare limit or of the bound, if there is one.
    pub limit: Option<f64>,
    /// Peers' figures.
    pub peers: BTreeMap<String, f64>,
    /// Ours ÷ limit, pair by pair if they ran in pairs.
    pub ratio_to_limit: Option<f64>,
    /// Counted runs.
    pub runs: usize,
    /// Spread of our figure: (largest − smallest) / median.
    pub spread: f64,
    /// How to publish it, if not as a share of a limit.
    #[serde(flatten)]
    pub compared: Option<Compared>,
}

/// The words of a published row: see `scripts/benchmarks.py`.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The program that has the limit's figure.
    pub against: String,
    /// `times`: the result is how many times as good it is. `share`: which share of the limit.
    pub measure: &'static str,
    /// The bound of ours ÷ limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<f64>,
}

impl Row {
    /// A row with our figures only.
    pub fn new(case: impl Into<String>, unit: &str, better: Better, runs: usize, ours: &Sample) -> Self {
        Self {
            case: case.into(),
            unit: unit.to_owned(),
            better,
            ours: ours.median(),
            limit: None,
            peers: BTreeMap::new(),
            ratio_to_limit: None,
            runs,
            spread: ours.spread(),
            compared: None,
        }
    }

    /// A row for a pair whose other system is the limit.
    pub fn of_pair(case: impl Into<String>, unit: &str, better: Better, runs: usize, pair: &Pair) -> Self {
        Self {
            limit: Some(pair.other.median()),
            ratio_to_limit: Some(pair.ratio.median()),
            ..Self::new(case, unit, better, runs, &pair.ours)
        }
    }

    /// Adds a fixed bound as the row's limit.
    pub fn with_limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.ratio_to_limit = Some(self.ours / limit);
        self
    }

    /// Adds a peer's figure.
    pub fn with_peer(mut self, name: &str, value: f64) -> Self {
        self.peers.insert(name.to_owned(), value);
        self
    }
}

/// Prints the table, and writes `SUITE.json` and `SUITE.svg`.
pub fn write(suite: &str, title: &str, rows: &[Row]) -> Result<()> {
    print!("{}", table(rows));
    let json = result(&format!("{suite}.json"))?;
    std::fs::write(&json, serde_json::to_string_pretty(rows)? + "\n")?;
    let picture = result(&format!("{suite}.svg"))?;
    draw(&picture, title, rows)?;
    println!("→ {} and {}\n", json.display(), picture.display());
    Ok(())
}

/// Path of a result's file. Makes the directory of results if it is missing.
pub fn result(name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(RESULTS)?;
    Ok(Path::new(RESULTS).join(name))
}

fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "{:<44} {:>8} {:>10} {:>10} {:>7} {:>5} {:>7}  peers\n",
        "case", "unit", "ours", "limit", "ratio", "runs", "spread"
    );
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    for row in rows {
        let mut peers: Vec<String> =
            row.peers.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
        peers.extend(row.compared.as_ref().map(|compared| format!("limit: {}", compared.against)));
        out += &format!(
            "{:<44} {:>8} {:>10.2} {:>10} {:>7} {:>5} {:>6.0}%  {}\n",
            row.case,
            row.unit,
            row.ours,
            number(row.limit),
            number(row.ratio_to_limit),
            row.runs,
            row.spread * 100.0,
            peers.join(", "),
        );
    }
    out
}

/// Draws a group of bars for each row: ours, the limit, each peer. A bar's length is relative to the row's
/// largest figure, since the rows' units differ.
fn draw(path: &Path, title: &str, rows: &[Row]) -> Result<()> {
    const BAR: i32 = 18;
    const LEFT: i32 = 330;
    const WIDTH: i32 = 900;
    let bars = |row: &Row| {
        let mut bars = vec![("ours".to_owned(), row.ours, RGBColor(0x1f, 0x6f, 0xb4))];
        bars.extend(row.limit.map(|limit| ("limit".to_owned(), limit, RGBColor(0x99, 0x99, 0x99))));
        bars.extend(row.peers.iter().map(|(name, value)| (name.clone(), *value, RGBColor(0xd9, 0x8b, 0x2b))));
        bars
    };
    let height = 60 + rows.iter().map(|row| (bars(row).len() as i32) * BAR + 16).sum::<i32>();
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(title.to_owned(), (12, 12), text(18)))?;
    let mut y = 48;
    for row in rows {
        area.draw(&Text::new(format!("{} [{}]", row.case, row.unit), (12, y), text(13)))?;
        let bars = bars(row);
        let most = bars.iter().map(|(_, value, _)| *value).fold(f64::MIN_POSITIVE, f64::max);
        for (name, value, color) in bars {
            let end = LEFT + ((WIDTH - LEFT - 170) as f64 * value / most) as i32;
            area.draw(&Rectangle::new([(LEFT, y), (end.max(LEFT + 1), y + BAR - 4)], color.filled()))?;
            area.draw(&Text::new(format!("{name} {value:.2}"), (end + 6, y), text(12)))?;
            y += BAR;
        }
        y += 16;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_written_as_the_scripts_read_it() {
        let sample = Sample::new(vec![2.0]);
        let row = Row::new("a case", "ms", Better::Lower, 1, &sample).with_limit(4.0).with_peer("x", 3.0);
        let json = serde_json::to_value(&row).unwrap();
        let expected = serde_json::json!({
            "case": "a case", "unit": "ms", "better": "lower", "ours": 2.0, "limit": 4.0,
            "peers": {"x": 3.0}, "ratio_to_limit": 0.5, "runs": 1, "spread": 0.0,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn the_picture_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.svg");
        let row = Row::new("a case", "ms", Better::Lower, 1, &Sample::new(vec![2.0])).with_limit(4.0);
        draw(&path, "title", &[row]).unwrap();
        assert!(std::fs::read_to_string(path).unwrap().contains("a case"));
    }
}

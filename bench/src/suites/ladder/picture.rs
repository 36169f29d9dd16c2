//! The article's picture: the seconds of 1,000,000 calls in each way, with the Java clients.

use super::rungs::{JAVA, Load};
use super::{Figures, TIME};
use crate::Result;
use crate::report::result;
use plotters::prelude::*;

const WIDTH: i32 = 860;
const LEFT: i32 = 270;
/// Width that is left for a figure to the right of its bar.
const RIGHT: i32 = 90;
const BAR: i32 = 26;
const TOP: i32 = 56;
const ARTICLE: RGBColor = RGBColor(0xd9, 0x8b, 0x2b);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);

/// Draws `ladder-article.svg` in the directory of results.
pub fn draw(all: &[Figures]) -> Result<()> {
    let path = result("ladder-article.svg")?;
    let bars: Vec<_> = all.iter().filter(|figures| figures.load == Load::Java).collect();
    let height = TOP + bars.len() as i32 * BAR + 12;
    let area = SVGBackend::new(&path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    let title = "Seconds of 1,000,000 calls, one caller in Java: Java servers, and a gateway";
    area.draw(&Text::new(title, (12, 14), text(18)))?;
    let most = bars.iter().map(|figures| TIME.sample(figures).median()).fold(f64::MIN_POSITIVE, f64::max);
    for (number, figures) in bars.iter().enumerate() {
        let y = TOP + number as i32 * BAR;
        let seconds = TIME.sample(figures).median();
        let end = LEFT + ((WIDTH - LEFT - RIGHT) as f64 * seconds / most) as i32;
        let color = if figures.of == JAVA { ARTICLE } else { OURS };
        area.draw(&Text::new(figures.rung.clone(), (12, y + 2), text(14)))?;
        area.draw(&Rectangle::new([(LEFT, y), (end.max(LEFT + 1), y + BAR - 6)], color.filled()))?;
        area.draw(&Text::new(format!("{seconds:.1} s"), (end + 6, y + 2), text(14)))?;
    }
    area.present()?;
    println!("→ {}", path.display());
    Ok(())
}

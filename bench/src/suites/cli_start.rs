//! A command's whole life: start, connect, ask, print, end. The bound is 10 ms
//! above /bin/true; a JVM's start is 300 times that.

use crate::Result;
use crate::host::{Gateway, seconds, strait};
use crate::pairs::{Sample, interleave};
use crate::report::{Better, Row};
use std::process::Command;

const RUNS: usize = 41;
const BOUND_MS: f64 = 10.0;

pub fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("file"), "x")?;
    let gateway = Gateway::start(&format!("file://{}", dir.path().display()))?;
    let (strait, uri) = (strait()?, format!("strait://{}/", gateway.address));
    let ls = || seconds(Command::new(&strait).args(["ls", &uri])).map(|s| s * 1e3);
    let bare = || seconds(&mut Command::new("/bin/true")).map(|s| s * 1e3);
    let mut above = Vec::new();
    let mut all = (Vec::new(), Vec::new());
    // The difference is measured, so take it within each pair.
    for _ in 0..RUNS {
        let pair = interleave(1, ls, bare)?;
        above.push(pair.ours.median() - pair.other.median());
        all.0.push(pair.ours.median());
        all.1.push(pair.other.median());
    }
    let whole = Row::new("strait ls, whole process", "ms", Better::Lower, RUNS, &Sample::new(all.0))
        .with_peer("/bin/true", Sample::new(all.1).median());
    let above = Row::new("strait ls above /bin/true", "ms", Better::Lower, RUNS, &Sample::new(above));
    Ok(vec![whole, above.with_limit(BOUND_MS)])
}

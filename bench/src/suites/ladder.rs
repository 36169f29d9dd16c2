//! One small call by the ways of Randy Abernethy's article on Thrift's performance: SOAP, REST, Thrift JSON over
//! HTTP, Thrift JSON over TCP, Thrift binary over TCP. The article's servers and clients are in Java, in today's
//! versions of its libraries ([bench/ladder](../../ladder)). Beside them is a gateway, asked for the status of a file
//! in memory, and for reference compact, TLS, Thrift's C++ servers, FlexRPC, gRPC and a bare ping-pong.
//!
//! Three loads: one caller by the way's own Java library, and one and four callers by one light load
//! generator, whose bars compare the servers. `ladder-article.svg` is the article's picture.
//!
//! `BENCH_LADDER_CALLS`: calls of each rung and load, 100,000 by default, 1,000,000 in the article.
//! `BENCH_LADDER_ROUNDS`: rounds among which they are divided, 5 by default, after one that isn't counted.

mod caller;
mod picture;
mod programs;
mod rungs;
mod start;

use crate::Result;
use crate::host::{setting, status};
use crate::pairs::Sample;
use crate::report::{Better, Compared, Row};
use crate::stages::cpu_seconds;
use caller::Measured;
pub use caller::{follow_orders, serve_bare};
use rungs::{BARE, BINARY, CPP, JAVA, JSON_HTTP, JSON_TCP, Load, OURS, REST, Rung, SOAP};

const ONE: Load = Load::Light(1);
/// The load of the bars that compare servers.
const MANY: Load = Load::Light(4);
const LOADS: [Load; 3] = [Load::Java, ONE, MANY];

/// A rung's figures under one load.
struct Figures {
    rung: String,
    way: &'static str,
    of: &'static str,
    load: Load,
    rounds: Vec<Measured>,
    /// Processor time of all counted rounds.
    server_seconds: f64,
    client_seconds: f64,
    /// Peaks of resident memory.
    server_mib: f64,
    client_mib: f64,
}

/// A figure of the tables.
struct Metric {
    name: &'static str,
    unit: &'static str,
    better: Better,
    /// Its values, round by round or of all rounds together.
    of: fn(&Figures) -> Vec<f64>,
}

const TIME: Metric =
    Metric { name: "time of 1,000,000 calls", unit: "s", better: Better::Lower, of: Figures::times };
const RATE: Metric = Metric { name: "calls", unit: "calls/s", better: Better::Higher, of: Figures::rates };
const P50: Metric = Metric { name: "p50", unit: "µs", better: Better::Lower, of: Figures::p50s };
const SERVER_CPU: Metric =
    Metric { name: "server's CPU of a call", unit: "µs", better: Better::Lower, of: Figures::server_cpu };
const CLIENT_CPU: Metric =
    Metric { name: "client's CPU of a call", unit: "µs", better: Better::Lower, of: Figures::client_cpu };
const SERVER_MEMORY: Metric =
    Metric { name: "server's memory", unit: "MiB", better: Better::Lower, of: |rung| vec![rung.server_mib] };
const CLIENT_MEMORY: Metric =
    Metric { name: "client's memory", unit: "MiB", better: Better::Lower, of: |rung| vec![rung.client_mib] };
const METRICS: [Metric; 7] = [TIME, RATE, P50, SERVER_CPU, CLIENT_CPU, SERVER_MEMORY, CLIENT_MEMORY];

impl Metric {
    fn sample(&self, figures: &Figures) -> Sample {
        Sample::new((self.of)(figures))
    }
}

pub fn run() -> Result<Vec<Row>> {
    let calls = setting("BENCH_LADDER_CALLS", 100_000)?;
    let rounds = setting("BENCH_LADDER_ROUNDS", 5)?.max(1);
    let slice = (calls / rounds).max(1);
    let dir = tempfile::tempdir()?;
    let mut rungs = start::start(dir.path())?;
    let mut all = Vec::new();
    for load in LOADS {
        eprintln!("{slice} calls of each rung a round, {}", load.name());
        all.extend(measure(&mut rungs, load, slice, rounds)?);
    }
    print(&all);
    picture::draw(&all)?;
    let mut rows = pairs(&all)?;
    for load in LOADS {
        for metric in &METRICS {
            rows.push(row(&all, load, metric)?);
        }
    }
    Ok(rows)
}

/// Rounds of slices of each rung, every other round backwards. The first round isn't counted.
fn measure(rungs: &mut [Rung], load: Load, calls: usize, rounds: usize) -> Result<Vec<Figures>> {
    let mut all = Vec::new();
    for rung in rungs.iter_mut() {
        all.extend(rung.client(load).map(|client| (client, Figures::new(rung, load), rung)));
    }
    for round in 0..=rounds {
        for turn in 0..all.len() {
            let index = if round % 2 == 0 { turn } else { all.len() - 1 - turn };
            let (client, figures, rung) = &mut all[index];
            let before = (cpu_seconds(rung.server)?, cpu_seconds(*client)?);
            let measured = rung.measure(load, calls).map_err(|error| format!("{}: {error}", figures.rung))?;
            if round > 0 {
                figures.server_seconds += cpu_seconds(rung.server)? - before.0;
                figures.client_seconds += cpu_seconds(*client)? - before.1;
                figures.rounds.push(measured);
            }
        }
    }
    for (client, figures, rung) in &mut all {
        figures.server_mib = status(rung.server, "VmHWM:")? / 1024.0;
        figures.client_mib = status(*client, "VmHWM:")? / 1024.0;
    }
    Ok(all.into_iter().map(|(_, figures, _)| figures).collect())
}

impl Figures {
    fn new(rung: &Rung, load: Load) -> Self {
        Self {
            rung: rung.name(),
            way: rung.way,
            of: rung.of,
            load,
            rounds: Vec::new(),
            server_seconds: 0.0,
            client_seconds: 0.0,
            server_mib: 0.0,
            client_mib: 0.0,
        }
    }

    fn each(&self, figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    fn times(&self) -> Vec<f64> {
        self.each(|measured| measured.seconds * 1e6 / measured.calls as f64)
    }

    fn rates(&self) -> Vec<f64> {
        self.each(|measured| measured.calls as f64 / measured.seconds)
    }

    fn p50s(&self) -> Vec<f64> {
        self.each(|measured| measured.p50_us)
    }

    fn calls(&self) -> usize {
        self.rounds.iter().map(|measured| measured.calls).sum()
    }

    fn server_cpu(&self) -> Vec<f64> {
        vec![self.server_seconds * 1e6 / self.calls() as f64]
    }

    fn client_cpu(&self) -> Vec<f64> {
        vec![self.client_seconds * 1e6 / self.calls() as f64]
    }
}

fn find<'a>(all: &'a [Figures], load: Load, way: &str, of: &str) -> Result<&'a Figures> {
    let found = all.iter().find(|figures| (figures.load, figures.way, figures.of) == (load, way, of));
    Ok(found.ok_or_else(|| format!("no rung {of}: {way}"))?)
}

/// The published rows: two rungs each.
fn pairs(all: &[Figures]) -> Result<Vec<Row>> {
    let bare =
        |load| all.iter().find(|figures| figures.load == load && figures.of == BARE).ok_or("no ping-pong");
    let mut rows = vec![beside(&P50, find(all, ONE, BINARY, OURS)?, bare(ONE)?, Some(1.3))];
    let [first, second] = CPP.map(|of| find(all, MANY, BINARY, of));
    let (first, second) = (first?, second?);
    let best = if RATE.sample(first).median() > RATE.sample(second).median() { first } else { second };
    rows.push(beside(&RATE, find(all, MANY, BINARY, OURS)?, best, Some(1.0)));
    let mut compare = |way, of_java, load, metrics: &[&Metric], wanted| -> Result<()> {
        let (ours, java) = (find(all, load, way, OURS)?, find(all, load, of_java, JAVA)?);
        // The bound is for the rate, which comes first.
        let wanted = std::iter::once(wanted).chain(std::iter::repeat(None));
        rows.extend(metrics.iter().zip(wanted).map(|(metric, wanted)| beside(metric, ours, java, wanted)));
        Ok(())
    };
    for (way, wanted) in [(REST, Some(3.0)), (JSON_HTTP, Some(3.0)), (JSON_TCP, Some(2.0)), (BINARY, None)] {
        compare(way, way, MANY, &[&RATE, &SERVER_CPU, &CLIENT_CPU, &SERVER_MEMORY], wanted)?;
        compare(way, way, ONE, &[&RATE, &SERVER_CPU], None)?;
        compare(way, way, Load::Java, &[&TIME, &SERVER_CPU, &CLIENT_CPU, &CLIENT_MEMORY], None)?;
    }
    // SOAP is the Java stack's own.
    compare(REST, SOAP, MANY, &[&RATE, &SERVER_CPU, &SERVER_MEMORY], None)?;
    compare(REST, SOAP, Load::Java, &[&TIME, &SERVER_CPU, &CLIENT_CPU, &CLIENT_MEMORY], None)?;
    rows.push(Row {
        case: format!("bare ping-pong, {}: a thread each, which sleeps between calls", MANY.name()),
        ..beside(&RATE, bare(MANY)?, find(all, MANY, JSON_TCP, JAVA)?, None)
    });
    Ok(rows)
}

/// A row of two rungs, whose ratio is taken round by round.
fn beside(metric: &Metric, ours: &Figures, other: &Figures, wanted: Option<f64>) -> Row {
    let (values, others) = ((metric.of)(ours), (metric.of)(other));
    let ratios = values.iter().zip(&others).map(|(ours, other)| ours / other).collect();
    let way = match other.way {
        SOAP => format!("{} beside SOAP", ours.way),
        _ => ours.way.to_owned(),
    };
    let case = match metric.name {
        name if name == RATE.name => format!("{way}, {}", ours.load.name()),
        name => format!("{way}, {}, {name}", ours.load.name()),
    };
    Row {
        limit: Some(Sample::new(others).median()),
        ratio_to_limit: Some(Sample::new(ratios).median()),
        compared: Some(Compared { against: other.rung.clone(), measure: "times", wanted }),
        ..Row::new(case, metric.unit, metric.better, ours.rounds.len(), &Sample::new(values))
    }
}

/// A metric of all rungs under a load. Ours is Thrift binary over TCP, the others are peers.
fn row(all: &[Figures], load: Load, metric: &Metric) -> Result<Row> {
    let ours = find(all, load, BINARY, OURS)?;
    let case = format!("{}, {}", metric.name, load.name());
    let row = Row::new(case, metric.unit, metric.better, ours.rounds.len(), &metric.sample(ours));
    let others = all.iter().filter(|figures| figures.load == load && figures.rung != ours.rung);
    Ok(others.fold(row, |row, figures| row.with_peer(&figures.rung, metric.sample(figures).median())))
}

/// Prints a line for each rung.
fn print(all: &[Figures]) {
    for load in LOADS {
        print!("{:<40}", load.name());
        for metric in &METRICS {
            print!(" {:>24}", metric.name);
        }
        println!();
        for figures in all.iter().filter(|figures| figures.load == load) {
            print!("{:<40}", figures.rung);
            for metric in &METRICS {
                print!(" {:>24}", format!("{:.1} {}", metric.sample(figures).median(), metric.unit));
            }
            println!();
        }
        println!();
    }
}

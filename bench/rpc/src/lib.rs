//! The common part of the clients. They read commands, one a line, on their standard
//! input, and answer each with a line of JSON. So one connection lives
//! through many short measurements.
//!
//! `MODE BYTES CALLERS MILLISECONDS GAP_MICROSECONDS`: for the given time, each
//! of CALLERS callers makes calls with BYTES bytes of argument, one after
//! another with a gap between. `../cpp/driver.hpp` is the same in C++.

use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// An error is a line for people.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Bytes that the bare limit sends before the argument, and answers with: as
/// many as FlexRPC's head, so that both move the same bytes.
pub const HEAD_BYTES: usize = 68;

/// However long they take, each caller makes as many calls.
const LEAST_CALLS: usize = 3;

/// One caller: what it calls by is its own.
pub trait Caller: Send {
    /// One call, to its end.
    fn call(&mut self, argument: &[u8]) -> Result<()>;
}

/// The addresses that a program is started with.
pub fn addresses() -> Result<Vec<SocketAddr>> {
    let addresses: Vec<_> =
        std::env::args().skip(2).map(|text| text.parse()).collect::<std::result::Result<_, _>>()?;
    if addresses.is_empty() { Err("no address".into()) } else { Ok(addresses) }
}

/// Splits a mode from its callees: `MODE@N` calls the first N of them, and `MODE`
/// the first alone.
pub fn callees<'a>(mode: &'a str, all: &'a [SocketAddr]) -> Result<(&'a str, &'a [SocketAddr])> {
    let (mode, degree) = mode.split_once('@').unwrap_or((mode, "1"));
    Ok((mode, all.get(..degree.parse()?).ok_or("not so many callees")?))
}

/// Runs `serve` or `drive`, as the first argument says.
pub fn main(serve: impl FnOnce(SocketAddr) -> Result<()>, drive: impl FnOnce(Vec<SocketAddr>) -> Result<()>) {
    let ran = addresses().and_then(|addresses| match std::env::args().nth(1).as_deref() {
        Some("server") => serve(addresses[0]),
        Some("client") => drive(addresses),
        _ => Err("usage: server ADDRESS | client ADDRESS...".into()),
    });
    if let Err(error) = ran {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Reads orders until they end. `connect` makes a caller for a mode; callers
/// are kept from order to order.
pub fn drive<C: Caller>(mut connect: impl FnMut(&str) -> Result<C>) -> Result<()> {
    let mut kept: HashMap<String, Vec<C>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let order = Order::parse(&line)?;
        let callers = kept.entry(order.mode.to_owned()).or_default();
        while callers.len() < order.callers {
            callers.push(connect(order.mode)?);
        }
        let said = order.run(&mut callers[..order.callers])?;
        writeln!(std::io::stdout(), "{said}")?;
    }
    Ok(())
}

struct Order<'a> {
    mode: &'a str,
    bytes: usize,
    callers: usize,
    time: Duration,
    gap: Duration,
}

impl<'a> Order<'a> {
    fn parse(line: &'a str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, bytes, callers, milliseconds, gap] = words[..] else {
            return Err(format!("not an order: {line:?}").into());
        };
        Ok(Self {
            mode,
            bytes: bytes.parse()?,
            callers: callers.parse()?,
            time: Duration::from_millis(milliseconds.parse()?),
            gap: Duration::from_micros(gap.parse()?),
        })
    }

    fn run<C: Caller>(&self, callers: &mut [C]) -> Result<String> {
        let argument = vec![0x5a; self.bytes];
        let together = Barrier::new(callers.len());
        let cpu_before = cpu_seconds();
        let runs: Vec<Result<Run>> = thread::scope(|scope| {
            let threads: Vec<_> = callers
                .iter_mut()
                .map(|caller| scope.spawn(|| self.run_one(caller, &argument, &together)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("panicked".into())))
                .collect()
        });
        let runs: Vec<Run> = runs.into_iter().collect::<Result<_>>()?;
        let start = runs.iter().map(|run| run.start).min().ok_or("no callers")?;
        let end = runs.iter().map(|run| run.end).max().ok_or("no callers")?;
        let fewest = runs.iter().map(|run| run.took.len()).min().unwrap_or_default();
        let mut took: Vec<Duration> = runs.into_iter().flat_map(|run| run.took).collect();
        took.sort_unstable();
        let micros = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1e6;
        Ok(format!(
            "{{\"calls\":{},\"seconds\":{:.9},\"p50_us\":{:.3},\"p99_us\":{:.3},\
             \"worst_us\":{:.3},\"fewest_calls\":{fewest},\"cpu_seconds\":{:.9}}}",
            took.len(),
            (end - start).as_secs_f64(),
            micros(50),
            micros(99),
            micros(100),
            cpu_seconds() - cpu_before,
        ))
    }

    /// The first call isn't counted: it wakes up what has slept since the last
    /// order.
    fn run_one(&self, caller: &mut impl Caller, argument: &[u8], together: &Barrier) -> Result<Run> {
        let woken = caller.call(argument);
        together.wait();
        woken?;
        let start = Instant::now();
        let mut took = Vec::with_capacity(1 << 16);
        let mut now = start;
        while now - start < self.time || took.len() < LEAST_CALLS {
            caller.call(argument)?;
            let then = Instant::now();
            took.push(then - now);
            now = then;
            if !self.gap.is_zero() {
                thread::sleep(self.gap);
                now = Instant::now();
            }
        }
        Ok(Run { start, end: now, took })
    }
}

/// That this process has used so far.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

struct Run {
    start: Instant,
    end: Instant,
    took: Vec<Duration>,
}

impl<C: Caller + ?Sized> Caller for Box<C> {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        (**self).call(argument)
    }
}

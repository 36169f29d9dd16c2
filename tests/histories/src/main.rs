//! Records histories for the checker in `check/`:
//!
//! ```text
//! strait-histories STRAIT kadoop|hdfs SECONDS SEED FILE
//! ```
//!
//! It starts a cluster and two gateways as processes of their own, lets clients work through both
//! gateways, and kills or stops one process after the other. Each operation becomes a line of FILE
//! with the times of its call and of its answer.

mod cluster;
mod contents;
mod faults;
mod history;
mod names;
mod random;

use cluster::Cluster;
use history::History;
use random::Random;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use strait_client::{Options, StraitStore};
use strait_store::{FileSystem, Principal, StorePath};
use strait_testkit::wait::pause;

/// Clients that change and read names.
const NAME_CLIENTS: u64 = 8;
/// Clients that write files, and as many that read them.
const CONTENT_CLIENTS: u64 = 3;
/// A client's patience with one answer. Clients of real programs wait longer; here a client that
/// waits records nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time that the store may need until everything is available again.
const RECOVERY: Duration = Duration::from_secs(90);
/// Pause after a failure: nothing tells when a fault has ended.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [strait, store, seconds, seed, file] = &arguments[..] else {
        eprintln!("usage: strait-histories STRAIT kadoop|hdfs SECONDS SEED FILE");
        return ExitCode::from(2);
    };
    let done = (|| {
        let (seconds, seed) = (Duration::from_secs(seconds.parse()?), seed.parse()?);
        let cluster = Cluster::start(Path::new(strait), store)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(record(cluster, seconds, seed, Path::new(file)))
    })();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("strait-histories: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses a path that this program made.
fn path(text: &str) -> StorePath {
    StorePath::parse(text).expect("a path")
}

/// The user. The session decides.
fn who() -> Principal {
    Principal::new("histories")
}

/// A client of the gateway at this address.
async fn client(address: &str) -> Outcome<Arc<dyn FileSystem>> {
    let options = Options { timeout: Some(TIMEOUT), ..Options::default() };
    Ok(Arc::new(StraitStore::connect(address, options).await?))
}

async fn record(mut cluster: Cluster, duration: Duration, seed: u64, file: &Path) -> Outcome<()> {
    let history = Arc::new(History::create(file)?);
    let ends = Arc::new(AtomicBool::new(false));
    let names = Arc::new(names::Names::new(&history));
    let contents = Arc::new(contents::Contents::new(&history));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..NAME_CLIENTS + 2 * CONTENT_CLIENTS {
        let fs = client(&cluster.gateways[number as usize % 2].address).await?;
        let random = Random::new(seed.wrapping_mul(1_000) + number);
        let (names, contents, ends) = (names.clone(), contents.clone(), ends.clone());
        clients.spawn(async move {
            let ends = || ends.load(Ordering::Relaxed);
            match number.checked_sub(NAME_CLIENTS) {
                None => names.work(number, fs, random, ends).await,
                Some(writer) if writer < CONTENT_CLIENTS => contents.write(number, fs, random, ends).await,
                Some(_) => contents.read(number, fs, random, ends).await,
            }
        });
    }
    let addresses = cluster.gateways.each_ref().map(|gateway| gateway.address.clone());
    let faults = {
        let (history, ends) = (history.clone(), ends.clone());
        std::thread::spawn(move || {
            let begun = Instant::now();
            let mut random = Random::new(seed);
            let mut done = Ok(());
            while done.is_ok() && begun.elapsed() < duration {
                pause("between faults", Duration::from_millis(500 + random.below(2_500)));
                done = faults::strike(&mut cluster, &mut random, &history);
            }
            ends.store(true, Ordering::Relaxed);
            done.map(|()| cluster)
        })
    };
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    let cluster = faults.join().map_err(|_| "the thread of faults panicked")??;
    for (number, address) in addresses.iter().enumerate() {
        let (number, fs) = (1_000 + number as u64, client(address).await?);
        names.read_all(number, &fs, RECOVERY).await?;
        contents.read_all(number, &fs, RECOVERY).await?;
    }
    drop(cluster);
    history.finish()
}

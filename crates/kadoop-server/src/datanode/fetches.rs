//! Reads from other datanodes: for copies that the namenode orders, and for chunks that begin with
//! another chunk's bytes.

use super::shared::Shared;
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, Transport};
use strait_kadoop_core::{datanode::Fetch, error::Error, messages::Piece};
use strait_kadoop_wire::{
    convert::{piece_from_wire, read_to_wire},
    failure::Failure,
    proofs::Procedure,
    wire::KadoopDatanodeV1Client,
};

/// Fetches at a time: enough for four copies with two reads each. Beginnings of chunks share them.
const THREADS: usize = 8;
/// Least time between two warnings of failed fetches: if a datanode is lost, many fail at once.
const WARNINGS: Duration = Duration::from_secs(10);

/// The queue of fetches. The core bounds how many are under way.
pub(super) fn queue() -> (mpsc::Sender<Fetch>, mpsc::Receiver<Fetch>) {
    mpsc::channel()
}

/// The main function of each fetching thread.
pub(super) fn threads(
    shared: &Arc<Shared>,
    asked: mpsc::Receiver<Fetch>,
) -> Vec<Box<dyn FnOnce() + Send + 'static>> {
    let asked = Arc::new(Mutex::new(asked));
    let options = flexrpc::ClientOptions {
        timeout: Some(Duration::from_millis(shared.config.read_ms)),
        ..Default::default()
    };
    let client = flexrpc::Client::new(options);
    let warnings = Arc::new(Warnings::default());
    let thread = |_| -> Box<dyn FnOnce() + Send + 'static> {
        // The queue ends with the datanode, so threads mustn't keep it alive.
        let (shared, asked, client) = (Arc::downgrade(shared), Arc::clone(&asked), client.clone());
        let warnings = Arc::clone(&warnings);
        Box::new(move || {
            loop {
                let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(fetch) = next else { return };
                let Some(shared) = shared.upgrade().filter(|shared| !shared.has_ended()) else { return };
                let answer = fetch_from(&shared, &client, &fetch).map_err(|failure| {
                    warnings.warn(&fetch, &failure);
                    failure.error
                });
                shared.change(|core| core.on_fetched(fetch.id, answer));
            }
        })
    };
    (0..THREADS).map(thread).collect()
}

fn fetch_from(shared: &Shared, client: &flexrpc::Client, fetch: &Fetch) -> Result<Piece, Failure> {
    let unavailable = |why: String| Failure::new(Error::Unavailable, why);
    let unknown = || unavailable(format!("the namenode names no address of datanode {}", fetch.from));
    let from = shared.place_of(fetch.from).ok_or_else(unknown)?;
    let (address, identity) = from;
    let mut read = read_to_wire(&fetch.read);
    let asked = shared.token(fetch.read.chunk, fetch.read.stamp).sign(&mut read, Procedure::Read, identity);
    let handle = client.handle(address, Transport::Tcp);
    let handle = handle.map_err(|error| unavailable(format!("datanode {address}: {error}")))?;
    let piece = asked.hear(from, KadoopDatanodeV1Client::new(handle).dn_read(&read));
    piece.map(piece_from_wire).map_err(|lost| lost.at_datanode(address))
}

/// Warns of failed fetches, but seldom.
#[derive(Default)]
struct Warnings(Mutex<Option<Instant>>);

impl Warnings {
    fn warn(&self, fetch: &Fetch, failure: &Failure) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= WARNINGS) {
            *last = Some(Instant::now());
            tracing::warn!(chunk = %fetch.read.chunk, %failure, "can't copy bytes from another datanode");
        }
    }
}

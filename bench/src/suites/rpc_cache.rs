//! The cost of the response cache for each call: a lookup before the call, and storing the result after it.
//! In the paper (section V.B), it is 5 µs.

use crate::Result;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use strait_flexrpc::proto::admission::{Admission, Verdict};
use strait_flexrpc::{AdmissionLimits, CallId, SessionId};

const RUNS: usize = 21;
const CALLS: u64 = 20_000;
/// Number of callers of one client, each with a handle.
const HANDLES: u32 = 16;
const THREADS: [u8; 2] = [1, 4];
/// Bytes of an empty and of a small result, including the head that the server stores with it. With large
/// results, freeing their memory takes most of the time, with or without a cache.
const ANSWERS: [usize; 2] = [68, 68 + 1024];
/// Bound of the cost: a tenth of the paper's.
const BOUND_US: f64 = 0.5;

pub fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for threads in THREADS {
        for answer in ANSWERS {
            let runs = (0..RUNS).map(|_| micros_a_call(threads, answer)).collect::<Result<_>>()?;
            let name = format!("a call, answer of {answer} B, threads: {threads}");
            rows.push(Row::new(name, "µs", Better::Lower, RUNS, &Sample::new(runs)).with_limit(BOUND_US));
        }
    }
    Ok(rows)
}

/// Microseconds of a call in the cache. Each thread serves the calls of one client.
fn micros_a_call(threads: u8, answer: usize) -> Result<f64> {
    let admission = Admission::new(AdmissionLimits::default());
    let together = Barrier::new(threads.into());
    let times: Vec<Option<f64>> = thread::scope(|scope| {
        let serve = |client| {
            let session = SessionId([client + 1; 16]);
            admission.open_session(session, 0).ok()?;
            // Not counted: making the answers.
            let mut answers: Vec<_> = (0..CALLS).map(|_| bytes::Bytes::from(vec![0; answer])).collect();
            together.wait();
            let start = Instant::now();
            for transaction in 1..=CALLS {
                let id = CallId { session, handle: transaction as u32 % HANDLES, transaction };
                if admission.begin(id, transaction) != Verdict::Execute {
                    return None;
                }
                admission.complete(id, answers.pop().unwrap_or_default(), transaction);
            }
            Some(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
        };
        let threads: Vec<_> = (0..threads).map(|client| scope.spawn(move || serve(client))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let times: Option<Vec<f64>> = times.into_iter().collect();
    let times = times.ok_or("the cache refused a new call, or took it for a duplicate")?;
    Ok(Sample::new(times).median())
}

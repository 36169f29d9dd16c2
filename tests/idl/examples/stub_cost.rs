//! Compares the cost of typed calls with untyped ones of the same bytes: `stub_cost [seconds]`. One
//! caller, over TCP on loopback; rounds of both in turn.

use std::time::{Duration, Instant};
use strait_flexrpc::{Client, Procedure, Reply, Request, Server, ServerOptions, ServiceError, Transport};
use strait_idl_tests::habits::{HabitsV1Client, HabitsV1Server, HabitsV1Service, Result as Item};
use strait_xdr::Text;

/// The untyped procedure, with a number of its own.
const UNTYPED: Procedure = Procedure::new(0x2000_0105, 1, 1);

/// Calls of one kind in a row.
const ROUND: usize = 200;

struct Echo;

impl HabitsV1Service for Echo {
    fn habits_echo(&self, _: &Request, arg1: Text<'static>) -> Result<Text<'static>, ServiceError> {
        Ok(arg1)
    }

    fn habits_take(&self, _: &Request, _: Item, _: i32, _: u32) -> Result<(), ServiceError> {
        Ok(())
    }

    fn habits_count(&self, _: &Request) -> Result<u32, ServiceError> {
        Ok(0)
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(5);
    let server = Server::builder(ServerOptions::default())
        .register(HabitsV1Server::<Echo>::PROGRAM, 1, HabitsV1Server(Echo))
        .register(UNTYPED.program, UNTYPED.version, |request: &Request, reply: &mut Reply| {
            reply.put(&request.args);
            Ok(())
        })
        .start()
        .expect("a server");
    let client = Client::default();
    let handle = || client.handle(server.address(), Transport::Tcp).expect("a handle");
    let (mut untyped, mut typed) = (handle(), HabitsV1Client::new(handle()));
    for size in [16, 1 << 10, 16 << 10, 1 << 20] {
        let text = "x".repeat(size);
        let bytes = [&(size as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let (mut ratios, mut medians) = (Vec::new(), [0.0; 2]);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let raw = median(|| drop(untyped.call(UNTYPED, &[&bytes]).expect("an answer")));
            let stub = median(|| drop(typed.habits_echo(&Text::from(&text)).expect("an answer")));
            ratios.push(stub / raw);
            medians = [raw, stub];
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "{size:>8} B: {:.3} of an untyped call, {} rounds (last: {:.1} and {:.1} µs)",
            ratios[ratios.len() / 2],
            ratios.len(),
            medians[1],
            medians[0],
        );
    }
}

/// Microseconds of one call.
fn median(mut call: impl FnMut()) -> f64 {
    let mut took: Vec<f64> = (0..ROUND)
        .map(|_| {
            let begun = Instant::now();
            call();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[ROUND / 2]
}

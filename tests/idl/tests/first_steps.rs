//! An example to copy: from an interface (`idl/counter.x`) to its server and its callers.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use strait_flexrpc::stub::{CallOptions, Callees, Pattern, Request, ServiceError, StubError};
use strait_flexrpc::{
    CallError, Client, ClientOptions, ClusterKey, Fault, FaultKind, MulticastOptions, Server, ServerOptions,
    Transport,
};
use strait_idl_tests::counter::*;

/// A real key has as many random bytes, and is in a file that only its owner can read.
const KEY: [u8; 32] = [7; 32];

/// An error of the interface's own, with a number that callers know.
const NOTHING_ADDED: u32 = 1;

/// A callee's state; its methods run concurrently.
#[derive(Default)]
struct Counter(Mutex<u32>);

impl CounterV1Service for Counter {
    fn counter_add(&self, _: &Request, by: u32) -> Result<u32, ServiceError> {
        if by == 0 {
            return Err(Fault::application(NOTHING_ADDED, "0 adds nothing").into());
        }
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *count += by;
        Ok(*count)
    }

    fn counter_take(&self, _: &Request, wanted: u32) -> Result<Taken, ServiceError> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = count.checked_sub(wanted) else { return Ok(Taken::False) };
        *count = left;
        Ok(Taken::True(left))
    }

    fn counter_owner(&self, _: &Request) -> Result<Owner<'_>, ServiceError> {
        Ok("alice".into())
    }
}

fn server() -> Result<Server, Box<dyn Error>> {
    let options = ServerOptions { key: Some(ClusterKey::new(&KEY)?), ..ServerOptions::default() };
    let (program, version) = (CounterV1Server::<Counter>::PROGRAM, CounterV1Server::<Counter>::VERSION);
    Ok(Server::builder(options).register(program, version, CounterV1Server(Counter::default())).start()?)
}

#[test]
fn one_interface_serves_single_calls_multicasts_and_chains() -> Result<(), Box<dyn Error>> {
    let servers = [server()?, server()?, server()?];
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let client = Client::new(ClientOptions { key: Some(ClusterKey::new(&KEY)?), ..ClientOptions::default() });

    // One callee. A client of its own, with its own connection, for each thread.
    let mut one = CounterV1Client::new(client.handle(addresses[0], Transport::Tcp)?);
    one.options = CallOptions { timeout: Some(Duration::from_secs(20)), ..CallOptions::default() };
    assert_eq!(one.counter_add(2)?, 2);
    let Err(StubError::Call(CallError::Fault(fault))) = one.counter_add(0) else { panic!("0 was added") };
    assert_eq!(fault.kind, FaultKind::Application(NOTHING_ADDED));
    assert_eq!(one.counter_take(3)?, Taken::False);
    assert_eq!(one.counter_take(2)?, Taken::True(0));
    assert_eq!(one.counter_owner()?.as_str()?, "alice");

    // All of them, each with an outcome of its own.
    for pattern in [Pattern::Parallel(Transport::Tcp), Pattern::Parallel(Transport::Udp), Pattern::Serial] {
        let options = MulticastOptions::default();
        let callees = Callees { client: client.clone(), addresses: addresses.clone(), pattern, options };
        let all = CounterV1Callees { callees };
        assert!(all.counter_add(1)?.iter().all(Result::is_ok), "{pattern:?}");
    }

    // Two values are enough. The third callee may have executed the call too.
    let options = MulticastOptions { required: Some(2), ..MulticastOptions::default() };
    let pattern = Pattern::Parallel(Transport::Tcp);
    let quorum = CounterV1Callees { callees: Callees { client, addresses, pattern, options } };
    let counts = quorum.counter_add(1)?;
    assert!(counts.iter().filter(|count| **count == Ok(4)).count() >= 2, "{counts:?}");
    for error in counts.into_iter().filter_map(Result::err) {
        assert!(error.to_string().contains("stopped waiting for the answer") || error.is_retry_safe());
    }
    Ok(())
}

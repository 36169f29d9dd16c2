//! The server of `docs/flexrpc.md`: `Store` comes from its first program, the rest from its other blocks.
//! `tests/documented.rs` compares them, and runs this program.

use kv::{Found, Key, KvV1Server, KvV1Service, Pair};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use strait_flexrpc::stub::{Request, ServiceError};
use strait_flexrpc::{Server, ServerOptions};
use strait_idl_tests::kv;

#[derive(Clone, Default)]
struct Store(Arc<RwLock<HashMap<Vec<u8>, Vec<u8>>>>);

impl KvV1Service for Store {
    fn kv_put(&self, _: &Request, pair: Pair<'static>) -> Result<(), ServiceError> {
        self.0.write().unwrap().insert(pair.k.as_bytes().to_vec(), pair.v.to_vec());
        Ok(())
    }

    fn kv_get(&self, _: &Request, key: Key<'static>) -> Result<Found<'_>, ServiceError> {
        Ok(match self.0.read().unwrap().get(key.as_bytes()) {
            Some(value) => Found::True(value.clone().into()),
            None => Found::False,
        })
    }
}

use kv::{KvV2Server, KvV2Service};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strait_flexrpc::ClusterKey;

impl KvV2Service for Store {
    fn kv_put(&self, call: &Request, pair: Pair<'static>) -> Result<(), ServiceError> {
        KvV1Service::kv_put(self, call, pair)
    }

    fn kv_get(&self, call: &Request, key: Key<'static>) -> Result<Found<'_>, ServiceError> {
        KvV1Service::kv_get(self, call, key)
    }

    fn kv_count(&self, _: &Request) -> Result<u32, ServiceError> {
        Ok(self.0.read().unwrap().len() as u32)
    }
}

/// `kv ADDRESS KEY`, as in `kv 192.0.2.7:4200 cluster.key`.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("kv ADDRESS KEY".into());
    };
    // From here on they don't end the process. They wait until the program asks for them.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let options = ServerOptions {
        listen: listen.parse()?,
        key: Some(ClusterKey::new(&std::fs::read(key)?)?),
        ..ServerOptions::default()
    };
    let store = Store::default();
    let program = KvV1Server::<Store>::PROGRAM;
    let server = Server::builder(options)
        .register(program, 1, KvV1Server(store.clone()))
        .register(program, 2, KvV2Server(store))
        .start()?;
    println!("{}", server.address());
    signals.forever().next();
    if server.shutdown() { Ok(()) } else { Err("calls were cut off".into()) }
}

//! tarpc over TCP: a server of many threads; each caller has its own connection,
//! driven by its own thread, which spares it a hand-off.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::future::ready;
use std::net::SocketAddr;
use strait_bench_rpc::{Caller, Result, drive, main as run};
use tarpc::client::Config;
use tarpc::context;
use tarpc::serde_transport::tcp;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tokio::runtime::{Builder, Runtime};

#[tarpc::service]
trait Null {
    async fn call(argument: Bytes);
}

#[derive(Clone)]
struct Service;

impl Null for Service {
    async fn call(self, _: context::Context, _: Bytes) {}
}

fn main() {
    run(serve, |addresses| drive(move |_| Tarpc::connect(addresses[0])));
}

fn serve(address: SocketAddr) -> Result<()> {
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let connections = tcp::listen(&address, Bincode::default).await?;
        connections
            .filter_map(|connection| ready(connection.ok()))
            .for_each(|connection| {
                let channel = BaseChannel::with_defaults(connection);
                tokio::spawn(each(channel.execute(Service.serve())));
                ready(())
            })
            .await;
        Ok(())
    })
}

/// A connection's calls, one beside the other.
async fn each(calls: impl Stream<Item = impl Future<Output = ()> + Send + 'static>) {
    calls
        .for_each(|call| {
            tokio::spawn(call);
            ready(())
        })
        .await;
}

struct Tarpc {
    runtime: Runtime,
    client: NullClient,
    argument: Bytes,
}

impl Tarpc {
    fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let connection = tcp::connect(address, Bincode::default).await?;
            std::io::Result::Ok(NullClient::new(Config::default(), connection).spawn())
        })?;
        Ok(Self { runtime, client, argument: Bytes::new() })
    }
}

impl Caller for Tarpc {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        if self.argument.len() != argument.len() {
            self.argument = Bytes::copy_from_slice(argument);
        }
        Ok(self.runtime.block_on(self.client.call(context::current(), self.argument.clone()))?)
    }
}

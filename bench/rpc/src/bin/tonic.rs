//! gRPC by tonic: a server of many threads; each caller has its own connection,
//! driven by its own thread, which spares it a hand-off.

use std::net::SocketAddr;
use strait_bench_rpc::{Caller, Result, drive, main as run};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

include!(concat!(env!("OUT_DIR"), "/bench.Null.rs"));

/// The argument.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Argument {
    /// Its bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub bytes: bytes::Bytes,
}

/// The result.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Nothing {}

struct Null;

#[tonic::async_trait]
impl null_server::Null for Null {
    async fn call(&self, _: Request<Argument>) -> std::result::Result<Response<Nothing>, Status> {
        Ok(Response::new(Nothing {}))
    }
}

fn main() {
    run(serve, |addresses| drive(move |_| Grpc::connect(addresses[0])));
}

fn serve(address: SocketAddr) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let server = Server::builder().tcp_nodelay(true).add_service(null_server::NullServer::new(Null));
    Ok(runtime.block_on(server.serve(address))?)
}

struct Grpc {
    runtime: Runtime,
    client: null_client::NullClient<Channel>,
    argument: bytes::Bytes,
}

impl Grpc {
    fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let channel = runtime.block_on(endpoint.connect())?;
        Ok(Self { runtime, client: null_client::NullClient::new(channel), argument: bytes::Bytes::new() })
    }
}

impl Caller for Grpc {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        if self.argument.len() != argument.len() {
            self.argument = bytes::Bytes::copy_from_slice(argument);
        }
        let argument = Argument { bytes: self.argument.clone() };
        self.runtime.block_on(self.client.call(argument))?;
        Ok(())
    }
}

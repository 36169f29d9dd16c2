//! FlexRPC as it is shipped: checksum, sessions and response cache on. Modes:
//! `tcp` and `udp`, and to many callees `parallel-tcp`, `parallel-udp` and `serial`.

use bytes::Bytes;
use std::net::SocketAddr;
use std::thread;
use strait_bench_rpc::{Caller, Result, callees, drive, main as run};
use strait_flexrpc::{
    Client, Handle, MulticastOptions, Procedure, Reply, Request, Server, ServerOptions, Transport,
};

const NULL: Procedure = Procedure::new(0x2000_0099, 1, 1);

fn main() {
    run(serve, |all| {
        let client = Client::default();
        drive(move |mode| -> Result<Box<dyn Caller>> {
            let (mode, callees) = callees(mode, &all)?;
            let how = match mode {
                "tcp" => return Ok(Box::new(Single(client.handle(callees[0], Transport::Tcp)?))),
                "udp" => return Ok(Box::new(Single(client.handle(callees[0], Transport::Udp)?))),
                "parallel-tcp" => How::Parallel(Transport::Tcp),
                "parallel-udp" => How::Parallel(Transport::Udp),
                "serial" => How::Serial,
                _ => return Err(format!("no mode {mode:?}").into()),
            };
            let (client, callees) = (client.clone(), callees.to_owned());
            Ok(Box::new(Many { client, callees, how, argument: Bytes::new() }))
        })
    });
}

fn serve(listen: SocketAddr) -> Result<()> {
    // Hosts of a network are this run's own: nobody else can reach them.
    let options = ServerOptions { listen, allow_anonymous: true, ..ServerOptions::default() };
    let _server = Server::builder(options)
        .register(NULL.program, NULL.version, |_: &Request, _: &mut Reply| Ok(()))
        .start()?;
    loop {
        thread::park();
    }
}

struct Single(Handle);

impl Caller for Single {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        self.0.call(NULL, &[argument])?;
        Ok(())
    }
}

enum How {
    Parallel(Transport),
    Serial,
}

struct Many {
    client: Client,
    callees: Vec<SocketAddr>,
    how: How,
    argument: Bytes,
}

impl Caller for Many {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        if self.argument.len() != argument.len() {
            self.argument = Bytes::copy_from_slice(argument);
        }
        let arguments = [self.argument.clone()];
        let options = MulticastOptions::default();
        let outcomes = match self.how {
            How::Parallel(transport) => {
                self.client.call_parallel(&self.callees, transport, NULL, &arguments, &options)
            }
            How::Serial => self.client.call_chain(&self.callees, NULL, &arguments, &options),
        };
        match outcomes.iter().find(|outcome| !outcome.is_value()) {
            Some(outcome) => Err(format!("{outcome:?}").into()),
            None => Ok(()),
        }
    }
}

//! FlexRPC as it is shipped: checksum, sessions and response cache on. Modes:
//! `tcp` and `udp`; to many callees `parallel-tcp`, `parallel-udp` and `serial`;
//! and `other-clients`, of which each caller is a thousand.

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::thread;
use strait_bench_rpc::{Caller, Result, callees, drive, main as run};
use strait_flexrpc::{
    Client, Forwarding, Handle, MulticastOptions, Procedure, Reply, Request, Server, ServerOptions, Transport,
};

const NULL: Procedure = Procedure::new(0x2000_0099, 1, 1);

fn main() {
    if let Err(error) = raise_descriptor_limit() {
        eprintln!("descriptors: {error}");
    }
    run(serve, |all| {
        let client = Client::default();
        drive(move |mode| -> Result<Box<dyn Caller>> {
            let (mode, callees) = callees(mode, &all)?;
            let how = match mode {
                "tcp" => return Ok(Box::new(Single(client.handle(callees[0], Transport::Tcp)?))),
                "udp" => return Ok(Box::new(Single(client.handle(callees[0], Transport::Udp)?))),
                "other-clients" => return Ok(Box::new(Idle::connect(callees[0])?)),
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

/// A connection is a descriptor, at either end.
fn raise_descriptor_limit() -> std::io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?)
}

fn serve(listen: SocketAddr) -> Result<()> {
    // Hosts of a network are this run's own: nobody else can reach them.
    let options = ServerOptions {
        listen,
        allow_anonymous: true,
        forwarding: Forwarding::Anywhere,
        ..ServerOptions::default()
    };
    let _server = Server::builder(options)
        .register(NULL.program, NULL.version, |_: &Request, _: &mut Reply| Ok(()))
        .start()?;
    loop {
        thread::park();
    }
}

/// Clients that connect, make one call and stay: each with its own session.
struct Idle {
    _clients: Vec<(Client, Handle)>,
}

/// Idle clients for each caller.
const IDLE_CLIENTS: usize = 1_000;

impl Idle {
    fn connect(callee: SocketAddr) -> Result<Self> {
        let connect = |_| {
            let client = Client::default();
            let mut handle = client.handle(callee, Transport::Tcp)?;
            handle.call(NULL, &[])?;
            Ok((client, handle))
        };
        Ok(Self { _clients: (0..IDLE_CLIENTS).map(connect).collect::<Result<_>>()? })
    }
}

impl Caller for Idle {
    fn call(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
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

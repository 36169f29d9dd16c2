//! `datanode`: one of a Kadoop cluster's datanodes, alone in its process.

use super::keys;
use super::namenode::{blocking, make_private, taken, until_signal};
use super::serve::{raise_descriptor_limit, tell_descriptor_limit};
use crate::cli::Datanode;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::signals::{Hangups, Signals};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, ShortCircuit};
use strait_store::ErrorKind;

/// A datanode's default port; the namenode's are 9091 and 9092.
const PORT: u16 = 9093;
/// Time between two checks whether the datanode has failed.
const LOOK: Duration = Duration::from_secs(1);

/// Serves until a signal comes.
pub async fn datanode(flags: Datanode) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    tokio::spawn(
        Hangups::catch()?.each(|| tracing::info!("SIGHUP has no effect: a datanode rereads no files")),
    );
    let descriptors = raise_descriptor_limit();
    let key = keys::load(&flags.key)?;
    let listen = match flags.listen {
        Some(listen) => listen,
        None => SocketAddr::new(towards(&flags.namenode)?, PORT),
    };
    // No client can connect to 0.0.0.0.
    let advertise = match flags.advertise {
        None if listen.ip().is_unspecified() && listen.port() == 0 => {
            return Err(Failure::usage(format!("--listen {listen}: give a port, or --advertise ADDR")));
        }
        None if listen.ip().is_unspecified() => {
            Some(SocketAddr::new(towards(&flags.namenode)?, listen.port()))
        }
        given => given,
    };
    let mut options = DatanodeOptions::new(flags.data.clone(), flags.namenode.clone(), key);
    options.listen = listen;
    options.advertise = advertise;
    options.rack = flags.rack;
    options.short_circuit = (!flags.no_local_reads).then(|| ShortCircuit {
        directory: flags.local_socket,
        users: (!flags.local_users.is_empty()).then_some(flags.local_users),
    });
    options.slow_call = flags.observability.slow_call();
    if let Some(host) = flags.host {
        options.host = host;
    }
    for directory in &flags.data {
        // A directory that can't be created counts as a failed disk: the others may suffice.
        if let Err(error) = make_private(directory) {
            tracing::warn!(directory = %directory.display(), %error, "can't create the data directory");
        }
    }
    let started = blocking(move || DatanodeServer::start(options)).await?;
    let data: Vec<String> = flags.data.iter().map(|path| path.display().to_string()).collect();
    let server = started.map_err(|error| {
        let directories = data.join(", ");
        taken(&error, &directories, &listen.to_string())
            .unwrap_or_else(|| Failure::other(format!("datanode in {directories}: {error}")))
    })?;
    let (numbers, name) = (server.numbers(), server.address().to_string());
    let write = Arc::new(move |page: &mut _| numbers.write(page, &name));
    let metrics = Metrics::serve(flags.observability.metrics, write).await?;
    told(&server, &flags.namenode, &data, metrics.as_ref()).map_err(Failure::output)?;
    tell_descriptor_limit(descriptors);
    until_signal(signals, server, failed).await
}

/// Returns when the datanode can't serve any more, with the failure.
pub async fn failed(server: &DatanodeServer) -> Failure {
    while !server.has_failed() {
        tokio::time::sleep(LOOK).await;
    }
    Failure::other("the datanode failed: no data directory works, or it hit an internal error; see the log")
}

/// This host's address on the route to the namenode.
fn towards(namenode: &str) -> Result<IpAddr, Failure> {
    let find = || -> io::Result<IpAddr> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let to = namenode.to_socket_addrs()?.next().ok_or_else(none)?;
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        // For a datagram socket, connecting only looks up the route.
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|error| Failure::at(ErrorKind::Unavailable, "find namenode", namenode, error.to_string()))
}

fn told(
    server: &DatanodeServer,
    namenode: &str,
    data: &[String],
    metrics: Option<&Metrics>,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "strait {} is a datanode on {}", env!("CARGO_PKG_VERSION"), server.address())?;
    writeln!(out, "  namenode   {namenode}")?;
    writeln!(out, "  data       {}", data.join(", "))?;
    if let Some(metrics) = metrics {
        writeln!(out, "  metrics    {}", metrics.url())?;
    }
    out.flush()
}

//! `nfs`: serves a store over NFS version 3.

use super::serve::raise_descriptor_limit;
use crate::cli::Nfs as Flags;
use crate::context::Context;
use crate::failure::Failure;
use crate::signals::{Hangups, Signals};
use std::io::{self, Write};
use strait_nfs::{Options, Rules, Server};

/// Serves until a signal comes.
pub async fn nfs(context: &Context, flags: Flags) -> Result<(), Failure> {
    let loopback = flags.listen.ip().is_loopback();
    if !loopback && !flags.trust_uids {
        return Err(Failure::usage(format!(
            "--listen {}: other hosts can reach this address, and NFS trusts the user number that they claim; \
             give --trust-uids if you trust all these hosts, or listen on 127.0.0.1",
            flags.listen
        )));
    }
    let mut signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| tracing::info!("SIGHUP has no effect: nfs rereads no files")));
    raise_descriptor_limit();
    let place = context.place_to_serve(&flags.store).await?;
    let acts_for_one = !place.fs.capabilities().per_user || context.has_login(&place.store);
    let rules = Rules {
        trust_uids: flags.trust_uids,
        no_root_squash: flags.no_root_squash,
        users: flags.map_uid,
        only: acts_for_one.then(|| place.who.clone()),
    };
    let options = Options { listen: flags.listen, store: place.store, rpcbind: flags.rpcbind, rules };
    let server = Server::start(place.fs, place.path, options)
        .map_err(|error| Failure::listening(error, flags.listen, "--listen"))?;
    let mut out = io::stdout().lock();
    let line = writeln!(out, "{} is served over NFS on {}", flags.store, server.address());
    line.and_then(|()| out.flush()).map_err(Failure::output)?;
    drop(out);
    if flags.trust_uids {
        tracing::warn!("--trust-uids: every host that reaches {} can act as any user", server.address());
    }
    signals.next().await;
    tracing::info!("stopping: closing files; a second signal stops at once");
    tokio::select! {
        () = server.end() => Ok(()),
        failure = signals.next() => Err(failure),
    }
}

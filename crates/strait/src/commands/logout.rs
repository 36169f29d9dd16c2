//! `logout`.

use crate::cli::Logout;
use crate::context::Context;
use crate::failure::Failure;
use crate::tokens;
use strait_store::{ErrorKind, Scheme};

/// Removes the tokens of these gateways; without a URI, those of all gateways.
pub fn logout(context: &Context, logout: Logout) -> Result<(), Failure> {
    if logout.uris.is_empty() {
        return tokens::forget(None, context.user(), context.gateway_store()).map(drop);
    }
    let mut tally = context.tally();
    for uri in &logout.uris {
        tally.add(one(context, uri))?;
    }
    tally.finish()
}

fn one(context: &Context, uri: &str) -> Result<(), Failure> {
    let uri = context.uri(uri)?;
    if uri.scheme() != Scheme::Strait {
        return Err(Failure::usage(format!("logout: {uri}: not a gateway; write strait://HOST:PORT")));
    }
    let gateway = uri.gateway();
    match tokens::forget(Some(&gateway), context.user(), uri.gateway_store())? {
        0 => Err(Failure::at(ErrorKind::NotFound, "logout", gateway, "this host has no login for it")),
        _ => Ok(()),
    }
}

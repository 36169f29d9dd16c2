//! `stores`: the kinds of store that this program knows, or the capabilities of some stores.

use crate::cli::Stores;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use serde_json::Value;
use strait_store::{Capabilities, Scheme};

/// Prints one line for each kind: its scheme, the form of its URIs, its capabilities. If the user names
/// stores, prints such a line for each of these instead, with its capabilities now.
pub async fn stores(context: &Context, stores: Stores) -> Result<(), Failure> {
    let mut out = context.output();
    if stores.uris.is_empty() {
        for (name, scheme) in Scheme::ALL {
            tell(&mut out, context.json, name, scheme.form(), strait_store_any::capabilities(*scheme))?;
        }
    }
    let mut tally = context.tally();
    for uri in &stores.uris {
        let told = async {
            let place = context.place(uri).await?;
            let (scheme, _) = place.store.split_once(':').unwrap_or_default();
            tell(&mut out, context.json, scheme, &place.store, Some(place.fs.capabilities()))
        };
        tally.add(told.await)?;
    }
    out.finish()?;
    tally.finish()
}

/// Prints one kind. `capabilities` is `None` if they depend on a store's server or library.
fn tell(
    out: &mut Output,
    json: bool,
    scheme: &str,
    uri: &str,
    capabilities: Option<Capabilities>,
) -> Result<(), Failure> {
    let has = capabilities.map(|capabilities| {
        let has = capabilities.flags().into_iter().filter(|(_, has)| *has);
        has.map(|(name, _)| name).collect::<Vec<_>>()
    });
    if json {
        let has = has.map_or(Value::Null, Value::from);
        return out.object([("scheme", scheme.into()), ("uri", uri.into()), ("capabilities", has)]);
    }
    let has = match has {
        None => format!("they depend on the server or library; see `strait stores {uri}`"),
        Some(has) if has.is_empty() => "create, read, rename, remove".to_owned(),
        Some(has) => has.join(" "),
    };
    out.table(&[[scheme.to_owned(), uri.to_owned(), has]])
}

/// Runs a plugin for another process of strait. Standard input is the connection to that process.
pub fn plugin_helper() -> Result<(), Failure> {
    strait_store_any::serve_parent().map_err(|error| {
        Failure::other(format!("plugin-helper: strait starts this itself, to run plugins: {error}"))
    })
}

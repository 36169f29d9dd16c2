//! Opens the stores that a gateway's flags name.

use crate::context::{Context, invoking_user};
use crate::failure::Failure;
use futures::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use strait_gateway::ConfiguredStore;
use strait_store::{
    DeferredStore, Error, ErrorKind, FileStore, FileSystem, Scheme, StorePath, StoreUri, is_store_name,
};
use strait_store_any::OpenOptions;

/// If a store can't be reached, or hasn't answered after this time, the gateway serves anyway and keeps
/// trying in the background. After a power failure, a gateway may start before its namenodes. One unreachable
/// machine mustn't keep users from the other stores.
const PATIENCE: Duration = Duration::from_secs(3);

/// A store, and its problems to report to the operator.
pub struct Opened {
    pub store: ConfiguredStore,
    /// The reason why the store is unreachable. Then its capabilities are unknown.
    pub away: Option<String>,
    /// The reason why the gateway can't write into the store's top directory.
    pub read_only: Option<Error>,
}

impl Opened {
    /// A warning if all files of the store are lost when this process ends.
    pub fn forgetful(&self) -> Option<String> {
        let ConfiguredStore { name, uri, .. } = &self.store;
        uri.starts_with("memory:").then(|| {
            format!("store {name} is in memory, for tests: all of its files are lost when this gateway ends")
        })
    }
}

/// Opens and checks each `[NAME=]URI`, so that the operator learns of problems at the start.
///
/// # Errors
/// A wrong flag, or an error of a store that did answer: waiting doesn't solve such problems.
pub async fn open_all(context: &Context, flags: &[String]) -> Result<Vec<Opened>, Failure> {
    let mut named: Vec<(String, StoreUri)> = Vec::new();
    for flag in flags {
        let (name, text) = split(flag);
        let uri = context.uri(text)?;
        if let Some(name) = name.filter(|name| !is_store_name(name)) {
            return Err(Failure::usage(format!(
                "--store {flag}: invalid store name {name:?}: it must not contain / or begin with @, because URIs \
                 name stores as in strait://HOST:PORT/@NAME/path"
            )));
        }
        let name = name.map_or_else(|| uri.scheme().to_string(), str::to_owned);
        if named.iter().any(|(other, _)| *other == name) {
            return Err(Failure::usage(format!("two stores are named {name}; rename one: --store NAME=URI")));
        }
        named.push((name, uri));
    }
    let tried = join_all(named.into_iter().map(|(name, uri)| open(context, name, uri))).await;
    let stores = tried.into_iter().collect::<Result<Vec<_>, _>>()?;
    for opened in &stores {
        if let Some(away) = &opened.away {
            tracing::warn!(store = opened.store.uri, "unavailable; retrying until it answers: {away}");
        }
    }
    Ok(stores)
}

/// Refuses a store that is this gateway itself: it would wait for itself forever.
///
/// # Errors
/// A store has the gateway's own address, or a flag isn't a URI.
pub fn refuse_itself(context: &Context, flags: &[String], listen: SocketAddr) -> Result<(), Failure> {
    for flag in flags {
        let uri = context.uri(split(flag).1)?;
        if uri.scheme() == Scheme::Strait && is_itself(&uri.gateway(), listen) {
            return Err(Failure::usage(format!(
                "--store {flag}: this is the gateway's own address (--listen {listen}); name another gateway, \
                 or the store itself"
            )));
        }
    }
    Ok(())
}

/// Whether the text of `gateway` is an address where this gateway listens. Doesn't look up names.
fn is_itself(gateway: &str, listen: SocketAddr) -> bool {
    let local = gateway.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let Ok(named) = local.as_deref().unwrap_or(gateway).parse::<SocketAddr>() else { return false };
    named.port() == listen.port()
        && (named.ip() == listen.ip() || listen.ip().is_unspecified() && named.ip().is_loopback())
}

/// Opens one store and checks it.
async fn open(context: &Context, name: String, uri: StoreUri) -> Result<Opened, Failure> {
    // A login acts as one user, but a gateway must act as each of its users.
    let kadoop = strait_store_kadoop::Options { login: None, ..context.kadoop() };
    let mut options = OpenOptions { kadoop, ..context.stores()? };
    if uri.scheme() == Scheme::Strait {
        options.strait = context.login_at(&uri);
        ask_now(&mut options.strait)?;
    }
    let opening = {
        let uri = uri.clone();
        move || -> futures::future::BoxFuture<'static, strait_store::Result<Arc<dyn FileSystem>>> {
            let (uri, options) = (uri.clone(), options.clone());
            Box::pin(async move {
                let fs = strait_store_any::open_root(&uri, &options).await?;
                fs.stat(&invoking_user(), &StorePath::root()).await?;
                Ok(fs)
            })
        }
    };
    let deferred = DeferredStore::begin(Box::new(opening));
    let away = match deferred.first_try(PATIENCE).await {
        Some(Ok(())) => None,
        Some(Err(error)) if is_passing(&error) => Some(error.message().to_owned()),
        Some(Err(error)) => return Err(Failure::at(error.kind(), "open store", &uri, error.message())),
        None => Some(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    let read_only = (uri.scheme() == Scheme::File).then(|| unwritable(&uri)).flatten();
    let fs: Arc<dyn FileSystem> = match deferred.now() {
        Ok(fs) => fs,
        Err(_) => {
            let deferred = Arc::new(deferred);
            tokio::spawn(tell(deferred.clone(), uri.to_string(), away.clone()));
            deferred
        }
    };
    let store = ConfiguredStore { name, uri: uri.to_string(), fs };
    Ok(Opened { store, away, read_only })
}

/// Logs each new reason why a store is unreachable, until it answers. `known` was reported already. Once the
/// operator has fixed that, another reason may appear, such as a key of another cluster.
async fn tell(deferred: Arc<DeferredStore>, store: String, known: Option<String>) {
    let mut told = known.unwrap_or_default();
    let failed = |error: &Error| {
        if told == error.message() {
            return;
        }
        told = error.message().to_owned();
        match is_passing(error) {
            true => tracing::warn!(store, "still unavailable: {told}"),
            false => tracing::error!(store, "can't open the store; retrying: {told}"),
        }
    };
    deferred.opened(failed).await;
    tracing::info!(store, "the store answers now");
}

/// Asks for the login's password now. Later the gateway would ask in the background, repeatedly, on a
/// terminal that may have become a log. A token kept by commands doesn't suffice, since it expires while the
/// gateway serves. This session's token isn't kept for commands, since its files belong to the gateway's
/// clients.
fn ask_now(login: &mut strait_client::Options) -> Result<(), Failure> {
    if let Some(ask) = login.password.take() {
        let password = ask()?;
        login.password = Some(Arc::new(move || Ok(password.clone())));
        login.token = None;
        login.always_send_password = false;
        login.on_token = None;
    }
    Ok(())
}

/// Whether waiting may solve the error.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
}

fn unwritable(uri: &StoreUri) -> Option<Error> {
    FileStore::open(uri.path().as_str(), false).and_then(|store| store.check_writable()).err()
}

/// Splits `NAME=URI`. In a URI without a name, a path may have a `=`.
fn split(flag: &str) -> (Option<&str>, &str) {
    match flag.split_once('=') {
        Some((name, uri)) if !name.contains(':') => (Some(name), uri),
        _ => (None, flag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_knows_its_own_address() {
        let listen = |address: &str| address.parse().unwrap();
        assert!(is_itself("127.0.0.1:9090", listen("127.0.0.1:9090")));
        assert!(is_itself("localhost:9090", listen("127.0.0.1:9090")));
        assert!(is_itself("127.0.0.1:9090", listen("0.0.0.0:9090")));
        assert!(is_itself("[::1]:9090", listen("[::1]:9090")));
        assert!(!is_itself("127.0.0.1:9091", listen("127.0.0.1:9090")));
        assert!(!is_itself("192.0.2.7:9090", listen("127.0.0.1:9090")));
        assert!(!is_itself("gateway.example:9090", listen("0.0.0.0:9090")));
    }

    #[test]
    fn a_store_may_have_a_name() {
        assert_eq!(split("lab=file:///srv/lab"), (Some("lab"), "file:///srv/lab"));
        assert_eq!(split("file:///srv/a=b"), (None, "file:///srv/a=b"));
        assert_eq!(split("hdfs://nn:8020"), (None, "hdfs://nn:8020"));
        assert_eq!(split("a/b=file:///srv"), (Some("a/b"), "file:///srv"));
        assert_eq!(split("=file:///srv"), (Some(""), "file:///srv"));
    }
}

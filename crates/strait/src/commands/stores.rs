//! The stores that a gateway serves: from flags to open ones.

use crate::context::{Context, invoking_user};
use crate::failure::Failure;
use std::time::Duration;
use strait_gateway::ConfiguredStore;
use strait_store::{ErrorKind, OpenOptions, Scheme, StorePath, StoreUri};

/// A store that doesn't answer within this time isn't there. Above the time in
/// which an HDFS client gives up on both namenodes of a pair.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens each `[NAME=]URI`, and asks each whether it is there: an operator
/// wants to know now, not from a user.
pub async fn open_all(context: &Context, flags: &[String]) -> Result<Vec<ConfiguredStore>, Failure> {
    let mut stores: Vec<ConfiguredStore> = Vec::new();
    for flag in flags {
        let (name, text) = named(flag);
        let uri = StoreUri::parse(text)?;
        let name = name.map_or_else(|| uri.scheme().to_string(), str::to_owned);
        if stores.iter().any(|store| store.name == name) {
            return Err(Failure::usage(format!("two stores are called {name}; name them: --store NAME=URI")));
        }
        stores.push(open(context, name, &uri, false).await?);
    }
    Ok(stores)
}

/// Opens one store and asks it whether it is there.
pub async fn open(
    context: &Context,
    name: String,
    uri: &StoreUri,
    create: bool,
) -> Result<ConfiguredStore, Failure> {
    let mut options = OpenOptions { create, ..OpenOptions::default() };
    if uri.scheme() == Scheme::Strait {
        options.strait = context.login_at(&uri.gateway());
    }
    let probe = async {
        let fs = uri.open_root(&options).await?;
        fs.stat(&invoking_user(), &StorePath::root()).await?;
        Ok(fs)
    };
    match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
        Ok(Ok(fs)) => Ok(ConfiguredStore { name, uri: uri.to_string(), fs }),
        Ok(Err(error)) => Err(store_failure(uri, error)),
        Err(_) => {
            let kind = ErrorKind::TimedOut;
            let seconds = PROBE_TIMEOUT.as_secs();
            Err(Failure::at(kind, "open store", uri, format!("no answer within {seconds} s")))
        }
    }
}

fn store_failure(uri: &StoreUri, error: strait_store::Error) -> Failure {
    Failure::at(error.kind(), "open store", uri, error.message())
}

/// `NAME=URI` in its halves; a URI alone may have a `=` in its path.
fn named(flag: &str) -> (Option<&str>, &str) {
    match flag.split_once('=') {
        Some((name, uri)) if !name.contains([':', '/']) => (Some(name), uri),
        _ => (None, flag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_may_have_a_name() {
        assert_eq!(named("lab=file:///srv/lab"), (Some("lab"), "file:///srv/lab"));
        assert_eq!(named("file:///srv/a=b"), (None, "file:///srv/a=b"));
        assert_eq!(named("hdfs://nn:8020"), (None, "hdfs://nn:8020"));
    }
}

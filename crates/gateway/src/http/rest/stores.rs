//! The stores of the gateway.

use super::failure::Failure;
use super::{Answer, Asked, reply};
use crate::config::ConfiguredStore;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

fn described(store: &ConfiguredStore, is_default: bool) -> Value {
    let flags = store.fs.capabilities().flags();
    let has: Vec<&str> = flags.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
    json!({"name": store.name, "uri": store.uri, "default": is_default, "capabilities": has})
}

/// All stores.
pub fn list(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    asked.who()?;
    asked.query()?.end()?;
    let stores = asked.front.shared.sessions.stores().iter().enumerate();
    let stores: Vec<Value> = stores.map(|(at, store)| described(store, at == 0)).collect();
    Ok(reply::json(StatusCode::OK, &json!({"stores": stores})))
}

/// One store, and its capacity.
pub async fn status(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let who = asked.who()?;
    asked.query()?.end()?;
    let name = strait_web::path(asked.rest)?;
    let name = String::from_utf8_lossy(&name);
    let sessions = &asked.front.shared.sessions;
    let name = name.trim_start_matches('/');
    let store = sessions.store_named(Some(name))?;
    let found = store.fs.status(&who).await?;
    let is_default = sessions.stores().first().is_some_and(|first| first.name == store.name);
    let mut value = described(&store, is_default);
    value["capacity"] = found.capacity.into();
    value["used"] = found.used.into();
    value["remaining"] = found.remaining.into();
    value["settling"] = found.settling.into();
    Ok(reply::json(StatusCode::OK, &value))
}

//! Logins: a session's token stands for its user, as in DfsV2.

use super::failure::Failure;
use super::json::Login;
use super::{Answer, Asked, reply};
use crate::session::{Identity, Session};
use crate::turns;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use strait_store::{Error, ErrorKind};

/// Logs in, or renews the token of the request's session.
pub async fn open(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    asked.query()?.end()?;
    let Login { user, password } = asked.json().await?;
    let sessions = asked.front.shared.sessions.clone();
    let (context, from) = (&asked.context.0, asked.front.peer.origin());
    let default = || sessions.store_named(None);
    let session = match (user, password, context.attached()) {
        (Some(user), Some(password), _) => {
            let login = context.log_in(user.as_bytes(), &password).await?;
            sessions.open(default()?, Identity::User(login), from)?
        }
        (None, None, Some(session)) => session,
        (None, None, None) => {
            let stranger = sessions.stranger(&asked.front.peer);
            stranger.principal()?;
            sessions.open(default()?, stranger, from)?
        }
        (Some(_), None, _) | (None, Some(_), _) => {
            let message = "a login needs both a user and a password";
            return Err(Error::new(ErrorKind::Unauthenticated, message).into());
        }
    };
    let (token, expires_ms) = sessions.token(&session);
    let mut response = reply::json(
        StatusCode::CREATED,
        &json!({
            "token": token,
            "token_type": "Bearer",
            "expires_ms": expires_ms,
            "user": user_of(&session)?,
        }),
    );
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/v1/sessions/current"));
    context.attach(Some(session));
    Ok(response)
}

fn user_of(session: &Session) -> Result<String, Error> {
    session.principal().map(|principal| principal.user.to_string())
}

fn own(asked: &Asked<'_>) -> Result<Arc<Session>, Failure> {
    asked.query()?.end()?;
    let message =
        "no session; log in by POST to /v1/sessions, and send its token: Authorization: Bearer TOKEN";
    asked.context.0.attached().ok_or_else(|| Error::new(ErrorKind::Unauthenticated, message).into())
}

/// The session of the request's token.
pub fn current(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let session = own(asked)?;
    Ok(reply::json(StatusCode::OK, &json!({"user": user_of(&session)?})))
}

/// Ends the session. Its tokens are no longer valid.
pub async fn close(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let session = own(asked)?;
    asked.front.shared.sessions.close(&session);
    asked.context.0.attach(None);
    turns::to_its_end(async move { session.close_files().await }).await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

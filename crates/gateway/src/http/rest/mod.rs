//! REST: a small JSON interface to the file system, described by `idl/openapi.json`.
//!
//! ```text
//!   target ─→ Operation ─→ files (GET, DELETE)     ─→ Download
//!   (ROUTES)               upload (PUT, PATCH)     ─→ a task that writes piece by piece
//!                          tree (status, listings, names)
//!                          sessions (logins), stores
//!   Failure ←─ any of them: status and kind from the one error table
//! ```
//!
//! A request stands alone: it names its store and its path, and leaves no handle behind. Only a
//! listing with more pages stays open, in a session.

mod failure;
mod files;
mod json;
mod reply;
mod sessions;
mod stores;
mod tree;
mod upload;

use super::answer::Answer;
use super::inflow::{Inflow, Receiving};
use super::refused::Refusal;
use super::{Front, OfRequest, Sender, guarded, unknown};
use crate::pool::{Grant, Key};
use bytes::Bytes;
use failure::Failure;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Instant;
use strait_store::{Error, ErrorKind, FileSystem, Principal, StorePath, encoding, store_and_path};
use strait_telemetry::RequestId;
use strait_web::{Conditions, Fields, Query};

/// The description of this interface, which the gateway serves.
const DESCRIPTION: &str = include_str!("../../../../../idl/openapi.json");
/// Stands for a path in a route's template.
const PATH: &str = "{path}";
/// The query's parameter that can name the path in place of the target. A client that is generated from the
/// description encodes slashes in a target, but may write a query as it likes.
const PATH_PARAMETER: &str = "path";
/// Largest JSON body. A rename has two paths of at most 8,000 bytes each, and JSON's escapes can triple
/// text that isn't ASCII.
const JSON_BYTES: usize = 64 << 10;

/// The meaning of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    ReadFile,
    WriteFile,
    AppendFile,
    RemoveFile,
    GetStatus,
    SetStatus,
    ListDirectory,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    GetChecksum,
    GetLocations,
    ListStores,
    GetStore,
    OpenSession,
    GetSession,
    CloseSession,
    Describe,
}

impl Operation {
    /// Whether a request has a body.
    fn has_body(self) -> bool {
        use Operation::{AppendFile, OpenSession, Rename, SetStatus, WriteFile};
        matches!(self, AppendFile | OpenSession | Rename | SetStatus | WriteFile)
    }
}

/// All requests: the operation, its method, its target, its name in metrics.
const ROUTES: &[(Operation, &str, &str, &str)] = &[
    (Operation::ReadFile, "GET", "/v1/files/{path}", "GET files"),
    (Operation::ReadFile, "HEAD", "/v1/files/{path}", "HEAD files"),
    (Operation::WriteFile, "PUT", "/v1/files/{path}", "PUT files"),
    (Operation::AppendFile, "PATCH", "/v1/files/{path}", "PATCH files"),
    (Operation::RemoveFile, "DELETE", "/v1/files/{path}", "DELETE files"),
    (Operation::GetStatus, "GET", "/v1/status/{path}", "GET status"),
    (Operation::SetStatus, "PATCH", "/v1/status/{path}", "PATCH status"),
    (Operation::ListDirectory, "GET", "/v1/directories/{path}", "GET directories"),
    (Operation::MakeDirectory, "PUT", "/v1/directories/{path}", "PUT directories"),
    (Operation::RemoveDirectory, "DELETE", "/v1/directories/{path}", "DELETE directories"),
    (Operation::Rename, "POST", "/v1/renames", "POST renames"),
    (Operation::GetChecksum, "GET", "/v1/checksums/{path}", "GET checksums"),
    (Operation::GetLocations, "GET", "/v1/locations/{path}", "GET locations"),
    (Operation::ListStores, "GET", "/v1/stores", "GET stores"),
    (Operation::GetStore, "GET", "/v1/stores/{path}", "GET store"),
    (Operation::OpenSession, "POST", "/v1/sessions", "POST sessions"),
    (Operation::GetSession, "GET", "/v1/sessions/current", "GET session"),
    (Operation::CloseSession, "DELETE", "/v1/sessions/current", "DELETE session"),
    (Operation::Describe, "GET", "/openapi.json", "GET openapi"),
];

/// The names of all operations in metrics, in the order of their routes.
pub fn operations() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|(_, _, _, name)| *name)
}

/// The part of a target that stands for the template's `{path}`. None if the target doesn't fit the
/// template.
fn rest<'a>(template: &str, target: &'a str) -> Option<&'a str> {
    match template.strip_suffix(PATH) {
        Some(before) => {
            let rest = target.strip_prefix(before.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        }
        None => (template == target).then_some(""),
    }
}

/// The methods that a target allows; none for an unknown target.
pub fn methods(target: &str) -> Option<String> {
    let mut methods: Vec<&str> = found(target).map(|(_, (_, method, ..), _)| *method).collect();
    if let Some(get) = methods.iter().position(|method| *method == "GET")
        && !methods.contains(&"HEAD")
    {
        methods.insert(get + 1, "HEAD");
    }
    methods.push("OPTIONS");
    (methods.len() > 1).then(|| methods.join(", "))
}

/// The route of a request. HEAD without a route of its own is GET, whose body hyper leaves out.
fn route<'a>(target: &'a str, method: &Method) -> Option<(usize, &'static Route, &'a str)> {
    let of = |method: &Method| found(target).find(|(_, (_, known, ..), _)| *known == method.as_str());
    of(method).or_else(|| if method == Method::HEAD { of(&Method::GET) } else { None })
}

type Route = (Operation, &'static str, &'static str, &'static str);

/// The routes of a target. A template without a path comes before one that has a path.
fn found(target: &str) -> impl Iterator<Item = (usize, &'static Route, &str)> {
    let exact = ROUTES.iter().any(|(_, _, template, _)| *template == target);
    ROUTES.iter().enumerate().filter_map(move |(at, route)| {
        let rest = rest(route.2, target).filter(|_| !exact || route.2 == target)?;
        Some((at, route, rest))
    })
}

/// Answers a request to one of [`ROUTES`].
pub async fn answer(front: &Arc<Front>, head: &Parts, mut body: Incoming) -> Response<Answer> {
    let target = head.uri.path();
    let answered = match route(target, &head.method) {
        Some((at, route, rest)) => {
            let began = Instant::now();
            let answered = serve(front, head, &mut body, route, rest).await;
            let at = strait_wire::Call::METHODS.len() + at;
            let failed = answered.as_ref().is_err_and(|failure| !failure.status.is_redirection());
            front
                .shared
                .calls
                .note(at, began.elapsed(), failed, front.peer.address, || format!("{target:?}"));
            answered
        }
        None => {
            let Some(allowed) = methods(target) else { return unknown() };
            let message = format!("this resource allows only {allowed}");
            let failure = Error::new(ErrorKind::Unsupported, message);
            Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, failure).with(header::ALLOW, &allowed))
        }
    };
    let mut response = answered.unwrap_or_else(Failure::response);
    // Otherwise hyper would take the rest of the body for the next request, and a body without a length
    // for one, too.
    if !body.is_end_stream() || response.status() == StatusCode::LENGTH_REQUIRED {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn serve(
    front: &Arc<Front>,
    head: &Parts,
    body: &mut Incoming,
    &(operation, _, template, _): &Route,
    rest: &str,
) -> Result<Response<Answer>, Failure> {
    if operation == Operation::Describe {
        return Ok(reply::described(DESCRIPTION));
    }
    if operation.has_body() {
        Front::demand_length(head)?;
    }
    let Sender { context, key, known } = front.sender(&head.headers)?;
    if !known {
        front.keep_pace().await;
    }
    let id = RequestId::next();
    let takes_path = template.ends_with(PATH) && rest.is_empty();
    let mut asked = Asked { front, head, body, rest, takes_path, context, key: key.clone(), id };
    // `done` takes the outcome, since `guarded` returns an error that can't carry a failure's own status.
    let mut done = None;
    let work = async {
        done = Some(asked.done(operation).await);
        Ok(())
    };
    front.in_turns(&key, guarded(key.clone(), id, work)).await?;
    done.unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "the request has no answer").into()))
}

/// One request.
struct Asked<'a> {
    front: &'a Arc<Front>,
    head: &'a Parts,
    body: &'a mut Incoming,
    /// The target's path, encoded.
    rest: &'a str,
    /// The target has no path, so the query may have it.
    takes_path: bool,
    context: Arc<OfRequest>,
    key: Key,
    id: RequestId,
}

/// A path in a store, and the user who asks for it.
#[derive(Clone)]
struct Place {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    /// The store's name.
    store: String,
    /// The path as the client named it, with the store.
    shown: String,
    /// The target ended with a slash.
    is_directory: bool,
}

impl Place {
    /// Another path of the same store.
    fn at(&self, path: &StorePath) -> Self {
        Self { path: path.clone(), ..self.clone() }
    }
}

impl Asked<'_> {
    async fn done(&mut self, operation: Operation) -> Result<Response<Answer>, Failure> {
        match operation {
            Operation::ReadFile => files::read(self).await,
            Operation::WriteFile => upload::write(self).await,
            Operation::AppendFile => upload::append(self).await,
            Operation::RemoveFile => files::remove(self).await,
            Operation::GetStatus => tree::status(self).await,
            Operation::SetStatus => tree::set_status(self).await,
            Operation::ListDirectory => tree::list(self).await,
            Operation::MakeDirectory => tree::make_directory(self).await,
            Operation::RemoveDirectory => tree::remove_directory(self).await,
            Operation::Rename => tree::rename(self).await,
            Operation::GetChecksum => tree::checksum(self).await,
            Operation::GetLocations => tree::locations(self).await,
            Operation::ListStores => stores::list(self),
            Operation::GetStore => stores::status(self).await,
            Operation::OpenSession => sessions::open(self).await,
            Operation::GetSession => sessions::current(self),
            Operation::CloseSession => sessions::close(self).await,
            Operation::Describe => Ok(reply::described(DESCRIPTION)),
        }
    }

    /// The user for whom the request acts.
    fn who(&self) -> Result<Principal, Failure> {
        match self.context.0.attached() {
            Some(session) => Ok(session.principal()?),
            None => Ok(self.front.shared.sessions.stranger(&self.front.peer).principal()?),
        }
    }

    /// The place that the target names. Checks the login first, so that a client without one learns
    /// nothing.
    fn place(&self) -> Result<Place, Failure> {
        let who = self.who()?;
        if self.takes_path
            && let Some(path) = Query::parse(self.head.uri.query())?.take(PATH_PARAMETER)
        {
            if !path.starts_with('/') {
                let message = format!("the query's {PATH_PARAMETER} must begin with a slash");
                return Err(Error::new(ErrorKind::InvalidArgument, message).into());
            }
            return self.place_of(who, &path);
        }
        let bytes = strait_web::path(self.rest)?;
        // A name that isn't UTF-8 is encoded as text, in the form that stores accept.
        let text = String::from_utf8(bytes);
        let text = text.unwrap_or_else(|bytes| encoding::encode(bytes.as_bytes()).into_owned());
        self.place_of(who, &text)
    }

    /// The place that a path in a body names.
    fn place_of(&self, who: Principal, text: &str) -> Result<Place, Failure> {
        let (store, inner) = store_and_path(text)?;
        let store = self.front.shared.sessions.store_named(store.as_deref())?;
        let path = if inner.is_empty() { StorePath::root() } else { StorePath::parse(&inner)? };
        let is_directory = text.ends_with('/') && !path.is_root();
        let (fs, store, shown) = (store.fs, store.name, text.to_owned());
        Ok(Place { fs, who, path, store, shown, is_directory })
    }

    /// The place that the target names, for a file.
    fn file(&self) -> Result<Place, Failure> {
        let place = self.place()?;
        match place.is_directory {
            true => {
                let message = "a file's path doesn't end with a slash; see /v1/directories for directories";
                Err(Error::new(ErrorKind::InvalidArgument, message).at("open", place.shown).into())
            }
            false => Ok(place),
        }
    }

    /// The query's parameters, without the path. After the last one, call [`Query::end`].
    fn query(&self) -> Result<Query, Failure> {
        let mut query = Query::parse(self.head.uri.query())?;
        if self.takes_path {
            query.take(PATH_PARAMETER);
        }
        Ok(query)
    }

    /// A field's value. Two values of one field contradict each other.
    fn field(&self, name: HeaderName) -> Result<Option<&str>, Failure> {
        let mut values = self.head.headers.get_all(&name).iter();
        let first = values.next().map(|value| value.to_str());
        match (first, values.next()) {
            (None, _) => Ok(None),
            (Some(Ok(value)), None) => Ok(Some(value)),
            _ => {
                let message = format!("{name} was sent twice, or isn't text");
                Err(Error::new(ErrorKind::InvalidArgument, message).into())
            }
        }
    }

    /// The values of a field that may come in several lines, as one list (RFC 9110, section 5.3).
    fn list(&self, name: HeaderName) -> Result<Option<String>, Failure> {
        let values = self.head.headers.get_all(&name).iter().map(HeaderValue::to_str);
        let values: Vec<&str> = values.collect::<Result<_, _>>().map_err(|_| {
            Failure::from(Error::new(ErrorKind::InvalidArgument, format!("{name} isn't text")))
        })?;
        Ok((!values.is_empty()).then(|| values.join(", ")))
    }

    /// A date that comes twice is none, and is ignored as an invalid one is.
    fn conditions(&self) -> Result<Conditions, Failure> {
        Ok(Conditions::parse(&Fields {
            if_match: self.list(header::IF_MATCH)?.as_deref(),
            if_none_match: self.list(header::IF_NONE_MATCH)?.as_deref(),
            if_modified_since: self.list(header::IF_MODIFIED_SINCE)?.as_deref(),
            if_unmodified_since: self.list(header::IF_UNMODIFIED_SINCE)?.as_deref(),
            if_range: self.list(header::IF_RANGE)?.as_deref(),
        })?)
    }

    /// A place among the changes that run in a store.
    fn begin_change(&self, place: &Place) -> Result<Grant, Failure> {
        Ok(self.front.shared.sessions.begin_change(&place.store, &self.key)?)
    }

    /// The body's media type without parameters, in lower case. Empty if there is none.
    fn media_type(&self) -> Result<String, Failure> {
        let kind = self.field(header::CONTENT_TYPE)?.unwrap_or_default();
        Ok(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// The body is taken as it stands.
    fn demand_no_encoding(&self) -> Result<(), Failure> {
        let encoding = self.field(header::CONTENT_ENCODING)?.unwrap_or("identity");
        match encoding.trim().eq_ignore_ascii_case("identity") {
            true => Ok(()),
            false => {
                let message = "Content-Encoding isn't supported; send the bytes as they are";
                let error = Error::new(ErrorKind::InvalidArgument, message);
                Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
            }
        }
    }

    /// A JSON body; an empty one is an object without members.
    async fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Failure> {
        self.demand_no_encoding()?;
        let kind = self.media_type()?;
        let is_json = kind == "application/json" || kind == "application/merge-patch+json";
        let demand_json = |has_body: bool| match is_json || !has_body {
            true => Ok(()),
            false => {
                let message = "the Content-Type must be application/json";
                let error = Error::new(ErrorKind::InvalidArgument, message);
                Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
            }
        };
        demand_json(self.body.size_hint().lower() > 0)?;
        let too_large = || {
            let error = Error::new(ErrorKind::InvalidArgument, "the JSON body has more than 64 KiB");
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, error)
        };
        if self.body.size_hint().lower() > JSON_BYTES as u64 {
            return Err(too_large());
        }
        let announced = self.body.size_hint().upper().map_or(JSON_BYTES, |bytes| bytes as usize);
        // For the text, and for the values parsed from it.
        let memory = self.front.memory(2 * announced.min(JSON_BYTES)).await;
        let (flow, holder) = {
            let account = self.front.account();
            (account.flow().clone(), account.holder().clone())
        };
        let receiving = Receiving::new(flow, holder, Receiving::units(memory.as_ref()));
        let mut inflow = Inflow::new(self.body, &self.front.shared.limits);
        let body: Bytes = inflow.piece(JSON_BYTES + 1).await?;
        inflow.check()?;
        drop(receiving);
        if body.len() > JSON_BYTES {
            return Err(too_large());
        }
        // Only now it is known whether a chunked body is empty.
        demand_json(!body.is_empty())?;
        let body = if body.iter().all(u8::is_ascii_whitespace) { &b"{}"[..] } else { &body };
        let unexpected = |why: &dyn std::fmt::Display| {
            let message = format!("the body isn't the JSON that is expected here: {why}");
            Failure::from(Error::new(ErrorKind::InvalidArgument, message))
        };
        // serde also accepts an array as a struct, by the order of its fields.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(unexpected(&"it isn't an object"));
        }
        // serde_json bounds the depth itself.
        serde_json::from_slice(body).map_err(|error| unexpected(&error))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status, Error::new(refusal.kind, refusal.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_target_has_the_methods_of_its_routes() {
        let methods = |target| methods(target).unwrap_or_default();
        assert_eq!(methods("/v1/files/a/b"), "GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
        assert_eq!(methods("/v1/directories"), "GET, HEAD, PUT, DELETE, OPTIONS");
        assert_eq!(methods("/v1/stores"), "GET, HEAD, OPTIONS");
        assert_eq!(methods("/v1/renames"), "POST, OPTIONS");
        for unknown in ["/", "/v1", "/v1/filesystem/a", "/v1/files2", "/v2/files/a", "/v1/renames/x"] {
            assert_eq!(methods(unknown), "", "{unknown}");
        }
    }

    #[test]
    fn the_description_has_each_route_and_no_other() {
        let described: serde_json::Value = serde_json::from_str(DESCRIPTION).unwrap();
        let mut found = BTreeSet::new();
        for (path, methods) in described["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                found.insert((method.to_uppercase(), path.replace("{store}", PATH)));
            }
        }
        // Paths are in the query there.
        let described = |path: &'static str| match path {
            "/v1/stores/{path}" => path,
            path => path.strip_suffix("/{path}").unwrap_or(path),
        };
        let served =
            ROUTES.iter().map(|(_, method, path, _)| ((*method).to_owned(), described(path).to_owned()));
        assert_eq!(found, served.collect());
    }
}

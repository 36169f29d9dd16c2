//! HTTP for crate object_store, on the workspace's hyper and rustls. Every wait for an endpoint is limited.

use crate::azure::SharedKey;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue, SERVER};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Name resolution, connection and TLS handshake together.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit from the start of a request until the answer's headers, including the connection. At 9 Mbit/s,
/// a part of 16 MiB can be sent in this time.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(15);
/// Longest silence within an answer.
const SILENCE: Duration = Duration::from_secs(15);
/// Longest answer: the largest piece that this crate requests. A page of 1,000 keys has at most 7 MiB.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Longest name of a server that is kept.
const MAX_SERVER_CHARACTERS: usize = 100;
/// Idle connections are closed after this time, before servers close them (AWS: 20 s).
const IDLE: Duration = Duration::from_secs(15);
/// Idle connections kept for each endpoint: as many as the calls of one user need at once.
const IDLE_CONNECTIONS: usize = 64;

tokio::task_local! {
    static CHANGE: Arc<Change>;
}

/// A header that makes a request conditional.
pub type Condition = (HeaderName, HeaderValue);

/// A change that may fail when it is repeated, because an earlier attempt succeeded.
struct Change {
    condition: Option<Condition>,
    lost: AtomicBool,
}

/// Runs the requests of a change, and adds `condition` to them, for which object_store has no parameter.
///
/// Also returns whether an answer got lost: object_store retries requests, and returns only the last answer.
pub async fn change<T>(condition: Option<Condition>, requests: impl Future<Output = T>) -> (T, bool) {
    let change = Arc::new(Change { condition, lost: AtomicBool::new(false) });
    let outcome = CHANGE.scope(change.clone(), requests).await;
    (outcome, change.lost.load(Ordering::Relaxed))
}

/// Makes the clients for object_store.
#[derive(Debug)]
pub struct Connector {
    /// If given, only these certificate authorities are trusted, instead of the system's.
    pub roots: Option<RootCertStore>,
    /// The header `Server` of the first answer, for people.
    pub server: Arc<OnceLock<String>>,
    /// Azure's key, to sign a request again after a condition was added: the signature covers conditions.
    pub key: Option<Arc<SharedKey>>,
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let connect = Connect { tls: TlsConnector::from(Arc::new(tls(self.roots.clone()))) };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connect);
        Ok(HttpClient::new(Service { client, server: self.server.clone(), key: self.key.clone() }))
    }
}

fn tls(roots: Option<RootCertStore>) -> ClientConfig {
    let roots = roots.unwrap_or_else(|| {
        let mut system = RootCertStore::empty();
        system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        system
    });
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[derive(Debug)]
struct Service {
    client: Client<Connect, HttpRequestBody>,
    server: Arc<OnceLock<String>>,
    key: Option<Arc<SharedKey>>,
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let change = CHANGE.try_with(Clone::clone).ok();
        if let Some((name, value)) = change.as_ref().and_then(|change| change.condition.clone()) {
            parts.headers.insert(name, value);
            if let Some(key) = &self.key {
                key.sign(&mut parts);
            }
        }
        let answer = timeout(ANSWER_PATIENCE, self.client.request(Request::from_parts(parts, body)));
        let answer = match answer.await {
            Err(_) => Err(silent(ANSWER_PATIENCE)),
            Ok(answer) => answer.map_err(kind_of),
        };
        if let Some(change) = change
            && leaves_open(&answer)
        {
            change.lost.store(true, Ordering::Relaxed);
        }
        let (parts, body) = answer?.into_parts();
        if self.server.get().is_none()
            && let Some(name) = parts.headers.get(SERVER).and_then(|name| name.to_str().ok())
        {
            let _ = self.server.set(name.chars().take(MAX_SERVER_CHARACTERS).collect());
        }
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(Watched { body, silence: None, bytes: 0 })))
    }
}

/// Whether the endpoint may have executed a request that failed. 503 and 429 say that it didn't.
fn leaves_open(answer: &Result<Response<Incoming>, HttpError>) -> bool {
    match answer {
        Ok(answer) => matches!(
            answer.status(),
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT
        ),
        Err(error) => error.kind() != HttpErrorKind::Connect,
    }
}

fn silent(patience: Duration) -> HttpError {
    let why = format!("the endpoint doesn't answer within {} s", patience.as_secs());
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, why))
}

/// Tells object_store which requests it can retry.
fn kind_of(error: hyper_util::client::legacy::Error) -> HttpError {
    let mut kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Unknown };
    let mut cause = error.source();
    while let (HttpErrorKind::Unknown, Some(inner)) = (kind, cause) {
        if let Some(inner) = inner.downcast_ref::<hyper::Error>()
            && (inner.is_incomplete_message() || inner.is_closed() || inner.is_canceled())
        {
            kind = HttpErrorKind::Interrupted;
        }
        if inner.downcast_ref::<io::Error>().is_some() {
            kind = HttpErrorKind::Interrupted;
        }
        cause = inner.source();
    }
    HttpError::new(kind, error)
}

/// An answer's body, which fails after a long silence, and if it is too long.
struct Watched {
    body: Incoming,
    silence: Option<Pin<Box<Sleep>>>,
    bytes: usize,
}

impl Body for Watched {
    type Data = bytes::Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.silence = None;
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            self.bytes += data.map_or(0, bytes::Bytes::len);
            if self.bytes > MAX_ANSWER_BYTES {
                let why = format!("the endpoint's answer has more than {} MiB", MAX_ANSWER_BYTES >> 20);
                let error = HttpError::new(HttpErrorKind::Decode, io::Error::other(why));
                return Poll::Ready(Some(Err(error)));
            }
            let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
        }
        ready!(self.silence.get_or_insert_with(|| Box::pin(sleep(SILENCE))).as_mut().poll(context));
        Poll::Ready(Some(Err(silent(SILENCE))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// Connects by TCP, and for https by TLS.
#[derive(Clone)]
struct Connect {
    tls: TlsConnector,
}

impl tower_service::Service<Uri> for Connect {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let connected = timeout(CONNECT_PATIENCE, connect(tls, &uri)).await;
            connected.unwrap_or_else(|_| {
                let why = format!("no connection within {} s", CONNECT_PATIENCE.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            })
        })
    }
}

async fn connect(tls: TlsConnector, uri: &Uri) -> io::Result<Stream> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_tls = uri.scheme_str() != Some("http");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("connect to {host}:{port}: {error}")))?;
    stream.set_nodelay(true)?;
    if !is_tls {
        return Ok(Stream::Plain(TokioIo::new(stream)));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Stream::Tls(Box::new(TokioIo::new(tls.connect(name, stream).await?))))
}

/// A connection with or without TLS.
enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, from),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, from),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, from),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, from),
        }
    }

    /// Otherwise hyper copies each part to a buffer, which the connection keeps while it is idle.
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_part_is_sent_from_its_own_memory() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let stream = connect(TlsConnector::from(Arc::new(tls(None))), &uri).await.unwrap();
        assert!(stream.is_write_vectored(), "hyper copies the bodies of requests");
    }
}

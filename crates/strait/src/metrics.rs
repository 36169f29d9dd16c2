//! `--metrics ADDR`: a server's metrics, in Prometheus' format.

use crate::failure::Failure;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use strait_telemetry::Page;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Path of the page. Other paths get status 404.
const PATH: &str = "/metrics";
/// Largest number of open connections. A further connection replaces the oldest.
const CONNECTIONS: usize = 64;
/// A connection keeps its place at least this long; an answer takes milliseconds. So clients that reconnect
/// at once get at most 256 places a second. Behind 200 such clients, another client waits less than a second,
/// and then gets its answer.
const SECURE: Duration = Duration::from_millis(250);
/// Time limit for a client's request. Collectors send it at once.
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for a connection, including the client's time to read the page. Prometheus times out after 10
/// s, too (`scrape_timeout`).
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failed accept, so that a lack of descriptors isn't a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes the metrics to a page. May block its thread.
pub type Write = Arc<dyn Fn(&mut Page) + Send + Sync>;

/// Serves the page until this is dropped.
pub struct Metrics {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Metrics {
    /// Listens on the flag's address, if there is one.
    pub async fn serve(listen: Option<SocketAddr>, write: Write) -> Result<Option<Self>, Failure> {
        let Some(listen) = listen else { return Ok(None) };
        let bound = async {
            let listener = TcpListener::bind(listen).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound.await.map_err(|error| Failure::listening(error, listen, "--metrics"))?;
        Ok(Some(Self { address, serving: tokio::spawn(accept(listener, write)) }))
    }

    /// The page's URL.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, write: Write) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.have_room().await;
                connections.add(answer(stream, Arc::clone(&write)));
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection to the metrics port");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The open connections, oldest first. They end when this is dropped.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    begun: Instant,
    serving: JoinHandle<()>,
}

impl Connections {
    /// If all places are taken, waits until the oldest connection has had [`SECURE`], and ends it.
    async fn have_room(&mut self) {
        self.0.retain(|connection| !connection.serving.is_finished());
        if self.0.len() < CONNECTIONS {
            return;
        }
        if let Some(Connection { begun, serving }) = self.0.front_mut() {
            let _ = tokio::time::timeout_at(*begun + SECURE, &mut *serving).await;
            serving.abort();
            self.0.pop_front();
        }
    }

    fn add(&mut self, answer: impl Future<Output = hyper::Result<()>> + Send + 'static) {
        let serving = tokio::spawn(async move {
            // An error of a client that left doesn't matter.
            let _ = tokio::time::timeout(PATIENCE, answer).await;
        });
        self.0.push_back(Connection { begun: Instant::now(), serving });
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.0.iter().for_each(|connection| connection.serving.abort());
    }
}

async fn answer(stream: TcpStream, write: Write) -> hyper::Result<()> {
    let page = service_fn(move |request: Request<Incoming>| {
        let write = Arc::clone(&write);
        async move { Ok::<_, Infallible>(respond(request.method(), request.uri().path(), write).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), page)
        .await
}

async fn respond(method: &Method, path: &str, write: Write) -> Response<String> {
    let mut response = Response::new(String::new());
    if path != PATH {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = format!("the only page is {PATH}\n");
    } else if method != Method::GET && method != Method::HEAD {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    } else {
        let written = tokio::task::spawn_blocking(move || {
            let mut page = Page::default();
            write(&mut page);
            page.to_string()
        });
        match written.await {
            Ok(text) => *response.body_mut() = text,
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Page::CONTENT_TYPE));
    }
    response
}

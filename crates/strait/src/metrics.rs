//! `--metrics ADDR`: what a server has counted, for Prometheus and whoever reads its format.

use crate::failure::Failure;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use strait_telemetry::Page;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Where the page is; everything else isn't there.
const PATH: &str = "/metrics";
/// Readers at a time: a few servers that collect, and somebody who looks. Others wait.
const READERS: usize = 8;
/// A reader has so long for one page, from connecting to having it.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failed accept, so that being out of descriptors isn't a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes down what was counted. May block.
pub type Write = Arc<dyn Fn(&mut Page) + Send + Sync>;

/// Serves the page until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Metrics {
    /// Listens where the flag says, if it was given.
    pub async fn serve(listen: Option<SocketAddr>, write: Write) -> Result<Option<Self>, Failure> {
        let Some(listen) = listen else { return Ok(None) };
        let bound = async {
            let listener = TcpListener::bind(listen).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let failed = |error: std::io::Error| {
            Failure::other(format!("--metrics {listen}: can't listen there: {error}"))
        };
        let (listener, address) = bound.await.map_err(failed)?;
        Ok(Some(Self { address, serving: tokio::spawn(accept(listener, write)) }))
    }

    /// Where the page is.
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
    let places = Arc::new(Semaphore::new(READERS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let write = Arc::clone(&write);
                tokio::spawn(async move {
                    // Who gives up is no news.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, write)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a reader of metrics couldn't be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, write: Write) -> hyper::Result<()> {
    let page = service_fn(move |request: Request<Incoming>| {
        let write = Arc::clone(&write);
        async move { Ok::<_, Infallible>(respond(request.method(), request.uri().path(), write).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), page)
        .await
}

async fn respond(method: &Method, path: &str, write: Write) -> Response<String> {
    let mut response = Response::new(String::new());
    if path != PATH {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = format!("there is {PATH} alone\n");
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

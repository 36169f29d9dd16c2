//! Rungs of the ladder: a server each, so that its processor time and memory are the rung's, and clients that
//! wait for orders.

use super::caller::Measured;
use crate::Result;
use crate::ordered::Ordered;
use crate::rpc;
use std::any::Any;
use std::time::Duration;

/// Ways to call, by their names in the tables.
pub const SOAP: &str = "SOAP";
pub const REST: &str = "REST";
pub const JSON_HTTP: &str = "Thrift JSON over HTTP";
pub const JSON_TCP: &str = "Thrift JSON over TCP";
pub const BINARY: &str = "Thrift binary over TCP";
pub const COMPACT: &str = "Thrift compact over TCP";
pub const REST_TLS: &str = "REST, TLS";
pub const BINARY_TLS: &str = "Thrift binary, TLS";

/// Servers, by their names in the tables.
pub const OURS: &str = "gateway";
pub const JAVA: &str = "Java";
pub const BARE: &str = "bare ping-pong";
pub const CPP: [&str; 2] = ["C++ threaded", "C++ nonblocking"];

/// The article's argument, and the name of the gateway's file.
pub const SYMBOL: &str = "CSCO";
/// Of references whose calls end by time: the first slice, which tells how long others take.
const FIRST_SLICE: Duration = Duration::from_millis(100);

/// The load on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One caller, by the Java library of the way.
    Java,
    /// So many callers of the light load generator, or of a reference's own library.
    Light(usize),
}

impl Load {
    /// Its name in the tables.
    pub fn name(self) -> String {
        match self {
            Self::Java => "Java's client".into(),
            Self::Light(1) => "one caller".into(),
            Self::Light(4) => "four callers".into(),
            Self::Light(callers) => format!("{callers} callers"),
        }
    }
}

/// A server and its clients.
pub struct Rung {
    /// The way to call.
    pub way: &'static str,
    /// The server's name.
    pub of: &'static str,
    /// The server's process.
    pub server: u32,
    /// Its clients.
    pub clients: Vec<Client>,
    /// Ends the server when dropped.
    pub _running: Box<dyn Any>,
}

/// A client that waits for orders.
pub enum Client {
    /// The Java library of the way.
    Java(Ordered),
    /// The light load generator.
    Light(Ordered),
    /// A client of bench/rpc, and seconds of a call in its last slice.
    Rpc(rpc::Client, f64),
}

impl Rung {
    /// Its name in the tables.
    pub fn name(&self) -> String {
        format!("{}: {}", self.of, self.way)
    }

    /// The process of its client for this load, if it has one.
    pub fn client(&self, load: Load) -> Option<u32> {
        self.clients.iter().find(|client| client.suits(load)).map(Client::id)
    }

    /// Makes so many calls.
    pub fn measure(&mut self, load: Load, calls: usize) -> Result<Measured> {
        let client = self.clients.iter_mut().find(|client| client.suits(load)).ok_or("no such client")?;
        client.measure(load, calls)
    }
}

impl Client {
    fn suits(&self, load: Load) -> bool {
        matches!((self, load), (Self::Java(_), Load::Java) | (Self::Light(_) | Self::Rpc(..), Load::Light(_)))
    }

    fn id(&self) -> u32 {
        match self {
            Self::Java(client) | Self::Light(client) => client.id(),
            Self::Rpc(client, _) => client.id(),
        }
    }

    fn measure(&mut self, load: Load, calls: usize) -> Result<Measured> {
        match (self, load) {
            (Self::Java(client), _) => Ok(serde_json::from_str(&client.obey(&calls.to_string())?)?),
            (Self::Light(client), Load::Light(callers)) => {
                Ok(serde_json::from_str(&client.obey(&format!("{callers} {calls}"))?)?)
            }
            (Self::Rpc(client, seconds), Load::Light(callers)) => {
                let duration =
                    FIRST_SLICE.mul_f64((*seconds * calls as f64 / FIRST_SLICE.as_secs_f64()).max(1.0));
                let slice = client.slice("tcp", SYMBOL.len(), callers, duration.as_millis() as usize, 0)?;
                *seconds = slice.seconds / slice.calls as f64;
                Ok(Measured { calls: slice.calls as usize, seconds: slice.seconds, p50_us: slice.p50_us })
            }
            (Self::Rpc(..) | Self::Light(_), Load::Java) => Err("no client in Java".into()),
        }
    }
}

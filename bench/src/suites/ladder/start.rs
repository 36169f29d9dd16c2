//! Starts the rungs: the article's five, a gateway's beside them, and references.

use super::caller::Exchange;
use super::programs::Programs;
use super::rungs::*;
use crate::Result;
use crate::host::Gateway;
use crate::ordered::Ordered;
use crate::programs::{LADDER_BARE, LADDER_CALLER};
use crate::rpc;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strait_testkit::{Authority, Identity, Process, free_port};
use strait_wire::{
    CloseFileRequest, CreateFileRequest, GetFileInfoRequest, Method, OpenSessionRequest, Protocol, Secret,
    Wire, methods,
};

/// A JVM with Tomcat takes seconds, and longer beside others.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// Content of Thrift over HTTP, as its libraries name it.
const THRIFT: &str = "application/x-thrift";
const BINARY_FRAMED: Wire = Wire { protocol: Protocol::Binary, framed: true };
const BINARY_UNFRAMED: Wire = Wire { protocol: Protocol::Binary, framed: false };
const COMPACT_FRAMED: Wire = Wire { protocol: Protocol::Compact, framed: true };
const JSON_UNFRAMED: Wire = Wire { protocol: Protocol::Json, framed: false };

/// A call of the article's service, as Thrift's messages.
const BINARY_CALL: &[u8] =
    b"\x80\x01\x00\x01\x00\x00\x00\x0dget_last_sale\x00\x00\x00\x01\x0b\x00\x01\x00\x00\x00\x04CSCO\x00";
const JSON_CALL: &[u8] = br#"[1,"get_last_sale",1,1,{"1":{"str":"CSCO"}}]"#;
/// The same as SOAP and REST have it.
const ENVELOPE: &[u8] = br#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><t:get_last_sale xmlns:t="urn:trade"><symbol>CSCO</symbol></t:get_last_sale></s:Body></s:Envelope>"#;
const TARGET: &str = "/tradehistory/get_last_sale?symbol=CSCO";

/// Starts all of them, with their files in `dir`.
pub fn start(dir: &Path) -> Result<Vec<Rung>> {
    let programs = Programs::build()?;
    let peers = rpc::Programs::build()?;
    let authority = Authority::new()?;
    let identity = authority.issue(dir)?;
    let starting = Starting { programs: &programs, dir, identity, authority: authority.write(dir)? };
    let (binary, exchange) =
        starting.gateway(BINARY, Form::Tcp(BINARY_FRAMED), false, Some("gateway-binary"))?;
    let mut rungs = vec![
        starting.java(SOAP, "soap", http("POST", "/soap", "text/xml", None, ENVELOPE))?,
        starting.java(REST, "rest", http("GET", TARGET, "", None, b""))?,
        starting.java(JSON_HTTP, "thrift-http", http("POST", "/", THRIFT, None, JSON_CALL))?,
        starting.java(JSON_TCP, "thrift-json", JSON_CALL.to_vec())?,
        starting.java(BINARY, "thrift-binary", BINARY_CALL.to_vec())?,
        starting.gateway(REST, Form::Rest, false, Some("gateway-rest"))?.0,
        starting.gateway(JSON_HTTP, Form::Http, false, Some("gateway-http"))?.0,
        starting.gateway(JSON_TCP, Form::Tcp(JSON_UNFRAMED), false, Some("gateway-json"))?.0,
        binary,
        starting.bare(&exchange)?,
        starting.gateway(COMPACT, Form::Tcp(COMPACT_FRAMED), false, None)?.0,
        starting.gateway(REST_TLS, Form::Rest, true, None)?.0,
        starting.gateway(BINARY_TLS, Form::Tcp(BINARY_FRAMED), true, None)?.0,
        starting.cpp(CPP[0], "threaded", BINARY_UNFRAMED)?,
        starting.cpp(CPP[1], "nonblocking", BINARY_FRAMED)?,
    ];
    for (of, system) in [("FlexRPC", rpc::OURS), ("gRPC, tonic", "tonic")] {
        let server = rpc::Server::start(&peers, system, rpc::Place::Anywhere, None)?;
        let client = rpc::Client::start(&peers, system, rpc::Place::Anywhere, None, &[server.address])?;
        let clients = vec![Client::Rpc(client, 0.0)];
        rungs.push(Rung {
            way: "an empty answer",
            of,
            server: server.id(),
            clients,
            _running: Box::new(server),
        });
    }
    Ok(rungs)
}

/// How a gateway is called.
enum Form {
    Rest,
    Http,
    Tcp(Wire),
}

struct Starting<'a> {
    programs: &'a Programs,
    dir: &'a Path,
    /// The gateways' certificate, and the authority that vouches for it.
    identity: Identity,
    authority: PathBuf,
}

impl Starting<'_> {
    /// A Java server of the article, and both clients.
    fn java(&self, way: &'static str, form: &str, request: Vec<u8>) -> Result<Rung> {
        let address = free_address();
        let mut command = self.programs.java("Server", self.dir);
        command.args([form, &address.port().to_string()]);
        let process = self.server(&format!("java-{form}"), command, address)?;
        let exchange = Exchange::learn(address, None, Vec::new(), request, SYMBOL)?;
        let clients = vec![self.java_client(form, address, None)?, light(&exchange)?];
        Ok(Rung { way, of: JAVA, server: process.id(), clients, _running: Box::new(process) })
    }

    fn java_client(&self, form: &str, address: SocketAddr, token: Option<&str>) -> Result<Client> {
        let mut command = self.programs.java("Client", self.dir);
        command.args([form, &address.port().to_string()]).args(token);
        Ok(Client::Java(Ordered::start(form, command)?))
    }

    /// A gateway over a store in memory, asked for the status of a file.
    fn gateway(
        &self,
        way: &'static str,
        form: Form,
        is_secret: bool,
        java: Option<&str>,
    ) -> Result<(Rung, Exchange)> {
        let [certificate, key] =
            [&self.identity.certificate, &self.identity.key].map(|file| file.display().to_string());
        // HTTP has no logins of this host.
        let mut arguments = vec!["--allow-anonymous"];
        if is_secret {
            arguments.extend(["--tls-cert", &certificate, "--tls-key", &key]);
        }
        let gateway = Gateway::start_with("memory:///", None, &arguments)?;
        let path = format!("/{SYMBOL}");
        let mut client = gateway.client();
        let create = CreateFileRequest { path: Some(path.clone()), ..Default::default() };
        let writer = client.v2::<methods::CreateFile>(create).map_err(|error| format!("{error:?}"))?;
        let close = CloseFileRequest { handle: writer.handle, ..Default::default() };
        client.v2::<methods::CloseFile>(close).map_err(|error| format!("{error:?}"))?;
        let Secret(token) = client.token.clone().ok_or("a session without a token")?;

        let asked = GetFileInfoRequest { path: Some(path.clone()), ..Default::default() };
        let (greeting, request) = match form {
            Form::Rest => (Vec::new(), http("GET", &format!("/v1/status{path}"), "", Some(&token), b"")),
            Form::Http => {
                let body = message::<methods::GetFileInfo>(JSON_UNFRAMED, &asked.into());
                (Vec::new(), http("POST", "/thrift", THRIFT, Some(&token), &body))
            }
            Form::Tcp(wire) => (
                message::<methods::OpenSession>(wire, &OpenSessionRequest::default().into()),
                message::<methods::GetFileInfo>(wire, &asked.into()),
            ),
        };
        let authority = is_secret.then_some(self.authority.as_path());
        let exchange = Exchange::learn(gateway.address, authority, greeting, request, SYMBOL)?;
        let mut clients = vec![light(&exchange)?];
        if let Some(form) = java {
            clients.push(self.java_client(form, gateway.address, Some(&token))?);
        }
        let server = gateway.id();
        let rung = Rung { way, of: OURS, server, clients, _running: Box::new(gateway) };
        Ok((rung, exchange))
    }

    /// A server of Thrift's C++ library with the gateway's interface.
    fn cpp(&self, of: &'static str, kind: &str, wire: Wire) -> Result<Rung> {
        let address = free_address();
        let mut command = self.programs.cpp();
        command.args([kind, &address.ip().to_string(), &address.port().to_string()]);
        let process = self.server(kind, command, address)?;
        let asked = GetFileInfoRequest { path: Some(format!("/{SYMBOL}")), ..Default::default() };
        let request = message::<methods::GetFileInfo>(wire, &asked.into());
        let exchange = Exchange::learn(address, None, Vec::new(), request, SYMBOL)?;
        let clients = vec![light(&exchange)?];
        Ok(Rung { way: BINARY, of, server: process.id(), clients, _running: Box::new(process) })
    }

    /// The bare limit: as many bytes there and back as in this exchange.
    fn bare(&self, like: &Exchange) -> Result<Rung> {
        let address = free_address();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(LADDER_BARE).arg(address.to_string());
        command.args([like.request.len(), like.answer_bytes].map(|bytes| bytes.to_string()));
        let process = self.server(LADDER_BARE, command, address)?;
        let exchange = Exchange::learn(address, None, Vec::new(), like.request.clone(), "")?;
        let clients = vec![light(&exchange)?];
        Ok(Rung {
            way: "as many bytes",
            of: BARE,
            server: process.id(),
            clients,
            _running: Box::new(process),
        })
    }

    fn server(&self, name: &str, command: Command, address: SocketAddr) -> Result<Process> {
        let mut process = Process::spawn(name, command, self.dir)?;
        process.wait_ready(START_DEADLINE, || TcpStream::connect(address).is_ok())?;
        Ok(process)
    }
}

fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A process of the light load generator.
fn light(exchange: &Exchange) -> Result<Client> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(LADDER_CALLER);
    let mut client = Ordered::start("the light load generator", command)?;
    client.obey(&serde_json::to_string(exchange)?)?;
    Ok(Client::Light(client))
}

/// A call of this method.
fn message<M: Method>(wire: Wire, arguments: &M::Args) -> Vec<u8> {
    M::call(wire, 1, arguments).to_bytes().to_vec()
}

/// A request of HTTP.
fn http(method: &str, target: &str, content: &str, token: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    if let Some(token) = token {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    if method == "POST" {
        head += &format!("Content-Type: {content}\r\nContent-Length: {}\r\n", body.len());
    }
    [(head + "\r\n").as_bytes(), body].concat()
}

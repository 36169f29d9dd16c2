//! RPC with TLS (RFC 9289): a caller asks by AUTH_TLS, and TLS begins on the same connection. In
//! some tests, the other side is OpenSSL, driven by Python.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use strait_flexrpc::{
    CallError, Client, ClientOptions, ClientTls, Doubt, Identity, Obstacle, Procedure, Refusal, Reply,
    Request, Server, ServerOptions, ServerTls, Transport, Trust, rpcbind_lookup_at,
};
use strait_testkit::Authority;
use tempfile::TempDir;

const PROGRAM: u32 = 0x2000_0099;
const IS_ENCRYPTED: Procedure = Procedure::new(PROGRAM, 1, 1);

struct Certified {
    _dir: TempDir,
    authority: PathBuf,
    identity: Identity,
}

impl Certified {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let authority = Authority::new().unwrap();
        let issued = authority.issue(dir.path()).unwrap();
        let identity = Identity { certificate: issued.certificate, key: issued.key };
        let authority = authority.write(dir.path()).unwrap();
        Self { _dir: dir, authority, identity }
    }

    fn client(&self) -> Client {
        let tls = ClientTls::load(&Trust::Authorities(self.authority.clone()), None).unwrap();
        Client::new(ClientOptions { tls: Some(tls), ..ClientOptions::default() })
    }

    fn server(&self, tls_required: bool) -> Server {
        let tls = Some(ServerTls::load(&self.identity, None).unwrap());
        serve(ServerOptions { tls, tls_required, ..ServerOptions::default() })
    }
}

/// A service that tells whether the call came by TLS.
fn serve(options: ServerOptions) -> Server {
    let is_encrypted = |call: &Request, reply: &mut Reply| {
        reply.put(&u32::from(call.encrypted).to_be_bytes());
        Ok(())
    };
    Server::builder(options).register(PROGRAM, 1, is_encrypted).start().unwrap()
}

#[test]
fn a_caller_and_a_callee_negotiate_tls() {
    let certified = Certified::new();
    let server = certified.server(true);
    let mut handle = certified.client().onc_handle(server.address(), Transport::Tcp);
    for _ in 0..3 {
        assert_eq!(handle.call(IS_ENCRYPTED, &[]).unwrap(), 1_u32.to_be_bytes()[..]);
    }
    let large = vec![7; 1 << 20];
    assert_eq!(handle.call(IS_ENCRYPTED, &[&large]).unwrap(), 1_u32.to_be_bytes()[..]);
    // The server rejects callers without TLS.
    let mut plain = Client::default().onc_handle(server.address(), Transport::Tcp);
    let too_weak = CallError::NotExecuted(Refusal::RejectedCredentials(5));
    assert!(too_weak.to_string().contains("AUTH_TOOWEAK"), "{too_weak}");
    assert_eq!(plain.call(IS_ENCRYPTED, &[]), Err(too_weak));
}

#[test]
fn a_caller_with_tls_calls_nobody_who_lacks_it() {
    let certified = Certified::new();
    let refused = |refusal| Err(CallError::NotExecuted(refusal));
    let server = serve(ServerOptions::default());
    let client = certified.client();
    let mut handle = client.onc_handle(server.address(), Transport::Tcp);
    assert_eq!(handle.call(IS_ENCRYPTED, &[]), refused(Refusal::TlsUnavailable));
    let mut handle = client.onc_handle(server.address(), Transport::Udp);
    assert_eq!(handle.call(IS_ENCRYPTED, &[]), refused(Refusal::TlsRequired));
    // A server with a certificate that the client doesn't trust.
    let server = Certified::new().server(false);
    let mut handle = client.onc_handle(server.address(), Transport::Tcp);
    assert_eq!(handle.call(IS_ENCRYPTED, &[]), refused(Refusal::Untrusted));
}

/// A client that calls by OpenSSL: `probe.py PORT AUTHORITY`.
const PROBE: &str = r#"
import socket, ssl, struct, sys
def record(sock, message):
    sock.sendall(struct.pack(">I", len(message) | 1 << 31) + message)
    head = read(sock, 4)
    return read(sock, struct.unpack(">I", head)[0] & 0x7fffffff)
def read(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        assert more, "the server hung up"
        data += more
    return data
def call(xid, number, flavor):
    return struct.pack(">10I", xid, 0, 2, 0x20000099, 1, number, flavor, 0, 0, 0)
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
# RFC 9289, section 4.1: the verifier of the answer is AUTH_NONE with the body STARTTLS.
assert record(sock, call(7, 0, 7)) == struct.pack(">5I", 7, 1, 0, 0, 8) + b"STARTTLS" + struct.pack(">I", 0)
context = ssl.create_default_context(cafile=sys.argv[2])
context.set_alpn_protocols(["sunrpc"])
secure = context.wrap_socket(sock, server_hostname="localhost")
assert secure.selected_alpn_protocol() == "sunrpc", secure.selected_alpn_protocol()
assert record(secure, call(8, 1, 0)) == struct.pack(">7I", 8, 1, 0, 0, 0, 0, 1)
print("encrypted")
"#;

#[test]
fn openssl_negotiates_with_a_callee() {
    let certified = Certified::new();
    let server = certified.server(true);
    let port = server.address().port().to_string();
    let output =
        Command::new("python3").args(["-c", PROBE, &port]).arg(&certified.authority).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), &*told), ("encrypted", ""));
}

#[test]
fn a_look_up_at_a_silent_rpcbind_ends_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let patience = Duration::from_millis(200);
    let address: SocketAddr = silent.local_addr().unwrap();
    let found = rpcbind_lookup_at(address, (PROGRAM, 1), Transport::Tcp, patience);
    assert_eq!(found, Err(CallError::Unknown(Doubt::TimedOut)));
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(silent);
    let found = rpcbind_lookup_at(address, (PROGRAM, 1), Transport::Tcp, patience);
    assert_eq!(found, Err(CallError::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused))));
}

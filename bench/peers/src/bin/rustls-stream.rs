//! `rustls-stream BYTES`: a bare rustls stream on loopback: one thread writes
//! BYTES, this one reads them, by 1 MiB, and nothing else is done. Prints
//! "ready" when both have shaken hands, waits for a line, transfers, prints
//! "done".

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PIECE_BYTES: usize = 1 << 20;
const NAME: &str = "localhost";

fn main() -> Result<()> {
    let bytes: usize = std::env::args().nth(1).ok_or("usage: rustls-stream BYTES")?.parse()?;
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let mut trusted = RootCertStore::empty();
    trusted.add(made.cert.der().clone())?;
    let serving =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
    let asking = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let accepted = listener.accept()?.0;
    let server = thread::spawn(move || serve(accepted, serving, bytes));
    let session = ClientConnection::new(Arc::new(asking), ServerName::try_from(NAME)?)?;
    let mut stream = StreamOwned::new(session, socket);
    // Shakes hands.
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0])?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    stream.write_all(b"!")?;
    let (mut piece, mut left) = (vec![0; PIECE_BYTES], bytes);
    while left > 0 {
        left -= stream.read(&mut piece[..left.min(PIECE_BYTES)])?;
    }
    println!("done");
    server.join().map_err(|_| "the server panicked")?
}

fn serve(socket: TcpStream, config: ServerConfig, bytes: usize) -> Result<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config))?, socket);
    stream.read_exact(&mut [0])?;
    stream.write_all(b".")?;
    stream.flush()?;
    stream.read_exact(&mut [0])?;
    let (piece, mut left) = (vec![7; PIECE_BYTES], bytes);
    while left > 0 {
        let count = left.min(PIECE_BYTES);
        stream.write_all(&piece[..count])?;
        left -= count;
    }
    Ok(stream.flush()?)
}

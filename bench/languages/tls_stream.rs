//! `tls_stream HOST:PORT MIB CA`: as `tls_stream.cpp`, with rustls.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PIECE_BYTES: usize = 1 << 20;

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [address, mib, authority] = given.as_slice() else {
        return Err("usage: tls_stream HOST:PORT MIB CA".into());
    };
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(authority)?)?;
    let config = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    let host = address.split(':').next().unwrap_or_default().to_owned();
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from(host)?)?;
    let mut stream = StreamOwned::new(session, TcpStream::connect(address)?);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    stream.write_all(b"!")?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = mib.parse::<usize>()? << 20;
    while left > 0 {
        match stream.read(&mut piece)? {
            0 => return Err("the stream ended early".into()),
            count => left -= count,
        }
    }
    println!("done");
    Ok(())
}

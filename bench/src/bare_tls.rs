//! A server that writes bare streams of TLS by rustls, as many bytes in each as a file has.

use crate::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use strait_testkit::Identity;

const PIECE_BYTES: usize = 1 << 20;

/// Starts the server, which runs as long as this process. It serves one connection after the other, and writes after
/// the client's first byte.
pub fn start(bytes: usize, identity: &Identity) -> Result<SocketAddr> {
    let chain =
        CertificateDer::pem_file_iter(&identity.certificate)?.collect::<std::result::Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&identity.key)?;
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(std::result::Result::ok) {
            if let Err(error) = serve(client, config.clone(), bytes) {
                eprintln!("the server of bare TLS: {error}");
            }
        }
    });
    Ok(address)
}

fn serve(client: TcpStream, config: Arc<ServerConfig>, bytes: usize) -> Result<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(config)?, client);
    stream.read_exact(&mut [0])?;
    let (piece, mut left) = (vec![7; PIECE_BYTES], bytes);
    while left > 0 {
        let count = left.min(PIECE_BYTES);
        stream.write_all(&piece[..count])?;
        left -= count;
    }
    Ok(stream.flush()?)
}

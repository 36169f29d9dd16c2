use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout of a read of a daemon's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A status and a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// HTTP status.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

/// Sends one HTTP request without a body, for example to ask a daemon for its state: `http_request("GET",
/// "127.0.0.1:9870", "/jmx")`.
pub fn http_request(method: &str, address: &str, target: &str) -> io::Result<HttpAnswer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    // With HTTP/1.0, the answer isn't chunked and ends with the connection.
    write!(stream, "{method} {target} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
    Ok(HttpAnswer { status, body: body.to_owned() })
}

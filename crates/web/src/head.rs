//! The framing of requests: where each head and each body ends (RFC 9112).
//!
//! It is stricter than the RFC demands. A proxy before the gateway may frame the refused requests
//! differently, and then take a part of one user's request for another user's.

use crate::number;
use http::Uri;
use httparse::{EMPTY_HEADER, Error, Request, Status};

/// Most fields of a head. Browsers and proxies send some twenty.
pub const MAX_FIELDS: usize = 64;
/// Longest body that a request may announce.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// The reason why a head is refused, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHead {
    /// It has too many bytes or fields.
    TooLarge(&'static str),
    /// Its first line, with the target, has too many bytes.
    TargetTooLong(&'static str),
    /// It isn't HTTP/1.1, or leaves open where its body ends.
    Malformed(&'static str),
}

/// Follows the bytes of a connection from head to head.
#[derive(Debug)]
pub struct Framing {
    place: Place,
    /// Most bytes of a head.
    most: usize,
    /// In the present head: bytes without an end of the head, and the beginning of their last line.
    searched: usize,
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    /// In a body with this many bytes left.
    Body(u64),
    /// After a chunked request, which is the last one.
    Rest,
}

impl Framing {
    /// For a connection whose heads have at most this many bytes.
    pub fn new(most: usize) -> Self {
        Self { place: Place::Head, most, searched: 0, line: 0 }
    }

    /// How many of these bytes are whole heads and bytes of bodies. `bytes` begins where those that
    /// passed before end; after 0, they also have more at their end.
    ///
    /// # Errors
    /// A bad head, once all bytes before it have passed.
    pub fn pass(&mut self, bytes: &[u8]) -> Result<usize, BadHead> {
        let mut passed = 0;
        loop {
            let step = match self.step(bytes.get(passed..).unwrap_or_default()) {
                Err(bad) if passed == 0 => return Err(bad),
                step => step.unwrap_or(0),
            };
            if step == 0 {
                return Ok(passed);
            }
            passed += step;
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, BadHead> {
        match self.place {
            Place::Rest => Ok(bytes.len()),
            Place::Body(left) => {
                let here = left.min(bytes.len() as u64);
                self.place = if here == left { Place::Head } else { Place::Body(left - here) };
                Ok(here as usize)
            }
            Place::Head => {
                let Some(end) = self.end_of_head(bytes)? else { return Ok(0) };
                (self.searched, self.line) = (0, 0);
                self.place = after(bytes.get(..end).unwrap_or_default())?;
                Ok(end)
            }
        }
    }

    /// The end of the head that `bytes` begin with, if it has come.
    fn end_of_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadHead> {
        let here = bytes.get(..self.most).unwrap_or(bytes);
        let mut begin = self.line;
        for at in memchr::memchr_iter(b'\n', here.get(self.searched..).unwrap_or_default()) {
            let end = self.searched + at;
            let Some(line) = here.get(begin..end).unwrap_or_default().strip_suffix(b"\r") else {
                return Err(BadHead::Malformed("a line ends with LF alone; HTTP requires CR LF"));
            };
            // A program may send an empty line before its request (section 2.2).
            if line.is_empty() && begin > 0 {
                return Ok(Some(end + 1));
            }
            begin = end + 1;
        }
        self.line = begin;
        self.searched = here.len();
        match begin {
            _ if here.len() < self.most => Ok(None),
            // No line but an empty one has ended (section 3).
            0..=2 => Err(BadHead::TargetTooLong("the target has too many bytes")),
            _ => Err(BadHead::TooLarge("the head has too many bytes")),
        }
    }
}

/// The place after a whole head.
fn after(head: &[u8]) -> Result<Place, BadHead> {
    let malformed = |why| Err(BadHead::Malformed(why));
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Err(Error::TooManyHeaders) => return Err(BadHead::TooLarge("the head has too many fields")),
        Err(Error::Version) => return malformed("the request isn't HTTP/1.1"),
        _ => return malformed("the request's head isn't valid HTTP/1.1"),
    }
    let target = request.path.unwrap_or_default();
    // A URI has a fragment, a target has none (section 3.2). `Uri`, and so hyper, would cut it off.
    if target.contains('#') || Uri::try_from(target).is_err() {
        return malformed("the request's target is malformed; write # as %23");
    }
    let (mut length, mut coding) = (None, None);
    for field in request.headers.iter() {
        let known = match field.name {
            name if name.eq_ignore_ascii_case("content-length") => &mut length,
            name if name.eq_ignore_ascii_case("transfer-encoding") => &mut coding,
            _ => continue,
        };
        if known.replace(field.value).is_some() {
            return malformed("Content-Length or Transfer-Encoding comes twice");
        }
    }
    match (length, coding) {
        (None, None) => Ok(Place::Head),
        (Some(length), None) => match std::str::from_utf8(length).ok().and_then(number) {
            Some(0) => Ok(Place::Head),
            Some(length) if length <= MAX_LENGTH => Ok(Place::Body(length)),
            _ => malformed("the Content-Length isn't a number of bytes"),
        },
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") && request.version == Some(1) => {
            Ok(Place::Rest)
        }
        (None, Some(_)) => malformed("unsupported Transfer-Encoding; send chunked, over HTTP/1.1"),
        (Some(_), Some(_)) => malformed("a request has either Content-Length or Transfer-Encoding"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 10;
    const GET: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// Scans a connection's first bytes in pieces, and returns those that pass.
    fn passed(text: &str) -> Result<usize, BadHead> {
        let bytes = text.as_bytes();
        let whole = Framing::new(MOST).pass(bytes);
        let (mut framing, mut done) = (Framing::new(MOST), 0);
        let mut bitten = Ok(0);
        for end in 0..=bytes.len() {
            bitten = framing.pass(&bytes[done..end]);
            let Ok(step) = bitten else { break };
            done += step;
        }
        match whole {
            Ok(_) if bitten.is_ok() => assert_eq!(whole, Ok(done), "{text:?}"),
            // Bytes before a bad head pass first.
            Ok(before) => assert_eq!(before, done, "{text:?}"),
            Err(_) => assert_eq!(whole, bitten, "{text:?}"),
        }
        whole
    }

    fn with(fields: &str) -> String {
        format!("PUT /f HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    }

    #[test]
    fn whole_heads_and_all_bytes_of_bodies_pass() {
        let put = with("Content-Length: 5\r\n");
        for (text, count) in [
            (String::new(), 0),
            (GET.to_owned(), GET.len()),
            (format!("{GET}{GET}GET /"), 2 * GET.len()),
            (format!("\r\n{GET}"), GET.len() + 2),
            (format!("{put}hel"), put.len() + 3),
            (format!("{put}hello{GET}G"), put.len() + 5 + GET.len()),
            // Nothing in a body is a head.
            (format!("{put}\n\n\n\n\n{GET}"), put.len() + 5 + GET.len()),
            (GET[..GET.len() - 1].to_owned(), 0),
        ] {
            assert_eq!(passed(&text), Ok(count), "{text:?}");
        }
        let chunked = with("Transfer-Encoding: Chunked\r\n") + "5\r\nhello\r\n0\r\n\r\nwhatever\n\n";
        assert_eq!(passed(&chunked), Ok(chunked.len()));
    }

    #[test]
    fn a_head_that_leaves_open_where_its_body_ends_is_malformed() {
        for fields in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding:\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length:\r\n",
            "Content-Length: 18446744073709551615\r\n",
            "X: a\nContent-Length: 99\r\n",
            "X : a\r\n",
            "X: a\r\n folded\r\n",
            "X: a\0\r\n",
            "X: a\rb\r\n",
        ] {
            assert!(matches!(passed(&with(fields)), Err(BadHead::Malformed(_))), "{fields:?}");
            // After a good request, too.
            assert_eq!(passed(&(GET.to_owned() + &with(fields))), Ok(GET.len()));
        }
        for head in [
            "GET / HTTP/1.1\nHost: localhost\n\n",
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /a<b HTTP/1.1\r\n\r\n",
            "GET /a#b HTTP/1.1\r\n\r\n",
            "GET /a?b=1#c HTTP/1.1\r\n\r\n",
            "GET http://localhost/a#b HTTP/1.1\r\n\r\n",
            "GET\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(matches!(passed(head), Err(BadHead::Malformed(_))), "{head:?}");
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(MOST));
        assert!(matches!(passed(&long), Err(BadHead::TargetTooLong(_))));
        assert!(matches!(passed(&format!("\r\n{long}")), Err(BadHead::TargetTooLong(_))));
        let field = with(&format!("X: {}\r\n", "a".repeat(MOST)));
        assert!(matches!(passed(&field), Err(BadHead::TooLarge(_))));
        let fits = with(&format!("X: {}\r\n", "a".repeat(MOST - with("X: \r\n").len())));
        assert_eq!((fits.len(), passed(&fits)), (MOST, Ok(MOST)));
        let most = "X: y\r\n".repeat(MAX_FIELDS);
        assert!(passed(&with(&most)).is_err(), "one too many, with Host");
        assert!(passed(&with(&most[6..])).is_ok());
    }
}

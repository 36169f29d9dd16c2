//! The sites that may call over HTTP: which Host a request may name, and which Origin.
//!
//! The owner of a page can point the page's host name at 127.0.0.1 (DNS rebinding). Browsers then send
//! that name as Host, so the gateway accepts only known names. It accepts IP addresses as Host: they
//! can't be rebound. A browser adds Origin to every POST of a page, so the gateway checks Origin before
//! anything else.

use super::answer::Answer;
use super::refused::{Refusal, bad};
use crate::config::HttpAccess;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode, Version};
use strait_store::ErrorKind;
use strait_web::Host;

/// Fields that a page of an allowed origin may send beside those of every page.
const SENT_FIELDS: &str = "authorization, content-type, content-range, range, if-match, if-none-match, \
                           if-modified-since, if-unmodified-since, if-range";
/// Fields of an answer that such a page may read beside those of every page.
const READ_FIELDS: &str = "etag, content-range, content-length, accept-ranges, last-modified, location, \
                           link, retry-after, allow";
/// A browser may require this field before it lets a page of a public site reach a private address.
const PRIVATE_NETWORK: &str = "access-control-allow-private-network";

/// The allowed Origin of a request; None if the request has no Origin.
pub struct Site(Option<HeaderValue>);

impl HttpAccess {
    /// Checks Host and Origin.
    ///
    /// # Errors
    /// 400: no Host in HTTP/1.1, or several. 403: the Host or Origin is unknown, or a page of another site
    /// sends no Origin.
    pub fn check(&self, Parts { version, headers, uri, .. }: &Parts) -> Result<Site, Refusal> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => Some(host.to_str().unwrap_or_default()),
            // Only HTTP/1.1 demands it (RFC 9112, section 3.2), and every browser sends it.
            (None, None) if *version < Version::HTTP_11 => None,
            _ => return Err(bad("a request needs exactly one Host")),
        };
        let named = uri.authority().map(|authority| authority.as_str());
        if [host, named].into_iter().flatten().any(|host| !self.serves(host)) {
            let message = "this Host isn't served; the operator can add it with --http-host";
            return Err(forbidden(message));
        }
        // Browsers send no Origin when a page loads an image or a script, or opens a link.
        let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_of_page = from.is_some_and(|from| from != b"none" && from != b"same-origin");
        if is_of_page && !headers.contains_key(header::ORIGIN) {
            return Err(forbidden(
                "a page of another site made this request without an Origin; pages must use CORS",
            ));
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(Site(None)),
            (Some(origin), None)
                if self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes()) =>
            {
                Ok(Site(Some(origin.clone())))
            }
            _ => Err(forbidden(
                "pages of this Origin may not call; the operator can add it with --http-origin",
            )),
        }
    }

    fn serves(&self, host: &str) -> bool {
        match Host::parse(host) {
            Some(Host::Address) => true,
            Some(Host::Name(name)) => {
                // A final dot marks a whole name (RFC 1034, section 3.1), which resolves like the same one
                // without the dot.
                let name = undotted(name);
                let known = |known: &String| undotted(known).eq_ignore_ascii_case(name);
                name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(known)
            }
            None => false,
        }
    }
}

fn undotted(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn forbidden(message: &'static str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, ErrorKind::PermissionDenied, message)
}

impl Site {
    /// The answer to OPTIONS, which a browser sends before a page's request (a preflight).
    pub fn options(&self, methods: &str) -> Response<Answer> {
        let mut response = Response::new(Answer::of(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let methods = HeaderValue::from_str(methods).unwrap_or(HeaderValue::from_static(""));
        headers.insert(header::ALLOW, methods.clone());
        if self.0.is_some() {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT_FIELDS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            headers.insert(PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        response
    }

    /// Lets a page of the allowed origin read the answer, and no other page. The fields also prevent a
    /// browser from showing a stored file as a page with this site's rights.
    pub fn allow(&self, headers: &mut HeaderMap) {
        let reach = if self.0.is_some() { "cross-origin" } else { "same-origin" };
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static(reach));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
        );
        if let Some(origin) = &self.0 {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ_FIELDS));
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_configured_names_are_hosts() {
        let access =
            HttpAccess { hosts: vec!["files.example".into(), "dotted.example.".into()], origins: Vec::new() };
        for host in ["127.0.0.1:9090", "localhost", "LOCALHOST:1", "[::1]:9090", "Files.Example:80"] {
            assert!(access.serves(host), "{host}");
        }
        for host in ["localhost.", "files.example.", "files.example.:80", "dotted.example"] {
            assert!(access.serves(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "[evil]:1",
            "files.example.evil",
            "files.example..",
            ".",
            "127.0.0.1.",
            "localhost:1@evil.example",
        ] {
            assert!(!access.serves(host), "{host}");
        }
    }
}

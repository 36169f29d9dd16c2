//! Signs requests with the key of an Azure account, if they get a condition after object_store signed them.
//!
//! Azure's signature covers the headers of conditions. Those of S3 and Google don't.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::http::request::Parts;
use std::fmt::Write as _;

/// The headers that a signature covers, in this order.
const SIGNED: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];
/// The authorization scheme for an account's key.
const SCHEME: &str = "SharedKey ";

/// The key of an account.
pub struct SharedKey(ring::hmac::Key);

impl std::fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedKey")
    }
}

impl SharedKey {
    /// Parses base64. None if `key` isn't base64.
    pub fn parse(key: &str) -> Option<Self> {
        let key = STANDARD.decode(key).ok()?;
        Some(Self(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key)))
    }

    /// Signs a request again. Leaves it alone if another method than the account's key authorized it.
    pub fn sign(&self, request: &mut Parts) {
        let authorization = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let account = authorization.and_then(|value| value.strip_prefix(SCHEME)?.split(':').next());
        let Some(account) = account.map(str::to_owned) else { return };
        let signature = ring::hmac::sign(&self.0, signed_text(request, &account).as_bytes());
        let value = format!("{SCHEME}{account}:{}", STANDARD.encode(signature));
        if let Ok(value) = HeaderValue::from_str(&value) {
            request.headers.insert(AUTHORIZATION, value);
        }
    }
}

/// The text to sign ("Authorize with Shared Key" of Azure's REST reference).
fn signed_text(request: &Parts, account: &str) -> String {
    let mut text = request.method.to_string();
    for name in SIGNED {
        let value = text_of(&request.headers, name);
        // Since version 2015-02-21 of the interface, a length of 0 is left out.
        let value = if name == "content-length" && value == "0" { "" } else { value };
        text.push('\n');
        text.push_str(value);
    }
    let mut names: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
    names.retain(|name| name.starts_with("x-ms-"));
    names.sort_unstable();
    for name in names {
        let _ = write!(text, "\n{name}:{}", text_of(&request.headers, name));
    }
    let _ = write!(text, "\n/{account}{}", request.uri.path());
    // The requests with conditions have only parameters that need no decoding, such as comp=blocklist.
    let mut parameters: Vec<&str> = request.uri.query().unwrap_or_default().split('&').collect();
    parameters.sort_unstable();
    for (name, value) in parameters.iter().filter_map(|parameter| parameter.split_once('=')) {
        let _ = write!(text, "\n{name}:{value}");
    }
    text
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    #[test]
    fn a_signature_covers_the_condition_and_leaves_tokens_alone() {
        let request = |authorization: &str| {
            let request = Request::put("http://127.0.0.1:1/strait/b/f?comp=blocklist")
                .header("x-ms-version", "2023-11-03")
                .header("x-ms-date", "Thu, 26 Nov 2026 13:00:00 GMT")
                .header("content-length", "7")
                .header("if-match", "\"tag\"")
                .header(AUTHORIZATION, authorization);
            request.body(()).unwrap().into_parts().0
        };
        let mut signed = request("SharedKey strait:old");
        assert_eq!(
            signed_text(&signed, "strait"),
            "PUT\n\n\n7\n\n\n\n\n\"tag\"\n\n\n\nx-ms-date:Thu, 26 Nov 2026 13:00:00 GMT\n\
             x-ms-version:2023-11-03\n/strait/strait/b/f\ncomp:blocklist"
        );
        let key = SharedKey::parse("c3RyYWl0LXNlY3JldA==").unwrap();
        key.sign(&mut signed);
        let value = signed.headers[AUTHORIZATION].to_str().unwrap();
        assert!(value.starts_with("SharedKey strait:") && !value.ends_with(":old"), "{value}");
        let mut token = request("Bearer token");
        key.sign(&mut token);
        assert_eq!(token.headers[AUTHORIZATION], "Bearer token");
        assert!(SharedKey::parse("no base64!").is_none());
    }
}

//! Host names and origins of pages, as browsers send them.

use std::net::Ipv6Addr;

/// The name in a `Host` field, without a port. Browsers send other letters than ASCII's in punycode.
///
/// # Errors
/// Browsers send no such name.
pub fn host(text: &str) -> Result<String, String> {
    let is_sent = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.contains(':') {
        return Err("write the name without a port: every port is served".to_owned());
    }
    match text.strip_suffix('.').unwrap_or(text).is_empty() || !text.chars().all(is_sent) {
        true => Err("it isn't a host name".to_owned()),
        false => Ok(text.to_ascii_lowercase()),
    }
}

/// An origin in the form of RFC 6454, section 6.2: in lower case, and without the scheme's default port.
///
/// # Errors
/// It isn't an origin. `null` isn't one either: any page can have it.
pub fn origin(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    let parts = lower.split_once("://").filter(|(scheme, site)| {
        !scheme.is_empty() && scheme.bytes().all(|letter| letter.is_ascii_alphanumeric()) && !site.is_empty()
    });
    let Some((scheme, site)) = parts else {
        return Err("write SCHEME://HOST or SCHEME://HOST:PORT".to_owned());
    };
    let (name, port) = match site.rfind(':').filter(|at| !site[*at..].contains(']')) {
        Some(at) => (&site[..at], Some(&site[at + 1..])),
        None => (site, None),
    };
    let is_host = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host(name).is_ok(),
    };
    if !is_host || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("write SCHEME://HOST or SCHEME://HOST:PORT, without a path".to_owned());
    }
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    Ok(format!("{scheme}://{}", site.strip_suffix(default).unwrap_or(site)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for (given, sent) in [
            ("https://app.example", "https://app.example"),
            ("HTTPS://App.Example:443", "https://app.example"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(origin(given).as_deref(), Ok(sent));
        }
        for wrong in [
            "null",
            "*",
            "app.example",
            "https://",
            "https://a/",
            "https://a b",
            "https://u@a",
            "https://a:x",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        assert_eq!(host("Files.Example.").as_deref(), Ok("files.example."));
        for wrong in ["", ".", "a:80", "a/b", "a b", "[::1]", "bücher.example"] {
            assert!(host(wrong).is_err(), "{wrong:?}");
        }
    }
}

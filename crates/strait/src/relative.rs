//! Relative paths begin in the default store (`STRAIT_STORE`), and nowhere else. A text with a
//! scheme stays unchanged, so a URI means the same in every environment.

use std::borrow::Cow;
use strait_store::{Error, ErrorKind, Result, Scheme, StoreUri};

/// The URI that `text` means, if relative paths begin at `default_store`.
///
/// # Errors
/// InvalidArgument for an empty text, a relative path without a default store, one that leads
/// out of it, and a default store that is no URI. The parser reports any other
/// mistake in a URI.
pub fn absolute<'a>(default_store: Option<&str>, text: &'a str) -> Result<Cow<'a, str>> {
    let refuse = |why: String| Err(Error::new(ErrorKind::InvalidArgument, why));
    if text.is_empty() {
        return refuse("an empty operand; give a URI such as strait://HOST:PORT/path".to_owned());
    }
    let first = text.split('/').next().unwrap_or_default();
    if let Some((scheme, _)) = first.split_once(':') {
        return match StoreUri::parse(text) {
            Err(error) if default_store.is_some() && Scheme::named(scheme).is_none() => {
                refuse(format!("{}; write a relative path that contains a colon as ./PATH", error.message()))
            }
            _ => Ok(text.into()),
        };
    }
    if first.is_empty() {
        return Ok(text.into());
    }
    let Some(base) = default_store else {
        return refuse(format!(
            "{text}: not a URI; give one such as strait://HOST:PORT/{text}, or set STRAIT_STORE to the URI where \
             relative paths begin"
        ));
    };
    let store = match StoreUri::parse(base) {
        Ok(store) => store,
        Err(error) => return refuse(format!("--default-store (or STRAIT_STORE) {}", error.message())),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." if names.pop().is_none() => {
                return refuse(format!(
                    "{text}: leads out of {base}, where relative paths begin (STRAIT_STORE)"
                ));
            }
            ".." => {}
            name => names.push(name),
        }
    }
    let slash = if text.ends_with('/') && !names.is_empty() { "/" } else { "" };
    let Some(first) = names.first() else { return Ok(base.to_owned().into()) };
    // Below the root of a gateway's default store, a name with an @ would name another store in a
    // URI.
    let in_root = store.scheme().has_stores() && store.gateway_store().is_none() && store.path().is_root();
    let escape = if in_root && first.starts_with('@') { "@" } else { "" };
    Ok(format!("{}/{escape}{}{slash}", base.trim_end_matches('/'), names.join("/")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_at_the_default_store() {
        let base = Some("strait://gw:9090/user/ann");
        for (text, meant) in [
            ("logs", "strait://gw:9090/user/ann/logs"),
            ("./logs//a/", "strait://gw:9090/user/ann/logs/a/"),
            ("logs/../x", "strait://gw:9090/user/ann/x"),
            (".", "strait://gw:9090/user/ann"),
            ("./a:b", "strait://gw:9090/user/ann/a:b"),
            ("hdfs://nn/x", "hdfs://nn/x"),
            ("file:/x", "file:/x"),
            ("/x", "/x"),
        ] {
            assert_eq!(absolute(base, text).unwrap(), meant, "{text}");
        }
        for root in ["strait://gw:9090", "strait://gw:9090/"] {
            assert_eq!(absolute(Some(root), "x").unwrap(), "strait://gw:9090/x");
        }
        assert_eq!(absolute(Some("file:///"), "x").unwrap(), "file:/x");
        for (store, meant) in [
            ("strait://gw:9090", "strait://gw:9090/@@lab/x"),
            ("strait://gw:9090/@lab", "strait://gw:9090/@lab/@lab/x"),
            ("strait://gw:9090/user", "strait://gw:9090/user/@lab/x"),
            ("file:///tmp", "file:///tmp/@lab/x"),
        ] {
            assert_eq!(absolute(Some(store), "@lab/x").unwrap(), meant, "a name never picks a store");
        }
    }

    #[test]
    fn relative_paths_have_a_default_store_and_stay_in_it() {
        let message = |base, text| absolute(base, text).unwrap_err().to_string();
        assert!(message(None, "logs").contains("STRAIT_STORE"));
        assert!(message(Some("strait://gw/a"), "x/../../b").contains("leads out of"));
        assert!(message(Some("gw:9090"), "x").starts_with("--default-store (or STRAIT_STORE) gw:9090: "));
        for base in [None, Some("strait://gw/a")] {
            assert!(message(base, "").starts_with("an empty operand"));
        }
        assert!(
            message(Some("strait://gw/a"), "a:b")
                .contains("write a relative path that contains a colon as ./PATH")
        );
        assert_eq!(absolute(None, "a:b").unwrap(), "a:b", "without a default store it can't be relative");
    }
}

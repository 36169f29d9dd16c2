//! Names that programs of 2009 use: URIs of stores that no longer exist, and paths relative to
//! their user's directory.

use crate::config::ConfiguredStore;
use crate::context::Context;
use crate::homes::HOMES;
use strait_store::{Error, ErrorKind, MAX_PATH_BYTES, Result, StorePath, fail};
use strait_telemetry::Seldom;

/// Most characters of a URI that a log line repeats.
const SHOWN_CHARS: usize = 200;

/// The store for `init`. Programs of that time name a Sector master, or a Hadoop cluster whose server
/// ignored the URI. So a URI that names no configured store selects the store that the operator set for
/// such programs. An empty URI also selects that one, or the default store if none is set.
///
/// # Errors
/// NotFound: the URI names no store, the gateway serves several, and none is set for such programs.
pub fn store(context: &Context, uri: &[u8]) -> Result<ConfiguredStore> {
    let sessions = &context.shared.sessions;
    let set = context.shared.service_2009.store.as_deref();
    if uri.is_empty() {
        return sessions.store(set.unwrap_or_default());
    }
    if let Ok(uri) = std::str::from_utf8(uri)
        && let Ok(store) = sessions.store(uri)
    {
        return Ok(store);
    }
    let shown: String = String::from_utf8_lossy(uri).chars().take(SHOWN_CHARS).collect();
    let instead = match (set, sessions.stores()) {
        (Some(set), _) => sessions.store(set)?,
        (None, [only]) => only.clone(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|store| store.name.as_str()).collect();
            let message = format!(
                "no store is called {shown:?}, and several are served ({}); the gateway's --store-2009 NAME \
                 selects one for programs that name another",
                names.join(", ")
            );
            return fail(ErrorKind::NotFound, message);
        }
    };
    static SELECTED: Seldom = Seldom::new();
    if let Some(left_out) = SELECTED.may_write() {
        let (peer, store) = (context.peer.address, &instead.name);
        tracing::info!(%peer, uri = ?shown, store, left_out, "init named an unknown store; using this one");
    }
    Ok(instead)
}

/// The path that a user's program means. As with Hadoop, a relative path begins
/// at `/user/NAME`, and `.` and `..` are resolved by name, links not followed.
///
/// # Errors
/// InvalidArgument for an empty path, a URI, and a path that leads above the root.
pub fn path(user: &str, text: &[u8]) -> Result<StorePath> {
    let Ok(text) = std::str::from_utf8(text) else { return StorePath::from_bytes(text) };
    if text.is_empty() || text.len() > MAX_PATH_BYTES {
        return StorePath::parse(text); // which refuses both
    }
    let refuse = |why: &'static str| Err(Error::new(ErrorKind::InvalidArgument, why).at("path", text));
    let mut names: Vec<&str> = Vec::new();
    if !text.starts_with('/') {
        let first = text.split('/').next().unwrap_or_default();
        if first.ends_with(':') && text[first.len()..].starts_with("//") {
            return refuse(
                "a URI; give the path alone, without scheme and host: init has selected the store",
            );
        }
        StorePath::parse(HOMES)?.join(user)?; // fails if the user's name can't be a file's name
        names.extend([&HOMES[1..], user]);
    }
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." if names.pop().is_none() => return refuse("the path leads above the root"),
            ".." => {}
            name => names.push(name),
        }
    }
    StorePath::parse(&format!("/{}", names.join("/")))
}

/// The contents of `FileStatus.path`: the last name, which programs join to the directory that they
/// listed.
pub fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_at_the_users_directory() {
        for (text, meant) in [
            ("testdir", "/user/ann/testdir"),
            ("./input/x", "/user/ann/input/x"),
            (".", "/user/ann"),
            ("../bob/x", "/user/bob/x"),
            ("../../x", "/x"),
            ("/x/./y/../z/", "/x/z"),
            ("/", "/"),
            ("a:b", "/user/ann/a:b"),
        ] {
            assert_eq!(path("ann", text.as_bytes()).unwrap().as_str(), meant, "{text}");
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        let long = "x".repeat(MAX_PATH_BYTES + 1);
        for text in ["", "/..", "../../..", "hdfs://nn:8020/x", "sector://h:6000", "a\0b", &long] {
            let error = path("ann", text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}: {error}");
        }
        for user in ["", "..", "a/b"] {
            assert!(path(user, b"x").is_err(), "{user:?} is no directory's name");
            assert_eq!(path(user, b"/x").unwrap().as_str(), "/x");
        }
        assert!(path("ann", b"\xff").is_err());
    }
}

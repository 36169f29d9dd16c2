//! A store's URI. Its scheme selects the adapter.

use crate::{Error, ErrorKind, Result, StorePath, fail};
use std::borrow::Cow;
use std::fmt;

/// The gateway's port if a URI names none.
pub const GATEWAY_PORT: u16 = 9090;

/// A Kadoop namenode's port if a URI names none. It is next to the gateway's.
pub const NAMENODE_PORT: u16 = 9091;

/// A store's URI, with a path in it: `scheme://authority/path`.
///
/// Paths are taken literally, without percent-decoding, as HDFS's own tools take them.
///
/// A gateway may serve several stores: in `strait://host:port/@lab/path` the first
/// component names the store `lab`, and `/path` is the path in it. A directory
/// `@lab` of the default store is `/@@lab` there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUri {
    scheme: Scheme,
    authority: String,
    /// The gateway's store that the URI names. None: the gateway's default store.
    gateway_store: Option<String>,
    path: StorePath,
}

/// The kinds of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A directory of this host: `file:///srv/data`.
    File,
    /// A store in memory, for tests: `memory:///`.
    Memory,
    /// HDFS, by a namenode or a nameservice: `hdfs://namenode:8020/`. `hdfs:///` means the one that Hadoop's
    /// configuration names.
    Hdfs,
    /// Kadoop, by its namenode: `kadoop://namenode:9091/`.
    Kadoop,
    /// Another gateway: `strait://host:port/`.
    Strait,
    /// A bucket of S3, or of an endpoint with its protocol: `s3://bucket/`.
    S3,
    /// A bucket of Google's cloud: `gs://bucket/`.
    Gs,
    /// A container of Azure's blob storage: `az://container/`.
    Az,
    /// A file system through a plugin, which the operator's flags name: `plugin:name://host:port/`.
    Plugin,
    /// A file system through a library with the interface of hdfs.h: `libhdfs:/path/lib.so!hdfs://host/`.
    Libhdfs,
}

impl Scheme {
    /// Each scheme with its name in URIs.
    pub const ALL: &[(&'static str, Self)] = &[
        ("file", Self::File),
        ("memory", Self::Memory),
        ("hdfs", Self::Hdfs),
        ("kadoop", Self::Kadoop),
        ("strait", Self::Strait),
        ("s3", Self::S3),
        ("gs", Self::Gs),
        ("az", Self::Az),
        ("plugin", Self::Plugin),
        ("libhdfs", Self::Libhdfs),
    ];

    /// The form of this scheme's URIs, as an example.
    pub fn form(self) -> &'static str {
        match self {
            Self::File => "file:///path",
            Self::Memory => "memory:///path",
            Self::Hdfs => "hdfs://host:port/path",
            Self::Kadoop => "kadoop://host:port/path",
            Self::Strait => "strait://host:port/path",
            Self::S3 => "s3://bucket/path",
            Self::Gs => "gs://bucket/path",
            Self::Az => "az://container/path",
            Self::Plugin => "plugin:NAME://host:port/path",
            Self::Libhdfs => "libhdfs:/path/lib.so!hdfs://host:port/path",
        }
    }

    /// Whether this scheme's URIs name a bucket instead of a host.
    pub fn has_buckets(self) -> bool {
        matches!(self, Self::S3 | Self::Gs | Self::Az)
    }

    /// Whether this scheme's URIs contain another URI: that of the file system behind a library.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::Plugin | Self::Libhdfs)
    }
}

impl Scheme {
    /// The scheme of this name, in upper or lower case (RFC 3986, 3.1).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, scheme)| *scheme)
    }

    /// Whether a server of this kind can have several stores, which this scheme's URIs name.
    pub fn has_stores(self) -> bool {
        self == Self::Strait
    }

    /// Whether this scheme's URIs name a host, and perhaps a port.
    fn has_ports(self) -> bool {
        matches!(self, Self::Hdfs | Self::Kadoop | Self::Strait)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, scheme)| scheme == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl StoreUri {
    /// Parses `text`.
    ///
    /// # Errors
    /// InvalidArgument, naming the known schemes, if it isn't a URI of one of them.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: String| fail(ErrorKind::InvalidArgument, why);
        // Two slashes within a path begin no host.
        let mut slashes =
            text.match_indices("//").map(|(at, slashes)| (&text[..at], &text[at + slashes.len()..]));
        if let Some((scheme, rest)) = slashes.find(|(scheme, _)| scheme.is_empty() || scheme.ends_with(':'))
            && rest.split('/').next().is_some_and(|at| at.contains('@'))
        {
            // The message omits the user, which may include a password. If there is another @, it isn't
            // certain where the password ends.
            let place = rest.split_once('@').map(|(_, place)| place).filter(|place| !place.contains('@'));
            let shown = format!("{scheme}//…@{}", place.unwrap_or("…"));
            // The scheme of a URI in a URI, or of the whole.
            let inner = scheme.rsplit('!').next().and_then(|inner| inner.split(':').next());
            return refuse(match inner.and_then(Scheme::named) {
                Some(Scheme::Strait) if rest.starts_with('@') => {
                    format!("{shown}: which gateway? write strait://HOST:PORT/@{}", place.unwrap_or("STORE"))
                }
                Some(known) if known.has_ports() => {
                    format!("{shown}: a URI names no user; give the user with --user, or as STRAIT_USER")
                }
                Some(known) => {
                    format!("{shown}: there is an @ before the path; write {}", known.form())
                }
                None => format!("{shown}: not a URI of a known scheme; give one such as {}", examples()),
            });
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return refuse(format!("{text}: not a URI; give one such as {}", examples()));
        };
        let Some(scheme) = Scheme::named(scheme) else {
            let host_alone =
                !rest.starts_with("//") && rest.starts_with(|first: char| first.is_ascii_digit());
            return refuse(match host_alone {
                true => format!(
                    "{text}: not a URI: it doesn't begin with a scheme; give one such as {}",
                    examples()
                ),
                false => format!("{text}: unknown scheme {scheme}:; the known ones are {}", examples()),
            });
        };
        if scheme.is_foreign() {
            return Self::parse_foreign(text, scheme, rest);
        }
        // `file:/path` means the same as `file:///path` (RFC 8089).
        let (authority, path) = match rest.strip_prefix("//") {
            None => ("", rest),
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        if scheme.has_ports() && authority.is_empty() {
            let meant = path.trim_start_matches('/');
            if let Ok((_, Some(_))) = host_and_port(meant.split('/').next().unwrap_or_default()) {
                return refuse(format!(
                    "{text}: two slashes stand before the host; write {scheme}://{meant}"
                ));
            }
        }
        let (gateway_store, path) = match scheme.has_stores() {
            true => store_and_path(path).map_err(|error| error.at("parse", text))?,
            false => (None, Cow::Borrowed(path)),
        };
        let path = if path.is_empty() { StorePath::root() } else { StorePath::parse(&path)? };
        let uri = Self { scheme, authority: authority.to_owned(), gateway_store, path };
        match uri.scheme {
            Scheme::File if !["", "localhost"].contains(&authority) => {
                refuse(format!("{text}: a file: URI has no host; write file:///{authority}{}", uri.path))
            }
            Scheme::Kadoop if authority.is_empty() => {
                refuse(format!("{text}: which namenode? write kadoop://HOST:PORT{}", uri.path))
            }
            Scheme::Strait if authority.is_empty() => {
                refuse(format!("{text}: which gateway? write strait://HOST:PORT{}", uri.path))
            }
            _ if scheme.has_buckets() && !is_bucket(authority) => {
                refuse(format!("{text}: which bucket? write {}", scheme.form()))
            }
            Scheme::Hdfs if authority.is_empty() => Ok(uri),
            _ if scheme.has_ports() => match host_and_port(authority) {
                Ok(_) => Ok(uri),
                Err(why) => refuse(format!("{text}: {why}")),
            },
            _ => Ok(uri),
        }
    }

    /// Parses `plugin:name://authority/path` and `libhdfs:/path/lib.so!scheme://authority/path`. The
    /// store is everything before the path.
    fn parse_foreign(text: &str, scheme: Scheme, rest: &str) -> Result<Self> {
        let refuse = || fail(ErrorKind::InvalidArgument, format!("{text}: write {}", scheme.form()));
        let Some((before, after)) = rest.split_once("://") else { return refuse() };
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        let is_whole = match (scheme, before.rsplit_once('!')) {
            (Scheme::Libhdfs, Some((library, inner))) => library.starts_with('/') && is_name(inner),
            (Scheme::Libhdfs, None) => false,
            _ => is_name(before),
        };
        if !is_whole || authority.contains('\0') {
            return refuse();
        }
        let path = if path.is_empty() { StorePath::root() } else { StorePath::parse(path)? };
        Ok(Self { scheme, authority: format!("{before}://{authority}"), gateway_store: None, path })
    }

    /// The name of the plugin or the path of the library, and the URI of the file system behind it.
    pub fn foreign(&self) -> Option<(&str, &str)> {
        match self.scheme {
            Scheme::Plugin => {
                self.authority.split_once("://").map(|(name, _)| (name, self.authority.as_str()))
            }
            Scheme::Libhdfs => {
                let (before, _) = self.authority.split_once("://")?;
                let at = before.rfind('!')?;
                Some((&self.authority[..at], &self.authority[at + 1..]))
            }
            _ => None,
        }
    }

    /// The bucket or container of an object store.
    pub fn bucket(&self) -> Option<&str> {
        self.scheme.has_buckets().then_some(self.authority.as_str())
    }

    /// The host that the URI names, and the port if it names one. None if the scheme has no hosts.
    pub fn host_and_port(&self) -> Option<(&str, Option<u16>)> {
        self.scheme.has_ports().then(|| host_and_port(&self.authority).ok()).flatten()
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The path within the store.
    pub fn path(&self) -> &StorePath {
        &self.path
    }

    /// The store without the path; equal for two URIs of the same store.
    pub fn store(&self) -> String {
        if self.scheme.is_foreign() {
            return format!("{}:{}", self.scheme, self.authority);
        }
        let store = self.gateway_store.as_ref().map(|store| format!("/@{store}")).unwrap_or_default();
        format!("{}://{}{store}", self.scheme, self.authority)
    }

    /// Another path in the same store.
    pub fn at(&self, path: StorePath) -> Self {
        Self { path, ..self.clone() }
    }

    /// Whether the host comes from a configuration, and not from the URI.
    pub fn is_of_default_host(&self) -> bool {
        self.scheme == Scheme::Hdfs && self.authority.is_empty()
    }

    /// The store that the URI names at a gateway. None: the gateway's default store, or a URI of another
    /// kind.
    pub fn gateway_store(&self) -> Option<&str> {
        self.gateway_store.as_deref()
    }

    /// The same path in this store of the gateway. A URI of another kind stays as it is.
    ///
    /// # Errors
    /// InvalidArgument if the URI names another store.
    pub fn in_gateway_store(self, store: &str) -> Result<Self> {
        match &self.gateway_store {
            _ if !self.scheme.has_stores() => Ok(self),
            Some(named) if named != store => {
                let why = format!("the URI names store {named}, and --gateway-store {store}; give only one");
                fail(ErrorKind::InvalidArgument, why)
                    .map_err(|error: Error| error.at("open", self.to_string()))
            }
            _ => Ok(Self { gateway_store: Some(store.to_owned()), ..self }),
        }
    }

    /// A gateway's `host:port`: the authority, with the default port if it names none.
    pub fn gateway(&self) -> String {
        self.address(GATEWAY_PORT)
    }

    /// A Kadoop cluster's namenode, as `host:port`; none for another kind of store.
    pub fn namenode(&self) -> Option<String> {
        (self.scheme == Scheme::Kadoop).then(|| self.address(NAMENODE_PORT))
    }

    fn address(&self, default_port: u16) -> String {
        match host_and_port(&self.authority) {
            Ok((_, Some(_))) => self.authority.clone(),
            _ => format!("{}:{default_port}", self.authority.trim_end_matches(':')),
        }
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.store())?;
        // The path begins with a directory whose name looks like a store's name.
        let escaped =
            self.scheme.has_stores() && self.gateway_store.is_none() && self.path.relative().starts_with('@');
        let escape = if escaped { "/@" } else { "" };
        let path = if escaped { self.path.relative() } else { self.path.as_str() };
        write!(f, "{escape}{path}")
    }
}

/// The host, without brackets, and the port of an authority, or the reason why it has none.
fn host_and_port(authority: &str) -> std::result::Result<(&str, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("an IPv6 address ends with ]")?;
            let port = match rest.strip_prefix(':') {
                None if !rest.is_empty() => return Err(format!("{rest} after an IPv6 address")),
                port => port,
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err("several colons; an IPv6 address stands in brackets: [::1]".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the URI has no host".to_owned());
    }
    let port = port.filter(|port| !port.is_empty());
    let number = |port: &str| match port.bytes().all(|digit| digit.is_ascii_digit()) {
        true => port.parse().ok().filter(|port| *port > 0),
        false => None,
    };
    match port.map(|port| number(port).ok_or(port)) {
        None => Ok((host, None)),
        Some(Ok(port)) => Ok((host, Some(port))),
        Some(Err(port)) => Err(format!("invalid port {port}: the range is 1 to 65535")),
    }
}

/// The store that a path at a gateway names, and the path in it. Only the first component matters:
/// `@lab` is the store `lab`, `@@lab` the directory `@lab` of the default store.
///
/// # Errors
/// InvalidArgument for an `@` without a name, and a name with a NUL.
pub fn store_and_path(path: &str) -> Result<(Option<String>, Cow<'_, str>)> {
    let inner = path.trim_start_matches('/');
    let (first, rest) = inner.split_once('/').unwrap_or((inner, ""));
    match first.strip_prefix('@') {
        None => Ok((None, Cow::Borrowed(path))),
        Some("") => fail(
            ErrorKind::InvalidArgument,
            "a store's name follows the @, as in /@lab; a directory called @ is /@@",
        ),
        Some(store) if store.contains('\0') => {
            fail(ErrorKind::InvalidArgument, "a store's name has no NUL byte")
        }
        Some(directory) if directory.starts_with('@') => {
            Ok((None, Cow::Owned(format!("/{directory}/{rest}"))))
        }
        Some(store) => Ok((Some(store.to_owned()), Cow::Owned(format!("/{rest}")))),
    }
}

/// Whether a gateway can serve a store under this name, so that URIs can name it.
pub fn is_store_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('@') && !name.contains(['/', '\0'])
}

/// Whether a service could have a bucket or container of this name.
fn is_bucket(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_$".contains(&byte);
    !name.is_empty() && name.bytes().all(plain)
}

/// Whether this can be a plugin's name, or the scheme of a URI within a library's URI.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    !name.is_empty() && name.bytes().all(plain)
}

/// One URI of each kind except memory.
fn examples() -> String {
    // A memory store is for tests, and loses all its data when its process ends.
    let kept = Scheme::ALL.iter().filter(|(_, scheme)| *scheme != Scheme::Memory);
    kept.map(|(_, scheme)| scheme.form()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_recommends_a_store_that_loses_its_data() {
        for wrong in ["/srv/x", "x:///srv"] {
            let told = StoreUri::parse(wrong).unwrap_err().to_string();
            assert!(told.contains("file:///path") && !told.contains("memory"), "{told}");
        }
    }

    #[test]
    fn a_uri_names_a_store_and_a_path_in_it() {
        let uri = StoreUri::parse("strait://gw:1234//a/b/").unwrap();
        assert_eq!((uri.store().as_str(), uri.path().as_str()), ("strait://gw:1234", "/a/b"));
        assert_eq!(uri.to_string(), "strait://gw:1234/a/b");
        assert_eq!(StoreUri::parse("strait://gw").unwrap().path(), &StorePath::root());
        for same in ["file:///srv/x", "file:/srv/x", "file://localhost/srv/x"] {
            assert_eq!(StoreUri::parse(same).unwrap().path().as_str(), "/srv/x", "{same}");
        }
        assert_eq!(StoreUri::parse("file:/srv//a@b/x").unwrap().path().as_str(), "/srv/a@b/x");
        for (text, why) in [
            ("strait://u:secret@gw/", "names no user"),
            ("libhdfs:/a//b.so!hdfs://u:secret@nn/", "names no user"),
            ("strait://@lab/x", "which gateway? write strait://HOST:PORT/@lab/x"),
            ("az://u:secret@c/", "write az://container/path"),
            ("plugin:dir://u:secret@here/", "write plugin:NAME://host:port/path"),
            ("abfss://u:secret@account.dfs.core.windows.net/x", "az://container/path"),
            ("//u:secret@gw/", "not a URI"),
        ] {
            let told = StoreUri::parse(text).unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_gateway_without_a_port_is_at_the_default_one() {
        let address = |text| StoreUri::parse(text).unwrap().gateway();
        assert_eq!(address("strait://gw/"), "gw:9090");
        assert_eq!(address("strait://gw:1/"), "gw:1");
        assert_eq!(address("strait://[::1]/"), "[::1]:9090");
        assert_eq!(address("strait://[::1]:1/"), "[::1]:1");
    }

    #[test]
    fn what_is_no_port_is_refused_before_anybody_is_asked() {
        for text in ["strait://gw:0/", "strait://gw:65536", "strait://gw:x/", "strait://[::1]:99999/"] {
            let error = StoreUri::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(error.message().contains("invalid port "), "{error}");
        }
    }

    #[test]
    fn what_is_not_a_store_is_refused_in_one_line_that_helps() {
        for text in ["/tmp/x", "gopher://x/", "file://host/x", "strait:///x", "file:///a/../b", ""] {
            let error = StoreUri::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(!error.to_string().contains('\n'));
        }
        let message = StoreUri::parse("gopher://x/").unwrap_err().to_string();
        assert!(message.contains("gopher") && message.contains("strait://"), "{message}");
    }

    #[test]
    fn a_bucket_and_a_foreign_library_are_parts_of_the_store() {
        let uri = StoreUri::parse("s3://my.bucket/a/b").unwrap();
        assert_eq!((uri.bucket(), uri.path().as_str()), (Some("my.bucket"), "/a/b"));
        assert_eq!(uri.store(), "s3://my.bucket");
        for (text, parts) in [
            ("libhdfs:/opt/lib!x.so!hdfs://nn:8020/a", ("/opt/lib!x.so", "hdfs://nn:8020")),
            ("libhdfs:/l.so!maprfs:///a", ("/l.so", "maprfs://")),
            ("plugin:sector://master:6000/a", ("sector", "sector://master:6000")),
        ] {
            let uri = StoreUri::parse(text).unwrap();
            assert_eq!(uri.foreign(), Some(parts));
            assert_eq!((uri.path().as_str(), uri.to_string().as_str()), ("/a", text));
        }
        for text in
            ["s3:///a", "s3://b:1/a", "gs:x", "libhdfs:lib.so!hdfs://nn/", "libhdfs:/lib.so", "plugin:///a"]
        {
            let error = StoreUri::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            let remedy = if text == "gs:x" { "begin with /" } else { "write " };
            assert!(error.message().contains(remedy), "{error}");
        }
    }

    #[test]
    fn only_for_hdfs_may_a_configuration_name_the_host() {
        for text in ["hdfs:///a/b", "hdfs:/a/b", "HDFS:///a/b"] {
            let uri = StoreUri::parse(text).unwrap();
            assert!(uri.is_of_default_host() && uri.host_and_port().is_none(), "{text}");
            assert_eq!(uri.to_string(), "hdfs:///a/b");
        }
        assert!(StoreUri::parse("hdfs://").unwrap().is_of_default_host());
        assert!(!StoreUri::parse("hdfs://nn/a").unwrap().is_of_default_host());
        for text in ["kadoop:///a", "strait:///a", "hdfs://:8020/a", "hdfs:///nn:8020/a"] {
            assert_eq!(StoreUri::parse(text).expect_err(text).kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn a_scheme_may_be_in_upper_case() {
        let uri = StoreUri::parse("STRAIT://gw/x").unwrap();
        assert_eq!(uri.to_string(), "strait://gw/x");
        assert_eq!(StoreUri::parse("File:///x").unwrap(), StoreUri::parse("file:/x").unwrap());
    }

    #[test]
    fn a_host_after_too_few_slashes_is_suggested_as_one() {
        for text in ["strait:/127.0.0.1:9090/d", "strait:127.0.0.1:9090/d", "strait:///127.0.0.1:9090/d"] {
            let message = StoreUri::parse(text).unwrap_err().to_string();
            assert!(message.contains("write strait://127.0.0.1:9090/d "), "{message}");
        }
        let message = StoreUri::parse("strait:/d").unwrap_err().to_string();
        assert!(message.contains("write strait://HOST:PORT/d "), "{message}");
    }

    #[test]
    fn a_refused_user_is_not_repeated_but_the_host_is() {
        for (text, shown) in [
            ("strait://ann@gw:9090/d", "strait://…@gw:9090/d: "),
            ("strait://ann:secret@gw/", "strait://…@gw/: "),
            ("strait://ann:sec@ret@gw/", "strait://…@…: "),
            ("strait://ann:sec@r/et@gw/", "strait://…@…: "),
        ] {
            let message = StoreUri::parse(text).unwrap_err().to_string();
            assert!(message.starts_with(shown) && message.contains("--user"), "{message}");
        }
    }
}

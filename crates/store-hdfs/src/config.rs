//! Hadoop's configuration: its files, or properties that replace them.

use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result, Scheme, StoreUri, fail, size};

/// A configuration file has some kilobytes. A larger file is a mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A namenode's port if the URI names none (`HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT`).
const DEFAULT_NAMENODE_PORT: u16 = 8020;

/// The property that names the store for paths that name none.
pub const DEFAULT_STORE: &str = "fs.defaultFS";
/// The name of this property before Hadoop 2.
const OLD_DEFAULT_STORE: &str = "fs.default.name";

/// Levels of `${name}` within values, as in Hadoop's `Configuration`.
const MAX_LEVELS: usize = 20;

/// `dfs.checksum.combine.mode` of hdfs-site.xml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumMode {
    /// MD5 of the blocks' MD5s of their chunks' CRCs: Hadoop's default, which depends on the sizes
    /// of blocks and chunks.
    Md5Md5Crc,
    /// The CRC of the file's content. It can be compared with those of copies in other stores.
    CompositeCrc,
}

/// The properties of core-site.xml and hdfs-site.xml.
#[derive(Debug, Clone, Default)]
pub struct HadoopConfig {
    properties: HashMap<String, String>,
}

impl HadoopConfig {
    /// Reads the files in `$HADOOP_CONF_DIR`, or `$HADOOP_HOME/etc/hadoop`. Without either variable
    /// there are no properties.
    ///
    /// # Errors
    /// A file can't be read, or isn't a configuration file.
    pub fn load() -> Result<Self> {
        match (env::var_os("HADOOP_CONF_DIR"), env::var_os("HADOOP_HOME")) {
            (Some(dir), _) => Self::load_from(Path::new(&dir)),
            (None, Some(home)) => match Self::load_from(&Path::new(&home).join("etc/hadoop")) {
                // Other programs of Hadoop use this variable, too, so the directory may be missing.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
                loaded => loaded,
            },
            (None, None) => Ok(Self::default()),
        }
    }

    /// Reads the files in `dir`.
    ///
    /// # Errors
    /// As [`HadoopConfig::load`].
    pub fn load_from(dir: &Path) -> Result<Self> {
        if !dir.metadata().map_err(|error| Error::from(error).at("read", dir.display().to_string()))?.is_dir()
        {
            return fail(
                ErrorKind::NotADirectory,
                "it isn't a directory: check HADOOP_CONF_DIR, or HADOOP_HOME",
            )
            .map_err(|error: Error| error.at("read", dir.display().to_string()));
        }
        let mut config = Self::default();
        for name in ["core-site.xml", "hdfs-site.xml"] {
            let path = dir.join(name);
            match config.add(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => read.map_err(|error| error.at("read", path.display().to_string()))?,
            }
        }
        if config.get(DEFAULT_STORE).is_none()
            && let Some(old) = config.get(OLD_DEFAULT_STORE).map(str::to_owned)
        {
            config.set(DEFAULT_STORE, old);
        }
        Ok(config)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let mut text = String::new();
        File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        self.parse(&text)
    }

    fn parse(&mut self, text: &str) -> Result<()> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(text, options).map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, format!("not a Hadoop configuration file: {error}"))
        })?;
        let child = |node: roxmltree::Node<'_, '_>, name: &str| {
            let found = node.children().find(|child| child.has_tag_name(name));
            found.and_then(|child| child.text().map(|text| text.trim().to_owned()))
        };
        for property in document.root_element().children().filter(|node| node.has_tag_name("property")) {
            if let (Some(name), Some(value)) = (child(property, "name"), child(property, "value")) {
                self.properties.insert(name, value);
            }
        }
        Ok(())
    }

    /// The text of a property, as its file has it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// The value of a property, with its variables replaced ([`HadoopConfig::expanded`]).
    pub fn value(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| self.expanded(text))
    }

    /// `text` with each `${name}` replaced by that property's value, or else that environment variable's
    /// for `${env.NAME}`; unknown names stay as they are.
    pub fn expanded(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..MAX_LEVELS {
            let Some((before, rest)) = text.split_once("${") else { break };
            let Some((name, after)) = rest.split_once('}') else { break };
            let value = match name.strip_prefix("env.") {
                Some(variable) => env::var(variable).ok(),
                None => self.get(name).map(str::to_owned),
            };
            let Some(value) = value else { break };
            text = format!("{before}{value}{after}");
        }
        text
    }

    /// Sets a property.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.properties.insert(name.into(), value.into());
    }

    /// All properties, in no order.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The namenode or nameservice for a URI that names none, as in Hadoop's own tools.
    ///
    /// # Errors
    /// InvalidArgument if fs.defaultFS isn't set, or names no HDFS.
    pub fn default_authority(&self) -> Result<String> {
        let refuse = |why: String| fail(ErrorKind::InvalidArgument, why);
        let Some(store) = self.value(DEFAULT_STORE) else {
            return refuse(format!(
                "which namenode? write hdfs://HOST:PORT/path; or set {DEFAULT_STORE} in core-site.xml, and \
                 HADOOP_CONF_DIR to its directory"
            ));
        };
        // Before Hadoop 0.20 it was a host, perhaps with a port; `local` was the local file system.
        let is_host = !store.contains('/') && store != "local" && !store.ends_with(':');
        let uri = if is_host { format!("hdfs://{store}") } else { store };
        // A message shows only what the parser's has: a URI may have a secret in it.
        let why = match StoreUri::parse(&uri) {
            Ok(uri) if uri.scheme() == Scheme::Hdfs && !uri.is_of_default_host() => {
                return Ok(uri.store().replacen("hdfs://", "", 1));
            }
            Ok(uri) => format!("{uri} names none"),
            Err(error) => error.to_string(),
        };
        refuse(format!(
            "which namenode? write hdfs://HOST:PORT/path, or correct {DEFAULT_STORE} in Hadoop's configuration: {why}"
        ))
    }

    /// The `host:port` of each namenode behind `authority` (`host`,
    /// `host:port`, or a nameservice of the configuration).
    pub(super) fn namenodes(&self, authority: &str) -> Result<Vec<String>> {
        if let Some(ids) = self.get(&format!("dfs.ha.namenodes.{authority}")) {
            let address = |id: &str| self.get(&format!("dfs.namenode.rpc-address.{authority}.{}", id.trim()));
            let addresses: Vec<String> = ids.split(',').filter_map(address).map(str::to_owned).collect();
            if addresses.is_empty() {
                return fail(
                    ErrorKind::InvalidArgument,
                    format!("nameservice {authority} has no dfs.namenode.rpc-address in hdfs-site.xml"),
                );
            }
            return Ok(addresses);
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(vec![if has_port { authority.to_owned() } else { format!("{authority}:{DEFAULT_NAMENODE_PORT}") }])
    }

    /// The ids of a nameservice's namenodes, in the order of [`HadoopConfig::namenodes`]. Empty if
    /// `authority` is a host.
    pub(super) fn namenode_ids(&self, authority: &str) -> Vec<String> {
        let ids = self.get(&format!("dfs.ha.namenodes.{authority}")).unwrap_or_default();
        let has_address =
            |id: &&str| self.get(&format!("dfs.namenode.rpc-address.{authority}.{id}")).is_some();
        ids.split(',').map(str::trim).filter(has_address).map(str::to_owned).collect()
    }

    /// The reason why this configuration doesn't permit the adapter's own calls, if there is one.
    pub(super) fn secured(&self) -> Option<&'static str> {
        if self.get("hadoop.security.authentication").is_some_and(|name| name != "simple") {
            return Some("not supported with Kerberos");
        }
        if self.get("dfs.data.transfer.protection").is_some() {
            return Some("not supported with protected data transfer");
        }
        None
    }

    /// Whether to refuse a namenode that doesn't demand Kerberos, as Java's client does.
    pub(super) fn demands_kerberos(&self) -> bool {
        let falls_back = self.get("ipc.client.fallback-to-simple-auth-allowed");
        self.get("hadoop.security.authentication").is_some_and(|name| name != "simple")
            && falls_back.is_none_or(|allowed| !allowed.eq_ignore_ascii_case("true"))
    }

    /// The way to combine the blocks' checksums into the file's.
    ///
    /// # Errors
    /// InvalidArgument for a mode that Hadoop doesn't have.
    pub(super) fn checksum_mode(&self) -> Result<ChecksumMode> {
        const NAME: &str = "dfs.checksum.combine.mode";
        match self.get(NAME) {
            None | Some("MD5MD5CRC") => Ok(ChecksumMode::Md5Md5Crc),
            Some("COMPOSITE_CRC") => Ok(ChecksumMode::CompositeCrc),
            Some(other) => fail(
                ErrorKind::InvalidArgument,
                format!("{NAME} is {other:?} in hdfs-site.xml; it can be MD5MD5CRC or COMPOSITE_CRC"),
            ),
        }
    }

    /// The property's value as a number.
    ///
    /// # Errors
    /// InvalidArgument if its value isn't a number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |value: &str| {
            let message =
                format!("{name} is {value:?} in Hadoop's configuration, which isn't a valid number");
            value.parse().map_err(|_| Error::new(ErrorKind::InvalidArgument, message))
        };
        self.get(name).map(parse).transpose()
    }

    /// The property's value in bytes, perhaps with one of Hadoop's units: k, m, g, t, p, e, of 1,024
    /// each. Ignores an invalid value with a warning, as if the property weren't set.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.with_unit(name, bytes_of, "a number of bytes, perhaps with a unit (k, m, g, t, p, e)")
    }

    /// The property's value as a time, in seconds or in one of Hadoop's units: ns, us, ms, s, m, h, d.
    /// Ignores an invalid value with a warning.
    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        self.with_unit(
            name,
            duration_of,
            "a number of seconds, or a time with a unit (ns, us, ms, s, m, h, d)",
        )
    }

    fn with_unit<T>(&self, name: &str, parse: fn(&str) -> Option<T>, wanted: &str) -> Option<T> {
        let value = self.get(name)?;
        let parsed = parse(value.trim());
        if parsed.is_none() {
            tracing::warn!("{name} is {value:?} in Hadoop's configuration, not {wanted}: using the default");
        }
        parsed
    }

    /// Whether to call datanodes by name rather than by address.
    pub(super) fn use_datanode_hostname(&self) -> bool {
        self.get("dfs.client.use.datanode.hostname").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// `StringUtils.TraditionalBinaryPrefix.string2long`, for sizes above zero.
fn bytes_of(text: &str) -> Option<u64> {
    // Java's longs have a sign.
    size::bytes(text).filter(|bytes| (1..=i64::MAX as u64).contains(bytes))
}

/// `Configuration.getTimeDuration`, for seconds.
fn duration_of(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().ok()?;
    Some(match unit.trim() {
        "ns" => Duration::from_nanos(number),
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "" | "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3_600)?),
        "d" => Duration::from_secs(number.checked_mul(86_400)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(properties: &[(&str, &str)]) -> HadoopConfig {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HadoopConfig { properties: properties.collect() }
    }

    #[test]
    fn a_nameservice_is_all_its_namenodes_and_a_host_itself() {
        let config = config(&[
            ("dfs.ha.namenodes.prod", "nn1, nn2"),
            ("dfs.namenode.rpc-address.prod.nn1", "a:8020"),
            ("dfs.namenode.rpc-address.prod.nn2", "b:9000"),
            ("dfs.ha.namenodes.bare", "nn1"),
        ]);
        assert_eq!(config.namenodes("prod").unwrap(), ["a:8020", "b:9000"]);
        assert_eq!(config.namenode_ids("prod"), ["nn1", "nn2"]);
        assert!(config.namenode_ids("host").is_empty());
        assert_eq!(config.namenodes("host").unwrap(), ["host:8020"]);
        assert_eq!(config.namenodes("host:9").unwrap(), ["host:9"]);
        assert_eq!(config.namenodes("bare").unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn the_default_store_names_the_namenode_if_it_is_hdfs() {
        for (store, wanted) in [
            ("hdfs://nn:8020", Some("nn:8020")),
            ("hdfs://nn:8020/user/alice", Some("nn:8020")),
            ("HDFS://prod/", Some("prod")),
            ("hdfs://[::1]:9/", Some("[::1]:9")),
            ("nn:9000", Some("nn:9000")),
            ("nn", Some("nn")),
            ("local", None),
            ("file:///", None),
            ("hdfs:///", None),
            ("hdfs:", None),
            ("viewfs://prod/", None),
        ] {
            let config = config(&[("fs.defaultFS", store)]);
            let authority = config.default_authority();
            let told = authority.as_ref().err().map(ToString::to_string).unwrap_or_default();
            assert!(wanted.is_some() || told.contains(store) && told.contains("write hdfs://"), "{told}");
            assert_eq!(authority.ok().as_deref(), wanted, "{store}");
        }
        let variables = [("fs.defaultFS", "hdfs://${nn}:9000"), ("nn", "${nn.host}"), ("nn.host", "a")];
        assert_eq!(config(&variables).default_authority().unwrap(), "a:9000");
        for secret in ["s3a://KEY:SECRET@bucket/", "hdfs://user:SECRET@nn", "user:SECRET@nn"] {
            let told = config(&[("fs.defaultFS", secret)]).default_authority().unwrap_err().to_string();
            assert!(told.contains("fs.defaultFS") && !told.contains("SECRET"), "{told}");
        }
        let none = config(&[]).default_authority().unwrap_err().to_string();
        assert!(none.contains("fs.defaultFS") && none.contains("HADOOP_CONF_DIR"), "{none}");
    }

    #[test]
    fn the_default_stores_old_name_counts_if_the_new_one_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let property =
            |name, value| format!("<property><name>{name}</name><value>{value}</value></property>");
        let (old, new) = (property("fs.default.name", "hdfs://old"), property("fs.defaultFS", "hdfs://new"));
        for (properties, wanted) in [(old.clone(), "old"), (format!("{new}{old}"), "new")] {
            let text = format!("<configuration>{properties}</configuration>");
            std::fs::write(dir.path().join("core-site.xml"), text).unwrap();
            assert_eq!(HadoopConfig::load_from(dir.path()).unwrap().default_authority().unwrap(), wanted);
        }
    }

    #[test]
    fn a_namenode_may_do_without_kerberos_only_if_the_configuration_allows_it() {
        const KERBEROS: (&str, &str) = ("hadoop.security.authentication", "kerberos");
        const FALLBACK: &str = "ipc.client.fallback-to-simple-auth-allowed";
        assert!(config(&[KERBEROS]).demands_kerberos());
        assert!(config(&[KERBEROS, (FALLBACK, "false")]).demands_kerberos());
        assert!(!config(&[KERBEROS, (FALLBACK, "true")]).demands_kerberos());
        assert!(!config(&[]).demands_kerberos());
    }

    #[test]
    fn a_configuration_that_is_not_there_is_an_error_and_a_missing_file_of_it_is_none() {
        let dir = tempfile::tempdir().unwrap();
        HadoopConfig::load_from(dir.path()).unwrap();
        let file = dir.path().join("file");
        let missing = HadoopConfig::load_from(&file).unwrap_err();
        assert!(missing.kind() == ErrorKind::NotFound && missing.to_string().contains("file"), "{missing}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(HadoopConfig::load_from(&file).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn sizes_and_times_have_hadoops_units() {
        let sizes = [
            ("134217728", Some(128 << 20)),
            ("128m", Some(128 << 20)),
            ("128M", Some(128 << 20)),
            (" 1g ", Some(1 << 30)),
            ("4k", Some(4 << 10)),
            ("2T", Some(2 << 40)),
            ("1p", Some(1 << 50)),
            ("7E", Some(7 << 60)),
            ("8e", None),
            ("128mb", None),
            ("0", None),
            ("-1m", None),
            ("m", None),
            ("", None),
            ("ü", None),
        ];
        for (value, bytes) in sizes {
            assert_eq!(config(&[("size", value)]).bytes("size"), bytes, "{value:?}");
        }
        let times = [
            ("30", Some(30_000)),
            ("30s", Some(30_000)),
            ("1500ms", Some(1_500)),
            ("2 M", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("1w", None),
            ("s", None),
            ("99999999999999999999", None),
        ];
        for (value, milliseconds) in times {
            let due = milliseconds.map(Duration::from_millis);
            assert_eq!(config(&[("time", value)]).duration("time"), due, "{value:?}");
        }
        assert_eq!(config(&[]).bytes("size"), None);
    }

    #[test]
    fn a_configuration_file_gives_its_properties() {
        let mut config = HadoopConfig::default();
        let text = "<?xml version=\"1.0\"?><configuration><property><name>hadoop.security.authentication\
            </name><value> kerberos </value><final>true</final></property></configuration>";
        config.parse(text).unwrap();
        assert_eq!(config.secured(), Some("not supported with Kerberos"));
        assert!(HadoopConfig::default().secured().is_none());
        assert_eq!(config.checksum_mode().unwrap(), ChecksumMode::Md5Md5Crc);
        config.properties.insert("dfs.checksum.combine.mode".into(), "SHA".into());
        assert_eq!(config.checksum_mode().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(config.parse("<configuration>").unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

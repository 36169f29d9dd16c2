//! Hadoop's configuration files for a small, quick cluster.

use super::Options;
use crate::failure::Result;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Users that tests act as, with groups of their own. Otherwise the namenode would ask the
/// operating system, which knows neither.
const TEST_USERS: &str = "alice=staff;bob=staff;carol=guests";

/// Settings that differ between clusters.
pub(super) struct Settings<'a> {
    /// The namenode's address.
    pub address: Ipv4Addr,
    pub rpc_port: u16,
    pub http_port: u16,
    pub user: &'a str,
    pub options: &'a Options,
}

/// Writes `conf` within `dir`, and the empty web applications that the daemons need to start.
pub(super) fn write(dir: &Path, settings: &Settings<'_>) -> Result<()> {
    let conf = dir.join("conf");
    for webapp in ["hdfs", "datanode"] {
        fs::create_dir_all(conf.join("webapps").join(webapp))?;
    }
    let Settings { address, rpc_port, http_port, user, options } = settings;
    let rpc = format!("{address}:{rpc_port}");
    let http = format!("{address}:{http_port}");
    let proxy_hosts = format!("hadoop.proxyuser.{user}.hosts");
    let proxy_groups = format!("hadoop.proxyuser.{user}.groups");
    let groups = format!("{user}=supergroup;{TEST_USERS}");
    let uri = format!("hdfs://{rpc}");
    let core = [
        ("fs.defaultFS", uri.as_str()),
        (&proxy_hosts, "*"),
        (&proxy_groups, "*"),
        ("hadoop.user.group.static.mapping.overrides", &groups),
    ];
    let name_dir = format!("file://{}/name", dir.display());
    let replication = options.replication.to_string();
    let hdfs = [
        ("dfs.namenode.name.dir", name_dir.as_str()),
        ("dfs.namenode.rpc-address", &rpc),
        ("dfs.namenode.http-address", &http),
        ("dfs.replication", &replication),
        ("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
        ("dfs.namenode.safemode.extension", "0"),
        // Small files with many blocks.
        ("dfs.namenode.fs-limits.min-block-size", "512"),
        // Seconds and milliseconds, so that recovery and loss fit a test's patience.
        ("dfs.heartbeat.interval", "1"),
        ("dfs.namenode.heartbeat.recheck-interval", "1000"),
        ("dfs.namenode.redundancy.interval.seconds", "1s"),
        // All datanodes share this machine, so its load is meaningless.
        ("dfs.namenode.redundancy.considerLoad", "false"),
        // A test's data needn't survive a power cut.
        ("dfs.namenode.edits.noeditlogchannelflush", "true"),
        // Tests set and check access times.
        ("dfs.namenode.accesstime.precision", "1"),
    ];
    fs::write(conf.join("core-site.xml"), xml(&core))?;
    // Of two properties of one name, the later one counts.
    let hdfs = [&hdfs[..], &options.properties].concat();
    fs::write(conf.join("hdfs-site.xml"), xml(&hdfs))?;
    fs::write(conf.join("log4j.properties"), LOGGING)?;
    Ok(())
}

const LOGGING: &str = "\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
";

fn xml(properties: &[(&str, &str)]) -> String {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for (name, value) in properties {
        text.push_str(&format!("  <property><name>{name}</name><value>{value}</value></property>\n"));
    }
    text.push_str("</configuration>\n");
    text
}

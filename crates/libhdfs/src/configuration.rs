//! Hadoop's configuration, as programs see it.

use crate::failure::{Failure, Outcome};
use std::env;
use std::path::Path;
use strait_store_any::{DEFAULT_STORE, HadoopConfig};

/// Default values of properties that programs ask for.
const DEFAULTS: [(&str, &str); 4] = [
    (DEFAULT_STORE, "file:///"),
    ("dfs.replication", "3"),
    ("dfs.blocksize", "134217728"),
    ("io.file.buffer.size", "4096"),
];

/// Loads the configuration in `$HADOOP_CONF_DIR` or `$HADOOP_HOME/etc/hadoop`. If neither variable is set,
/// loads it from the first directory of `$CLASSPATH` that has a `core-site.xml`. `$STRAIT_STORE` replaces the
/// configured default store.
pub fn load() -> Outcome<HadoopConfig> {
    let named = ["HADOOP_CONF_DIR", "HADOOP_HOME"].iter().any(|name| env::var_os(name).is_some());
    let mut config = match env::var("CLASSPATH") {
        Ok(classpath) if !named => {
            let mut entries = classpath.split(':').map(Path::new);
            let found = entries.find(|entry| entry.join("core-site.xml").is_file());
            found.map_or_else(|| Ok(HadoopConfig::default()), HadoopConfig::load_from)?
        }
        _ => HadoopConfig::load()?,
    };
    if let Some(store) = env::var("STRAIT_STORE").ok().filter(|store| !store.is_empty()) {
        config.set(DEFAULT_STORE, store);
    }
    Ok(config)
}

/// The value of a property, or its default.
pub fn value(config: &HadoopConfig, name: &str) -> Option<String> {
    let own = config.get(name);
    let given = own.or_else(|| DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value));
    given.map(|given| config.expanded(given))
}

/// The value of a property as a number. It is decimal, or hexadecimal after 0x.
pub fn number(config: &HadoopConfig, name: &str) -> Outcome<Option<i32>> {
    let Some(value) = value(config, name) else { return Ok(None) };
    let text = value.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    let number = parsed.ok().and_then(|number| i32::try_from(number.checked_mul(sign)?).ok());
    number.map(Some).ok_or_else(|| {
        let most = "it must be a whole number from -2147483648 to 2147483647, in decimal or as 0x…";
        Failure::invalid(format!("{name} is {value:?}; {most}"))
    })
}

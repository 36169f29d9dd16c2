//! Settings of a store, from flags and from the environment.

use std::fmt;
use std::path::PathBuf;

/// Values of the flags. Each takes precedence over the environment.
#[derive(Clone, Default)]
pub struct Options {
    /// The endpoint of S3, as `--endpoint-url` of the AWS tools.
    pub endpoint: Option<String>,
    /// The region of S3, as `--region`.
    pub region: Option<String>,
    /// The section of the AWS tools' files, as `--profile`.
    pub profile: Option<String>,
    /// Send no credentials, as `--no-sign-request`: for public buckets.
    pub unsigned: bool,
    /// Trust these authorities (PEM) alone, as `--ca-bundle`.
    pub ca: Option<PathBuf>,
    /// Variables, named as in the services' tools. They take precedence over this process's environment.
    pub variables: Vec<(String, String)>,
}

/// Shows only the names of variables, because values may be keys.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, region, profile, unsigned, ca, variables } = self;
        let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        let mut shown = f.debug_struct("Options");
        shown.field("endpoint", endpoint).field("region", region).field("profile", profile);
        shown.field("unsigned", unsigned).field("ca", ca).field("variables", &names).finish()
    }
}

impl Options {
    /// A variable that isn't empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let given = self.variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        given.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
    }
}

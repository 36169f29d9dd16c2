//! Flags for stores behind other services and libraries, and of the commands about stores.

use crate::failure::Failure;
use clap::Args;
use strait_store_any::{ByUri, ForeignOptions, Launch};

/// Flags of object stores, as the AWS tools name them, and of plugins.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Object stores and plugins")]
pub struct Foreign {
    /// Reach s3:// at this endpoint, such as http://127.0.0.1:9000 [default: AWS_ENDPOINT_URL, or the
    /// profile's, or Amazon's].
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// The region of s3:// buckets [default: AWS_REGION, or the profile's, or us-east-1].
    #[arg(long, global = true, value_name = "NAME")]
    pub region: Option<String>,
    /// Take keys and settings for s3:// from this profile in ~/.aws [default: AWS_PROFILE, or default].
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// Send no credentials to object stores: for public buckets.
    #[arg(long, global = true)]
    pub no_sign_request: bool,
    /// Load this plugin for URIs plugin:NAME://…; repeatable.
    #[arg(long = "plugin", global = true, value_name = "NAME=LIBRARY")]
    pub plugins: Vec<String>,
    /// A setting of a plugin or of libhdfs:, with a key that its documentation names; repeatable.
    #[arg(long = "plugin-option", global = true, value_name = "NAME.KEY=VALUE")]
    pub plugin_options: Vec<String>,
    /// Run this plugin, or `libhdfs`, in this process: faster, but its crash ends the process. Without this
    /// flag, it runs in a separate process; repeatable.
    #[arg(long = "plugin-inside", global = true, value_name = "NAME")]
    pub inside: Vec<String>,
}

impl Foreign {
    /// The libraries that the flags name.
    ///
    /// # Errors
    /// A flag of a plugin has the wrong form, or a plugin has no library.
    pub fn libraries(&self) -> Result<ForeignOptions, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::other(format!("can't find this program's own file: {error}")))?;
        let helper = Launch { program, arguments: vec!["plugin-helper".into()] };
        // The operator writes the command's URIs.
        let mut options =
            ForeignOptions { by_uri: ByUri::Any, helper: Some(helper), ..ForeignOptions::default() };
        for flag in &self.plugins {
            let Some((name, path)) =
                flag.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty())
            else {
                return Err(Failure::usage(format!("--plugin {flag}: write NAME=LIBRARY")));
            };
            // For a bare name, the loader would search its own directories.
            let path = std::path::absolute(path).map_err(|error| Failure::other(error.to_string()))?;
            options.libraries.entry(name.to_owned()).or_default().path = path;
        }
        for flag in &self.plugin_options {
            let setting = flag.split_once('=').and_then(|(key, value)| Some((key.split_once('.')?, value)));
            let Some(((name, key), value)) = setting else {
                return Err(Failure::usage(format!("--plugin-option {flag}: write NAME.KEY=VALUE")));
            };
            let library = options.libraries.entry(name.to_owned()).or_default();
            library.options.push((key.to_owned(), value.to_owned()));
        }
        for name in &self.inside {
            options.libraries.entry(name.clone()).or_default().inside = true;
        }
        let unnamed = |(name, library): &(&String, &strait_store_any::Library)| {
            name.as_str() != "libhdfs" && library.path.as_os_str().is_empty()
        };
        match options.libraries.iter().find(unnamed) {
            Some((name, _)) => {
                Err(Failure::usage(format!("no library for {name}: give --plugin {name}=LIBRARY")))
            }
            None => Ok(options),
        }
    }
}

#[derive(Debug, Args)]
pub struct Stores {
    /// Instead of the kinds, list these stores and what each can do now.
    #[arg(value_name = "URI")]
    pub uris: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Write nothing: skip the tests of write permission and write throughput.
    #[arg(long)]
    pub read_only: bool,
    /// The store to check. Its path names the directory for a temporary file.
    #[arg(value_name = "URI")]
    pub uri: String,
}

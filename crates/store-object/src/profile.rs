//! The AWS tools' files: `~/.aws/credentials` and `~/.aws/config`.

use crate::options::Options;
use std::path::PathBuf;
use strait_store::{ErrorKind, Result, fail};

/// Longest file that is read. The tools write some hundred bytes for each profile.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Settings by which the AWS tools get keys in other ways than from these files.
const OTHER_WAYS: [&str; 6] = [
    "role_arn",
    "sso_session",
    "sso_start_url",
    "login_session",
    "credential_process",
    "web_identity_token_file",
];

/// The settings of a profile.
#[derive(Default)]
pub struct Profile {
    pub credentials: Option<Credentials>,
    pub region: Option<String>,
    pub endpoint: Option<String>,
    /// The setting by which the profile gets its keys elsewhere. Other keys must not silently replace them.
    pub other_way: Option<&'static str>,
}

/// Keys that don't change while the process lives.
pub struct Credentials {
    pub key: String,
    pub secret: String,
    pub token: Option<String>,
}

impl Profile {
    /// Reads the profile that `options` name, or else the one of AWS_PROFILE, or else `default`.
    ///
    /// # Errors
    /// NotFound if a profile was named, and neither file has it.
    pub fn read(options: &Options) -> Result<Self> {
        let variable = |name| options.variable(name);
        let named = options.profile.clone().or_else(|| variable("AWS_PROFILE"));
        let name = named.as_deref().unwrap_or("default");
        let file = |variable_name, file: &str| {
            let home = std::env::home_dir().unwrap_or_default();
            let path = variable(variable_name).map_or_else(|| home.join(".aws").join(file), PathBuf::from);
            let is_small = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_FILE_BYTES);
            is_small.then(|| std::fs::read_to_string(&path).ok()).flatten().unwrap_or_default()
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file("AWS_CONFIG_FILE", "config");
        let sections = [section(&credentials, name), section(&config, name)];
        if named.is_some() && sections.iter().all(Option::is_none) {
            let message = format!("no profile {name} in ~/.aws/credentials or ~/.aws/config");
            return fail(ErrorKind::NotFound, message);
        }
        let profile = Self::of(&sections.into_iter().flatten().flatten().collect::<Vec<_>>());
        // If no profile was named, the keys may come from the environment or the instance instead.
        let other_way = profile.other_way.filter(|_| named.is_some());
        Ok(Self { other_way, ..profile })
    }

    fn of(lines: &[(String, String)]) -> Self {
        let value = |name: &str| lines.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let keys = value("aws_access_key_id").zip(value("aws_secret_access_key"));
        let token = value("aws_session_token");
        let other_way = OTHER_WAYS.into_iter().find(|way| keys.is_none() && value(way).is_some());
        Self {
            credentials: keys.map(|(key, secret)| Credentials { key, secret, token }),
            region: value("region"),
            endpoint: value("endpoint_url"),
            other_way,
        }
    }
}

type Lines = Vec<(String, String)>;

/// The `key = value` lines of a section. In the configuration file, the word `profile` may precede its name.
fn section(text: &str, name: &str) -> Option<Lines> {
    let mut lines = None;
    let mut inside = false;
    for line in text.lines() {
        // An indented line belongs to a nested setting.
        if let Some(header) = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let header = header.0.trim();
            inside = header == name || header.strip_prefix("profile ").is_some_and(|own| own.trim() == name);
            if inside {
                lines.get_or_insert_with(Vec::new);
            }
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((key, value)) = line.split_once('=')
            && let Some(lines) = lines.as_mut()
        {
            lines.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n# x\n\
                        [profile lab]\nregion = eu-west-1\ns3 =\n  endpoint_url = no\nendpoint_url = http://lab\n";

    #[test]
    fn a_section_has_its_own_lines_only() {
        let default = Profile::of(&section(FILE, "default").unwrap());
        let credentials = default.credentials.unwrap();
        assert_eq!((credentials.key.as_str(), credentials.secret.as_str()), ("A", "B"));
        assert!(credentials.token.is_none() && default.region.is_none());
        let lab = Profile::of(&section(FILE, "lab").unwrap());
        assert_eq!(lab.region.as_deref(), Some("eu-west-1"));
        assert_eq!(lab.endpoint.as_deref(), Some("http://lab"));
        assert!(lab.credentials.is_none());
        assert!(section(FILE, "other").is_none());
    }

    #[test]
    fn the_keys_of_a_named_profile_are_never_replaced_by_others() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = x\n")
            .unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let mut variables = vec![("AWS_CONFIG_FILE".to_owned(), path)];
        let bucket = |profile: Option<&str>, variables: &[(String, String)]| {
            let profile = profile.map(str::to_owned);
            let options = Options { profile, variables: variables.to_vec(), ..Options::default() };
            crate::connect::bucket(strait_store::Scheme::S3, "b", &options, &std::sync::Arc::default())
        };
        let Err(error) = bucket(Some("role"), &variables) else { panic!("it acts as somebody else") };
        assert!(error.message().contains("role_arn"), "{error}");
        // As the AWS tools: keys in the environment take precedence over AWS_PROFILE.
        for (name, value) in
            [("AWS_PROFILE", "role"), ("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B")]
        {
            variables.push((name.to_owned(), value.to_owned()));
        }
        assert!(bucket(None, &variables).is_ok());
        std::fs::write(&file, "[profile lab]\nregion = eu-west-1\n").unwrap();
        let Err(error) = bucket(Some("lab"), &variables) else { panic!("it acts as somebody else") };
        assert!(error.message().contains("has no keys"), "{error}");
    }
}

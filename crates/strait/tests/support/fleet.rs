//! Hosts without a network: what passes for ssh runs its script on this host, whatever the name.

use crate::support::binary;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Words of `run` for these hosts, with this build on them. Each host has a home of its own below `dir`.
/// `before` is shell that runs there first; `$host` is the host's name.
pub fn fleet(dir: &Path, hosts: &[&str], before: &str) -> Vec<String> {
    let script = dir.join("like-ssh");
    let text = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; host=$2; script=$3\n{before}\n\
         HOME={0}/$host; XDG_CACHE_HOME=$HOME/cache; export HOME XDG_CACHE_HOME\nmkdir -p \"$HOME\"; cd \"$HOME\"\n\
         sh -c \"$script\"\nexit $?\n",
        dir.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut words: Vec<String> = vec!["run".into(), "--ssh".into(), script.display().to_string()];
    words.extend(["--remote-strait".to_owned(), binary().display().to_string()]);
    words.extend(hosts.iter().flat_map(|host| ["--host".to_owned(), (*host).to_owned()]));
    words
}

//! The servers of a file on a mounted GlusterFS volume.
//!
//! GlusterFS's mount answers a virtual extended attribute with the bricks of a file, in nested brackets of its
//! translators: `(<REPLICATE:v-replicate-0> <POSIX(/b):one:/b/file> <POSIX(/b):two:/b/file>)` (GlusterFS,
//! "pathinfo"). Only the last level, `POSIX(BRICK):HOST:PATH`, names hosts.

use super::root::descriptor_path;
use std::os::fd::AsFd;

/// Every user can read the attribute by this name; only root can read `trusted.glusterfs.pathinfo`.
const ATTRIBUTE: &str = "glusterfs.pathinfo";
/// The names of the largest replica set are shorter. A longer answer counts as none.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Longest name of a host in DNS, in bytes.
const MAX_HOST_BYTES: usize = 255;

/// Hosts whose bricks hold this file or a part of it; none on other file systems.
pub(super) fn hosts(node: impl AsFd) -> Vec<String> {
    let mut answer = vec![0; MAX_ANSWER_BYTES];
    match rustix::fs::getxattr(descriptor_path(node), ATTRIBUTE, &mut answer[..]) {
        Ok(length) => named(&String::from_utf8_lossy(&answer[..length])),
        Err(_) => Vec::new(),
    }
}

/// The hosts in an answer, each once, in the answer's order.
fn named(answer: &str) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for brick in answer.split("<POSIX(").skip(1) {
        let Some((_, place)) = brick.split_once("):") else { continue };
        // An IPv6 address has colons, too; the path begins with a slash.
        let Some((host, _)) = place.split_once(":/") else { continue };
        if is_host(host) && !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

fn is_host(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    name.len() <= MAX_HOST_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bricks_name_their_hosts() {
        let cases: [(&str, &[&str]); 8] = [
            ("<POSIX(/bricks/1):one.lab:/bricks/1/a b>", &["one.lab"]),
            ("(<DISTRIBUTE:v-dht> <POSIX(/b):one:/b/f>)", &["one"]),
            (
                "((<DISTRIBUTE:v-dht> (<REPLICATE:v-0> <POSIX(/b):one:/b/f> <POSIX(/b):two:/b/f>)))",
                &["one", "two"],
            ),
            ("(<EC:v-disperse-0> <POSIX(/a):one:/a/f> <POSIX(/c):one:/c/f>)", &["one"]),
            ("<POSIX(/b(1)):fd00::7:/b(1)/f>", &["fd00::7"]),
            ("<POSIX(/b):-oProxyCommand:/b/f> <POSIX(/b)::/f> <POSIX(/b> <POSIX(", &[]),
            ("<POSIX(/b):a\nb:/f>", &[]),
            ("", &[]),
        ];
        for (answer, hosts) in cases {
            assert_eq!(named(answer), hosts, "{answer:?}");
        }
    }

    #[test]
    fn other_file_systems_name_none() {
        assert!(hosts(tempfile::tempfile().unwrap()).is_empty());
    }
}

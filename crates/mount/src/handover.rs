//! The process that serves a mount hands it over to the next process, as in an upgrade.
//!
//! ```text
//!   next process                            process that serves
//!        │ ── Hello: protocol, terms ───────────→ │ refuses, or stops reading requests,
//!        │                                        │ answers those it has, closes all writers
//!        │ ←── State, descriptors of the mount ── │
//!        │ does everything that can fail          │
//!        │ ── TAKEN ────────────────────────────→ │ ends, without unmounting
//! ```
//!
//! The hand-over commits when the kernel queues TAKEN. The next process serves only if it could send TAKEN.
//! The other process continues to serve unless it received TAKEN. A process that stops waiting first shuts
//! its socket down for reading, and then checks its queue once more. So the two never serve at the same time.

pub mod exchange;

use crate::Options;
use crate::identity::Identity;
use crate::ledger::{Run, Written};
use crate::nodes::Known;
use serde::{Deserialize, Serialize};
use strait_store::{Error, ErrorKind, Principal};

/// Version of the messages and of the state. Both processes must use the same.
pub const PROTOCOL: u32 = 1;

/// The first message, from the next process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// How the next process would serve the mount.
    pub terms: Terms,
}

/// The field of [`Hello`] that every version of the protocol has.
#[derive(Deserialize)]
struct Version {
    protocol: u32,
}

/// Options that must be equal in both processes: the kernel got them at the mount, or open files depend on
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The store's directory, as mount(8) shows it.
    pub source: String,
    /// The store's user; `None` if each program acts as its own user.
    pub user: Option<String>,
    /// Changes are refused.
    pub read_only: bool,
    /// Patterns of PLFS files, in order.
    pub plfs: Vec<String>,
}

impl Terms {
    /// The terms of a mount with these options.
    pub fn of(options: &Options) -> Self {
        let user = match &options.settings.identity {
            Identity::One(who) => Some(who.user.to_string()),
            Identity::Caller => None,
        };
        let mut plfs: Vec<String> =
            options.settings.logical.iter().map(|it| it.as_str().to_owned()).collect();
        plfs.sort();
        plfs.dedup();
        Self { source: options.source.clone(), user, read_only: options.settings.read_only, plfs }
    }

    /// Checks another process's first message.
    ///
    /// # Errors
    /// The reason why that process can't serve the mount, as a message for its user.
    pub fn check(&self, hello: &[u8]) -> Result<(), String> {
        let protocol = serde_json::from_slice::<Version>(hello).map(|version| version.protocol);
        match protocol {
            Ok(PROTOCOL) => {}
            Ok(other) => {
                return Err(format!(
                    "the mount's process uses hand-over protocol {PROTOCOL}, and the new process {other}; \
                     unmount for this upgrade"
                ));
            }
            Err(error) => return Err(format!("the request makes no sense: {error}")),
        }
        let hello: Hello =
            serde_json::from_slice(hello).map_err(|error| format!("the request makes no sense: {error}"))?;
        let asked = hello.terms;
        let user = |terms: &Self| terms.user.clone().unwrap_or_else(|| "every user (--allow-other)".into());
        let (ours, theirs) = (user(self), user(&asked));
        let differ = |what, ours: &str, theirs: &str| {
            Err(format!("{what} must stay the same: it is {ours:?}, but the new process has {theirs:?}"))
        };
        if self.source != asked.source {
            return differ("the store", &self.source, &asked.source);
        }
        if ours != theirs {
            return differ("the user", &ours, &theirs);
        }
        if self.read_only != asked.read_only {
            return differ("--read-only", &self.read_only.to_string(), &asked.read_only.to_string());
        }
        if self.plfs != asked.plfs {
            return differ("--plfs", &self.plfs.join(" "), &asked.plfs.join(" "));
        }
        Ok(())
    }
}

/// The answer to [`Hello`].
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The sender continues to serve the mount, for this reason.
    Refused(String),
    /// The state. The mount's descriptors follow.
    State(State),
}

/// Everything that the next process must know. No writer is open, and every request is answered.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Nodes with their names.
    pub nodes: Known,
    /// Open files.
    pub files: Vec<File>,
    /// Open files' and directories' handles.
    pub handles: Vec<Handle>,
    /// The number of the latest handle.
    pub last_handle: u64,
    /// Nodes of removed open files, and the users that removed them.
    pub hidden: Vec<(u64, User)>,
}

/// A file that is open for one user.
#[derive(Debug, Serialize, Deserialize)]
pub struct File {
    /// Its node.
    pub node: u64,
    /// The user.
    pub who: User,
    /// Its kind and state, with which the next process opens it.
    pub body: Body,
    /// Its number in the record of a killed process; 0 after a hand-over.
    #[serde(default)]
    pub number: u64,
}

/// Kinds of open files.
#[derive(Debug, Serialize, Deserialize)]
pub enum Body {
    /// A file of the store.
    Plain {
        /// Why written bytes were lost, if they were.
        failed: Option<Failure>,
        /// The identity of the file that is open for reading.
        identity: Option<Vec<u8>>,
        /// The range of written bytes that the store may lack, if the process was killed.
        #[serde(default)]
        written: Option<Written>,
    },
    /// A container of PLFS.
    Logical,
    /// A container with bytes that a killed process hadn't published.
    Unpublished(Vec<Run>),
}

/// An error that lost an open file's bytes. The file's next close reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    kind: String,
    message: String,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind().row().name.to_owned(), message: error.to_string() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(ErrorKind::from_name(&failure.kind).unwrap_or(ErrorKind::Internal), failure.message)
    }
}

/// A handle that the kernel has.
#[derive(Debug, Serialize, Deserialize)]
pub enum Handle {
    /// A handle of an open file.
    File {
        /// The handle's number.
        number: u64,
        /// The file's index in [`State::files`].
        file: usize,
        /// The handle can write.
        writes: bool,
        /// The handle writes only at the end of the file.
        appends: bool,
    },
    /// A handle of a directory. The next process lists the directory again.
    Directory {
        /// The handle's number.
        number: u64,
        /// The directory's node.
        node: u64,
        /// The user for whom it is listed.
        who: User,
        /// Its path when it was opened.
        path: String,
    },
}

/// A user of the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    name: String,
    groups: Vec<String>,
}

impl From<&Principal> for User {
    fn from(who: &Principal) -> Self {
        Self { name: who.user.to_string(), groups: who.groups.to_vec() }
    }
}

impl User {
    /// The same user, in the write session of the process that serves now.
    pub fn principal(&self, identity: &Identity) -> Principal {
        match identity {
            Identity::One(who) if *who.user == *self.name => who.clone(),
            _ => Principal { groups: self.groups.clone().into(), ..Principal::new(&self.name) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        let plfs = vec!["*.ckpt".to_owned()];
        Terms { source: "strait://h:9090/data".into(), user: Some("ada".into()), read_only: false, plfs }
    }

    fn asked(terms: Terms) -> Result<(), String> {
        self::terms().check(&serde_json::to_vec(&Hello { protocol: PROTOCOL, terms }).unwrap())
    }

    #[test]
    fn only_a_process_that_would_serve_the_same_gets_a_mount() {
        asked(terms()).unwrap();
        let refused = |terms, word: &str| {
            let why = asked(terms).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(Terms { source: "strait://h:9090/other".into(), ..terms() }, "/other");
        refused(Terms { user: Some("bob".into()), ..terms() }, "bob");
        refused(Terms { user: None, ..terms() }, "--allow-other");
        refused(Terms { read_only: true, ..terms() }, "--read-only");
        refused(Terms { plfs: Vec::new(), ..terms() }, "--plfs");
    }

    #[test]
    fn another_protocol_is_named_whatever_else_its_message_says() {
        let why = terms().check(br#"{"protocol": 2, "conditions": []}"#).unwrap_err();
        assert!(why.contains("protocol 1") && why.contains("the new process 2"), "{why}");
        for nonsense in [&b""[..], b"GET / HTTP/1.1", b"[]", b"{\"protocol\": 1}"] {
            let why = terms().check(nonsense).unwrap_err();
            assert!(why.contains("makes no sense"), "{why}");
        }
    }

    #[test]
    fn an_error_of_an_open_file_keeps_its_kind() {
        let error = Error::new(ErrorKind::NoSpace, "full");
        let error = Error::from(Failure::from(&error));
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("full"), "{error}");
    }
}

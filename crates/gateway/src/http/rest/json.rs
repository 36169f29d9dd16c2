//! JSON bodies of REST's requests and answers. Names and forms are those of `strait --json`, with `name` and
//! `link` in addition. The names in each answer are in alphabetical order.

use serde::{Deserialize, Serialize};
use strait_store::{BlockLocation, Error, ErrorKind, FileStatus, Result, SetAttributes};

/// A file's or directory's status.
#[derive(Serialize)]
pub struct Status<'a> {
    accessed_ms: i64,
    block_size: u64,
    group: &'a str,
    length: u64,
    link: bool,
    modified_ms: i64,
    name: &'a str,
    owner: &'a str,
    path: &'a str,
    permission: String,
    replication: u16,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> From<&'a FileStatus> for Status<'a> {
    fn from(status: &'a FileStatus) -> Self {
        Self {
            accessed_ms: status.accessed_ms,
            block_size: status.block_size,
            group: &status.group,
            length: status.length,
            link: status.link,
            modified_ms: status.modified_ms,
            name: status.name(),
            owner: &status.owner,
            path: &status.path,
            permission: format!("{:04o}", status.permission),
            replication: status.replication,
            kind: if status.is_directory() { "directory" } else { "file" },
        }
    }
}

/// A page of a directory.
#[derive(Serialize)]
pub struct Page<'a> {
    /// Its entries.
    pub entries: Vec<Status<'a>>,
    /// The cursor of the next page.
    pub next: Option<&'a str>,
}

/// The blocks of a file.
#[derive(Serialize)]
pub struct Blocks<'a> {
    /// In the file's order.
    pub blocks: Vec<Block<'a>>,
}

/// A block and its hosts.
#[derive(Serialize)]
pub struct Block<'a> {
    addresses: &'a [String],
    corrupt: bool,
    hosts: &'a [String],
    length: u64,
    offset: u64,
}

impl<'a> From<&'a BlockLocation> for Block<'a> {
    fn from(block: &'a BlockLocation) -> Self {
        let BlockLocation { offset, length, hosts, addresses, corrupt } = block;
        Self { addresses, corrupt: *corrupt, hosts, length: *length, offset: *offset }
    }
}

/// Permission bits, written in octal digits.
pub fn permission(text: Option<&str>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(bits) if digits => Ok(Some(bits)),
        _ => {
            let message = "permission has one to four octal digits, such as \"0644\"";
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// A number of replicas.
pub fn replication(count: Option<u64>) -> Result<Option<u16>> {
    match count.map(u16::try_from).transpose() {
        Ok(Some(0)) | Err(_) => {
            Err(Error::new(ErrorKind::InvalidArgument, "a number of replicas must be from 1 to 65535"))
        }
        Ok(count) => Ok(count),
    }
}

/// The body of a rename.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The present path.
    pub from: String,
    /// The new path itself, never a directory to move into.
    pub to: String,
    /// Whether it may replace a file.
    #[serde(default)]
    pub replace: bool,
}

/// The body of a login.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user; none where no login is needed.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
}

/// The body of a change of attributes. Absent attributes don't change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    permission: Option<String>,
    owner: Option<String>,
    group: Option<String>,
    modified_ms: Option<i64>,
    accessed_ms: Option<i64>,
    replication: Option<u64>,
    /// The file is truncated to this many bytes.
    length: Option<u64>,
}

/// A change of a file or directory.
pub enum Change {
    /// Of its attributes.
    Attributes(SetAttributes),
    /// Of its length.
    Length(u64),
}

impl Attributes {
    /// Converts the body to a change.
    ///
    /// # Errors
    /// InvalidArgument: the permission or the number of replicas is invalid, or there is a new length
    /// beside other attributes, which would be two changes.
    pub fn change(self) -> Result<Change> {
        let set = SetAttributes {
            permission: permission(self.permission.as_deref())?,
            owner: self.owner,
            group: self.group,
            modified_ms: self.modified_ms,
            accessed_ms: self.accessed_ms,
            replication: replication(self.replication)?,
        };
        match (self.length, set == SetAttributes::default()) {
            (None, _) => Ok(Change::Attributes(set)),
            (Some(length), true) => Ok(Change::Length(length)),
            (Some(_), false) => {
                let message = "a request can't set length and other attributes; send two requests";
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}

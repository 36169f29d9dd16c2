//! The cases that every client language runs: clients/conformance/README.md has their rules.
//!
//! The Rust client runs them by its blocking streams. Its types can't express negative lengths, and the size of
//! a listing's pages is its own choice: steps with these, and requests below the client, go through the test
//! kit's Thrift client. `put` is the command's.

use super::requests::Requests;
use crate::support::{Run, command};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use strait_client::blocking::{Client, Reader, Writer};
use strait_client::{
    CreateOptions, Error, ErrorKind, FileStatus, FileSystem, Options, Principal, SetAttributes, StorePath,
};
use strait_store::TABLE;
use tempfile::TempDir;

const CASES: &str = include_str!("../../../../clients/conformance/cases.json");

/// The keys of each step beside `op`, `error` and `absolute`. Another one fails the case.
const KEYS: [(&str, &[&str]); 23] = [
    ("write", &["path", "mode", "bytes", "piece", "permission"]),
    ("read", &["path", "expect"]),
    ("open", &["file", "path", "mode"]),
    ("read_next", &["file", "length", "expect"]),
    ("read_at", &["file", "offset", "length", "expect"]),
    ("append", &["file", "bytes"]),
    ("position", &["file", "expect"]),
    ("flush", &["file", "mode"]),
    ("close", &["file"]),
    ("stat", &["path", "expect"]),
    ("exists", &["path", "expect"]),
    ("list", &["path", "page", "expect"]),
    ("mkdirs", &["path", "permission", "count"]),
    ("rename", &["source", "target", "replace"]),
    ("remove", &["path", "recursive"]),
    ("set_attributes", &["path", "permission", "replication", "modified_ms", "accessed_ms"]),
    ("truncate", &["path", "length"]),
    ("concat", &["path", "sources"]),
    ("put", &["path", "name", "bytes", "replace"]),
    ("locate", &["path", "offset", "length", "expect"]),
    ("checksum", &["path", "other", "expect"]),
    ("status", &[]),
    ("request", &["method", "args", "expect", "save", "client"]),
];

/// The failure of a step.
pub enum Failure {
    /// An error of the store or the client, which the case may expect.
    Store(Error),
    /// Any other one.
    Case(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Store(error.into())
    }
}

pub type Outcome<T = ()> = Result<T, Failure>;

/// Fails a step unless `holds`.
pub fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Failure::Case(otherwise())) }
}

/// Runs all cases in new directories beneath `root`. Prints the counts to standard error, which the test harness
/// doesn't capture: scripts/languages_table.py reads them there.
pub fn run_all(store: &str, address: &str, root: &str) {
    let document: Value = serde_json::from_str(CASES).unwrap();
    assert_eq!(document["format"], 1);
    let client = Client::connect(address, Options::default()).unwrap();
    let capabilities = client.store().capabilities();
    let (mut passed, mut failed, mut lacking) = (0, Vec::new(), BTreeMap::new());
    for (number, case) in document["cases"].as_array().unwrap().iter().enumerate() {
        let mut needs = case["needs"].as_array().into_iter().flatten().map(|need| need.as_str().unwrap());
        let has = |need: &str| capabilities.flags().contains(&(need, true));
        if let Some(need) = needs.find(|need| !has(need)) {
            *lacking.entry(need).or_insert(0) += 1;
            continue;
        }
        match CaseRun::new(&client, address, format!("{root}/{number}")).steps(&case["steps"]) {
            Ok(()) => passed += 1,
            Err(why) => failed.push(format!("{}: {why}", case["name"])),
        }
    }
    client.remove(root, true).unwrap();
    client.close().unwrap();
    let skipped: String =
        lacking.iter().map(|(need, count)| format!(", {count} skipped for lack of {need}")).collect();
    let summary = format!("conformance Rust {store}: {passed} run{skipped}\n");
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 40, "only {passed} cases ran");
}

/// A case, in a directory of its own.
struct CaseRun<'a> {
    client: &'a Client,
    address: &'a str,
    directory: String,
    readers: HashMap<String, Reader>,
    writers: HashMap<String, Writer>,
    requests: Requests,
    /// Files for `put`.
    local: TempDir,
}

impl<'a> CaseRun<'a> {
    fn new(client: &'a Client, address: &'a str, directory: String) -> Self {
        Self {
            client,
            address,
            requests: Requests::new(address, &directory),
            directory,
            readers: HashMap::new(),
            writers: HashMap::new(),
            local: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs the steps, and removes the directory.
    fn steps(mut self, steps: &Value) -> Result<(), String> {
        self.client.mkdirs(&self.directory).unwrap();
        let wrong = steps.as_array().unwrap().iter().find_map(|step| {
            let why = self.step(step).err()?;
            Some(format!("{step}: {why}"))
        });
        let Self { client, directory, .. } = &self;
        client.remove(directory, true).unwrap();
        wrong.map_or(Ok(()), Err)
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let op = text(step, "op");
        let Some((_, known)) = KEYS.iter().find(|(name, _)| *name == op) else {
            return Err(format!("the driver doesn't know {op}"));
        };
        let is_known = |key: &str| ["op", "error", "absolute"].contains(&key) || known.contains(&key);
        if let Some(key) = step.as_object().unwrap().keys().find(|key| !is_known(key)) {
            return Err(format!("the driver doesn't know {key} of {op}"));
        }
        match (self.perform(op, step), step.get("error")) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(_)) => Err("it succeeded".to_owned()),
            (Err(Failure::Case(why)), _) => Err(why),
            (Err(Failure::Store(error)), None) => Err(error.to_string()),
            (Err(Failure::Store(error)), Some(expected)) => self.compare(&error, expected, step),
        }
    }

    fn compare(&self, error: &Error, expected: &Value, step: &Value) -> Result<(), String> {
        let kinds = expected["kind"].as_array().cloned().unwrap_or_else(|| vec![expected["kind"].clone()]);
        if !kinds.contains(&Value::from(error.kind().row().name)) {
            return Err(format!("another kind: {error}"));
        }
        match expected.get("path") {
            Some(path) if error.path() != self.absolute(step, path.as_str().unwrap()) => {
                Err(format!("another path: {error}"))
            }
            _ => Ok(()),
        }
    }

    fn perform(&mut self, op: &str, step: &Value) -> Outcome {
        let path = self.at(step, "path");
        match op {
            "write" => self.write(step, &path),
            "read" => {
                let mut content = Vec::new();
                self.client.open(&path)?.read_to_end(&mut content)?;
                self.same(&content, step)
            }
            "open" => self.open(step, &path),
            "read_next" => {
                let mut content = Vec::new();
                let reader = self.readers.get_mut(text(step, "file")).unwrap();
                reader.take(natural(step, "length")).read_to_end(&mut content)?;
                self.same(&content, step)
            }
            "read_at" => {
                let mut content = vec![0; natural(step, "length") as usize];
                let read = self.readers[text(step, "file")].read_at(&mut content, natural(step, "offset"))?;
                self.same(&content[..read], step)
            }
            "append" => {
                let data = self.requests.bytes(&step["bytes"]);
                Ok(self.writers.get_mut(text(step, "file")).unwrap().write_all(&data)?)
            }
            "position" => {
                let position = self.writers[text(step, "file")].position();
                check(position == natural(step, "expect"), || format!("the position is {position}"))
            }
            "flush" => {
                let writer = self.writers.get_mut(text(step, "file")).unwrap();
                Ok(if text(step, "mode") == "sync" { writer.sync() } else { writer.flush() }?)
            }
            "close" => match self.writers.remove(text(step, "file")) {
                Some(mut writer) => Ok(writer.close()?),
                None => check(self.readers.remove(text(step, "file")).is_some(), || "no such file".into()),
            },
            "stat" => compare_status(&self.client.stat(&path)?, &step["expect"]),
            "exists" => {
                let exists = match self.client.stat(&path) {
                    Ok(_) => true,
                    // A path beneath a file.
                    Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
                        false
                    }
                    Err(error) => return Err(error.into()),
                };
                check(step["expect"] == exists, || "the contrary".into())
            }
            "list" => self.list(step, &path),
            "mkdirs" => self.mkdirs(step, &path),
            "rename" => {
                let (source, target) = (self.at(step, "source"), self.at(step, "target"));
                Ok(self.client.rename(&source, &target, step["replace"] == true)?)
            }
            "remove" => Ok(self.client.remove(&path, step["recursive"] == true)?),
            "set_attributes" => self.set_attributes(step, &path),
            "truncate" => match u64::try_from(step["length"].as_i64().unwrap()) {
                Ok(length) => {
                    Ok(self.client.wait(self.client.store().truncate(&who(), &parsed(&path)?, length))?)
                }
                Err(_) => self.requests.truncate(&path, step["length"].as_i64()),
            },
            "concat" => {
                let sources = step["sources"].as_array().unwrap().iter();
                let sources = sources.map(|source| parsed(&self.absolute(step, source.as_str().unwrap())));
                let sources = sources.collect::<Outcome<Vec<_>>>()?;
                Ok(self.client.wait(self.client.store().concat(&who(), &parsed(&path)?, &sources))?)
            }
            "put" => self.put(step, &path),
            "locate" => self.locate(step, &path),
            "checksum" => {
                let (one, other) = (parsed(&path)?, parsed(&self.at(step, "other"))?);
                let store = self.client.store();
                let one = self.client.wait(store.checksum(&who(), &one))?;
                let other = self.client.wait(store.checksum(&who(), &other))?;
                let equal = one.algorithm == other.algorithm && one.value == other.value;
                check(step["expect"] == equal, || "the contrary".into())
            }
            "status" => {
                let status = self.client.wait(self.client.store().status(&who()))?;
                let fits = status.used.max(status.remaining) <= status.capacity;
                check(fits, || format!("above the capacity: {status:?}"))
            }
            "request" => self.requests.perform(step),
            _ => Err(Failure::Case(format!("the driver doesn't know {op}"))),
        }
    }

    fn open(&mut self, step: &Value, path: &str) -> Outcome {
        let file = text(step, "file").to_owned();
        if step["mode"] == "read" {
            self.readers.insert(file, self.client.open(path)?);
        } else {
            let writer = self.open_writer(step, path)?;
            self.writers.insert(file, writer);
        }
        Ok(())
    }

    fn open_writer(&self, step: &Value, path: &str) -> Outcome<Writer> {
        let mode = text(step, "mode");
        if mode == "append" {
            return Ok(self.client.append(path)?);
        }
        check(["create", "overwrite"].contains(&mode), || format!("an unknown mode: {mode}"))?;
        let options = CreateOptions {
            overwrite: mode == "overwrite",
            permission: permission(step),
            ..CreateOptions::default()
        };
        Ok(self.client.create(path, &options)?)
    }

    fn write(&mut self, step: &Value, path: &str) -> Outcome {
        let mut writer = self.open_writer(step, path)?;
        let data = self.requests.bytes(&step["bytes"]);
        for piece in data.chunks(step["piece"].as_u64().map_or(data.len().max(1), |piece| piece as usize)) {
            writer.write_all(piece)?;
        }
        Ok(writer.close()?)
    }

    fn list(&mut self, step: &Value, path: &str) -> Outcome {
        let mut names = match step["page"].as_i64() {
            Some(page) => self.requests.list(path, page as i32)?,
            None => {
                let entries: Result<Vec<FileStatus>, Error> = self.client.list(path)?.collect();
                entries?.iter().map(|entry| entry.name().to_owned()).collect()
            }
        };
        let expect = &step["expect"];
        let mut expected: Vec<String> = match expect.as_array() {
            Some(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            None => (0..natural(expect, "count")).map(|n| format!("{}{n}", text(expect, "prefix"))).collect(),
        };
        names.sort();
        expected.sort();
        check(step.get("expect").is_none() || names == expected, || format!("other names: {names:?}"))
    }

    fn mkdirs(&self, step: &Value, path: &str) -> Outcome {
        let make = |path: &str| -> Outcome {
            let (path, permission) = (parsed(path)?, permission(step));
            Ok(self.client.wait(self.client.store().mkdirs(&who(), &path, permission))?)
        };
        match step["count"].as_u64() {
            None => make(path),
            Some(count) => (0..count).try_for_each(|n| make(&format!("{path}{n}"))),
        }
    }

    fn set_attributes(&mut self, step: &Value, path: &str) -> Outcome {
        let replication = match step["replication"].as_i64().map(u16::try_from) {
            Some(Err(_)) => return self.requests.set_replication(path, step["replication"].as_i64()),
            replication => replication.map(|number| number.unwrap_or_default()),
        };
        let attributes = SetAttributes {
            permission: permission(step),
            replication,
            modified_ms: step["modified_ms"].as_i64(),
            accessed_ms: step["accessed_ms"].as_i64(),
            ..SetAttributes::default()
        };
        let store = self.client.store();
        Ok(self.client.wait(store.set_attributes(&who(), &parsed(path)?, &attributes))?)
    }

    /// By the command. Its exit code tells the kind, and its message the path.
    fn put(&mut self, step: &Value, path: &str) -> Outcome {
        let name = text(step, "name");
        std::fs::write(self.local.path().join(name), self.requests.bytes(&step["bytes"])).unwrap();
        let mut put = command(self.local.path());
        let force: &[&str] = if step["replace"] == true { &["--force"] } else { &[] };
        put.arg("put").args(force).arg(name).arg(format!("strait://{}{path}", self.address));
        let run = Run::of(put, b"");
        if run.code == 0 {
            return Ok(());
        }
        let row = TABLE.iter().find(|row| i32::from(row.exit) == run.code);
        let kind = row
            .map(|row| row.kind)
            .ok_or_else(|| Failure::Case(format!("exit code {}: {}", run.code, run.stderr)))?;
        let named = step["error"]["path"].as_str().map(|path| self.absolute(step, path));
        let named = named.filter(|path| run.stderr.contains(&format!("{path}:"))).unwrap_or_default();
        Err(Error::new(kind, run.stderr).at("put", named).into())
    }

    fn locate(&mut self, step: &Value, path: &str) -> Outcome {
        let offset = match u64::try_from(step["offset"].as_i64().unwrap_or(0)) {
            Ok(offset) => offset,
            Err(_) => return self.requests.locate(path, step["offset"].as_i64(), step["length"].as_i64()),
        };
        let end = step["length"].as_u64().map_or(u64::MAX, |length| offset + length);
        let store = self.client.store();
        let blocks = self.client.wait(store.block_locations(&who(), &parsed(path)?, offset..end))?;
        let expect = &step["expect"];
        let Some(first) = blocks.first() else {
            return check(expect["none"] == true, || "no blocks".into());
        };
        check(expect["none"] != true, || "there are blocks".into())?;
        let mut reached = first.offset;
        for block in &blocks {
            let follows = block.offset == reached && block.length > 0 && !block.hosts.is_empty();
            check(follows, || format!("a gap, or no host: {block:?}"))?;
            reached += block.length;
        }
        let covers = first.offset <= natural(expect, "from") && reached >= natural(expect, "to");
        check(covers, || format!("the blocks are {}..{reached}", first.offset))
    }

    fn at(&self, step: &Value, key: &str) -> String {
        self.absolute(step, step[key].as_str().unwrap_or_default())
    }

    fn absolute(&self, step: &Value, path: &str) -> String {
        match step["absolute"] == true {
            true => path.to_owned(),
            false => format!("{}{path}", self.directory),
        }
    }

    fn same(&mut self, content: &[u8], step: &Value) -> Outcome {
        let Some(expected) = step.get("expect") else { return Ok(()) };
        let expected = self.requests.bytes(expected);
        check(content == expected, || format!("{} bytes, or other ones than expected", content.len()))
    }
}

fn compare_status(status: &FileStatus, expect: &Value) -> Outcome {
    for (key, expected) in expect.as_object().into_iter().flatten() {
        let holds = match key.as_str() {
            "type" => *expected == if status.is_directory() { "directory" } else { "file" },
            "length" => *expected == status.length,
            "permission" => octal(expected.as_str().unwrap()) == status.permission,
            "replication" => *expected == status.replication,
            "modified_ms" => *expected == status.modified_ms,
            "accessed_ms" => *expected == status.accessed_ms,
            _ => return Err(Failure::Case(format!("the driver doesn't know {key}"))),
        };
        check(holds, || format!("another {key}: {status:?}"))?;
    }
    Ok(())
}

/// The gateway acts for the session's user.
fn who() -> Principal {
    Principal::new("")
}

fn parsed(path: &str) -> Outcome<StorePath> {
    Ok(StorePath::parse(path)?)
}

fn octal(digits: &str) -> u32 {
    u32::from_str_radix(digits, 8).unwrap()
}

fn permission(step: &Value) -> Option<u32> {
    step["permission"].as_str().map(octal)
}

fn text<'a>(from: &'a Value, key: &str) -> &'a str {
    from[key].as_str().unwrap_or_else(|| panic!("{from} has no {key}"))
}

fn natural(from: &Value, key: &str) -> u64 {
    from[key].as_u64().unwrap_or_else(|| panic!("{from} has no {key}"))
}

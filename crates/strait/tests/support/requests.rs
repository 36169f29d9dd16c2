//! Requests of the shared cases below the client, each sent once.

use super::cases::{Failure, Outcome, check};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Read;
use strait_client::{Error, ErrorKind};
use strait_testkit::thrift::Client;
use strait_wire::*;

const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
/// Bytes of a random value of the cases.
const RANDOM_BYTES: usize = 16;

/// The sessions below the client of one case, and the values that it has saved.
pub struct Requests {
    address: String,
    directory: String,
    first: Option<Client>,
    other: Option<Client>,
    saved: HashMap<String, i64>,
    random: HashMap<String, Vec<u8>>,
}

/// The fields of a reply that cases compare.
#[derive(Default)]
struct Fields {
    numbers: Vec<(&'static str, Option<i64>)>,
    data: Option<bytes::Bytes>,
}

impl Requests {
    pub fn new(address: &str, directory: &str) -> Self {
        Self {
            address: address.to_owned(),
            directory: directory.to_owned(),
            first: None,
            other: None,
            saved: HashMap::new(),
            random: HashMap::new(),
        }
    }

    fn client(&mut self, is_other: bool) -> &mut Client {
        let address = self.address.parse().unwrap();
        let client = if is_other { &mut self.other } else { &mut self.first };
        client.get_or_insert_with(|| {
            let mut client = Client::connect(address, WIRE);
            client.open_session();
            client
        })
    }

    fn send<M>(&mut self, step: &Value, request: impl Into<M::Args>) -> Outcome<M::Success>
    where
        M: Method<Exception = DfsError> + std::fmt::Debug,
        M::Success: std::fmt::Debug,
    {
        self.client(step["client"] == "other").v2::<M>(request).map_err(|told| {
            let kind = told.code.and_then(ErrorKind::from_thrift).unwrap_or(ErrorKind::Internal);
            let path = told.path.unwrap_or_default();
            Failure::Store(Error::new(kind, told.message.unwrap_or_default()).at("send a request for", path))
        })
    }

    /// Performs a step `request`.
    pub fn perform(&mut self, step: &Value) -> Outcome {
        let fields = self.answered(step)?;
        let number = |name: &str| fields.numbers.iter().find(|(field, _)| *field == name)?.1;
        for (field, expected) in step["expect"].as_object().into_iter().flatten() {
            let holds = match field.as_str() {
                "data" => fields.data.as_deref().unwrap_or_default() == self.bytes(expected),
                field => number(field) == self.number(expected),
            };
            check(holds, || format!("another {field} than expected"))?;
        }
        for (field, name) in step["save"].as_object().into_iter().flatten() {
            let value = number(field).ok_or_else(|| Failure::Case(format!("the reply has no {field}")))?;
            self.saved.insert(name.as_str().unwrap().to_owned(), value);
        }
        Ok(())
    }

    fn answered(&mut self, step: &Value) -> Outcome<Fields> {
        let args = step["args"].as_object().unwrap();
        let text =
            |key: &str| args.get(key).map(|path| format!("{}{}", self.directory, path.as_str().unwrap()));
        let (path, source, target) = (text("path"), text("source"), text("target"));
        let is_retry = args.get("is_retry").map(|flag| flag == true);
        let (handle, offset, expected_offset, cursor, length, max_entries) = (
            self.argument(step, "handle"),
            self.argument(step, "offset"),
            self.argument(step, "expected_offset"),
            self.argument(step, "cursor"),
            self.argument(step, "length").map(|length| length as i32),
            self.argument(step, "max_entries").map(|count| count as i32),
        );
        let request_id = args.get("request_id").map(|id| self.bytes(id).into());
        let data = args.get("data").map(|data| self.bytes(data).into());
        let none = Fields::default();
        Ok(match step["method"].as_str().unwrap() {
            "openFile" => {
                let request = OpenFileRequest { path, ..Default::default() };
                let reply = self.send::<methods::OpenFile>(step, request)?;
                Fields { numbers: vec![("handle", reply.handle), ("length", reply.length)], ..none }
            }
            "readRange" => {
                let request = ReadRangeRequest { handle, offset, length, ..Default::default() };
                Fields { data: self.send::<methods::ReadRange>(step, request)?.data, ..none }
            }
            "createFile" => {
                let request = CreateFileRequest { request_id, is_retry, path, ..Default::default() };
                opened(self.send::<methods::CreateFile>(step, request)?)
            }
            "appendFile" => {
                let request = AppendFileRequest { request_id, is_retry, path, ..Default::default() };
                opened(self.send::<methods::AppendFile>(step, request)?)
            }
            "appendData" => {
                let request = AppendDataRequest {
                    request_id,
                    is_retry,
                    handle,
                    expected_offset,
                    data,
                    ..Default::default()
                };
                let reply = self.send::<methods::AppendData>(step, request)?;
                Fields { numbers: vec![("position", reply.position)], ..none }
            }
            "flushFile" => {
                let request = FlushFileRequest { handle, ..Default::default() };
                self.send::<methods::FlushFile>(step, request)?;
                none
            }
            "closeFile" => {
                let request = CloseFileRequest { request_id, is_retry, handle, ..Default::default() };
                let reply = self.send::<methods::CloseFile>(step, request)?;
                Fields { numbers: vec![("length", reply.length)], ..none }
            }
            "listDirectory" => {
                let request = ListDirectoryRequest { path, cursor, max_entries, ..Default::default() };
                self.send::<methods::ListDirectory>(step, request)?;
                none
            }
            "removePath" => {
                let request = RemovePathRequest { request_id, is_retry, path, ..Default::default() };
                self.send::<methods::RemovePath>(step, request)?;
                none
            }
            "renamePath" => {
                let request =
                    RenamePathRequest { request_id, is_retry, source, target, ..Default::default() };
                self.send::<methods::RenamePath>(step, request)?;
                none
            }
            method => return Err(Failure::Case(format!("the driver doesn't know {method}"))),
        })
    }

    fn argument(&self, step: &Value, key: &str) -> Option<i64> {
        self.number(&step["args"][key])
    }

    /// A number, or the saved one of this name.
    fn number(&self, value: &Value) -> Option<i64> {
        match value.as_str() {
            Some(name) => self.saved.get(name.strip_prefix('$')?).copied(),
            None => value.as_i64(),
        }
    }

    /// The bytes that a case describes.
    pub fn bytes(&mut self, given: &Value) -> Vec<u8> {
        let number = |key: &str| given[key].as_u64().unwrap_or(0) as usize;
        if let Some(text) = given["text"].as_str() {
            text.as_bytes().to_vec()
        } else if let Some(hex) = given["hex"].as_str() {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digits).collect()
        } else if given["pattern"].is_u64() {
            let (seed, from) = (number("pattern"), number("offset"));
            (from..from + number("length")).map(|i| (seed + i + i / 251) as u8).collect()
        } else if let Some(parts) = given["concat"].as_array() {
            parts.iter().flat_map(|part| self.bytes(part)).collect()
        } else if let Some(name) = given["random"].as_str() {
            self.random.entry(name.to_owned()).or_insert_with(random).clone()
        } else {
            panic!("no bytes: {given}")
        }
    }

    /// The names of a directory's entries, by pages of this many entries.
    pub fn list(&mut self, path: &str, page: i32) -> Outcome<Vec<String>> {
        let (mut names, mut cursor) = (Vec::new(), None);
        loop {
            let request = ListDirectoryRequest {
                path: Some(path.to_owned()),
                cursor,
                max_entries: Some(page),
                ..Default::default()
            };
            let reply = self.send::<methods::ListDirectory>(&Value::Null, request)?;
            let entries = reply.entries.unwrap_or_default();
            check(entries.len() <= page as usize, || format!("a page of {} entries", entries.len()))?;
            let paths = entries.into_iter().filter_map(|entry| entry.path);
            names.extend(paths.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()));
            cursor = reply.cursor;
            if cursor.is_none() {
                return Ok(names);
            }
        }
    }

    pub fn truncate(&mut self, path: &str, length: Option<i64>) -> Outcome {
        let request = TruncateFileRequest { path: Some(path.to_owned()), length, ..Default::default() };
        self.send::<methods::TruncateFile>(&Value::Null, request).map(drop)
    }

    pub fn set_replication(&mut self, path: &str, replication: Option<i64>) -> Outcome {
        let replication = replication.map(|number| number as i16);
        let request = SetAttributesRequest { path: Some(path.to_owned()), replication, ..Default::default() };
        self.send::<methods::SetAttributes>(&Value::Null, request).map(drop)
    }

    pub fn locate(&mut self, path: &str, offset: Option<i64>, length: Option<i64>) -> Outcome {
        let request =
            GetBlockLocationsRequest { path: Some(path.to_owned()), offset, length, ..Default::default() };
        self.send::<methods::GetBlockLocations>(&Value::Null, request).map(drop)
    }
}

fn opened(reply: OpenWriterReply) -> Fields {
    Fields { numbers: vec![("handle", reply.handle), ("position", reply.position)], data: None }
}

fn random() -> Vec<u8> {
    let mut bytes = vec![0; RANDOM_BYTES];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

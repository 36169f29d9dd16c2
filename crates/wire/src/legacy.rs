//! The messages of `DfsService`, both generations of 2009.
//!
//! The report's 0.5.x clients sent no ClientHandle with open, close, read and
//! write, and one with closeDfs. Both handles are `{1: i64}`, so in all but
//! one method the absence of field 2 tells the generation:
//! [`ReadArgs::handle`] and its like give the file's handle either way. Only
//! `open` has fields of different types; [`OpenArgs`] reads both.

use crate::value::{FieldSchema, Struct, Text, read_as};
use crate::wire_structs;
use crate::{DecodeError, Decoder, Encoder, Secret, TType, Value};
use bytes::Bytes;

wire_structs! {
    /// What a store says of one path.
    FileStatus {
        1 length: i64,
        2 isdir: bool,
        3 block_replication: i16,
        4 blocksize: i64,
        5 modification_time: i64,
        6 permission: String,
        7 owner: String,
        8 group: String,
        9 path: String,
    }
    /// A session; negative if init failed.
    ClientHandle {
        1 id: i64,
    }
    /// An open file.
    DfsHandle {
        1 id: i64,
    }
    /// The one exception of 2009.
    DfsServiceIOException {
        1 message: String,
    }

    /// Arguments of `init`.
    InitArgs {
        1 uri: Text,
    }
    /// Arguments of `login`.
    LoginArgs {
        1 ch: ClientHandle,
        2 user: Text,
        3 password: Secret,
    }
    /// Arguments of `logout` and `closeClient`.
    ClientArgs {
        1 ch: ClientHandle,
    }
    /// Arguments of `closeDfs`; the report's clients send a handle.
    CloseDfsArgs {
        1 ch: ClientHandle,
    }
    /// Arguments of `listFiles`, `stat` and `mkdir`.
    PathArgs {
        1 ch: ClientHandle,
        2 path: Text,
    }
    /// Arguments of `move`.
    MoveArgs {
        1 ch: ClientHandle,
        2 old_path: Text,
        3 new_path: Text,
    }
    /// Arguments of `remove`.
    RemoveArgs {
        1 ch: ClientHandle,
        2 path: Text,
        3 recursive: bool,
    }
    /// Arguments of `close`; `ch` is the file's handle in generation 0.5.
    CloseArgs {
        1 ch: ClientHandle,
        2 dh: DfsHandle,
    }
    /// Arguments of `read`; `ch` is the file's handle in generation 0.5.
    ReadArgs {
        1 ch: ClientHandle,
        2 dh: DfsHandle,
        3 offset: i64,
        4 len: i64,
    }
    /// Arguments of `write`; `ch` is the file's handle in generation 0.5.
    WriteArgs {
        1 ch: ClientHandle,
        2 dh: DfsHandle,
        3 buf: Bytes,
        4 offset: i64,
        5 len: i64,
    }
    /// Arguments of `copyToLocalFile` and `copyFromLocalFile`.
    CopyArgs {
        1 src: Text,
        2 dest: Text,
    }
}

/// The session and the file that a call names: without a session in
/// generation 0.5, where the connection's own serves.
fn handles(ch: &Option<ClientHandle>, dh: &Option<DfsHandle>) -> (Option<i64>, Option<i64>) {
    let first = ch.as_ref().and_then(|handle| handle.id);
    match dh {
        Some(handle) => (first, handle.id),
        None => (None, first),
    }
}

macro_rules! both_generations {
    ($($name:ident)*) => {$(
        impl $name {
            /// The session's id (none: the connection's own) and the file's.
            pub fn handles(&self) -> (Option<i64>, Option<i64>) {
                handles(&self.ch, &self.dh)
            }
        }
    )*};
}

both_generations! { CloseArgs ReadArgs WriteArgs }

/// Arguments of `open`: `(1: ClientHandle, 2: string, 3: i16)`, or in
/// generation 0.5 `(1: string, 2: i16)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenArgs {
    /// The session; none in generation 0.5.
    pub ch: Option<ClientHandle>,
    /// The path.
    pub filename: Option<Text>,
    /// 1 READ, 2 WRITE, 3 READ_WRITE.
    pub mode: Option<i16>,
}

impl Struct for OpenArgs {
    const NAME: &'static str = "OpenArgs";

    fn schema() -> Vec<FieldSchema> {
        vec![
            FieldSchema { id: 1, name: "ch", idl: ClientHandle::idl() },
            FieldSchema { id: 2, name: "filename", idl: Text::idl() },
            FieldSchema { id: 3, name: "mode", idl: i16::idl() },
        ]
    }

    fn write_fields(&self, to: &mut Encoder) {
        if let Some(ch) = &self.ch {
            to.field_begin(1, TType::Struct);
            ch.write(to);
        }
        if let Some(filename) = &self.filename {
            to.field_begin(2, TType::String);
            filename.write(to);
        }
        if let Some(mode) = &self.mode {
            to.field_begin(3, TType::I16);
            mode.write(to);
        }
    }

    fn read_field(&mut self, id: i16, found: TType, from: &mut Decoder) -> Result<bool, DecodeError> {
        match (id, found) {
            (1, TType::String) | (2, TType::String) => {
                self.filename = read_as(Self::NAME, id, found, from)?;
            }
            (2, TType::I16) => self.mode = read_as(Self::NAME, id, found, from)?,
            (1, _) => self.ch = read_as(Self::NAME, id, found, from)?,
            (2, _) => self.filename = read_as(Self::NAME, id, found, from)?,
            (3, _) => self.mode = read_as(Self::NAME, id, found, from)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

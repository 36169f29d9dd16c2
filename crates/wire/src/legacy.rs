//! The messages of `DfsService`, both generations of 2009.
//!
//! Programs up to version 0.5 send no ClientHandle with open, close, read and write. ClientHandle and
//! DfsHandle are both `{1: i64}`, so the absence of a handle in field 2 shows the early generation.
//! [`ReadArgs::handles`] and its equivalents give both handles in either case. The early generation
//! has two forms, which differ in the types of the other fields:
//!
//! | call | release 0.5.4 | technical report TR-09-03, read literally |
//! |---|---|---|
//! | open | 1 string, 2 i16 | the same |
//! | close | 1 handle | the same |
//! | read | 1 handle, 3 offset, 4 length | 1 handle, 2 offset, 3 length |
//! | write | 1 handle, 2 data, 3 offset, 4 length | 1 handle, 3 data, 4 offset, 5 length |
//! | closeDfs | no field | 1 client |

use crate::value::{Struct, Text, read_as};
use crate::wire_structs;
use crate::{DecodeError, Decoder, Secret, TType};
use bytes::Bytes;

wire_structs! {
    /// A store's record of one path.
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
    /// A session. Its id is negative if `init` failed.
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
    /// Arguments of `closeDfs`. Only clients of TR-09-03 send a handle.
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
    /// Arguments of `open`; `ch` is absent in generation 0.5.
    OpenArgs or early_open {
        1 ch: ClientHandle,
        2 filename: Text,
        3 mode: i16,
    }
    /// Arguments of `close`; `ch` is the file's handle in generation 0.5.
    CloseArgs {
        1 ch: ClientHandle,
        2 dh: DfsHandle,
    }
    /// Arguments of `read`; `ch` is the file's handle in generation 0.5.
    ReadArgs or early_read {
        1 ch: ClientHandle,
        2 dh: DfsHandle,
        3 offset: i64,
        4 len: i64,
    }
    /// Arguments of `write`; `ch` is the file's handle in generation 0.5.
    WriteArgs or early_write {
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

/// The ids of the session and of the file that a call names. A call of generation 0.5 names no session
/// and uses the connection's own.
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
            /// The ids of the session and of the file. Without a session's id, the call is for the
            /// connection's own session.
            pub fn handles(&self) -> (Option<i64>, Option<i64>) {
                handles(&self.ch, &self.dh)
            }
        }
    )*};
}

both_generations! { CloseArgs ReadArgs WriteArgs }

/// `open(1: string, 2: i16)`.
fn early_open(args: &mut OpenArgs, id: i16, found: TType, from: &mut Decoder) -> Result<bool, DecodeError> {
    match (id, found) {
        (1, TType::String) => args.filename = read_as(OpenArgs::NAME, id, found, from)?,
        (2, TType::I16) => args.mode = read_as(OpenArgs::NAME, id, found, from)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The report's form, read literally: `read(1: handle, 2: offset, 3: length)`. In the other forms, field 3 is the
/// offset. So field 3 counts as the offset until an i64 in field 2 has been read.
fn early_read(args: &mut ReadArgs, id: i16, found: TType, from: &mut Decoder) -> Result<bool, DecodeError> {
    let alone = args.dh.is_none();
    match (id, found) {
        (2, TType::I64) if alone => {
            if let Some(field_3) = args.offset.take() {
                set_once(&mut args.len, Some(field_3))?;
            }
            args.offset = read_as(ReadArgs::NAME, id, found, from)?;
        }
        (3, TType::I64) if alone && args.offset.is_some() => {
            set_once(&mut args.len, read_as(ReadArgs::NAME, id, found, from)?)?;
        }
        (4, TType::I64) if alone => set_once(&mut args.len, read_as(ReadArgs::NAME, id, found, from)?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `write(1: handle, 2: data, 3: offset, 4: length)`. In the other forms, field 4 is the offset. So
/// field 4 counts as the offset until an i64 in field 3 has been read.
fn early_write(args: &mut WriteArgs, id: i16, found: TType, from: &mut Decoder) -> Result<bool, DecodeError> {
    let alone = args.dh.is_none();
    match (id, found) {
        (2 | 3, TType::String) if alone => {
            set_once(&mut args.buf, read_as(WriteArgs::NAME, id, found, from)?)?
        }
        (3, TType::I64) if alone => {
            if let Some(field_4) = args.offset.take() {
                set_once(&mut args.len, Some(field_4))?;
            }
            args.offset = read_as(WriteArgs::NAME, id, found, from)?;
        }
        (4, TType::I64) if alone && args.offset.is_some() => {
            set_once(&mut args.len, read_as(WriteArgs::NAME, id, found, from)?)?;
        }
        (5, TType::I64) if alone => set_once(&mut args.len, read_as(WriteArgs::NAME, id, found, from)?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Refuses a message with fields of two forms, since each form would read it differently.
fn set_once<T>(field: &mut Option<T>, value: Option<T>) -> Result<(), DecodeError> {
    match std::mem::replace(field, value) {
        None => Ok(()),
        Some(_) => Err(DecodeError::Malformed("the message mixes fields of two forms of this call")),
    }
}

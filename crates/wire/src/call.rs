//! Whole messages: calls, replies, and Thrift's own exceptions.

use crate::sniff::{BINARY_FIRST, COMPACT_FIRST};
use crate::value::{Struct, Text, Value};
use crate::wire_structs;
use crate::{DecodeError, Decoder, Encoded, Encoder, Protocol, Wire};
use crate::{dfs::*, legacy::*};
use bytes::Bytes;

type Result<T> = std::result::Result<T, DecodeError>;

/// Longest method name accepted; the interface's longest name has 17 bytes.
const MAX_NAME_BYTES: usize = 64;
/// Most elements of all lists of a reply together. A page of a listing has some thousand, and an answer with block
/// locations, which is bounded in bytes, below 100,000.
const MOST_REPLY_ELEMENTS: usize = 1 << 18;

/// The version of the JSON protocol.
const JSON_VERSION: i32 = 1;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the names say it
pub enum MessageKind {
    Call = 1,
    Reply = 2,
    Exception = 3,
    Oneway = 4,
}

/// The head of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Method.
    pub name: String,
    /// The kind of the message.
    pub kind: MessageKind,
    /// The caller's sequence number, which the reply repeats.
    pub sequence: i32,
}

impl Envelope {
    /// Reads the head; the arguments or the result follow.
    ///
    /// # Errors
    /// The bytes aren't a message of this protocol's version.
    pub fn read(from: &mut Decoder) -> Result<Self> {
        let (kind, name, sequence) = match from.protocol() {
            Protocol::Binary => {
                let word = from.i32()? as u32;
                if word & 0xffff_0000 != 0x8001_0000 {
                    return Err(DecodeError::Malformed("not binary protocol version 1"));
                }
                let name = from.binary()?;
                ((word & 0xff) as u8, name, from.i32()?)
            }
            Protocol::Unversioned => {
                let name = from.binary()?;
                (from.byte()?, name, from.i32()?)
            }
            Protocol::Compact => {
                let (first, second) = (from.byte()?, from.byte()?);
                if first != COMPACT_FIRST || second & 0x1f != 1 {
                    return Err(DecodeError::Malformed("not compact protocol version 1"));
                }
                let sequence = from.varint()? as u32 as i32;
                (second >> 5, from.binary()?, sequence)
            }
            Protocol::Json => {
                from.mark(b'[')?;
                if from.i32()? != JSON_VERSION {
                    return Err(DecodeError::Malformed("not JSON protocol version 1"));
                }
                from.mark(b',')?;
                let name = from.string()?;
                from.mark(b',')?;
                let kind = u8::try_from(from.i32()?).unwrap_or(0);
                from.mark(b',')?;
                let sequence = from.i32()?;
                from.mark(b',')?;
                (kind, name, sequence)
            }
        };
        use MessageKind::*;
        let kind = [Call, Reply, Exception, Oneway]
            .into_iter()
            .find(|known| *known as u8 == kind)
            .ok_or(DecodeError::Malformed("unknown message type"))?;
        if name.len() > MAX_NAME_BYTES {
            return Err(DecodeError::Malformed("a method name of more than 64 bytes"));
        }
        let name = std::str::from_utf8(&name).map_err(|_| DecodeError::NotUtf8)?.to_owned();
        Ok(Self { name, kind, sequence })
    }
}

/// Writes the head of a message.
fn write_head(to: &mut Encoder, kind: MessageKind, name: &str, sequence: i32) {
    match to.protocol() {
        Protocol::Binary => {
            to.raw(&[BINARY_FIRST, 1, 0, kind as u8]);
            to.slice(name.as_bytes());
            to.i32(sequence);
        }
        Protocol::Unversioned => {
            to.slice(name.as_bytes());
            to.raw(&[kind as u8]);
            to.i32(sequence);
        }
        Protocol::Compact => {
            to.raw(&[COMPACT_FIRST, (kind as u8) << 5 | 1]);
            to.varint(u64::from(sequence as u32));
            to.slice(name.as_bytes());
        }
        Protocol::Json => {
            to.raw(b"[");
            to.i32(JSON_VERSION);
            to.raw(b",");
            to.slice(name.as_bytes());
            to.raw(b",");
            to.i32(kind as i32);
            to.raw(b",");
            to.i32(sequence);
            to.raw(b",");
        }
    }
}

/// A method of the interface: its name, and the types of its arguments and results.
pub trait Method {
    /// Name on the wire.
    const NAME: &'static str;
    /// The arguments, as one struct.
    type Args: Struct;
    /// The result of a successful call.
    type Success: Value;
    /// The declared exception; [`NoException`] if the method declares none.
    type Exception: Struct;

    /// Encodes a call.
    fn call(wire: Wire, sequence: i32, args: &Self::Args) -> Encoded {
        let mut to = Encoder::new(wire);
        write_head(&mut to, MessageKind::Call, Self::NAME, sequence);
        args.write(&mut to);
        to.finish()
    }

    /// Encodes the answer to a call.
    fn reply(
        wire: Wire,
        sequence: i32,
        result: &std::result::Result<Self::Success, Self::Exception>,
    ) -> Encoded {
        let mut to = Encoder::new(wire);
        write_head(&mut to, MessageKind::Reply, Self::NAME, sequence);
        to.struct_begin();
        match result {
            Ok(success) => {
                to.field_begin(0, Self::Success::TYPE);
                success.write(&mut to);
            }
            Err(exception) => {
                to.field_begin(1, Self::Exception::TYPE);
                exception.write(&mut to);
            }
        }
        to.struct_end();
        to.finish()
    }

    /// Decodes the answer to a call, one whole message.
    ///
    /// # Errors
    /// The message isn't an answer to this method.
    fn decode_reply(protocol: Protocol, message: Bytes) -> Result<(i32, Reply<Self>)>
    where
        Self: Sized,
    {
        let mut from = Decoder::new(protocol, message).with_most_elements(MOST_REPLY_ELEMENTS);
        let envelope = Envelope::read(&mut from)?;
        if envelope.kind == MessageKind::Exception {
            return Ok((envelope.sequence, Reply::Application(ApplicationError::read(&mut from)?)));
        }
        if envelope.kind != MessageKind::Reply || envelope.name != Self::NAME {
            return Err(DecodeError::Malformed("not the answer to this call"));
        }
        let mut result = None;
        from.struct_begin()?;
        while let Some((id, found)) = from.field_begin()? {
            match id {
                0 if found == Self::Success::TYPE => result = Some(Reply::Success(Value::read(&mut from)?)),
                1 if found == Self::Exception::TYPE => {
                    result = Some(Reply::Exception(Value::read(&mut from)?))
                }
                _ => from.skip(found)?,
            }
        }
        let missing = DecodeError::MissingField { name: Self::NAME, field: "success" };
        Ok((envelope.sequence, result.ok_or(missing)?))
    }
}

impl DfsError {
    /// Encodes it as the answer to one of DfsV2's methods.
    pub fn reply(&self, wire: Wire, name: &str, sequence: i32) -> Encoded {
        let mut to = Encoder::new(wire);
        write_head(&mut to, MessageKind::Reply, name, sequence);
        to.struct_begin();
        to.field_begin(1, Self::TYPE);
        self.write(&mut to);
        to.struct_end();
        to.finish()
    }
}

/// The answer to a call.
#[derive(Debug)]
pub enum Reply<M: Method> {
    /// The method's result.
    Success(M::Success),
    /// Its declared exception.
    Exception(M::Exception),
    /// Thrift's own exception: the call didn't reach the method.
    Application(ApplicationError),
}

wire_structs! {
    /// The exception type of methods that declare no exception.
    NoException {}
    /// TApplicationException on the wire.
    ApplicationException {
        1 message: String,
        2 code as "type": i32,
    }
}

/// The reason why a call didn't reach its method: TApplicationException's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)] // the names are Thrift's
pub enum ApplicationErrorKind {
    Unknown = 0,
    UnknownMethod = 1,
    InvalidMessageType = 2,
    InternalError = 6,
    ProtocolError = 7,
}

/// A TApplicationException.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationError {
    /// Its type.
    pub kind: ApplicationErrorKind,
    /// Text for people.
    pub message: String,
}

impl ApplicationError {
    /// Encodes it as the answer to a call. If the call's head couldn't be read, `name` is empty and
    /// `sequence` is 0.
    pub fn reply(&self, wire: Wire, name: &str, sequence: i32) -> Encoded {
        let mut to = Encoder::new(wire);
        write_head(&mut to, MessageKind::Exception, name, sequence);
        let exception =
            ApplicationException { message: Some(self.message.clone()), code: Some(self.kind as i32) };
        exception.write(&mut to);
        to.finish()
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        use ApplicationErrorKind::*;
        let exception = ApplicationException::read(from)?;
        let kind = [UnknownMethod, InvalidMessageType, InternalError, ProtocolError]
            .into_iter()
            .find(|known| Some(*known as i32) == exception.code)
            .unwrap_or(Unknown);
        Ok(Self { kind, message: exception.message.unwrap_or_default() })
    }
}

/// The arguments of one of DfsV2's methods.
pub trait Timed: Struct {
    /// Sets the number of milliseconds after which the client stops waiting for the reply.
    fn set_deadline_ms(&mut self, ms: Option<i32>);
}

/// DfsV2's methods take one struct each, as field 1.
macro_rules! v2_args {
    ($($args:ident($request:ident);)*) => {
        wire_structs! {$(
            /// The argument list around the request.
            $args { 1 request: $request, }
        )*}
    };
}

macro_rules! interface {
    (
        legacy { $($l_name:literal $l_variant:ident($l_args:ident) -> $l_success:ty, $l_exception:ident;)* }
        v2 { $($name:literal $variant:ident($args:ident: $request:ident) -> $success:ident;)* }
    ) => {
        v2_args! { $($args($request);)* }

        /// One type for each method of the interface.
        pub mod methods {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[doc = concat!("`DfsService.", $l_name, "`")]
                #[derive(Debug)]
                pub enum $l_variant {}
                impl Method for $l_variant {
                    const NAME: &'static str = $l_name;
                    type Args = $l_args;
                    type Success = $l_success;
                    type Exception = $l_exception;
                }
            )*
            $(
                #[doc = concat!("`DfsV2.", $name, "`")]
                #[derive(Debug)]
                pub enum $variant {}
                impl Method for $variant {
                    const NAME: &'static str = $name;
                    type Args = $args;
                    type Success = $success;
                    type Exception = DfsError;
                }
            )*
        }

        $(impl From<$request> for $args {
            fn from(request: $request) -> Self {
                Self { request: Some(request) }
            }
        }

        impl Timed for $args {
            fn set_deadline_ms(&mut self, ms: Option<i32>) {
                self.request.get_or_insert_default().deadline_ms = ms;
            }
        })*

        /// A decoded call, as a server gets it.
        #[derive(Debug)]
        #[allow(missing_docs)] // one variant a method
        pub enum Call {
            $($l_variant($l_args),)*
            $($variant($request),)*
        }

        impl Call {
            /// Names of all methods.
            pub const METHODS: &'static [&'static str] = &[$($l_name,)* $($name,)*];

            /// The number of milliseconds after which the client stops waiting for the reply, if it
            /// sends this number.
            pub fn deadline_ms(&self) -> Option<i32> {
                match self {
                    $(Self::$variant(request) => request.deadline_ms,)*
                    _ => None,
                }
            }

            /// Reads the arguments of the method that the envelope names; none
            /// if there is no such method.
            ///
            /// # Errors
            /// The arguments don't fit the method.
            pub fn read(method: &str, from: &mut Decoder) -> Result<Option<Self>> {
                Ok(Some(match method {
                    $($l_name => Self::$l_variant($l_args::read(from)?),)*
                    $($name => Self::$variant(
                        // A missing request means a request without fields.
                        $args::read(from)?.request.unwrap_or_default(),
                    ),)*
                    _ => return Ok(None),
                }))
            }
        }

        /// Name, arguments, success and exception of each method, as the IDL
        /// spells them; for the test that compares this file with the IDL.
        #[doc(hidden)]
        pub fn schema() -> Vec<(&'static str, Vec<crate::FieldSchema>, String, &'static str)> {
            vec![
                $(($l_name, $l_args::schema(), <$l_success as Value>::idl(), $l_exception::NAME),)*
                $(($name, $args::schema(), <$success as Value>::idl(), DfsError::NAME),)*
            ]
        }
    };
}

interface! {
    legacy {
        "init" Init(InitArgs) -> ClientHandle, NoException;
        "login" Login(LoginArgs) -> bool, NoException;
        "logout" Logout(ClientArgs) -> bool, NoException;
        "closeClient" CloseClient(ClientArgs) -> bool, NoException;
        "closeDfs" CloseDfs(CloseDfsArgs) -> bool, NoException;
        "listFiles" ListFiles(PathArgs) -> Vec<FileStatus>, DfsServiceIOException;
        "stat" Stat(PathArgs) -> FileStatus, DfsServiceIOException;
        "mkdir" Mkdir(PathArgs) -> bool, DfsServiceIOException;
        "move" Move(MoveArgs) -> bool, DfsServiceIOException;
        "remove" Remove(RemoveArgs) -> bool, DfsServiceIOException;
        "open" Open(OpenArgs) -> DfsHandle, DfsServiceIOException;
        "close" Close(CloseArgs) -> bool, DfsServiceIOException;
        "read" Read(ReadArgs) -> Text, DfsServiceIOException;
        "write" Write(WriteArgs) -> bool, DfsServiceIOException;
        "copyToLocalFile" CopyToLocalFile(CopyArgs) -> bool, DfsServiceIOException;
        "copyFromLocalFile" CopyFromLocalFile(CopyArgs) -> bool, DfsServiceIOException;
    }
    v2 {
        "serverInfo" ServerInfo(ServerInfoArgs: ServerInfoRequest) -> ServerInfoReply;
        "openSession" OpenSession(OpenSessionArgs: OpenSessionRequest) -> OpenSessionReply;
        "closeSession" CloseSession(CloseSessionArgs: CloseSessionRequest) -> CloseSessionReply;
        "getFileInfo" GetFileInfo(GetFileInfoArgs: GetFileInfoRequest) -> GetFileInfoReply;
        "listDirectory" ListDirectory(ListDirectoryArgs: ListDirectoryRequest) -> ListDirectoryReply;
        "getBlockLocations" GetBlockLocations(GetBlockLocationsArgs: GetBlockLocationsRequest) -> GetBlockLocationsReply;
        "getChecksum" GetChecksum(GetChecksumArgs: GetChecksumRequest) -> GetChecksumReply;
        "getStoreStatus" GetStoreStatus(GetStoreStatusArgs: GetStoreStatusRequest) -> GetStoreStatusReply;
        "openFile" OpenFile(OpenFileArgs: OpenFileRequest) -> OpenFileReply;
        "readRange" ReadRange(ReadRangeArgs: ReadRangeRequest) -> ReadRangeReply;
        "createFile" CreateFile(CreateFileArgs: CreateFileRequest) -> OpenWriterReply;
        "appendFile" AppendFile(AppendFileArgs: AppendFileRequest) -> OpenWriterReply;
        "appendData" AppendData(AppendDataArgs: AppendDataRequest) -> AppendDataReply;
        "flushFile" FlushFile(FlushFileArgs: FlushFileRequest) -> FlushFileReply;
        "closeFile" CloseFile(CloseFileArgs: CloseFileRequest) -> CloseFileReply;
        "truncateFile" TruncateFile(TruncateFileArgs: TruncateFileRequest) -> MutationReply;
        "makeDirectories" MakeDirectories(MakeDirectoriesArgs: MakeDirectoriesRequest) -> MutationReply;
        "renamePath" RenamePath(RenamePathArgs: RenamePathRequest) -> MutationReply;
        "removePath" RemovePath(RemovePathArgs: RemovePathRequest) -> MutationReply;
        "setAttributes" SetAttributes(SetAttributesArgs: SetAttributesRequest) -> MutationReply;
        "concatFiles" ConcatFiles(ConcatFilesArgs: ConcatFilesRequest) -> MutationReply;
    }
}

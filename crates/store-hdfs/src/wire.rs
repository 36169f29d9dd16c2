//! The few messages of Hadoop's RPC and data transfer that the adapter uses itself. Names and field
//! numbers are those of Hadoop's RpcHeader.proto, IpcConnectionContext.proto,
//! ProtobufRpcEngine2.proto, hdfs.proto, datatransfer.proto and ClientNamenodeProtocol.proto.
//! Unused fields are missing here: protobuf skips them. `write::wire` has the messages of writers.

use prost::Message;

/// RpcHeader.proto
#[derive(Clone, PartialEq, Message)]
pub struct RpcRequestHeader {
    #[prost(int32, tag = "1")]
    pub rpc_kind: i32,
    #[prost(int32, optional, tag = "2")]
    pub rpc_op: Option<i32>,
    #[prost(sint32, required, tag = "3")]
    pub call_id: i32,
    #[prost(bytes = "vec", required, tag = "4")]
    pub client_id: Vec<u8>,
    #[prost(sint32, optional, tag = "5")]
    pub retry_count: Option<i32>,
}

/// RpcHeader.proto
#[derive(Clone, PartialEq, Message)]
pub struct RpcResponseHeader {
    #[prost(uint32, required, tag = "1")]
    pub call_id: u32,
    #[prost(int32, required, tag = "2")]
    pub status: i32,
    #[prost(string, tag = "4")]
    pub exception_class: String,
    #[prost(string, tag = "5")]
    pub error_message: String,
}

/// `RpcResponseHeaderProto.RpcStatusProto`: the answer follows.
pub const RPC_SUCCESS: i32 = 0;
/// `RpcResponseHeaderProto.RpcStatusProto`: the server refuses the connection. The header's call doesn't
/// matter.
pub const RPC_FATAL: i32 = 2;

/// ProtobufRpcEngine2.proto
#[derive(Clone, PartialEq, Message)]
pub struct RequestHeader {
    #[prost(string, required, tag = "1")]
    pub method: String,
    #[prost(string, required, tag = "2")]
    pub protocol: String,
    #[prost(uint64, required, tag = "3")]
    pub protocol_version: u64,
}

/// IpcConnectionContext.proto
#[derive(Clone, PartialEq, Message)]
pub struct ConnectionContext {
    #[prost(message, optional, tag = "2")]
    pub user: Option<UserInformation>,
    #[prost(string, tag = "3")]
    pub protocol: String,
}

/// IpcConnectionContext.proto
#[derive(Clone, PartialEq, Message)]
pub struct UserInformation {
    #[prost(string, tag = "1")]
    pub effective_user: String,
}

/// Security.proto
#[derive(Clone, PartialEq, Message)]
pub struct Token {
    #[prost(bytes = "vec", required, tag = "1")]
    pub identifier: Vec<u8>,
    #[prost(bytes = "vec", required, tag = "2")]
    pub password: Vec<u8>,
    #[prost(string, required, tag = "3")]
    pub kind: String,
    #[prost(string, required, tag = "4")]
    pub service: String,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct ExtendedBlock {
    #[prost(string, required, tag = "1")]
    pub pool_id: String,
    #[prost(uint64, required, tag = "2")]
    pub block_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub generation_stamp: u64,
    #[prost(uint64, tag = "4")]
    pub num_bytes: u64,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct DatanodeId {
    #[prost(string, required, tag = "1")]
    pub ip_addr: String,
    #[prost(string, required, tag = "2")]
    pub host_name: String,
    #[prost(string, required, tag = "3")]
    pub uuid: String,
    #[prost(uint32, required, tag = "4")]
    pub transfer_port: u32,
    #[prost(uint32, required, tag = "5")]
    pub info_port: u32,
    #[prost(uint32, required, tag = "6")]
    pub ipc_port: u32,
    #[prost(uint32, optional, tag = "7")]
    pub info_secure_port: Option<u32>,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct DatanodeInfo {
    #[prost(message, required, tag = "1")]
    pub id: DatanodeId,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct LocatedBlock {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(message, repeated, tag = "3")]
    pub locations: Vec<DatanodeInfo>,
    #[prost(bool, required, tag = "4")]
    pub corrupt: bool,
    #[prost(message, required, tag = "5")]
    pub token: Token,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct LocatedBlocks {
    /// The file's length without the last block, if that is under construction.
    #[prost(uint64, required, tag = "1")]
    pub file_length: u64,
    #[prost(message, repeated, tag = "2")]
    pub blocks: Vec<LocatedBlock>,
    #[prost(bool, required, tag = "3")]
    pub under_construction: bool,
    /// Present for every requested range.
    #[prost(message, optional, tag = "4")]
    pub last_block: Option<LocatedBlock>,
    #[prost(bool, required, tag = "5")]
    pub is_last_block_complete: bool,
    /// Present on files in encryption zones; the adapter doesn't need its content.
    #[prost(message, optional, tag = "6")]
    pub encryption: Option<Presence>,
    /// Present on erasure-coded files; the adapter doesn't need its content.
    #[prost(message, optional, tag = "7")]
    pub erasure_coding: Option<Presence>,
}

/// A message whose contents don't matter.
#[derive(Clone, PartialEq, Message)]
pub struct Presence {}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetBlockLocationsRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(uint64, required, tag = "3")]
    pub length: u64,
}

/// An offset beyond every file. A request for it returns the length and the last block, without the
/// earlier blocks.
pub const FAR_OFFSET: u64 = i64::MAX as u64 - 1;

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetBlockLocationsResponse {
    #[prost(message, optional, tag = "1")]
    pub locations: Option<LocatedBlocks>,
}

/// A request or an answer without fields.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetFsStatsResponse {
    #[prost(uint64, required, tag = "1")]
    pub capacity: u64,
    #[prost(uint64, required, tag = "2")]
    pub used: u64,
    #[prost(uint64, required, tag = "3")]
    pub remaining: u64,
}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct SetSafeModeRequest {
    #[prost(int32, required, tag = "1")]
    pub action: i32,
    /// Makes a standby namenode refuse, instead of answering about itself.
    #[prost(bool, optional, tag = "2")]
    pub checked: Option<bool>,
}

/// Action of `SetSafeModeRequest` that only queries the mode.
pub const SAFEMODE_GET: i32 = 3;

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct SetSafeModeResponse {
    #[prost(bool, required, tag = "1")]
    pub result: bool,
}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetServerDefaultsResponse {
    #[prost(message, required, tag = "1")]
    pub defaults: ServerDefaults,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct ServerDefaults {
    #[prost(uint64, required, tag = "1")]
    pub block_size: u64,
    #[prost(uint32, required, tag = "2")]
    pub bytes_per_checksum: u32,
    #[prost(uint32, required, tag = "4")]
    pub replication: u32,
    #[prost(bool, tag = "6")]
    pub encrypt_data_transfer: bool,
    #[prost(int32, optional, tag = "8")]
    pub checksum_type: Option<i32>,
}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct TruncateRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(uint64, required, tag = "2")]
    pub new_length: u64,
    #[prost(string, required, tag = "3")]
    pub client_name: String,
}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct TruncateResponse {
    /// False: datanodes are still truncating the last block.
    #[prost(bool, required, tag = "1")]
    pub done: bool,
}

/// ClientNamenodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct ConcatRequest {
    #[prost(string, required, tag = "1")]
    pub target: String,
    #[prost(string, repeated, tag = "2")]
    pub sources: Vec<String>,
}

/// ClientDatanodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetReplicaVisibleLengthRequest {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
}

/// ClientDatanodeProtocol.proto
#[derive(Clone, PartialEq, Message)]
pub struct GetReplicaVisibleLengthResponse {
    #[prost(uint64, required, tag = "1")]
    pub length: u64,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct BaseHeader {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
    #[prost(message, optional, tag = "2")]
    pub token: Option<Token>,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct ClientOperationHeader {
    #[prost(message, required, tag = "1")]
    pub base: BaseHeader,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct OpReadBlock {
    #[prost(message, required, tag = "1")]
    pub header: ClientOperationHeader,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(uint64, required, tag = "3")]
    pub length: u64,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct OpBlockChecksum {
    #[prost(message, required, tag = "1")]
    pub header: BaseHeader,
    /// Datanodes before Hadoop 3.1.1 ignore it.
    #[prost(message, optional, tag = "2")]
    pub options: Option<BlockChecksumOptions>,
}

/// hdfs.proto
#[derive(Clone, PartialEq, Message)]
pub struct BlockChecksumOptions {
    #[prost(int32, optional, tag = "1")]
    pub kind: Option<i32>,
}

/// `BlockChecksumTypeProto` of hdfs.proto.
pub mod block_checksum_type {
    pub const MD5_CRC: i32 = 1;
    pub const COMPOSITE_CRC: i32 = 2;
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct BlockOpResponse {
    #[prost(int32, required, tag = "1")]
    pub status: i32,
    /// The datanode, as `address:port`, that the pipeline couldn't reach.
    #[prost(string, tag = "2")]
    pub first_bad_link: String,
    #[prost(message, optional, tag = "3")]
    pub checksum: Option<OpBlockChecksumResponse>,
    #[prost(message, optional, tag = "4")]
    pub read_checksum: Option<ReadOpChecksumInfo>,
    #[prost(string, tag = "5")]
    pub message: String,
}

/// `Status` of datatransfer.proto.
pub mod status {
    pub const SUCCESS: i32 = 0;
    pub const ERROR: i32 = 1;
    pub const ERROR_CHECKSUM: i32 = 2;
    pub const CHECKSUM_OK: i32 = 6;
    pub const OOB_RESTART: i32 = 8;

    /// The name of a status.
    pub fn name(code: i32) -> &'static str {
        match code {
            SUCCESS => "SUCCESS",
            ERROR => "ERROR",
            ERROR_CHECKSUM => "ERROR_CHECKSUM",
            3 => "ERROR_INVALID",
            4 => "ERROR_EXISTS",
            5 => "ERROR_ACCESS_TOKEN",
            CHECKSUM_OK => "CHECKSUM_OK",
            7 => "ERROR_UNSUPPORTED",
            OOB_RESTART => "OOB_RESTART",
            12 => "IN_PROGRESS",
            13 => "ERROR_BLOCK_PINNED",
            _ => "unknown status",
        }
    }
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct OpBlockChecksumResponse {
    #[prost(uint32, required, tag = "1")]
    pub bytes_per_crc: u32,
    #[prost(uint64, required, tag = "2")]
    pub crc_per_block: u64,
    /// MD5 over the CRCs of the block's chunks, or the CRC of the whole block.
    #[prost(bytes = "vec", required, tag = "3")]
    pub checksum: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub crc_type: i32,
    #[prost(message, optional, tag = "5")]
    pub options: Option<BlockChecksumOptions>,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct ReadOpChecksumInfo {
    #[prost(message, required, tag = "1")]
    pub checksum: ChecksumKind,
    #[prost(uint64, required, tag = "2")]
    pub chunk_offset: u64,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct ChecksumKind {
    #[prost(int32, required, tag = "1")]
    pub crc_type: i32,
    #[prost(uint32, required, tag = "2")]
    pub bytes_per_crc: u32,
}

/// `ChecksumTypeProto` of hdfs.proto.
pub mod crc_type {
    pub const NULL: i32 = 0;
    pub const CRC32: i32 = 1;
    pub const CRC32C: i32 = 2;
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct PacketHeader {
    #[prost(sfixed64, required, tag = "1")]
    pub offset_in_block: i64,
    #[prost(sfixed64, required, tag = "2")]
    pub sequence: i64,
    #[prost(bool, required, tag = "3")]
    pub last_packet_in_block: bool,
    #[prost(sfixed32, required, tag = "4")]
    pub data_length: i32,
    #[prost(bool, optional, tag = "5")]
    pub sync_block: Option<bool>,
}

/// datatransfer.proto
#[derive(Clone, PartialEq, Message)]
pub struct ClientReadStatus {
    #[prost(int32, required, tag = "1")]
    pub status: i32,
}

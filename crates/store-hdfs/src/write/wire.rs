//! The messages of writers; `super::super::wire` has those of readers. From
//! ClientNamenodeProtocol.proto, hdfs.proto and datatransfer.proto.

use super::super::wire::{ChecksumKind, ClientOperationHeader, DatanodeId, ExtendedBlock, Presence, Token};
use prost::Message;

/// Bits of `CreateFlagProto`.
pub mod create_flag {
    pub const CREATE: u32 = 1;
    pub const OVERWRITE: u32 = 2;
    pub const APPEND: u32 = 4;
}

/// `DatanodeInfoProto` of hdfs.proto: a place for a replica. The network location is sent back to the
/// namenode, which needs it to exclude the datanode.
#[derive(Clone, PartialEq, Message)]
pub struct Target {
    #[prost(message, required, tag = "1")]
    pub id: DatanodeId,
    #[prost(string, optional, tag = "8")]
    pub location: Option<String>,
}

/// `LocatedBlockProto` of hdfs.proto, for a writer.
#[derive(Clone, PartialEq, Message)]
pub struct TargetedBlock {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(message, repeated, tag = "3")]
    pub targets: Vec<Target>,
    #[prost(message, required, tag = "5")]
    pub token: Token,
    #[prost(int32, repeated, packed = "false", tag = "7")]
    pub storage_types: Vec<i32>,
    #[prost(string, repeated, tag = "8")]
    pub storage_ids: Vec<String>,
}

/// `StorageTypeProto.DISK`
pub const STORAGE_DISK: i32 = 1;

/// `HdfsFileStatusProto` of hdfs.proto.
#[derive(Clone, PartialEq, Message)]
pub struct HdfsFileStatus {
    #[prost(uint64, required, tag = "3")]
    pub length: u64,
    #[prost(message, required, tag = "4")]
    pub permission: Permission,
    #[prost(uint32, optional, tag = "10")]
    pub replication: Option<u32>,
    #[prost(uint64, optional, tag = "11")]
    pub block_size: Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    pub file_id: Option<u64>,
    #[prost(message, optional, tag = "15")]
    pub encryption: Option<Presence>,
    #[prost(message, optional, tag = "17")]
    pub erasure_coding: Option<Presence>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Permission {
    #[prost(uint32, required, tag = "1")]
    pub bits: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SetPermissionRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(message, required, tag = "2")]
    pub permission: Permission,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(message, required, tag = "2")]
    pub permission: Permission,
    #[prost(string, required, tag = "3")]
    pub client_name: String,
    #[prost(uint32, required, tag = "4")]
    pub flags: u32,
    #[prost(bool, required, tag = "5")]
    pub create_parent: bool,
    #[prost(uint32, required, tag = "6")]
    pub replication: u32,
    #[prost(uint64, required, tag = "7")]
    pub block_size: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<HdfsFileStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetFileInfoRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetFileInfoResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<HdfsFileStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AppendRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
    #[prost(uint32, optional, tag = "3")]
    pub flags: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AppendResponse {
    /// The file's last block, which may be full.
    #[prost(message, optional, tag = "1")]
    pub block: Option<TargetedBlock>,
    #[prost(message, optional, tag = "2")]
    pub status: Option<HdfsFileStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AddBlockRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
    #[prost(message, optional, tag = "3")]
    pub previous: Option<ExtendedBlock>,
    #[prost(message, repeated, tag = "4")]
    pub excluded: Vec<Target>,
    #[prost(uint64, tag = "5")]
    pub file_id: u64,
}

/// Also the answer of updateBlockForPipeline and getAdditionalDatanode.
#[derive(Clone, PartialEq, Message)]
pub struct BlockResponse {
    #[prost(message, required, tag = "1")]
    pub block: TargetedBlock,
}

#[derive(Clone, PartialEq, Message)]
pub struct AbandonBlockRequest {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
    #[prost(string, required, tag = "2")]
    pub path: String,
    #[prost(string, required, tag = "3")]
    pub client_name: String,
    #[prost(uint64, tag = "4")]
    pub file_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetAdditionalDatanodeRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(message, required, tag = "2")]
    pub block: ExtendedBlock,
    #[prost(message, repeated, tag = "3")]
    pub existing: Vec<Target>,
    #[prost(message, repeated, tag = "4")]
    pub excluded: Vec<Target>,
    #[prost(uint32, required, tag = "5")]
    pub wanted: u32,
    #[prost(string, required, tag = "6")]
    pub client_name: String,
    #[prost(string, repeated, tag = "7")]
    pub existing_storage_ids: Vec<String>,
    #[prost(uint64, tag = "8")]
    pub file_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompleteRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
    #[prost(message, optional, tag = "3")]
    pub last: Option<ExtendedBlock>,
    #[prost(uint64, tag = "4")]
    pub file_id: u64,
}

/// Also the answer of recoverLease.
#[derive(Clone, PartialEq, Message)]
pub struct DoneResponse {
    #[prost(bool, required, tag = "1")]
    pub done: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct RecoverLeaseRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RenewLeaseRequest {
    #[prost(string, required, tag = "1")]
    pub client_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct FsyncRequest {
    #[prost(string, required, tag = "1")]
    pub path: String,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
    #[prost(sint64, optional, tag = "3")]
    pub last_block_length: Option<i64>,
    #[prost(uint64, tag = "4")]
    pub file_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpdateBlockForPipelineRequest {
    #[prost(message, required, tag = "1")]
    pub block: ExtendedBlock,
    #[prost(string, required, tag = "2")]
    pub client_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpdatePipelineRequest {
    #[prost(string, required, tag = "1")]
    pub client_name: String,
    #[prost(message, required, tag = "2")]
    pub old_block: ExtendedBlock,
    #[prost(message, required, tag = "3")]
    pub new_block: ExtendedBlock,
    #[prost(message, repeated, tag = "4")]
    pub new_nodes: Vec<DatanodeId>,
    #[prost(string, repeated, tag = "5")]
    pub storage_ids: Vec<String>,
}

/// The step of a block's writing (`OpWriteBlockProto.BlockConstructionStage`) for which a pipeline
/// is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Stage {
    Append = 0,
    AppendRecovery = 1,
    StreamingRecovery = 3,
    CloseRecovery = 5,
    Create = 6,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpWriteBlock {
    #[prost(message, required, tag = "1")]
    pub header: ClientOperationHeader,
    /// The datanodes after the one that receives this message.
    #[prost(message, repeated, tag = "2")]
    pub targets: Vec<Target>,
    #[prost(int32, required, tag = "4")]
    pub stage: i32,
    #[prost(uint32, required, tag = "5")]
    pub pipeline_size: u32,
    #[prost(uint64, required, tag = "6")]
    pub min_bytes_received: u64,
    #[prost(uint64, required, tag = "7")]
    pub max_bytes_received: u64,
    #[prost(uint64, required, tag = "8")]
    pub latest_generation_stamp: u64,
    #[prost(message, required, tag = "9")]
    pub checksum: ChecksumKind,
    #[prost(int32, optional, tag = "11")]
    pub storage_type: Option<i32>,
    #[prost(int32, repeated, packed = "false", tag = "12")]
    pub target_storage_types: Vec<i32>,
    #[prost(string, optional, tag = "16")]
    pub storage_id: Option<String>,
    #[prost(string, repeated, tag = "17")]
    pub target_storage_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpTransferBlock {
    #[prost(message, required, tag = "1")]
    pub header: ClientOperationHeader,
    #[prost(message, repeated, tag = "2")]
    pub targets: Vec<Target>,
    #[prost(int32, repeated, packed = "false", tag = "3")]
    pub target_storage_types: Vec<i32>,
    #[prost(string, repeated, tag = "4")]
    pub target_storage_ids: Vec<String>,
}

/// A pipeline's acknowledgement of one packet.
#[derive(Clone, PartialEq, Message)]
pub struct PipelineAck {
    #[prost(sint64, required, tag = "1")]
    pub sequence: i64,
    /// The `status` of each datanode, in the pipeline's order.
    #[prost(int32, repeated, packed = "false", tag = "2")]
    pub replies: Vec<i32>,
    /// The same status in the lowest 4 bits, and more above them.
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub flags: Vec<u32>,
}

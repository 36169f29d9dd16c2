//! `volo-memory ADDRESS BYTES`: a bare volo server that answers the requests of
//! Strait's clients from memory: any path is a file of BYTES bytes. Nothing is
//! checked, limited or looked up.

use generated::volo_gen::reading::*;
use pilota::Bytes;
use std::net::SocketAddr;
use volo_thrift::ServerError;

mod generated {
    #![allow(warnings)]
    volo::include_service!("volo_gen.rs");
}

type Answer<T> = Result<T, ServerError>;

/// The bytes that it sends again and again. A file in the page cache is in memory once, too,
/// but these may stay in the processor's cache as long as they are few.
const MEMORY_BYTES: usize = 64 << 20;
const MAX_CHUNK_BYTES: i32 = 4 << 20;

struct Memory {
    bytes: Bytes,
    length: i64,
}

impl Reading for Memory {
    async fn open_session(&self, _: OpenSessionRequest) -> Answer<OpenSessionReply> {
        let limits = Limits { max_chunk_bytes: Some(MAX_CHUNK_BYTES), ..Default::default() };
        Ok(OpenSessionReply { token: Some("token".into()), limits: Some(limits), ..Default::default() })
    }

    async fn close_session(&self, _: CloseSessionRequest) -> Answer<CloseSessionReply> {
        Ok(CloseSessionReply::default())
    }

    async fn open_file(&self, _: OpenFileRequest) -> Answer<OpenFileReply> {
        Ok(OpenFileReply { handle: Some(1), length: Some(self.length), ..Default::default() })
    }

    async fn read_range(&self, request: ReadRangeRequest) -> Answer<ReadRangeReply> {
        let offset = request.offset.unwrap_or_default();
        let left = (self.length - offset).clamp(0, i64::from(MAX_CHUNK_BYTES));
        let length = left.min(i64::from(request.length.unwrap_or_default())) as usize;
        let begin = offset as usize % (MEMORY_BYTES - MAX_CHUNK_BYTES as usize);
        Ok(ReadRangeReply { data: Some(self.bytes.slice(begin..begin + length)), ..Default::default() })
    }

    async fn close_file(&self, _: CloseFileRequest) -> Answer<CloseFileReply> {
        Ok(CloseFileReply::default())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [address, length] = given.as_slice() else {
        return Err("usage: volo-memory ADDRESS BYTES".into());
    };
    let address: SocketAddr = address.parse()?;
    let memory = Memory { bytes: vec![7; MEMORY_BYTES].into(), length: length.parse()? };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime
        .block_on(ReadingServer::new(memory).run(volo::net::Address::from(address)))
        .map_err(|error| error.to_string().into())
}

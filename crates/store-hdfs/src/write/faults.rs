//! Faults of a pipeline's datanodes, on a cluster of fakes: a namenode, and a datanode that answers for
//! its whole pipeline.

use super::super::config::HadoopConfig;
use super::super::datanode::Datanodes;
use super::super::namenode::Namenode;
use super::super::wire::{
    BlockOpResponse, DatanodeId, Empty, ExtendedBlock, PacketHeader, ServerDefaults, status,
};
use super::fake::{self, Answer};
use super::holders::Holders;
use super::open_file::{OpenFile, Opened};
use super::pipeline::OP_TRANSFER_BLOCK;
use super::settings::Settings;
use super::wire::*;
use super::writer::{Context, DatanodesWriter};
use bytes::Bytes;
use prost::Message;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use strait_store::budget::Pool;
use strait_store::{ErrorKind, FileWriter, Principal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The only datanode that listens. It answers for the others, too.
const FIRST: &str = "a";

/// Sequence of an acknowledgement that belongs to no packet (`PipelineAck.UNKOWN_SEQNO`).
const UNKNOWN: i64 = -2;

/// An event of the cluster, with the names of datanodes.
#[derive(Debug, PartialEq)]
enum Event {
    /// A pipeline was set up at this stage.
    Pipeline(i32, String),
    /// A replica was copied to this datanode.
    Copy(String),
    /// The namenode was asked for a datanode other than these.
    Excluded(String),
    Completed,
}

/// Gives a pipeline's answer to a packet. The arguments are the pipeline's number, which counts from 0, the
/// packet's header, and the number of the pipeline's datanodes.
type Reply = fn(usize, &PacketHeader, usize) -> PipelineAck;

/// All of `datanodes` have the packet.
fn acked(packet: &PacketHeader, datanodes: usize) -> PipelineAck {
    PipelineAck { sequence: packet.sequence, replies: vec![status::SUCCESS; datanodes], flags: vec![] }
}

/// The last of `datanodes` has this status.
fn last_is(status: i32, packet: &PacketHeader, datanodes: usize) -> PipelineAck {
    let mut ack = acked(packet, datanodes);
    ack.replies[datanodes - 1] = status;
    ack
}

/// A writer of a file with three replicas, at first on a, b and c, on a cluster of these datanodes.
async fn writer(
    config: &HadoopConfig,
    cluster: &'static [&'static str],
    reply: Reply,
) -> (DatanodesWriter, UnboundedReceiver<Event>) {
    writer_whose_lengths(config, cluster, reply, || Answer::of(&Empty {})).await
}

/// The same. The function gives the namenode's answer to a flushed length.
async fn writer_whose_lengths(
    config: &HadoopConfig,
    cluster: &'static [&'static str],
    reply: Reply,
    to_length: impl Fn() -> Answer + Send + Sync + 'static,
) -> (DatanodesWriter, UnboundedReceiver<Event>) {
    let (sender, events) = unbounded_channel();
    let port = datanode(sender.clone(), reply).await;
    let generation = AtomicU64::new(1);
    let answer = move |method: &str, request: &[u8]| match method {
        "addBlock" => Answer::of(&BlockResponse { block: located(port, &["a", "b", "c"], 1) }),
        "updateBlockForPipeline" => {
            let generation = 1 + generation.fetch_add(1, Ordering::Relaxed);
            Answer::of(&BlockResponse { block: located(port, &[], generation) })
        }
        "getAdditionalDatanode" => {
            let request = GetAdditionalDatanodeRequest::decode(request).unwrap();
            let [existing, excluded] = [&request.existing, &request.excluded].map(|targets| names(targets));
            let is_free = |name: &&&str| !existing.contains(**name) && !excluded.contains(**name);
            let chosen: Vec<&str> = request.existing.iter().map(|target| target.id.uuid.as_str()).collect();
            let chosen = [chosen, cluster.iter().find(is_free).into_iter().copied().collect()].concat();
            sender.send(Event::Excluded(excluded)).unwrap();
            Answer::of(&BlockResponse { block: located(port, &chosen, request.block.generation_stamp) })
        }
        "fsync" => to_length(),
        "updatePipeline" => Answer::of(&Empty {}),
        "complete" => {
            sender.send(Event::Completed).unwrap();
            Answer::of(&DoneResponse { done: true })
        }
        _ => Answer::failure("not now"),
    };
    let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
    let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
    let context = Context {
        datanodes: Arc::new(Datanodes::new(false)),
        settings: Arc::new(Settings::new(config, &defaults).unwrap()),
        recoveries: Arc::default(),
    };
    let file = OpenFile::new(&Holders::default().get(&namenode, &Principal::new("alice")), "/f", 1);
    let status =
        HdfsFileStatus { replication: Some(3), block_size: Some(1 << 20), ..HdfsFileStatus::default() };
    let opened = Opened { file, status, partial: None, full: None };
    (DatanodesWriter::new(context, opened, Pool::of_process().share("alice")), events)
}

fn located(port: u16, datanodes: &[&str], generation_stamp: u64) -> TargetedBlock {
    let target = |name: &&str| {
        // The other datanodes have the address of no host (RFC 5737).
        let ip_addr = if *name == FIRST { "127.0.0.1".to_owned() } else { "192.0.2.1".to_owned() };
        let uuid = (*name).to_owned();
        let id = DatanodeId { ip_addr, uuid, transfer_port: port.into(), ..DatanodeId::default() };
        Target { id, location: None }
    };
    let block = ExtendedBlock { block_id: 7, generation_stamp, ..ExtendedBlock::default() };
    TargetedBlock { block, targets: datanodes.iter().map(target).collect(), ..TargetedBlock::default() }
}

fn names(targets: &[Target]) -> String {
    targets.iter().map(|target| target.id.uuid.as_str()).collect()
}

/// Serves on loopback as a pipeline's first datanode, and returns the port.
async fn datanode(events: UnboundedSender<Event>, reply: Reply) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let pipelines = Arc::new(AtomicUsize::new(0));
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, events.clone(), reply, Arc::clone(&pipelines)));
        }
    });
    port
}

async fn serve(
    mut stream: TcpStream,
    events: UnboundedSender<Event>,
    reply: Reply,
    pipelines: Arc<AtomicUsize>,
) -> io::Result<()> {
    let agrees = BlockOpResponse::default().encode_length_delimited_to_vec();
    let mut head = [0; 3];
    stream.read_exact(&mut head).await?;
    if head[2] == OP_TRANSFER_BLOCK {
        let OpTransferBlock { targets, .. } = receive(&mut stream).await?;
        events.send(Event::Copy(names(&targets))).unwrap();
        return stream.write_all(&agrees).await;
    }
    let OpWriteBlock { stage, targets, .. } = receive(&mut stream).await?;
    events.send(Event::Pipeline(stage, format!("{FIRST}{}", names(&targets)))).unwrap();
    let number = pipelines.fetch_add(1, Ordering::Relaxed);
    stream.write_all(&agrees).await?;
    loop {
        let rest = stream.read_u32().await? as usize - 4;
        let mut header = vec![0; stream.read_u16().await? as usize];
        stream.read_exact(&mut header).await?;
        stream.read_exact(&mut vec![0; rest]).await?;
        let ack = reply(number, &PacketHeader::decode(&header[..])?, 1 + targets.len());
        stream.write_all(&ack.encode_length_delimited_to_vec()).await?;
    }
}

async fn receive<M: Message + Default>(stream: &mut TcpStream) -> io::Result<M> {
    let (mut length, mut shift, mut byte) = (0, 0, 0x80);
    while byte & 0x80 != 0 {
        byte = stream.read_u8().await?;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(M::decode(&message[..])?)
}

fn all(mut events: UnboundedReceiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

fn pipeline(stage: Stage, datanodes: &str) -> Event {
    Event::Pipeline(stage as i32, datanodes.to_owned())
}

/// The last datanode of the first pipeline fails at the end of the block.
fn fails_at_the_end(number: usize, packet: &PacketHeader, datanodes: usize) -> PipelineAck {
    match number == 0 && packet.last_packet_in_block {
        true => last_is(status::ERROR, packet, datanodes),
        false => acked(packet, datanodes),
    }
}

#[tokio::test]
async fn a_datanode_that_fails_at_the_end_of_a_block_is_replaced() {
    let (mut writer, events) =
        writer(&HadoopConfig::default(), &["a", "b", "c", "d"], fails_at_the_end).await;
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    writer.flush().await.unwrap();
    writer.close().await.unwrap();
    let due = [
        pipeline(Stage::Create, "abc"),
        Event::Excluded("c".to_owned()),
        Event::Copy("d".to_owned()),
        pipeline(Stage::CloseRecovery, "abd"),
        Event::Completed,
    ];
    assert_eq!(all(events), due);
}

#[tokio::test]
async fn a_close_fails_if_the_policy_wants_a_datanode_and_none_is_left() {
    let cluster = &["a", "b", "c"];
    let (mut strict, events) = writer(&HadoopConfig::default(), cluster, fails_at_the_end).await;
    strict.append(Bytes::from_static(b"flushed")).await.unwrap();
    strict.flush().await.unwrap();
    let error = strict.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("replace-datanode-on-failure.policy"), "{error}");
    assert!(!all(events).contains(&Event::Completed));

    let mut config = HadoopConfig::default();
    config.set("dfs.client.block.write.replace-datanode-on-failure.min-replication", "2");
    let (mut content, events) = writer(&config, cluster, fails_at_the_end).await;
    content.append(Bytes::from_static(b"flushed")).await.unwrap();
    content.flush().await.unwrap();
    content.close().await.unwrap();
    assert!(all(events).contains(&pipeline(Stage::CloseRecovery, "ab")));
}

#[tokio::test]
async fn a_datanode_that_restarted_may_be_chosen_again() {
    // The last datanode of the first pipeline restarts, and then that of the second one fails.
    let reply: Reply = |number, packet, datanodes| match (number, packet.sequence) {
        (0, 0) => PipelineAck { sequence: UNKNOWN, ..last_is(status::OOB_RESTART, packet, datanodes) },
        (1, 1) => last_is(status::ERROR, packet, datanodes),
        _ => acked(packet, datanodes),
    };
    let (mut writer, events) = writer(&HadoopConfig::default(), &["a", "b", "c"], reply).await;
    for _ in 0..2 {
        writer.append(Bytes::from_static(b"flushed")).await.unwrap();
        writer.flush().await.unwrap();
    }
    writer.close().await.unwrap();
    let due = [
        pipeline(Stage::Create, "abc"),
        pipeline(Stage::StreamingRecovery, "ab"),
        Event::Excluded("b".to_owned()),
        Event::Copy("c".to_owned()),
        pipeline(Stage::StreamingRecovery, "ac"),
        Event::Completed,
    ];
    assert_eq!(all(events), due);
}

#[tokio::test]
async fn a_block_is_recovered_as_often_as_configured() {
    let reply: Reply = |_, packet, datanodes| last_is(status::ERROR, packet, datanodes);
    let mut config = HadoopConfig::default();
    config.set("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER");
    config.set("dfs.client.pipeline.recovery.max-retries", "1");
    let (mut writer, events) = writer(&config, &["a", "b", "c"], reply).await;
    writer.append(Bytes::from_static(b"lost")).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert!(error.message().contains("dfs.client.pipeline.recovery.max-retries"), "{error}");
    assert_eq!(all(events), [pipeline(Stage::Create, "abc"), pipeline(Stage::StreamingRecovery, "ab")]);
}

#[tokio::test]
async fn a_datanode_on_this_host_is_waited_for_while_it_restarts() {
    let reply: Reply = |number, packet, datanodes| {
        let mut ack = acked(packet, datanodes);
        if number == 0 {
            (ack.sequence, ack.replies[0]) = (UNKNOWN, status::OOB_RESTART);
        }
        ack
    };
    let mut config = HadoopConfig::default();
    config.set("dfs.client.datanode-restart.timeout", "100ms");
    let (mut writer, events) = writer(&config, &["a", "b", "c", "d"], reply).await;
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(all(events), [pipeline(Stage::Create, "abc"), pipeline(Stage::StreamingRecovery, "abc")]);
}

#[tokio::test]
async fn a_flush_that_failed_at_the_namenode_fails_again_until_the_namenode_agrees() {
    let refuses = Arc::new(AtomicBool::new(true));
    let still_refuses = Arc::clone(&refuses);
    let to_length = move || match refuses.load(Ordering::Relaxed) {
        true => Answer::Exception("java.io.FileNotFoundException", "File does not exist: /f".to_owned()),
        false => Answer::of(&Empty {}),
    };
    let (mut writer, _events) = writer_whose_lengths(
        &HadoopConfig::default(),
        &["a", "b", "c"],
        |_, packet, count| acked(packet, count),
        to_length,
    )
    .await;
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    still_refuses.store(false, Ordering::Relaxed);
    writer.flush().await.unwrap();
}

//! One pipeline of datanodes for one block: set-up, packets, acknowledgements.

use super::super::datanode::{Datanodes, Limits, Started, accepted, ask, receive_message};
use super::super::wire::{BaseHeader, ClientOperationHeader, ExtendedBlock, Token, status};
use super::line::Line;
use super::policy::{SlowNodes, Verdict, judge};
use super::queue::{HEARTBEAT, Packet};
use super::settings::Settings;
use super::wire::{OpTransferBlock, OpWriteBlock, PipelineAck, STORAGE_DISK, Stage, Target, TargetedBlock};
use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

const OP_WRITE_BLOCK: u8 = 80;
pub const OP_TRANSFER_BLOCK: u8 = 86;

/// Most packets that one system call sends.
const BATCH_PACKETS: usize = 8;
/// After a packet couldn't be sent: time limit for further acknowledgements, which may name the failed
/// datanode.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A datanode of a pipeline, and its storage for the block.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub target: Target,
    pub storage_type: i32,
    pub storage_id: String,
}

/// The datanodes of a block, in the pipeline's order.
pub fn nodes_of(located: &TargetedBlock) -> Vec<Node> {
    let node = |(index, target): (usize, &Target)| Node {
        target: target.clone(),
        storage_type: located.storage_types.get(index).copied().unwrap_or(STORAGE_DISK),
        storage_id: located.storage_ids.get(index).cloned().unwrap_or_default(),
    };
    located.targets.iter().enumerate().map(node).collect()
}

/// A block, with the datanodes that it is written to.
#[derive(Debug, Clone)]
pub struct Writing {
    /// Its length counts acknowledged bytes.
    pub block: ExtendedBlock,
    pub token: Token,
    pub nodes: Vec<Node>,
    /// Bytes sent, acknowledged or not.
    pub sent: u64,
}

/// A failed datanode, by its index.
#[derive(Debug)]
pub struct Fault {
    pub index: usize,
    /// Whether the datanode announced a restart, and will be back soon.
    pub restarts: bool,
    pub error: io::Error,
}

impl Fault {
    fn of(index: usize, error: io::Error) -> Self {
        Self { index, restarts: false, error }
    }
}

/// A connection to the first datanode, which leads to the others.
#[derive(Debug)]
pub struct Pipeline {
    stream: TcpStream,
    /// Received acknowledgements.
    received: BytesMut,
    datanodes: usize,
}

impl Pipeline {
    /// Sets up a pipeline for `writing` at this `stage`. `generation` is the block's new generation stamp, 0
    /// for a new block. `first_packet` is sent with the request. So a small file, which is one packet, takes
    /// one round trip less than with Java's client.
    pub async fn open(
        datanodes: &Datanodes,
        settings: &Settings,
        client_name: &str,
        writing: &Writing,
        first_packet: Option<&Packet>,
        (stage, generation, block_bytes): (Stage, u64, u64),
    ) -> Result<Self, Fault> {
        let Writing { block, token, nodes, sent } = writing;
        let Some((first, others)) = nodes.split_first() else {
            return Err(Fault::of(0, io::Error::other("no datanode for the block")));
        };
        let message = OpWriteBlock {
            header: header(client_name, token, ExtendedBlock { num_bytes: block_bytes, ..block.clone() }),
            targets: others.iter().map(|node| node.target.clone()).collect(),
            stage: stage as i32,
            pipeline_size: nodes.len() as u32,
            min_bytes_received: block.num_bytes,
            max_bytes_received: *sent,
            latest_generation_stamp: generation,
            checksum: settings.checksum.clone(),
            storage_type: Some(first.storage_type),
            target_storage_types: others.iter().map(|node| node.storage_type).collect(),
            storage_id: Some(first.storage_id.clone()),
            target_storage_ids: others.iter().map(|node| node.storage_id.clone()).collect(),
        };
        let address = datanodes.address(&first.target.id);
        let mut limits = Limits::of(settings.read_timeout(nodes.len()));
        if others.is_empty() && stage != Stage::Create {
            // No other datanode has the block's bytes.
            limits.connect = settings.connect_timeout();
        }
        let data = first_packet.map(Packet::bytes).unwrap_or_default();
        let asked = ask(datanodes, &address, OP_WRITE_BLOCK, &message, &data, limits).await;
        let Started { stream, answer, rest } = asked.map_err(|error| Fault::of(0, error))?;
        let bad_link = |node: &Node| {
            let id = &node.target.id;
            format!("{}:{}", id.ip_addr, id.transfer_port) == answer.first_bad_link
        };
        accepted(&answer).map_err(|error| Fault {
            index: nodes.iter().position(bad_link).unwrap_or(0),
            restarts: answer.status == status::OOB_RESTART,
            error,
        })?;
        Ok(Self { stream, received: rest, datanodes: nodes.len() })
    }

    /// Sends the packets of `line`, and receives their acknowledgements, up to the end of the block.
    pub async fn run(&mut self, line: &Line, settings: &Settings) -> Result<(), Fault> {
        let Self { stream, received, datanodes } = self;
        let (mut read, mut write) = stream.split();
        let receiving = receive_acks(&mut read, received, *datanodes, line, settings);
        tokio::pin!(receiving);
        let error = tokio::select! {
            biased;
            outcome = &mut receiving => return outcome,
            error = send_packets(&mut write, *datanodes, line, settings) => error,
        };
        // The pipeline may have reported the failed datanode before it closed.
        match timeout(LAST_WORDS, receiving).await {
            Ok(outcome @ (Ok(()) | Err(Fault { index: 1.., .. } | Fault { restarts: true, .. }))) => outcome,
            _ => Err(Fault::of(0, error)),
        }
    }
}

/// Receives acknowledgements up to the end of the block.
async fn receive_acks(
    read: &mut (impl AsyncRead + Unpin),
    received: &mut BytesMut,
    datanodes: usize,
    line: &Line,
    settings: &Settings,
) -> Result<(), Fault> {
    let mut slow = SlowNodes::new(settings.slow_acks, datanodes);
    let mut progress = Instant::now();
    loop {
        let ack: PipelineAck = timeout(settings.read_timeout(datanodes), receive_message(read, received))
            .await
            .map_err(io::Error::from)
            .and_then(|ack| ack)
            .map_err(|error| Fault::of(0, error))?;
        match judge(&ack, datanodes) {
            Verdict::Acked(HEARTBEAT) if line.is_all_acked() => progress = Instant::now(),
            Verdict::Acked(HEARTBEAT) => {
                // The same limit as in `DataStreamer.waitForAckedSeqno`, counted from the last heartbeat
                // without unacknowledged packets.
                if progress.elapsed() > settings.heartbeat() + settings.write_timeout(datanodes) {
                    let error = io::Error::other("nothing but heartbeats is acknowledged");
                    return Err(Fault::of(0, error));
                }
            }
            Verdict::Acked(sequence) => match line.acked(sequence) {
                Some(packet) if packet.ends_block => return Ok(()),
                Some(_) => progress = Instant::now(),
                None => {
                    let message = format!("packet {sequence} acknowledged out of order");
                    return Err(Fault::of(0, io::Error::other(message)));
                }
            },
            Verdict::Bad { index, status } => {
                let name = status::name(status);
                let message = format!("a datanode refused packet {}: {name} ({status})", ack.sequence);
                return Err(Fault::of(index, io::Error::other(message)));
            }
            Verdict::Restarts(index) => {
                let error = io::Error::other("the datanode restarts");
                return Err(Fault { index, restarts: true, error });
            }
        }
        if let Some(index) = slow.count(&ack) {
            let message = format!("slow in {} acknowledgements in a row", settings.slow_acks);
            return Err(Fault::of(index, io::Error::other(message)));
        }
    }
}

/// Sends packets, and heartbeats while there are none. Returns the error that ended this.
async fn send_packets(
    write: &mut (impl AsyncWrite + Unpin),
    datanodes: usize,
    line: &Line,
    settings: &Settings,
) -> io::Error {
    loop {
        let next = timeout(settings.heartbeat(), line.next_packets(BATCH_PACKETS)).await;
        let packets = next.unwrap_or_else(|_| vec![Packet::heartbeat()]);
        match timeout(settings.write_timeout(datanodes), send(write, &packets)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(elapsed) => return elapsed.into(),
        }
    }
}

/// Sends packets, with a single system call if the socket has room.
async fn send(write: &mut (impl AsyncWrite + Unpin), packets: &[Packet]) -> io::Result<()> {
    let heads: Vec<BytesMut> = packets.iter().map(Packet::head).collect();
    let with_data = heads.iter().zip(packets);
    let mut slices: Vec<IoSlice<'_>> =
        with_data.flat_map(|(head, packet)| [IoSlice::new(head), IoSlice::new(&packet.piece.data)]).collect();
    let mut rest = &mut slices[..];
    // Skips empty slices, which would never count as sent.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let sent = write.write_vectored(rest).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, sent);
    }
    Ok(())
}

/// Makes the datanode `from` copy the block's present bytes to `to`.
pub async fn copy_replica(
    datanodes: &Datanodes,
    settings: &Settings,
    client_name: &str,
    (block, token): (&ExtendedBlock, &Token),
    from: &Node,
    to: &Node,
) -> io::Result<()> {
    let message = OpTransferBlock {
        header: header(client_name, token, block.clone()),
        targets: vec![to.target.clone()],
        target_storage_types: vec![to.storage_type],
        target_storage_ids: vec![to.storage_id.clone()],
    };
    // The limit for two datanodes, and one more for each 200 packets of 64 KiB
    // (DataStreamer.computeTransferReadTimeout).
    let limits = Limits::of(settings.read_timeout(2 + (block.num_bytes >> 16) as usize / 200));
    let address = datanodes.address(&from.target.id);
    let Started { answer, .. } = ask(datanodes, &address, OP_TRANSFER_BLOCK, &message, &[], limits).await?;
    accepted(&answer)
}

fn header(client_name: &str, token: &Token, block: ExtendedBlock) -> ClientOperationHeader {
    let base = BaseHeader { block, token: Some(token.clone()) };
    ClientOperationHeader { base, client_name: client_name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::HadoopConfig;
    use super::super::super::rpc::CONNECT_TIMEOUT;
    use super::super::super::wire::{BlockOpResponse, DatanodeId, ServerDefaults};
    use super::super::cutter::Piece;
    use super::super::fake;
    use super::*;
    use bytes::Bytes;
    use prost::Message;
    use strait_testkit::wait::pause_task;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    fn node(port: u32) -> Node {
        let id = DatanodeId { ip_addr: "127.0.0.1".into(), transfer_port: port, ..DatanodeId::default() };
        Node { target: Target { id, location: None }, storage_type: STORAGE_DISK, storage_id: String::new() }
    }

    fn settings(config: &HadoopConfig) -> Settings {
        let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
        Settings::new(config, &defaults).unwrap()
    }

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    fn ack(sequence: i64, flags: [u32; 2]) -> Vec<u8> {
        let replies = flags.iter().map(|flag| (flag & 0xf) as i32).collect();
        PipelineAck { sequence, replies, flags: flags.to_vec() }.encode_length_delimited_to_vec()
    }

    /// Writes two packets through a datanode that agrees with `answer`, and answers each with some of
    /// the `acks`. The second packet waits for the acknowledgement of the first.
    async fn write(answer: BlockOpResponse, acks: &[Vec<u8>]) -> Result<(), Fault> {
        let acks = acks.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = u32::from(listener.local_addr().unwrap().port());
        let datanode = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 3]).await.unwrap();
            // The rest of the request, which is short and comes at once.
            assert_ne!(stream.read(&mut [0; 1 << 12]).await.unwrap(), 0);
            stream.write_all(&answer.encode_length_delimited_to_vec()).await.unwrap();
            for acks in acks {
                assert_ne!(stream.read(&mut [0; 1 << 12]).await.unwrap(), 0);
                stream.write_all(&acks).await.unwrap();
            }
            // Until the writer closes the connection.
            while stream.read(&mut [0; 1 << 12]).await.is_ok_and(|read| read > 0) {}
        });
        let datanodes = Datanodes::new(false);
        let settings = settings(&HadoopConfig::default());
        let writing = Writing {
            block: ExtendedBlock::default(),
            token: Token::default(),
            nodes: vec![node(port), node(9)],
            sent: 0,
        };
        let line = Line::default();
        line.push(Packet::of(Piece::empty(0), false, None));
        line.push(Packet::end_of_block(0));
        let at = (Stage::Create, 0, 1 << 20);
        let outcome = match Pipeline::open(&datanodes, &settings, "test", &writing, None, at).await {
            Ok(mut pipeline) => {
                timeout(Duration::from_secs(20), pipeline.run(&line, &settings)).await.unwrap()
            }
            Err(fault) => Err(fault),
        };
        datanode.await.unwrap();
        outcome
    }

    #[tokio::test]
    async fn a_bad_acknowledgement_is_the_fault_of_its_datanode() {
        let agrees = BlockOpResponse::default;
        let good = [[ack(HEARTBEAT, [0, 0]), ack(0, [0, 0])].concat(), ack(1, [0, 0])];
        write(agrees(), &good).await.unwrap();
        let slow = ack(HEARTBEAT, [0x80, 0x100]).repeat(10);
        let bad = [
            ("out of order", ack(1, [0, 0]), 0),
            ("twice", [ack(0, [0, 0]), ack(0, [0, 0])].concat(), 0),
            ("an error of the second", ack(0, [0, 1]), 1),
            ("an error of the first", ack(0, [1, 0]), 0),
            ("not an acknowledgement", vec![3, 0xff, 0xff, 0xff], 0),
            ("of endless length", vec![0xff; 64], 0),
            ("slow", slow, 1),
        ];
        for (what, acks, index) in bad {
            let fault = write(agrees(), &[acks]).await.unwrap_err();
            assert_eq!(fault.index, index, "{what}: {fault:?}");
            assert!(!fault.restarts, "{what}: {fault:?}");
        }
        // 8 is `OOB_RESTART`.
        let fault = write(agrees(), &[ack(HEARTBEAT - 1, [0, 8])]).await.unwrap_err();
        assert!(fault.restarts && fault.index == 1, "{fault:?}");
    }

    #[tokio::test]
    async fn a_datanode_that_acknowledges_nothing_but_heartbeats_has_failed() {
        let mut config = HadoopConfig::default();
        config.set("dfs.client.socket-timeout", "2000");
        config.set("dfs.datanode.socket.write.timeout", "1");
        let (pipe, datanode) = connected().await;
        let line = Line::default();
        let piece = Piece { data: Bytes::from_static(b"x"), ..Piece::empty(0) };
        line.push(Packet::of(piece, false, None));
        let alive = tokio::spawn(async move {
            let mut datanode = datanode;
            loop {
                datanode.write_all(&ack(HEARTBEAT, [0, 0])).await?;
                pause_task("the pace of heartbeats", Duration::from_millis(100)).await;
            }
        });
        let mut pipeline = Pipeline { stream: pipe, received: BytesMut::new(), datanodes: 1 };
        let settings = settings(&config);
        let ended = timeout(Duration::from_secs(20), pipeline.run(&line, &settings)).await;
        let fault = ended.expect("it would wait for ever").unwrap_err();
        assert_eq!(fault.index, 0, "{fault:?}");
        alive.abort();
        let _: Result<io::Result<()>, _> = alive.await;
    }

    #[tokio::test]
    async fn the_last_datanode_has_the_configured_time_to_accept_a_connection() {
        let down = fake::host_that_is_down().await;
        let mut config = HadoopConfig::default();
        config.set("dfs.client.socket-timeout", "200");
        let settings = settings(&config);
        let writing = Writing {
            block: ExtendedBlock::default(),
            token: Token::default(),
            nodes: vec![node(down.address.port().into())],
            sent: 0,
        };
        let begin = Instant::now();
        let at = (Stage::Append, 0, 1 << 20);
        let outcome = Pipeline::open(&Datanodes::new(false), &settings, "test", &writing, None, at).await;
        assert_eq!(outcome.unwrap_err().error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < CONNECT_TIMEOUT, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn a_refusal_arrives_though_the_first_packet_was_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = u32::from(listener.local_addr().unwrap().port());
        let refusal = BlockOpResponse {
            status: status::ERROR,
            first_bad_link: "127.0.0.1:9".into(),
            ..BlockOpResponse::default()
        };
        let datanode = tokio::spawn(async move {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_exact(&mut [0; 3]).await.unwrap();
                stream.write_all(&refusal.encode_length_delimited_to_vec()).await.unwrap();
            }
        });
        let writing = Writing {
            block: ExtendedBlock::default(),
            token: Token::default(),
            nodes: vec![node(port), node(9)],
            sent: 0,
        };
        let settings = settings(&HadoopConfig::default());
        // The socket has no room for the second one.
        for length in [1, 16 << 20] {
            let piece = Piece { data: Bytes::from(vec![7; length]), ..Piece::empty(0) };
            let (packet, at) = (Packet::of(piece, false, None), (Stage::Create, 0, 1 << 30));
            let datanodes = Datanodes::new(false);
            let opened = Pipeline::open(&datanodes, &settings, "test", &writing, Some(&packet), at).await;
            assert_eq!(opened.unwrap_err().index, 1, "{length}");
        }
        datanode.await.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_is_the_fault_of_the_named_datanode() {
        let refuses = |first_bad_link: &str| BlockOpResponse {
            status: status::ERROR,
            first_bad_link: first_bad_link.into(),
            ..BlockOpResponse::default()
        };
        assert_eq!(write(refuses("127.0.0.1:9"), &[]).await.unwrap_err().index, 1);
        assert_eq!(write(refuses(""), &[]).await.unwrap_err().index, 0);
    }
}

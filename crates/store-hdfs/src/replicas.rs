//! The bytes of one block, from any of its replicas.

use super::block::Block;
use super::datanode::{BlockStream, Datanodes, Failures, OPERATION_TIMEOUT};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use strait_store::Result;

/// State with which a read continues an earlier one.
#[derive(Default)]
pub(super) struct Sequence {
    /// The stream of the previous read.
    pub stream: Option<BlockStream>,
    /// Whether another read will follow. Then requests extend to the end of the block.
    pub goes_on: bool,
}

/// Appends the bytes of `range` of the block to `into`. If a replica fails, the next one continues from
/// there. Leaves a stream for the next read in `sequence`.
pub(super) async fn fetch(
    datanodes: &Datanodes,
    block: &Arc<Block>,
    range: Range<u64>,
    sequence: &mut Sequence,
    into: &mut BytesMut,
) -> Result<()> {
    let begin = into.len();
    let position = |into: &BytesMut| range.start + (into.len() - begin) as u64;
    let until = if sequence.goes_on { block.length } else { range.end };
    let mut turns = Turns::new(datanodes, block);
    let mut failures = Failures::of(block);

    let at_hand = sequence.stream.take().filter(|stream| stream.is_at(block, range.start));
    if let Some(stream) = at_hand {
        let turn = turns.of(stream.address());
        let wanted = (range.end - range.start) as usize;
        match finished(datanodes, stream, into, wanted, turn.patience).await {
            Ok(stream) => {
                sequence.stream = stream;
                return Ok(());
            }
            // A datanode ends the stream if the reader pauses for minutes, or if the datanode restarts.
            // Neither means that the datanode fails now.
            Err(error) if !is_silent(&error) && error.kind() != io::ErrorKind::InvalidData => {
                turns.waiting.push_front(turn);
            }
            Err(error) => {
                turns.failed(&turn, &error);
                failures.add(datanodes, &turn.address, error);
            }
        }
    }
    while let Some(turn) = turns.waiting.pop_front() {
        let asked = position(into)..until;
        let read = async {
            let stream = BlockStream::open(datanodes, &turn.address, block, asked, turn.patience).await?;
            let wanted = (range.end - position(into)) as usize;
            finished(datanodes, stream, into, wanted, turn.patience).await
        };
        match read.await {
            Ok(stream) => {
                sequence.stream = stream;
                return Ok(());
            }
            Err(error) => {
                turns.failed(&turn, &error);
                failures.add(datanodes, &turn.address, error);
            }
        }
    }
    Err(failures.into_error())
}

/// Reads the wanted bytes. Returns the stream if it has more.
async fn finished(
    datanodes: &Datanodes,
    mut stream: BlockStream,
    into: &mut BytesMut,
    wanted: usize,
    patience: Duration,
) -> io::Result<Option<BlockStream>> {
    stream.read(into, wanted, patience).await?;
    Ok(stream.unless_ended(datanodes).await)
}

fn is_silent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// The replicas to try, in order.
struct Turns {
    waiting: VecDeque<Turn>,
    short_patience: Duration,
}

struct Turn {
    address: Arc<str>,
    patience: Duration,
}

impl Turns {
    fn new(datanodes: &Datanodes, block: &Block) -> Self {
        let (replicas, short_patience) = (datanodes.replicas(block), datanodes.short_patience);
        let patience = if replicas.len() > 1 { short_patience } else { OPERATION_TIMEOUT };
        let waiting = replicas.into_iter().map(|address| Turn { address, patience }).collect();
        Self { waiting, short_patience }
    }

    /// Removes this replica's turn from any position. The replica may no longer be one of the block's.
    fn of(&mut self, address: &Arc<str>) -> Turn {
        let index = self.waiting.iter().position(|turn| turn.address == *address);
        let turn = index.and_then(|index| self.waiting.remove(index));
        turn.unwrap_or_else(|| Turn { address: Arc::clone(address), patience: self.short_patience })
    }

    fn failed(&mut self, turn: &Turn, error: &io::Error) {
        if is_silent(error) && turn.patience < OPERATION_TIMEOUT {
            let address = Arc::clone(&turn.address);
            self.waiting.push_back(Turn { address, patience: OPERATION_TIMEOUT });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{
        BlockOpResponse, ChecksumKind, ExtendedBlock, OpReadBlock, PacketHeader, ReadOpChecksumInfo, Token,
        crc_type,
    };
    use super::*;
    use prost::Message;
    use std::time::Instant;
    use strait_testkit::wait::pause_task;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const LENGTH: usize = 300_000;
    const PACKET_BYTES: usize = 50_000;
    /// Shorter than the default, for quick tests.
    const SHORT_PATIENCE: Duration = Duration::from_secs(1);
    /// Longer than one or two short patiences with the delays of a busy machine, and much shorter than a
    /// full one.
    const SOON: Duration = Duration::from_secs(25);

    /// A datanode's behaviour in each operation.
    #[derive(Clone, Copy)]
    enum Manner {
        Serves,
        /// Accepts the connection, but never answers.
        IsMute,
        /// Falls silent after this many packets.
        FallsSilent(usize),
        /// Ends the connection after this many packets.
        Leaves(usize),
        /// Answers, but after the short patience has passed.
        IsSlow,
    }

    fn content() -> Vec<u8> {
        (0..LENGTH).map(|index| (index * 31 + index / 251) as u8).collect()
    }

    async fn datanode(manner: Manner) -> Arc<str> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string().into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner));
            }
        });
        address
    }

    /// One operation; an error ends the connection.
    async fn serve(mut stream: TcpStream, manner: Manner) -> io::Result<()> {
        // Version and operation, the message's length, the message.
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        assert!(head[3] < 0x80, "a message of less than 128 bytes");
        let mut message = vec![0; head[3].into()];
        stream.read_exact(&mut message).await?;
        let asked = OpReadBlock::decode(&message[..]).unwrap();
        let silence = std::future::pending::<io::Result<()>>();
        let packets = match manner {
            Manner::IsMute => return silence.await,
            Manner::FallsSilent(packets) | Manner::Leaves(packets) => packets,
            Manner::Serves => usize::MAX,
            Manner::IsSlow => {
                pause_task("a slow datanode", 2 * SHORT_PATIENCE).await;
                usize::MAX
            }
        };
        let checksum = ChecksumKind { crc_type: crc_type::NULL, bytes_per_crc: 512 };
        let read_checksum = Some(ReadOpChecksumInfo { checksum, chunk_offset: asked.offset });
        let answer = BlockOpResponse { read_checksum, ..BlockOpResponse::default() };
        stream.write_all(&answer.encode_length_delimited_to_vec()).await?;

        let (begin, end) = (asked.offset as usize, (asked.offset + asked.length) as usize);
        let begins = (begin..end).step_by(PACKET_BYTES).chain([end]);
        for begin in begins.take(packets) {
            let data = &content()[begin..end.min(begin + PACKET_BYTES)];
            let header = PacketHeader {
                offset_in_block: begin as i64,
                last_packet_in_block: data.is_empty(),
                data_length: data.len() as i32,
                ..PacketHeader::default()
            };
            stream.write_u32(4 + data.len() as u32).await?;
            stream.write_u16(header.encoded_len() as u16).await?;
            stream.write_all(&header.encode_to_vec()).await?;
            stream.write_all(data).await?;
        }
        match manner {
            Manner::FallsSilent(_) => silence.await,
            Manner::Leaves(_) => Ok(()),
            _ => stream.read(&mut head).await.map(drop), // the client's word that all came
        }
    }

    async fn block(replicas: &[Manner]) -> Arc<Block> {
        let mut addresses = Vec::new();
        for manner in replicas {
            addresses.push(datanode(*manner).await);
        }
        let length = LENGTH as u64;
        let block = ExtendedBlock { num_bytes: length, ..ExtendedBlock::default() };
        Arc::new(Block { block, token: Token::default(), offset: 0, length, replicas: addresses })
    }

    /// Reads the block in two halves, in sequence, and returns the duration.
    async fn read(replicas: &[Manner]) -> Result<Duration> {
        let mut datanodes = Datanodes::new(false);
        datanodes.short_patience = SHORT_PATIENCE;
        let block = block(replicas).await;
        let mut sequence = Sequence { stream: None, goes_on: true };
        let (begin, half) = (Instant::now(), LENGTH as u64 / 2);
        for range in [0..half, half..LENGTH as u64] {
            let mut bytes = BytesMut::new();
            fetch(&datanodes, &block, range.clone(), &mut sequence, &mut bytes).await?;
            assert!(bytes == content()[range.start as usize..range.end as usize]);
        }
        Ok(begin.elapsed())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_silent_datanode_costs_seconds_where_another_has_the_block() {
        let (mute, half_way, at_the_end) = tokio::join!(
            read(&[Manner::IsMute, Manner::Serves]),
            read(&[Manner::FallsSilent(1), Manner::Serves]),
            read(&[Manner::FallsSilent(LENGTH / PACKET_BYTES)]),
        );
        for took in [mute.unwrap(), half_way.unwrap(), at_the_end.unwrap()] {
            assert!(took < SOON, "{took:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_slow_datanode_is_waited_for_where_no_other_gives_the_block() {
        let (alone, among_others) =
            tokio::join!(read(&[Manner::IsSlow]), read(&[Manner::IsSlow, Manner::Leaves(0)]),);
        alone.unwrap();
        among_others.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_only_datanode_may_end_a_stream_between_two_reads() {
        let packets_of_the_first_half = LENGTH / 2 / PACKET_BYTES;
        read(&[Manner::Leaves(packets_of_the_first_half)]).await.unwrap();
        // It sends nothing at all.
        read(&[Manner::Leaves(0)]).await.unwrap_err();
    }
}

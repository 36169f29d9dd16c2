//! The bytes of one block, from whichever of its replicas gives them.

use super::blocks::Block;
use super::datanode::{BlockStream, Datanodes, Failures, OPERATION_TIMEOUT};
use crate::error::Result;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long a datanode may be silent while others have the block too: a busy
/// disk or a pause for garbage collection is seldom longer. Whoever is silent
/// for longer is asked again when nobody else has given the bytes, with all
/// the patience there is.
const SHORT_PATIENCE: Duration = Duration::from_secs(4);

/// How a read may go on where another ended.
#[derive(Default)]
pub(super) struct Sequence {
    /// The stream of the read before.
    pub stream: Option<BlockStream>,
    /// Another read will follow: blocks are asked for up to their ends.
    pub goes_on: bool,
}

/// Appends the bytes `range` of the block to `into`; each replica takes up
/// where the one before failed. Leaves in `sequence` a stream that the next
/// read can go on with.
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
    let mut turns = Turns::new(datanodes.replicas(block));
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
            // A datanode ends the stream of a reader that pauses for minutes,
            // or was restarted meanwhile: neither says anything of now.
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

/// Reads what is wanted; gives the stream back if more is to come on it.
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

/// The replicas to ask, the next first.
struct Turns {
    waiting: VecDeque<Turn>,
}

struct Turn {
    address: Arc<str>,
    patience: Duration,
}

impl Turns {
    fn new(replicas: Vec<Arc<str>>) -> Self {
        let patience = if replicas.len() > 1 { SHORT_PATIENCE } else { OPERATION_TIMEOUT };
        Self { waiting: replicas.into_iter().map(|address| Turn { address, patience }).collect() }
    }

    /// Takes out this one's, whenever it would be; it may have left the block's
    /// replicas since.
    fn of(&mut self, address: &Arc<str>) -> Turn {
        let index = self.waiting.iter().position(|turn| turn.address == *address);
        let turn = index.and_then(|index| self.waiting.remove(index));
        turn.unwrap_or_else(|| Turn { address: Arc::clone(address), patience: SHORT_PATIENCE })
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    const LENGTH: usize = 300_000;
    const PACKET_BYTES: usize = 50_000;
    /// Above a short patience or two with a busy machine's delays, and far
    /// below a long one.
    const SOON: Duration = Duration::from_secs(25);

    /// What a datanode does in each operation.
    #[derive(Clone, Copy)]
    enum Manner {
        Serves,
        /// Takes the connection, and no more.
        IsMute,
        /// Falls silent behind so many packets.
        FallsSilent(usize),
        /// Ends the connection behind so many packets.
        Leaves(usize),
        /// Answers, though later than the short patience lasts.
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
                sleep(SHORT_PATIENCE + Duration::from_secs(1)).await;
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

    /// Reads the block in two halves, in sequence; how long that took.
    async fn read(replicas: &[Manner]) -> Result<Duration> {
        let (datanodes, block) = (Datanodes::new(false), block(replicas).await);
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
        for took in [mute.unwrap(), half_way.unwrap()] {
            assert!(took < SOON, "{took:?}");
        }
        let took = at_the_end.unwrap();
        assert!(took < SHORT_PATIENCE, "all bytes are there: {took:?}");
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
        // It gives nothing at all.
        read(&[Manner::Leaves(0)]).await.unwrap_err();
    }
}

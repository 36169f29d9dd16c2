//! A part that is being filled: in memory as far as the budget allows, else in a temporary file.

use crate::room::{Overdraft, Room, Temporary, Turn, Turns};
use bytes::{Bytes, BytesMut};
use object_store::PutPayload;
use strait_store::Result;
use strait_store::budget::Reserved;

/// Size of the first block of memory. A small file takes no more.
const LEAST_BLOCK_BYTES: usize = 64 << 10;
/// Size of the largest block of memory, which a part then wastes at most.
const MOST_BLOCK_BYTES: usize = 1 << 20;

/// Bytes of a part. They are copied: an append's own bytes may keep a larger request alive, and many small
/// appends would take several times their memory.
#[derive(Default)]
pub struct Part {
    length: usize,
    kept: Kept,
    /// Then further blocks need no memory of the budget.
    overdraft: Option<Overdraft>,
}

enum Kept {
    /// All blocks but the last one are full.
    Memory(Vec<Block>),
    File(Temporary),
}

/// A block's bytes, and its memory of the budget. None: an overdraft's.
type Block = (BytesMut, Option<Reserved>);

impl Default for Kept {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

/// The memory of a part that is being sent.
pub struct Sending {
    _memory: Vec<Option<Reserved>>,
    turn: Option<Turn>,
    _overdraft: Option<Overdraft>,
}

impl Sending {
    /// Whether it is memory of the budget, and not of a turn.
    pub fn is_of_budget(&self) -> bool {
        self.turn.is_none()
    }
}

impl Part {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Takes bytes from `data`, up to `most` in all. Takes fewer if the budget has no memory, and the part has
    /// no file.
    ///
    /// # Errors
    /// The temporary file can't be written.
    pub async fn fill(&mut self, data: &mut Bytes, most: usize, room: &Room) -> Result<()> {
        let mut taken = data.clone();
        taken.truncate(most.saturating_sub(self.length));
        let wanted = taken.len();
        let left = match &mut self.kept {
            Kept::File(file) => {
                file.write(vec![taken], self.length).await?;
                0
            }
            Kept::Memory(blocks) => {
                let memory = |bytes| match room.memory(bytes) {
                    None if self.overdraft.is_none() => None,
                    memory => Some(memory),
                };
                copy(blocks, taken, self.length, most, memory)
            }
        };
        let taken = wanted - left;
        self.length += taken;
        let _ = data.split_to(taken);
        Ok(())
    }

    /// Moves the bytes to a temporary file, and so returns their memory.
    ///
    /// # Errors
    /// The temporary file can't be written. Then the bytes are lost.
    pub async fn move_to(&mut self, file: Temporary) -> Result<()> {
        if let Kept::Memory(blocks) = &mut self.kept {
            let (bytes, memory): (Vec<_>, Vec<_>) = std::mem::take(blocks).into_iter().unzip();
            file.write(bytes.into_iter().map(BytesMut::freeze).collect(), 0).await?;
            drop(memory);
            self.kept = Kept::File(file);
        }
        Ok(())
    }

    /// From now on, the part needs no memory of the budget.
    pub fn overdraw(&mut self, overdraft: Overdraft) {
        self.overdraft = Some(overdraft);
    }

    /// The bytes as the body of a request. Waits for a turn if they are in a file.
    ///
    /// # Errors
    /// The temporary file can't be read.
    pub async fn load(self, turns: &Turns) -> Result<(PutPayload, Sending)> {
        match self.kept {
            Kept::Memory(blocks) => {
                let (bytes, memory): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
                let body = bytes.into_iter().map(BytesMut::freeze).collect();
                Ok((body, Sending { _memory: memory, turn: None, _overdraft: self.overdraft }))
            }
            Kept::File(file) => {
                let turn = turns.turn(self.length).await?;
                let body = file.read(self.length).await?.into();
                Ok((body, Sending { _memory: Vec::new(), turn: Some(turn), _overdraft: None }))
            }
        }
    }
}

/// Copies `data` to blocks that have `length` bytes so far. Returns the number of bytes without memory.
fn copy(
    blocks: &mut Vec<Block>,
    mut data: Bytes,
    mut length: usize,
    most: usize,
    memory: impl Fn(usize) -> Option<Option<Reserved>>,
) -> usize {
    while !data.is_empty() {
        match blocks.last_mut().filter(|(block, _)| block.len() < block.capacity()) {
            Some((block, _)) => {
                let piece = data.split_to(data.len().min(block.capacity() - block.len()));
                block.extend_from_slice(&piece);
                length += piece.len();
            }
            None => {
                // As much as there is already: few blocks, and little memory for a small file.
                let bytes = length.max(data.len()).clamp(LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES);
                let bytes = bytes.min(most - length);
                let Some(memory) = memory(bytes) else { break };
                blocks.push((BytesMut::with_capacity(bytes), memory));
            }
        }
    }
    data.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::tests::room;

    const MOST: usize = 8 << 20;

    fn content(bytes: usize) -> Bytes {
        (0..bytes as u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect()
    }

    async fn body(part: Part) -> Vec<u8> {
        part.load(&Turns::default()).await.unwrap().0.into_iter().flatten().collect()
    }

    #[tokio::test]
    async fn a_part_has_its_bytes_in_memory_and_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(64 << 20, 64 << 20, dir.path());
        let all = content(MOST + 100);
        for moved_at in [None, Some(0), Some(1_000), Some(MOST - 1)] {
            let (mut part, mut left, mut size) = (Part::default(), all.clone(), 1);
            while part.len() < MOST {
                if moved_at.is_some_and(|at| part.len() >= at) {
                    part.move_to(room.file(MOST).await.unwrap()).await.unwrap();
                }
                let mut piece = left.split_to(size.min(left.len()));
                let before = (part.len(), piece.len());
                part.fill(&mut piece, MOST, &room).await.unwrap();
                assert_eq!(part.len() - before.0, before.1 - piece.len());
                size = (3 * size).min(700_000);
            }
            assert!(body(part).await == all[..MOST], "{moved_at:?}");
        }
    }

    #[tokio::test]
    async fn a_part_takes_as_much_as_the_budget_has_and_returns_it() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(2 << 20, 64 << 20, dir.path());
        let (mut part, mut data) = (Part::default(), content(3 << 20));
        part.fill(&mut data, MOST, &room).await.unwrap();
        assert_eq!((part.len(), data.len()), (1 << 20, 2 << 20), "half of 2 MiB");
        assert!(room.memory(1).is_none());
        part.move_to(room.file(MOST).await.unwrap()).await.unwrap();
        assert!(room.memory(1 << 20).is_some());
        part.fill(&mut data, MOST, &room).await.unwrap();
        assert!(data.is_empty() && body(part).await == content(3 << 20));

        let (mut part, mut data) = (Part::default(), content(1 << 20));
        part.fill(&mut data, MOST, &room).await.unwrap();
        assert!(room.memory(1).is_none());
        let (_, sending) = part.load(room.turns()).await.unwrap();
        assert!(room.memory(1).is_none(), "it is held until the part is sent");
        drop(sending);
        assert!(room.memory(1 << 20).is_some());
    }

    #[tokio::test]
    async fn some_parts_continue_without_memory_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(0, 64 << 20, &dir.path().join("missing"));
        let mut part = Part::default();
        let mut data = content(MOST);
        part.fill(&mut data, MOST, &room).await.unwrap();
        assert!(part.len() == 0 && room.file(MOST).await.is_err());
        part.overdraw(room.turns().overdraft().unwrap());
        part.fill(&mut data, MOST, &room).await.unwrap();
        assert_eq!(part.len(), MOST);
        let others: Vec<_> = std::iter::from_fn(|| room.turns().overdraft()).collect();
        assert_eq!(others.len(), 3);
        let (body, sending) = part.load(room.turns()).await.unwrap();
        assert_eq!(body.content_length(), MOST);
        assert!(room.turns().overdraft().is_none(), "it is held until the part is sent");
        drop(sending);
        assert!(room.turns().overdraft().is_some());
    }

    #[tokio::test]
    async fn many_small_appends_take_little_more_than_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(640 << 10, 64 << 20, dir.path());
        let mut part = Part::default();
        for _ in 0..200_000 {
            let mut data = Bytes::from_static(b"x");
            part.fill(&mut data, MOST, &room).await.unwrap();
            assert!(data.is_empty());
        }
    }
}

//! Clients that write files, and others that read them meanwhile.

use crate::history::{History, Line};
use crate::random::Random;
use crate::{AFTER_FAILURE, Outcome, path, who};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, FileReader, FileSystem, FileWriter, MAX_CHUNK_BYTES, Result};
use strait_testkit::wait::pause_task;

/// Steps of a writer with one file.
const STEPS: u64 = 60;
/// Bytes of one step, at most: blocks of 1 MiB fill after some steps.
const STEP_BYTES: u64 = 100_000;
const BLOCK_BYTES: u64 = 1 << 20;
/// A writer's patience until it may go on with a file that it lost.
const PATIENCE: Duration = Duration::from_secs(8);
/// Pace of a reader.
const BETWEEN_READS: Duration = Duration::from_millis(10);
/// Readers choose among the latest files.
const LATEST: usize = 6;

/// The files, and the clients' common record.
pub struct Contents {
    history: Arc<History>,
    files: Mutex<Vec<String>>,
}

/// The file's bytes from `from` to `to`. No other file, and no other offset, has them.
fn content(file: &str, from: u64, to: u64) -> Bytes {
    let seed = file.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let byte = |offset: u64| {
        let word = (offset / 8 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.to_be_bytes()[(offset % 8) as usize]
    };
    (from..to).map(byte).collect()
}

impl Contents {
    /// Recorded here.
    pub fn new(history: &Arc<History>) -> Self {
        Self { history: history.clone(), files: Mutex::default() }
    }

    fn files(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one file after the other until the end.
    pub async fn write(
        &self,
        client: u64,
        fs: Arc<dyn FileSystem>,
        mut random: Random,
        ends: impl Fn() -> bool,
    ) {
        for number in 0.. {
            if ends() {
                return;
            }
            let file = format!("/contents/{client}-{number}");
            let options = CreateOptions { block_size: Some(BLOCK_BYTES), ..CreateOptions::default() };
            let line = Line::called(&self.history, client, "create", &file);
            let created = fs.create(&who(), &path(&file), &options).await;
            line.answered(&self.history, &created);
            let Ok(mut writer) = created else {
                pause_task("the fault may end meanwhile", AFTER_FAILURE).await;
                continue;
            };
            self.files().push(file.clone());
            for step in 0..STEPS {
                let last = step + 1 == STEPS || ends();
                let goes_on = match self.step(client, &file, writer, &mut random, last).await {
                    Some(writer) => Some(writer),
                    None if last => None,
                    None => self.reopen(client, &*fs, &file).await,
                };
                let Some(again) = goes_on else { break };
                writer = again;
            }
        }
    }

    /// Appends, and then mostly flushes, syncs or closes. The writer goes on unless it was closed
    /// or lost.
    async fn step(
        &self,
        client: u64,
        file: &str,
        mut writer: Box<dyn FileWriter>,
        random: &mut Random,
        last: bool,
    ) -> Option<Box<dyn FileWriter>> {
        let begin = writer.position();
        let length = begin + 1 + random.below(STEP_BYTES);
        let line = Line { length, ..Line::called(&self.history, client, "append", file) };
        let appended = writer.append(content(file, begin, length)).await;
        if !line.answered(&self.history, &appended) {
            return None;
        }
        let op = match random.below(10) {
            _ if last => "close",
            0..4 => "flush",
            4..7 => "sync",
            7 => "close",
            _ => return Some(writer),
        };
        let line = Line { length, ..Line::called(&self.history, client, op, file) };
        let done = match op {
            "flush" => writer.flush().await,
            "sync" => writer.sync().await,
            _ => {
                line.answered(&self.history, &writer.close().await);
                return None;
            }
        };
        line.answered(&self.history, &done).then_some(writer)
    }

    /// Opens the file again to go on at its end. None if that takes too long.
    async fn reopen(&self, client: u64, fs: &dyn FileSystem, file: &str) -> Option<Box<dyn FileWriter>> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let line = Line::called(&self.history, client, "reopen", file);
            let opened = fs.append(&who(), &path(file)).await;
            let length = opened.as_ref().map_or(0, |writer| writer.position());
            Line { length, ..line }.answered(&self.history, &opened);
            if let Ok(writer) = opened {
                return Some(writer);
            }
            pause_task("the fault may end meanwhile", AFTER_FAILURE).await;
        }
        None
    }

    /// Reads files, and asks for their lengths, until the end.
    pub async fn read(
        &self,
        client: u64,
        fs: Arc<dyn FileSystem>,
        mut random: Random,
        ends: impl Fn() -> bool,
    ) {
        while !ends() {
            let file = {
                let files = self.files();
                let latest = &files[files.len().saturating_sub(LATEST)..];
                (!latest.is_empty()).then(|| random.choose(latest).clone())
            };
            let done = match file {
                Some(file) if random.below(4) == 0 => self.stat(client, &*fs, &file).await,
                Some(file) => self.read_whole(client, &*fs, &file).await,
                None => Ok(()),
            };
            let pause = if done.is_ok() { BETWEEN_READS } else { AFTER_FAILURE };
            pause_task("the readers' pace", pause).await;
        }
    }

    async fn stat(&self, client: u64, fs: &dyn FileSystem, file: &str) -> Result<()> {
        let line = Line::called(&self.history, client, "length", file);
        let answer = fs.stat(&who(), &path(file)).await;
        let length = answer.as_ref().map_or(0, |status| status.length);
        Line { length, ..line }.answered(&self.history, &answer);
        answer.map(|_| ())
    }

    async fn read_whole(&self, client: u64, fs: &dyn FileSystem, file: &str) -> Result<()> {
        let line = Line::called(&self.history, client, "read", file);
        let answer = match fs.open(&who(), &path(file)).await {
            Ok(reader) => compare(&*reader, file).await,
            Err(error) => Err(error),
        };
        let (length, damaged) = *answer.as_ref().unwrap_or(&(0, false));
        Line { length, damaged, ..line }.answered(&self.history, &answer);
        answer.map(|_| ())
    }

    /// Reads every file.
    pub async fn read_all(&self, client: u64, fs: &Arc<dyn FileSystem>, patience: Duration) -> Outcome<()> {
        let (begun, files) = (Instant::now(), self.files().clone());
        for file in files {
            while let Err(error) = self.read_whole(client, &**fs, &file).await {
                if begun.elapsed() > patience {
                    return Err(
                        format!("{file} can't be read {patience:?} after the last fault: {error}").into()
                    );
                }
                pause_task("the fault may end meanwhile", AFTER_FAILURE).await;
            }
        }
        Ok(())
    }
}

/// Length of a file, and whether a byte differs from what was written there.
async fn compare(reader: &dyn FileReader, file: &str) -> Result<(u64, bool)> {
    let mut length = 0;
    loop {
        let bytes = reader.read_at(length, MAX_CHUNK_BYTES).await?;
        if bytes.is_empty() {
            return Ok((length, false));
        }
        let end = length + bytes.len() as u64;
        if bytes != content(file, length, end) {
            return Ok((end, true));
        }
        length = end;
    }
}

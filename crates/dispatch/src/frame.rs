//! The frames between a dispatcher and a host's helper, over a pipe.
//!
//! ```text
//!   length: u32 │ kind: u8 │ job: u32 │ payload        (big endian; the length counts kind, job and payload)
//! ```
//!
//! ```text
//!   dispatcher                          helper
//!                          ←─ Hello
//!   Setup, Data of its files ─→
//!                          ←─ Ready
//!   Logins, Job, Cancel ─→     ←─ Output, Error, Exit, in any order among jobs
//! ```
//!
//! When its input ends, the helper ends its jobs and exits.

use crate::split::Slice;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest frame, without its length field. On Linux, a command line can have 2 MiB.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Largest number of bytes of output, or of a file, that one frame should carry.
pub const OUTPUT_BYTES: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;
/// Bytes of a frame's kind and job.
const FIXED_BYTES: usize = 5;

/// The first message of a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The helper's version, which must be the dispatcher's.
    pub version: String,
    /// Number of its host's processors.
    pub processors: usize,
}

/// Facts that a helper must know before its first job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The files that follow as [`Frame::Data`], in this order.
    pub files: Vec<Shipped>,
    /// Commands may use the logins, too.
    pub lend_to_commands: bool,
}

/// A file that is sent to a host for its commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipped {
    /// Its name in a command's working directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// The file may be executed.
    pub is_executable: bool,
}

/// A helper's answer to a setup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The reason why the helper can't run commands, if it can't.
    pub failure: Option<String>,
}

/// A short-lived login at one store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    /// The store's URI, without a path.
    pub store: String,
    /// Proves the login. Its form depends on the store.
    pub secret: String,
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A command to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The input's URI.
    pub uri: String,
    /// The part of the file that is the input; `None` means the whole file.
    pub slice: Option<Slice>,
    /// The input's place in the order of all inputs, from 1.
    pub number: usize,
    /// The number of this attempt at the input, from 1.
    pub attempt: u32,
    /// The program and its arguments. `{}` in an argument stands for the path of the input's copy.
    pub command: Vec<String>,
    /// Time limit for the command, in milliseconds; 0 means none.
    pub timeout_ms: u64,
}

/// How a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The command's exit code; 0 if a signal ended it.
    pub code: i32,
    /// The signal that ended the command; 0 means none.
    pub signal: i32,
    /// The reason why the command couldn't run to its end: an error of the store or the host, or the time
    /// limit.
    pub failure: Option<String>,
    /// An attempt on another host may succeed.
    pub retry_elsewhere: bool,
    /// Bytes of the input that the command received.
    pub input_bytes: u64,
}

impl Exit {
    /// Whether the command ran, and succeeded.
    pub fn is_success(&self) -> bool {
        self.failure.is_none() && self.code == 0 && self.signal == 0
    }
}

/// A message between a dispatcher and a helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The helper has started.
    Hello(Hello),
    /// Prepare for jobs.
    Setup(Setup),
    /// Bytes of the setup's file with this number.
    Data(u32, Bytes),
    /// The helper can run jobs, or the reason why it can't.
    Ready(Ready),
    /// Logins for the following jobs. They replace earlier ones of the same stores.
    Logins(Vec<Lent>),
    /// Run this job.
    Job(u32, Job),
    /// End this job. Its exit follows.
    Cancel(u32),
    /// Bytes of a job's standard output.
    Output(u32, Bytes),
    /// Bytes of a job's standard error.
    Error(u32, Bytes),
    /// A job has ended. No further frame of it follows.
    Exit(u32, Exit),
}

/// The received bytes aren't a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is impossible. The bytes may be text that a shell's start-up file prints.
    #[error("a message with the impossible length {0}")]
    Length(u32),
    /// An unknown kind of frame.
    #[error("a message of unknown kind {0}")]
    Kind(u8),
    /// The payload of a frame can't be parsed.
    #[error("a broken message: {0}")]
    Payload(String),
}

impl Frame {
    /// The frame as bytes.
    pub fn encode(&self) -> Bytes {
        let (kind, job, payload) = match self {
            Self::Hello(hello) => (b'H', 0, json(hello)),
            Self::Setup(setup) => (b'S', 0, json(setup)),
            Self::Data(file, bytes) => (b'D', *file, bytes.clone()),
            Self::Ready(ready) => (b'R', 0, json(ready)),
            Self::Logins(logins) => (b'L', 0, json(logins)),
            Self::Job(id, job) => (b'J', *id, json(job)),
            Self::Cancel(id) => (b'C', *id, Bytes::new()),
            Self::Output(id, bytes) => (b'O', *id, bytes.clone()),
            Self::Error(id, bytes) => (b'E', *id, bytes.clone()),
            Self::Exit(id, exit) => (b'X', *id, json(exit)),
        };
        let mut frame = BytesMut::with_capacity(LENGTH_BYTES + FIXED_BYTES + payload.len());
        frame.put_u32((FIXED_BYTES + payload.len()) as u32);
        frame.put_u8(kind);
        frame.put_u32(job);
        frame.put(payload);
        frame.freeze()
    }
}

fn json(value: &impl Serialize) -> Bytes {
    // JSON can express every value of these types.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn parsed<T: for<'a> Deserialize<'a>>(payload: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(payload).map_err(|error| FrameError::Payload(error.to_string()))
}

/// Splits received bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    received: BytesMut,
}

impl Frames {
    /// The buffer to which the caller appends received bytes. It holds one frame, and any bytes that arrived
    /// with it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    /// The next complete frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes aren't a frame. Later bytes can't be parsed either.
    pub fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        if !(FIXED_BYTES..=MAX_FRAME_BYTES).contains(&(length as usize)) {
            return Err(FrameError::Length(length));
        }
        if self.received.len() < LENGTH_BYTES + length as usize {
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        let mut frame = self.received.split_to(length as usize).freeze();
        let (kind, job) = (frame.get_u8(), frame.get_u32());
        Ok(Some(match kind {
            b'H' => Frame::Hello(parsed(&frame)?),
            b'S' => Frame::Setup(parsed(&frame)?),
            b'D' => Frame::Data(job, frame),
            b'R' => Frame::Ready(parsed(&frame)?),
            b'L' => Frame::Logins(parsed(&frame)?),
            b'J' => Frame::Job(job, parsed(&frame)?),
            b'C' => Frame::Cancel(job),
            b'O' => Frame::Output(job, frame),
            b'E' => Frame::Error(job, frame),
            b'X' => Frame::Exit(job, parsed(&frame)?),
            other => return Err(FrameError::Kind(other)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Frame> {
        let command = vec!["grep".into(), "a b\n'\"".into()];
        let shipped = Shipped { name: "a".into(), bytes: 2, sha256: "00".into(), is_executable: true };
        vec![
            Frame::Hello(Hello { version: "1".into(), processors: 2 }),
            Frame::Setup(Setup { files: vec![shipped], lend_to_commands: true }),
            Frame::Data(0, Bytes::from_static(b"#!")),
            Frame::Ready(Ready { failure: Some("full".into()) }),
            Frame::Logins(vec![Lent { store: "strait://a:1".into(), secret: "s2.0".into() }]),
            Frame::Job(7, Job { uri: "file:///a b".into(), command, timeout_ms: 5, ..Job::default() }),
            Frame::Cancel(7),
            Frame::Output(7, Bytes::from_static(b"\0\xff")),
            Frame::Error(u32::MAX, Bytes::new()),
            Frame::Exit(7, Exit { signal: 9, failure: Some("no".into()), ..Exit::default() }),
        ]
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let sent: Vec<u8> = all().iter().flat_map(Frame::encode).collect();
        for piece in [1, 3, 64, sent.len()] {
            let (mut frames, mut read) = (Frames::default(), Vec::new());
            for bytes in sent.chunks(piece) {
                frames.buffer().extend_from_slice(bytes);
                while let Some(frame) = frames.take().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, all());
        }
    }

    #[test]
    fn a_login_is_not_shown() {
        let lent = Frame::Logins(vec![Lent { store: "strait://a:1".into(), secret: "s2.0".into() }]);
        assert!(!format!("{lent:?}").contains("s2.0"), "{lent:?}");
    }

    #[test]
    fn a_shells_greeting_is_refused_at_once() {
        let mut frames = Frames::default();
        frames.buffer().extend_from_slice(b"Welcome");
        assert_eq!(frames.take(), Err(FrameError::Length(0x5765_6c63)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.take() {}
        }
    }
}

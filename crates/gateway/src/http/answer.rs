//! Answers' bodies, which hold their memory until the connection has taken them over.

use super::download::Download;
use super::sending::{Sending, piece};
use crate::memory::{Account, Permit};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use strait_wire::Encoded;

/// An answer's body.
pub enum Answer {
    /// All of it is in memory.
    Whole(Whole),
    /// The bytes of a file, read as they are sent.
    File(Box<Download>),
}

/// A body in memory.
pub struct Whole {
    segments: VecDeque<Bytes>,
    sending: Option<Sending>,
}

impl Answer {
    /// A short body, whose memory isn't counted.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Whole { segments: [bytes.into()].into(), sending: None })
    }

    /// A text, with its memory.
    pub fn text(text: Vec<u8>, memory: Permit, unsent: Arc<AtomicUsize>, account: &Account) -> Self {
        let sending = Some(Sending::new(Some(memory), unsent, account));
        Self::Whole(Whole { segments: [text.into()].into(), sending })
    }

    /// An encoded message, with its memory.
    pub fn encoded(
        encoded: Encoded,
        memory: Option<Permit>,
        unsent: Arc<AtomicUsize>,
        account: &Account,
    ) -> Self {
        let sending = Some(Sending::new(memory, unsent, account));
        Self::Whole(Whole { segments: encoded.segments.into(), sending })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = match &mut *self {
            Self::Whole(whole) => Ok(whole.next()),
            Self::File(file) => ready!(file.poll_next(cx)),
        };
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.segments.is_empty(),
            Self::File(file) => file.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(whole) => whole.segments.iter().map(|segment| segment.len() as u64).sum(),
            Self::File(file) => file.left(),
        })
    }
}

impl Whole {
    fn next(&mut self) -> Option<Bytes> {
        let Some(first) = self.segments.front_mut() else {
            self.sending = None;
            return None;
        };
        let piece = piece(first);
        if first.is_empty() {
            self.segments.pop_front();
        }
        Some(piece)
    }
}

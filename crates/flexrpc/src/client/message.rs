//! A call's frame, in slices. The payload stays in the caller's memory, and its checksum is
//! computed once for all callees and transmissions.

use crate::client::turn::Turn;
use crate::proto::auth::SessionKey;
use crate::proto::frame::{HEAD_BYTES, Head, Kind, TAG_BYTES, flags};
use crate::proto::ids::{CallId, Procedure};
use strait_crc::crc32c_of_slices;

/// The parts that all callees and transmissions of a call share.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) procedure: Procedure,
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) extension: &'a [u8],
    pub(crate) flags: u16,
    pub(crate) sum: Sum,
    /// The turn that the sender holds while it sends.
    pub(crate) turn: Option<&'a Turn>,
}

/// Length and checksum of a payload.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) len: usize,
    crc: u32,
}

impl Sum {
    #[inline]
    pub(crate) fn of(args: &[&[u8]]) -> Self {
        let len = args.iter().map(|slice| slice.len()).sum();
        Self { len, crc: crc32c_of_slices(args) }
    }
}

impl<'a> Message<'a> {
    /// Builds the head; also the tag, if there is a key.
    #[inline]
    pub(crate) fn frame(&self, id: CallId, time_left_us: u32, key: Option<&SessionKey>) -> Framing<'a> {
        let head = Head {
            flags: self.flags | key.map_or(0, |_| flags::AUTHENTIC),
            payload_len: self.sum.len as u32,
            payload_crc: self.sum.crc,
            procedure: self.procedure,
            time_left_us,
            ..Head::new(self.kind, id)
        };
        let (head, extension) = (head.fixed(self.extension), self.extension);
        Framing { head, extension, payload_len: self.sum.len, tag: key.map(|key| self.tag(&head, key)) }
    }

    #[inline(never)]
    fn tag(&self, head: &[u8; HEAD_BYTES], key: &SessionKey) -> [u8; TAG_BYTES] {
        key.tag(&[&[head, self.extension], self.args].concat())
    }
}

/// The parts of a frame before and after its payload.
pub(crate) struct Framing<'a> {
    head: [u8; HEAD_BYTES],
    extension: &'a [u8],
    payload_len: usize,
    tag: Option<[u8; TAG_BYTES]>,
}

impl Framing<'_> {
    /// Copies the whole frame into one slice if it is short: a copy costs less than a gathering
    /// write.
    #[inline]
    pub(crate) fn join_short(&self, args: &[&[u8]], most: usize, into: &mut Vec<u8>) -> bool {
        let short = self.len() <= most;
        if short {
            into.clear();
            into.reserve(self.len());
            into.extend_from_slice(&self.head);
            into.extend_from_slice(self.extension);
            args.iter().for_each(|slice| into.extend_from_slice(slice));
            into.extend_from_slice(self.tag_bytes());
        }
        short
    }

    /// All of the frame's slices in their order; some may be empty.
    pub(crate) fn slices<'s>(&'s self, args: &[&'s [u8]]) -> Vec<&'s [u8]> {
        let mut slices = Vec::with_capacity(args.len() + 3);
        slices.extend([&self.head[..], self.extension]);
        slices.extend_from_slice(args);
        slices.push(self.tag_bytes());
        slices
    }

    #[inline]
    fn len(&self) -> usize {
        self.head.len() + self.extension.len() + self.payload_len + self.tag_bytes().len()
    }

    #[inline]
    fn tag_bytes(&self) -> &[u8] {
        self.tag.as_ref().map_or(&[], |tag| tag)
    }
}

//! A call's frame, in slices: the payload stays where the caller has it, and its
//! checksum is computed once for all callees and transmissions.

use crate::client::turn::Turn;
use crate::proto::auth::SessionKey;
use crate::proto::checksum;
use crate::proto::frame::{HEAD_BYTES, Head, Kind, TAG_BYTES, flags};
use crate::proto::ids::{CallId, Procedure};

/// What is the same for every callee and transmission of a call.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) procedure: Procedure,
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) extension: &'a [u8],
    pub(crate) flags: u16,
    pub(crate) sum: Sum,
    /// Taken while it is sent.
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
        Self { len, crc: checksum::crc32c_of_slices(args) }
    }
}

impl<'a> Message<'a> {
    /// Head and extension, and the tag if there is a key.
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
        let tag = key.map(|key| key.tag(&[&[&head, extension], self.args].concat()));
        Framing { head, extension, tag }
    }
}

/// What stands before and behind a payload.
pub(crate) struct Framing<'a> {
    head: [u8; HEAD_BYTES],
    extension: &'a [u8],
    tag: Option<[u8; TAG_BYTES]>,
}

impl Framing<'_> {
    /// The whole frame, if it is short: a copy costs less than a gather.
    #[inline]
    pub(crate) fn join_short(&self, args: &[&[u8]], most: usize, into: &mut Vec<u8>) -> bool {
        let short = self.all(args).map(<[u8]>::len).sum::<usize>() <= most;
        if short {
            into.clear();
            self.all(args).for_each(|slice| into.extend_from_slice(slice));
        }
        short
    }

    /// All of the frame's slices in their order, without the first `sent` bytes.
    #[inline]
    pub(crate) fn slices<'s>(&'s self, args: &'s [&'s [u8]], mut sent: usize) -> Vec<&'s [u8]> {
        let unsent = self.all(args).filter_map(|slice| {
            let skip = sent.min(slice.len());
            sent -= skip;
            Some(&slice[skip..]).filter(|slice| !slice.is_empty())
        });
        unsent.collect()
    }

    #[inline]
    fn all<'s>(&'s self, args: &'s [&'s [u8]]) -> impl Iterator<Item = &'s [u8]> {
        let tag = self.tag.as_ref().map_or(&[][..], |tag| tag);
        [&self.head[..], self.extension].into_iter().chain(args.iter().copied()).chain([tag])
    }
}

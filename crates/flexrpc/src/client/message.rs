//! A call's frame, in slices: the payload stays where the caller has it, and its
//! checksum is computed once for all callees and transmissions.

use crate::proto::auth::SessionKey;
use crate::proto::checksum;
use crate::proto::frame::{Head, Kind, TAG_BYTES, flags};
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
}

/// Length and checksum of a payload.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) len: usize,
    crc: u32,
}

impl Sum {
    pub(crate) fn of(args: &[&[u8]]) -> Self {
        let len = args.iter().map(|slice| slice.len()).sum();
        Self { len, crc: checksum::crc32c_of_slices(args) }
    }
}

impl Message<'_> {
    /// Head and extension, and the tag if there is a key.
    pub(crate) fn frame(&self, id: CallId, time_left_us: u32, key: Option<&SessionKey>) -> Framing {
        let head = Head {
            flags: self.flags | key.map_or(0, |_| flags::AUTHENTIC),
            payload_len: self.sum.len as u32,
            payload_crc: self.sum.crc,
            procedure: self.procedure,
            time_left_us,
            ..Head::new(self.kind, id)
        };
        let head = head.encode(self.extension);
        let tag = key.map(|key| key.tag(&[&[&head[..]], self.args].concat()));
        Framing { head, tag }
    }
}

/// What stands before and behind a payload.
pub(crate) struct Framing {
    head: Vec<u8>,
    tag: Option<[u8; TAG_BYTES]>,
}

impl Framing {
    /// All of the frame's slices in their order, without the first `sent` bytes.
    pub(crate) fn slices<'a>(&'a self, args: &[&'a [u8]], mut sent: usize) -> Vec<&'a [u8]> {
        let tag = self.tag.as_ref().map_or(&[][..], |tag| tag);
        let all = [&self.head[..]].into_iter().chain(args.iter().copied()).chain([tag]);
        all.filter_map(|slice| {
            let skip = sent.min(slice.len());
            sent -= skip;
            Some(&slice[skip..]).filter(|slice| !slice.is_empty())
        })
        .collect()
    }
}

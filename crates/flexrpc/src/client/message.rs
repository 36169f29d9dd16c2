//! A call's frame, in slices: the payload stays where the caller has it, and its
//! checksum is computed once for all callees and transmissions.

use crate::proto::auth::SessionKey;
use crate::proto::checksum;
use crate::proto::frame::{Head, Kind, TAG_BYTES, flags};
use crate::proto::ids::{CallId, Procedure};

pub(crate) struct Message<'a> {
    pub(crate) procedure: Procedure,
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) flags: u16,
    pub(crate) len: usize,
    crc: u32,
}

impl<'a> Message<'a> {
    pub(crate) fn new(procedure: Procedure, args: &'a [&'a [u8]]) -> Self {
        let len = args.iter().map(|slice| slice.len()).sum();
        Self { procedure, args, flags: 0, len, crc: checksum::crc32c_of_slices(args) }
    }

    /// Head and extension, and the tag if there is a key.
    pub(crate) fn frame(
        &self,
        id: CallId,
        time_left_us: u32,
        extension: &[u8],
        key: Option<&SessionKey>,
    ) -> (Vec<u8>, Option<[u8; TAG_BYTES]>) {
        let head = Head {
            flags: self.flags | key.map_or(0, |_| flags::AUTHENTIC),
            payload_len: self.len as u32,
            payload_crc: self.crc,
            procedure: self.procedure,
            time_left_us,
            ..Head::new(Kind::Call, id)
        };
        let head = head.encode(extension);
        let tag = key.map(|key| key.tag(&[&[&head[..]], self.args].concat()));
        (head, tag)
    }
}

/// All of a frame's slices in their order.
pub(crate) fn slices<'a>(
    head: &'a [u8],
    args: &[&'a [u8]],
    tag: Option<&'a [u8; TAG_BYTES]>,
) -> Vec<&'a [u8]> {
    let mut slices = Vec::with_capacity(args.len() + 2);
    slices.push(head);
    slices.extend(args.iter().copied().filter(|slice| !slice.is_empty()));
    slices.extend(tag.map(|tag| &tag[..]));
    slices
}

//! Frames of the virtual network, tagged in worlds with a key.

use crate::proto::auth::ClusterKey;
use crate::proto::frame::Kind;
use crate::proto::frame::{Head, flags};
use crate::proto::ids::CallId;
use crate::proto::status::Refusal;
use strait_crc::crc32c;

/// Makes and reads frames as a cluster member does.
#[derive(Clone)]
pub(super) struct Frames {
    key: Option<ClusterKey>,
}

/// A frame that has arrived.
pub(super) struct Parsed<'a> {
    pub(super) head: Head,
    pub(super) payload: &'a [u8],
    pub(super) intact: bool,
    pub(super) authentic: bool,
}

impl Frames {
    pub(super) fn new(keyed: bool) -> Self {
        Self { key: keyed.then(|| ClusterKey::new(&[5; 32]).ok()).flatten() }
    }

    /// Whether frames need a key, which strangers lack.
    pub(super) fn are_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// Makes a frame of a head, an extension and a payload.
    pub(super) fn frame(&self, head: Head, extension: &[u8], payload: &[u8]) -> Vec<u8> {
        let head = Head { payload_len: payload.len() as u32, payload_crc: crc32c(payload), ..head };
        self.seal(head, extension, payload)
    }

    /// The same for a head that already describes the payload.
    pub(super) fn seal(&self, head: Head, extension: &[u8], payload: &[u8]) -> Vec<u8> {
        let flag = if self.key.is_some() { flags::AUTHENTIC } else { 0 };
        let head = Head { flags: head.flags | flag, ..head };
        let mut frame = [head.encode(extension), payload.to_vec()].concat();
        if let Some(key) = &self.key {
            let tag = key.of_session(head.id.session).tag(&[&frame]);
            frame.extend_from_slice(&tag);
        }
        frame
    }

    pub(super) fn refusal(&self, id: CallId, refusal: Refusal) -> Vec<u8> {
        let mut detail = Vec::new();
        let status = refusal.encode(&mut detail);
        self.frame(Head { status, ..Head::new(Kind::Refused, id) }, &[], &detail)
    }

    pub(super) fn parse<'a>(&self, bytes: &'a [u8]) -> Option<Parsed<'a>> {
        let head = Head::decode(bytes).ok()??;
        if head.frame_len() != bytes.len() {
            return None;
        }
        let (covered, tag) = bytes.split_at(bytes.len() - head.tag_len());
        let authentic = match &self.key {
            None => !head.has(flags::AUTHENTIC),
            Some(key) => {
                head.has(flags::AUTHENTIC) && key.of_session(head.id.session).verify(&[covered], tag)
            }
        };
        let payload = &covered[head.head_len()..];
        Some(Parsed { head, payload, intact: crc32c(payload) == head.payload_crc, authentic })
    }
}

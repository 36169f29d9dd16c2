//! Identifiers of sessions, calls and procedures.

use std::fmt;

/// A session between one client and one incarnation of a server: 128 random bits that the server
/// drew. The paper identifies a caller by address and process id (section IV.D). But systems reuse
/// both, and a restarted server would take a retried call for a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// No session: the id in a client's messages before it has one.
    pub const NONE: Self = Self([0; 16]);

    /// Sets a bit of a new id: whether the session has a bond. So the server looks up no bond for
    /// calls under the cluster's key.
    pub(crate) fn mark(&mut self, bound: bool) {
        self.0[15] = self.0[15] & !1 | u8::from(bound);
    }

    /// Whether [`Self::mark`] set the bit. Meaningful only if the server marks its sessions' ids.
    pub(crate) fn is_marked(self) -> bool {
        self.0[15] & 1 == 1
    }

    /// Well-spread bits for choosing shards and buckets: ids are random.
    pub(crate) fn spread(self) -> u64 {
        let (low, _) = self.0.split_first_chunk::<8>().expect("16 bytes hold 8");
        u64::from_le_bytes(*low)
    }
}

/// Shows enough to tell sessions apart. Without a key, a reader of the whole id could make calls in
/// the session.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

/// A call's identifier (section IV.D). It travels unchanged through
/// retransmission, reconnects and chains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct CallId {
    /// The session: one client at one incarnation of the server.
    pub session: SessionId,
    /// Handle id. A handle has one caller at a time, and so one call at a time.
    pub handle: u32,
    /// Transaction id: increases within a session. A higher id on the same handle means that the
    /// previous call is over.
    pub transaction: u64,
}

/// A called procedure: program, version and number, as in ONC RPC (RFC 5531 §8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Procedure {
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Number of the procedure; 0 does nothing, by convention.
    pub number: u32,
}

impl Procedure {
    /// Procedure `number` of `version` of `program`.
    pub const fn new(program: u32, version: u32, number: u32) -> Self {
        Self { program, version, number }
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.program, self.version, self.number)
    }
}

//! Names of replicas' files: `ID_STAMP_LENGTH.data` for a sealed replica, otherwise `ID_STAMP.kind`.

use crate::{ChunkId, Stamp};

/// The role of a file in its replica. A start handles a replica's files in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// An incomplete copy of another datanode's replica.
    Copy,
    /// An incomplete new file of an open replica, into which its bytes are copied after a failed sync.
    Anew,
    /// Bytes and table of a sealed replica of this length.
    Sealed(u32),
    /// Bytes of a replica that an earlier version sealed in two files.
    Split,
    /// The table of a replica that an earlier version sealed in two files.
    Table,
    /// Bytes of a replica that is being written.
    Open,
    /// Records of an open replica's checksums.
    Sums,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Sealed(_) | Self::Split => "data",
            Self::Table => "table",
            Self::Open => "open",
            Self::Sums => "sums",
            Self::Copy => "copy",
            Self::Anew => "anew",
        }
    }
}

/// The name of a replica's file. Numbers are hexadecimal.
pub(super) fn name(chunk: ChunkId, stamp: Stamp, kind: Kind) -> String {
    let (chunk, stamp, suffix) = (chunk.0, stamp.0, kind.suffix());
    match kind {
        Kind::Sealed(length) => format!("{chunk:016x}_{stamp:016x}_{length:08x}.{suffix}"),
        _ => format!("{chunk:016x}_{stamp:016x}.{suffix}"),
    }
}

/// The chunk, stamp and kind in a file's name. None if it isn't the name of a replica's file.
pub(super) fn parse_name(name: &str) -> Option<(ChunkId, Stamp, Kind)> {
    let (numbers, suffix) = name.split_once('.')?;
    let mut numbers = numbers.split('_');
    let mut next = || u64::from_str_radix(numbers.next()?, 16).ok();
    let (chunk, stamp, length) = (ChunkId(next()?), Stamp(next()?), next());
    let plain = [Kind::Split, Kind::Table, Kind::Open, Kind::Sums, Kind::Copy, Kind::Anew];
    let kind = match length {
        Some(length) => Kind::Sealed(u32::try_from(length).ok()?),
        None => plain.into_iter().find(|kind| kind.suffix() == suffix)?,
    };
    (self::name(chunk, stamp, kind) == name).then_some((chunk, stamp, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_replica_and_kind() {
        let (chunk, stamp) = (ChunkId(0xabc), Stamp(u64::MAX));
        for kind in
            [Kind::Sealed(0), Kind::Sealed(u32::MAX), Kind::Split, Kind::Table, Kind::Open, Kind::Sums]
        {
            assert_eq!(parse_name(&name(chunk, stamp, kind)), Some((chunk, stamp, kind)));
        }
    }

    #[test]
    fn other_files_arent_replicas() {
        let sealed = name(ChunkId(1), Stamp(2), Kind::Sealed(3));
        let longer = [format!("{sealed}.strange-1"), format!("0{sealed}"), sealed.replace("data", "open")];
        assert!(longer.iter().all(|name| parse_name(name).is_none()));
        for other in ["identity", "heard", "probe.tmp", "1_2.data", "1_2_3_4.data", "x_y.data", ""] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}

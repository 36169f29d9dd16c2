//! Counters of a datanode, and subjects of its slow calls.

use super::shared::Shared;
use std::sync::Arc;
use strait_flexrpc::{Reply, Request};
use strait_kadoop_wire::wire::{KdContinue, KdRead, KdUpto, KdWrite};
use strait_telemetry::{Calls, Kind, Page};
use strait_xdr::{Decode as _, DecodeError, Decoder};

/// Procedures, by their numbers in `idl/kadoop.x`.
pub(super) const OPERATIONS: [&str; 10] =
    ["null", "write", "publish", "sync", "seal", "read", "probe", "continue", "lender", "digest"];

/// The counters of one datanode, readable at any time.
#[derive(Clone)]
pub struct DatanodeNumbers {
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Arc<Calls>,
}

impl DatanodeNumbers {
    /// Writes the counters to a page of metrics. `name` distinguishes the datanodes on that page.
    pub fn write(&self, page: &mut Page, name: &str) {
        let of = [("role", "datanode"), ("datanode", name)];
        self.calls.write(page, &of);
        let (space, directories) = (self.shared.space(), self.shared.directories().usable());
        let mut gauge = |name, help, value| page.number(name, Kind::Gauge, help, &of, value);
        gauge("strait_datanode_capacity_bytes", "Capacity of its data directories.", space.capacity);
        gauge("strait_datanode_available_bytes", "Bytes that writes can still use.", space.available);
        gauge("strait_datanode_directories", "Data directories in use.", directories as u64);
    }
}

/// The chunk that a call was about.
pub(super) fn about(request: &Request) -> String {
    told(request).ok().flatten().unwrap_or_default()
}

/// Whether an answer is a refusal. Each answer, except of procedure 0, begins with the number of the refusal;
/// 0 means success.
pub(super) fn refused(request: &Request, reply: &Reply) -> bool {
    request.procedure.number != 0 && reply.result().get(..4).is_some_and(|refused| refused != [0; 4])
}

fn told(request: &Request) -> Result<Option<String>, DecodeError> {
    let from = &mut Decoder::shared(request.args.clone());
    let told = match request.procedure.number {
        1 => {
            let KdWrite { chunk, stamp, offset, bytes, .. } = KdWrite::decode(from)?;
            format!("chunk {chunk} of stamp {stamp}: {} bytes from {offset} on", bytes.len())
        }
        2..=4 => {
            let KdUpto { chunk, stamp, length, .. } = KdUpto::decode(from)?;
            format!("chunk {chunk} of stamp {stamp}: up to {length}")
        }
        5 | 9 => {
            let KdRead { chunk, stamp, offset, length, .. } = KdRead::decode(from)?;
            format!("chunk {chunk} of stamp {stamp}: {length} bytes from {offset} on")
        }
        7 => {
            let KdContinue { chunk, stamp, source, .. } = KdContinue::decode(from)?;
            format!("chunk {chunk} of stamp {stamp}: {} bytes of chunk {}", source.length, source.chunk)
        }
        _ => return Ok(None),
    };
    Ok(Some(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_interface() {
        let idl = include_str!("../../../../idl/kadoop.x");
        for (number, name) in OPERATIONS.iter().enumerate() {
            let begin = format!(" DN_{}(", name.to_uppercase());
            let line = idl.lines().find(|line| line.contains(&begin)).unwrap();
            assert!(line.ends_with(&format!("= {number};")), "{line}");
        }
    }
}

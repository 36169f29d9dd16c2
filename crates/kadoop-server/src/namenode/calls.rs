//! Names of the namenode's operations, and subjects of slow calls.

use super::audit::Asked;
use crate::observed::UNCOUNTED;
use strait_flexrpc::Request;
use strait_kadoop_core::messages::Mutation;
use strait_kadoop_wire::{
    convert::{concat_from_wire, mutation_from_wire},
    wire::{KdCaller, KdConcat, KdHeartbeat, KdMutation, KdOperation, KdRequest},
};
use strait_xdr::{Decode as _, DecodeError, Decoder, Text};

/// Procedures, by their numbers in `idl/kadoop.x`.
const PROCEDURES: [&str; 24] = [
    "null",
    "join",
    "renew",
    "mutate",
    "stat",
    "list",
    "summary",
    "locate",
    "token",
    "status",
    "suspect",
    "datanodes",
    "service",
    "decommission",
    "rebalance",
    "locate_file",
    "credential",
    "refused",
    "admit",
    "damaged",
    "leases",
    "open",
    "begin",
    "concat",
];
/// Numbers of NN_MUTATE, NN_OPEN, NN_BEGIN and NN_CONCAT. The first three cover several operations.
const MUTATE: u32 = 3;
const OPEN: u32 = 21;
const BEGIN: u32 = 22;
const CONCAT: u32 = 23;
/// Mutations, by their numbers in `idl/kadoop.x`, which begin with 1.
const MUTATIONS: [&str; 11] = [
    "mkdirs",
    "create",
    "append",
    "add_chunk",
    "complete",
    "rename",
    "delete",
    "truncate",
    "set_attributes",
    "recover_lease",
    "end_chunk",
];

/// All names; an operation's index here is its number.
pub(super) fn names() -> Vec<&'static str> {
    PROCEDURES.into_iter().chain(MUTATIONS).chain(["heartbeat", "login"]).collect()
}

/// Index of a client's operation in [`names`].
pub(super) fn operation(request: &Request) -> usize {
    match request.procedure.number {
        number @ (MUTATE | OPEN | BEGIN) => {
            mutation(request).map_or(number as usize, |kind| PROCEDURES.len() + kind as usize - 1)
        }
        number if (number as usize) < PROCEDURES.len() => number as usize,
        _ => usize::MAX,
    }
}

/// Index of a datanode's operation in [`names`].
pub(super) fn of_cluster(request: &Request) -> usize {
    match request.procedure.number {
        0 => 0,
        1 | 2 => PROCEDURES.len() + MUTATIONS.len(),
        // A watch (CL_WATCH) waits on purpose.
        3 => UNCOUNTED,
        _ => usize::MAX,
    }
}

/// Index, in [`names`], of an operation that needs no key.
pub(super) fn of_login(request: &Request) -> usize {
    match request.procedure.number {
        0 => 0,
        1 => PROCEDURES.len() + MUTATIONS.len() + 1,
        _ => usize::MAX,
    }
}

fn mutation(request: &Request) -> Result<KdOperation, DecodeError> {
    let mut from = arguments(request);
    KdCaller::decode(&mut from)?;
    KdRequest::decode(&mut from)?;
    KdOperation::decode(&mut from)
}

/// The path or file of a call, and its user.
pub(super) fn about(request: &Request) -> String {
    told(request).ok().flatten().unwrap_or_default()
}

fn told(request: &Request) -> Result<Option<String>, DecodeError> {
    let mut from = arguments(request);
    Ok(match request.procedure.number {
        MUTATE | OPEN | BEGIN => {
            let caller = KdCaller::decode(&mut from)?;
            KdRequest::decode(&mut from)?;
            let mutation = mutation_from_wire(&KdMutation::decode(&mut from)?).ok();
            mutation.map(|mutation| format!("{} for {:?}", subject(&mutation), caller.user))
        }
        CONCAT => {
            let caller = KdCaller::decode(&mut from)?;
            KdRequest::decode(&mut from)?;
            let mutation = concat_from_wire(&KdConcat::decode(&mut from)?).ok();
            mutation.map(|mutation| format!("{} for {:?}", subject(&mutation), caller.user))
        }
        4..=7 => {
            let caller = KdCaller::decode(&mut from)?;
            let path: Text<'_> = from.text(strait_kadoop_wire::wire::KD_PATH_BYTES)?;
            Some(format!("{path:?} for {:?}", caller.user))
        }
        _ => None,
    })
}

fn subject(mutation: &Mutation) -> String {
    match (Asked::of(mutation), mutation) {
        (Some(Asked { path, target: Some(target), .. }), _) => format!("{path:?} to {target:?}"),
        (Some(Asked { path, .. }), _) => format!("{path:?}"),
        (None, Mutation::AddChunk { file, .. } | Mutation::Complete { file, .. }) => {
            format!("file {}", file.0)
        }
        (None, _) => String::new(),
    }
}

/// The datanode of a heartbeat, and the size of its report.
pub(super) fn about_heartbeat(request: &Request) -> String {
    let Ok(beat) = KdHeartbeat::decode(&mut arguments(request)) else { return String::new() };
    let reported = beat.full.map_or(0, |full| full.replicas.len());
    format!("datanode {:?}: {reported} replicas, {} changes", beat.address, beat.changes.len())
}

fn arguments(request: &Request) -> Decoder<'static> {
    Decoder::shared(request.args.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_interface() {
        // A bracket may continue on the next line.
        let mut open = 0;
        let on_one_line = |c: char| {
            open += i32::from(c == '(') - i32::from(c == ')');
            if c == '\n' && open > 0 { ' ' } else { c }
        };
        let idl: String = include_str!("../../../../idl/kadoop.x").chars().map(on_one_line).collect();
        let numbered = |prefix: &str, name: &str, number: usize| {
            let name = format!("{prefix}{}", name.to_uppercase());
            let said = idl.lines().find(|line| {
                let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                words.contains(&&*name) && line.contains('=')
            });
            let said = said.unwrap_or_else(|| panic!("no {name}"));
            assert!(said.trim_end().trim_end_matches([';', ',']).ends_with(&format!("= {number}")), "{said}");
        };
        PROCEDURES.iter().enumerate().for_each(|(number, name)| numbered("NN_", name, number));
        MUTATIONS.iter().enumerate().for_each(|(number, name)| numbered("KD_", name, number + 1));
    }
}

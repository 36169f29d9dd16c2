//! The whole cluster: the real cores of namenode, datanodes and clients, on a simulated network and
//! simulated disks with their usual failures. A model checks every answer and, at the end, every
//! byte.

mod client;
mod losses;
mod model;
mod moments;
mod network;
mod noticed;
mod operator;
mod outages;
mod parts;
mod racks;
mod reading;
mod search;
mod servers;
mod swaps;
mod syncs;
mod trouble;
mod world;
mod writing;

use crate::{namespace::someone, purse::Purse};
use client::Task;
use noticed::NOTICED;
use search::{ALONE, ENOUGH_SEEDS, MOST_FAILURES, cores, failing, number};
use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};
use strait_kadoop_core::{faults::Fault, messages::ReplicaState};
use world::{Event, HOSTS, NODES, World};

/// Duration of the trouble.
const TROUBLE_MS: u64 = 25_000;
/// Bytes of two reads ahead, or two writes, for all clients together.
const SCARCE_BYTES: u64 = 64;
/// Time within which all recovers afterwards: leases end, datanodes get their orders again, copies
/// are made, the scrub finds all damage, and the slowest reader finishes.
const CALM_MS: u64 = 240_000;
/// Time within which every file is readable: a lease, and the patience of its recovery.
const RECOVERED_MS: u64 = 45_000;

fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    live(World::new(seed, fault))
}

/// As [`run`], with little memory, which all clients share for bytes read ahead and written.
/// Writers send bytes soon.
fn run_scarce(seed: u64) -> Result<(), String> {
    let purse = Arc::new(Purse::of(SCARCE_BYTES));
    let mut world = World::new(seed, None);
    world.config.idle_ms = 500;
    world.budget = Arc::clone(&purse) as _;
    live(world)?;
    if purse.taken() > 0 { Err(format!("{} bytes are held by nobody", purse.taken())) } else { Ok(()) }
}

/// As [`run`], with full reports that are interrupted after each replica.
fn run_in_parts(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed, None);
    world.parts.come = true;
    world.begin_parts();
    live(world)
}

fn live(mut world: World) -> Result<(), String> {
    (0..=NODES).for_each(|host| world.start(host));
    world.run_until(4_000)?;
    world.healed = false;
    (NODES + 1..HOSTS).for_each(|host| world.start(host));
    world.at(world.now, Event::Trouble);
    world.begin_operating();
    world.begin_failing_syncs();
    world.begin_outages();
    world.begin_swaps();
    world.begin_losses();
    world.run_until(4_000 + TROUBLE_MS + world.losses.longer())?;
    while world.losses.is_mending() {
        world.run_until(world.now + 500)?;
    }
    heal(&mut world);
    let end = world.now + CALM_MS;
    while world.now < end && !world.is_calm() {
        world.run_until(world.now + 5_000)?;
    }
    // Wait for the remaining deletions.
    world.run_until(world.now + 40_000)?;
    world.forget_all_lost();
    world.thin()?;
    check(&world)?;
    world.check_racks()
}

fn heal(world: &mut World) {
    world.healed = true;
    world.well_from = world.now + RECOVERED_MS;
    world.cut.clear();
    world.stalls = vec![0; HOSTS];
    if world.end_failing_syncs() {
        (0..=NODES).for_each(|host| world.crash(host));
    }
    world.disk.keep_on();
    world.disk.set_full(false);
    for node in 0..NODES {
        let off = world.nodes[node].disks.iter().any(|disk| disk.is_off());
        world.nodes[node].disks.iter().for_each(|disk| disk.set_full(false));
        if off {
            world.crash(node + 1);
        }
        world.nodes[node].disks.iter().for_each(|disk| disk.keep_on());
    }
    (0..HOSTS).for_each(|host| world.start(host));
}

impl World {
    fn is_calm(&self) -> bool {
        let idle = self.clients.iter().all(|client| {
            client.running && client.left == 0 && client.unsure.is_none() && matches!(client.task, Task::Idle)
        });
        idle && self.namenode.as_ref().is_some_and(|(namenode, _)| namenode.state().open.is_empty())
    }
}

/// Checks that each file has exactly the promised bytes, and the wanted number of replicas.
fn check(world: &World) -> Result<(), String> {
    if !world.is_calm() {
        let open = world.namenode.as_ref().map(|(namenode, _)| namenode.state().open.clone());
        let tasks: Vec<String> = world.clients.iter().map(|client| client.describe()).collect();
        return Err(format!("somebody still waits for something: {open:?} {tasks:?}"));
    }
    let user = someone("kadoop");
    let (namenode, _) = world.namenode.as_ref().ok_or("the namenode is down")?;
    let done_without = world.done_without()?;
    let mut known = BTreeSet::new();
    for (path, file) in &world.model.files {
        let status = namenode.view(&user).stat(path).map_err(|error| format!("{path}: {error}"))?;
        let (least, sent) = (world.lasting(path), file.bytes.len() as u64);
        if status.open
            || status.length < least
            || status.length > sent
            || file.closed && status.length != sent
        {
            return Err(format!(
                "{path}: {status:?}, {least} promised, {sent} sent, closed: {}",
                file.closed
            ));
        }
        let located = namenode.locate(&user, path, 0, u64::MAX).map_err(|error| error.to_string())?;
        for chunk in &located.chunks {
            known.insert(chunk.chunk);
            let from = chunk.offset as usize;
            let expected = file.bytes.get(from..from + chunk.length as usize).unwrap_or(&[0; 1]);
            let sound = world.sound(chunk.chunk);
            for node in &sound {
                let replica = world.nodes[*node].running.as_ref().and_then(|node| node.replica(chunk.chunk));
                let bytes = replica.and_then(|replica| world.bytes_of(*node, &replica)).unwrap_or_default();
                if !bytes.starts_with(expected) {
                    return Err(format!("{path}: {chunk:?} is wrong at datanode {}", node + 1));
                }
            }
            let counted: BTreeSet<usize> =
                chunk.nodes.iter().filter_map(|node| world.numbers.get(node).copied()).collect();
            let staying = sound.iter().filter(|node| !done_without.contains(node)).count();
            let wanted = World::target(file.replication);
            let sure = world.losses.lost.get(&chunk.chunk).copied().filter(|_| sound.is_empty());
            let lost = sure.is_some();
            if sure.is_some_and(|sure| !world.is_left(chunk, sure, &file.bytes)) {
                return Err(format!("{path}: {chunk:?}: of {sure:?} synced bytes no copy is left"));
            }
            // A replaced chunk, of which no copies are made, stands in for a lost one.
            let logged = namenode.state().chunks.get(&chunk.chunk);
            let stands_in = world.losses.is_single() && logged.is_some_and(|logged| logged.replaced);
            let lost = lost || stands_in && !sound.is_empty();
            if !lost && (sound != counted || staying != wanted) {
                let replica = |index: usize| world.nodes[index].running.as_ref()?.replica(chunk.chunk);
                let there: Vec<_> = (0..NODES).map(replica).collect();
                return Err(format!(
                    "{path}: {chunk:?}: {sound:?} are sound, {counted:?} counted, {wanted} wanted of {there:?}"
                ));
            }
        }
    }
    let there = namenode.view(&user).list("/", "", 1_000).map_err(|error| error.to_string())?;
    for entry in there.entries {
        if !world.model.files.contains_key(&format!("/{}", entry.name)) {
            return Err(format!("{entry:?} shouldn't be there"));
        }
    }
    for (index, node) in world.nodes.iter().enumerate() {
        let Some(running) = &node.running else { return Err(format!("datanode {} is down", index + 1)) };
        for replica in running.replicas() {
            let lost = world.losses.lost.contains_key(&replica.chunk);
            if !known.contains(&replica.chunk) || replica.state != ReplicaState::Sealed && !lost {
                return Err(format!("{replica:?} is left over on datanode {}", index + 1));
            }
        }
    }
    Ok(())
}

/// Number of seeds in a run of the tests.
const SEEDS: u64 = 400;
/// Number of seeds with little memory.
const SCARCE_SEEDS: u64 = 100;
/// Number of seeds with reports in parts.
const PARTED_SEEDS: u64 = 100;

#[test]
fn a_whole_cluster_keeps_every_promise() {
    let one = number("KADOOP_SIM_SEED");
    let first = one.or(number("KADOOP_SIM_FIRST")).unwrap_or(0);
    let many = number("KADOOP_SIM_SEEDS");
    let seeds = if one.is_some() { 1 } else { many.unwrap_or(SEEDS) };
    // Other tests run beside the default number of seeds.
    let threads = if many.is_some() { cores() } else { 1 };
    let failed = failing(first, seeds, threads, MOST_FAILURES, None);
    let mut text = String::new();
    for (seed, error) in &failed {
        let _ = writeln!(text, "KADOOP_SIM_SEED={seed}: {error}");
    }
    assert!(failed.is_empty(), "{text}");
}

#[test]
fn a_whole_cluster_keeps_every_promise_with_little_memory() {
    for seed in 0..number("KADOOP_SIM_SEEDS").unwrap_or(SCARCE_SEEDS) {
        if let Err(error) = run_scarce(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn a_whole_cluster_keeps_every_promise_with_reports_in_parts() {
    for seed in 0..number("KADOOP_SIM_SEEDS").unwrap_or(PARTED_SEEDS) {
        if let Err(error) = run_in_parts(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn planted_faults_are_noticed_in_the_whole_cluster() {
    assert_eq!(NOTICED.len() + ALONE.len(), Fault::ALL.len(), "every fault is searched for");
    for (fault, first) in NOTICED {
        assert!(!failing(*first, ENOUGH_SEEDS, 1, 1, Some(*fault)).is_empty(), "{fault:?} goes unnoticed");
    }
}

/// See [`search::search`].
#[test]
#[ignore = "searches for minutes"]
fn every_fault_has_a_seed_that_notices_it() {
    search::search();
}

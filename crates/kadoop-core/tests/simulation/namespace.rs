//! The namespace against a model, through crashes of its log and its checkpoints.

use crate::{disk::SimDisk, random::Random};
use compact_str::CompactString;
use std::collections::BTreeMap;
use strait_kadoop_core::{
    Config, Error,
    faults::{Fault, Faults},
    log::Journal,
    messages::{Answer, Caller, Mutation, RequestId},
    namenode::{Namenode, load, save},
};

const CLUSTER: u64 = 3;

pub fn someone(name: &str) -> Caller {
    Caller { user: name.into(), groups: vec![CompactString::from("users")], session: None }
}

/// Paths, with true for directories.
#[derive(Default, Clone, Debug)]
struct Model(BTreeMap<String, bool>);

impl Model {
    fn parent(path: &str) -> &str {
        &path[..path.rfind('/').unwrap()]
    }

    fn is_directory(&self, path: &str) -> Option<bool> {
        if path.is_empty() { Some(true) } else { self.0.get(path).copied() }
    }

    fn below(&self, path: &str) -> Vec<String> {
        let inside = format!("{path}/");
        self.0.keys().filter(|other| other.starts_with(&inside)).cloned().collect()
    }

    /// Whether a file is in the way to `path`.
    fn blocked(&self, path: &str) -> bool {
        let mut above = Self::parent(path);
        while !above.is_empty() {
            if self.is_directory(above) == Some(false) {
                return true;
            }
            above = Self::parent(above);
        }
        false
    }

    fn make(&mut self, path: &str) {
        let mut at = path;
        while !at.is_empty() {
            self.0.insert(at.to_owned(), true);
            at = Self::parent(at);
        }
    }

    fn apply(&mut self, mutation: &Mutation) -> Result<(), Error> {
        match mutation {
            Mutation::Mkdirs { path, .. } => {
                if self.blocked(path) {
                    return Err(Error::NotADirectory);
                }
                if self.is_directory(path) == Some(false) {
                    return Err(Error::AlreadyExists);
                }
                self.make(path);
            }
            Mutation::Create { path, overwrite, .. } => {
                if self.blocked(path) {
                    return Err(Error::NotADirectory);
                }
                match self.is_directory(path) {
                    Some(true) => return Err(Error::IsADirectory),
                    Some(false) if !overwrite => return Err(Error::AlreadyExists),
                    // No file is ever closed here.
                    Some(false) => return Err(Error::Busy),
                    None => {}
                }
                self.make(Self::parent(path));
                self.0.insert(path.clone(), false);
            }
            Mutation::Delete { path, recursive } => {
                if self.blocked(path) {
                    return Err(Error::NotADirectory);
                }
                let below = self.below(path);
                if !below.is_empty() && !recursive {
                    return Err(Error::NotEmpty);
                }
                self.0.remove(path);
                for path in &below {
                    self.0.remove(path);
                }
            }
            Mutation::Rename { from, to, replace } => self.rename(from, to, *replace)?,
            _ => unreachable!(),
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<(), Error> {
        if self.blocked(from) || self.blocked(to) {
            return Err(Error::NotADirectory);
        }
        let directory = self.is_directory(from).ok_or(Error::NotFound)?;
        if self.is_directory(Self::parent(to)).is_none() {
            return Err(Error::NotFound);
        }
        if from == to {
            return if replace { Ok(()) } else { Err(Error::AlreadyExists) };
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(Error::Invalid("a directory can't be moved into itself"));
        }
        match self.is_directory(to) {
            Some(_) if !replace => return Err(Error::AlreadyExists),
            Some(true) if !directory => return Err(Error::IsADirectory),
            Some(false) if directory => return Err(Error::NotADirectory),
            Some(true) if !self.below(to).is_empty() => return Err(Error::NotEmpty),
            _ => {}
        }
        for path in self.below(from).into_iter().chain([from.to_owned()]) {
            let moved = self.0.remove(&path).unwrap();
            self.0.insert(format!("{to}{}", &path[from.len()..]), moved);
        }
        Ok(())
    }
}

fn path(random: &mut Random) -> String {
    (0..=random.below(3)).map(|_| format!("/{}", ["a", "b", "c"][random.below(3) as usize])).collect()
}

fn mutation(random: &mut Random) -> Mutation {
    let path_ = path(random);
    let flag = random.one_in(2);
    match random.below(5) {
        0 | 1 => Mutation::Mkdirs { path: path_, mode: 0o755 },
        2 => Mutation::Create {
            path: path_,
            overwrite: flag,
            mode: 0o644,
            replication: 3,
            chunk_bytes: 64,
            min_replicas: 0,
        },
        3 => Mutation::Delete { path: path_, recursive: flag },
        _ => Mutation::Rename { from: path_, to: path(random), replace: flag },
    }
}

fn paths(namenode: &Namenode, caller: &Caller) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let mut rest = vec![String::new()];
    while let Some(directory) = rest.pop() {
        let mut after = CompactString::default();
        loop {
            let at = if directory.is_empty() { "/" } else { &directory };
            let page = namenode.view(caller).list(at, &after, 2).unwrap();
            for entry in &page.entries {
                let path = format!("{directory}/{}", entry.name);
                found.insert(path.clone(), entry.directory);
                if entry.directory {
                    rest.push(path);
                }
                after = entry.name.clone();
            }
            if !page.more {
                break;
            }
        }
    }
    found
}

/// Runs operations against a namenode whose power sometimes fails. An error names the violated
/// claim.
fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut random = Random(seed);
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let config =
        Config { faults, min_chunk_bytes: 1, segment_bytes: 512, sweep_inodes: 2, ..Config::default() };
    let caller = someone("kadoop");
    let disk = SimDisk::default();
    let mut model = Model::default();
    let mut client = None;
    let mut number = 0;
    // A mutation whose answer was lost in a crash, to be retried.
    let mut repeated: Option<Mutation> = None;
    for _ in 0..4 {
        disk.fail_after(random.below(120));
        let started = load(&disk, CLUSTER, &config);
        let loaded = started.map_err(|error| format!("the namenode doesn't start: {error}"))?;
        let next = loaded.state.next.sequence + 1;
        let mut namenode = Namenode::new(config.clone(), loaded.state, 0, random.next());
        let journal = Journal::start(disk.clone(), CLUSTER, next, config.segment_bytes, faults);
        let marked = journal.and_then(|mut journal| journal.keep_mark().map(|()| journal));
        if let Ok(mut journal) = marked {
            loop {
                let me = match client {
                    Some(me) => me,
                    None => {
                        let me = namenode.join_client(0);
                        namenode.outbox.drain(..).for_each(|joined| journal.push(joined.encode()));
                        if journal.commit().is_err() {
                            break;
                        }
                        *client.insert(me)
                    }
                };
                let (ask, again) = match repeated.take() {
                    Some(ask) => (ask, true),
                    None => {
                        number += 1;
                        (mutation(&mut random), false)
                    }
                };
                let request = RequestId { client: me, number, done_below: number };
                let answer = namenode.mutate(&caller, request, &ask, &[], 0, 0);
                if random.one_in(4) {
                    namenode.sweep();
                }
                for transaction in namenode.outbox.drain(..) {
                    journal.push(transaction.encode());
                }
                if journal.commit().is_err() {
                    repeated = Some(ask);
                    break;
                }
                let expected = model.apply(&ask);
                let answer = answer.map(drop);
                if answer != expected {
                    return Err(format!("{ask:?} again {again}: {answer:?}, expected {expected:?}"));
                }
                if random.one_in(8) {
                    let saved = journal.roll().and_then(|()| save(&disk, CLUSTER, &config, namenode.state()));
                    if saved.is_err() {
                        break;
                    }
                }
                if random.one_in(20) {
                    break;
                }
            }
        }
        disk.crash(&mut random);
    }
    let loaded =
        load(&disk, CLUSTER, &config).map_err(|error| format!("the namenode doesn't start: {error}"))?;
    let again = load(&disk, CLUSTER, &config).map_err(|error| error.to_string())?;
    if loaded.state != again.state {
        return Err("two replays differ".to_owned());
    }
    let mut namenode = Namenode::new(config, loaded.state, 0, 1);
    while namenode.sweep() {}
    let found = paths(&namenode, &caller);
    // The last request may have been executed without sending its answer.
    let mut after = model.clone();
    let done = repeated.is_some_and(|ask| after.apply(&ask).is_ok() && found == after.0);
    if found != model.0 && !done {
        return Err(format!("found {found:?}, expected {:?}", model.0));
    }
    let (all, reached) = (namenode.state().inodes.count(), found.len() + 1);
    if all != reached {
        return Err(format!("{reached} of {all} inodes are reached from the root"));
    }
    Ok(())
}

#[test]
fn a_removed_tree_is_gone_at_once_and_freed_by_and_by() {
    let config = Config { sweep_inodes: 2, ..Config::default() };
    let mut namenode = Namenode::new(config.clone(), strait_kadoop_core::namenode::State::new(&config), 0, 1);
    let (client, mut number, caller) = (namenode.join_client(0), 0, someone("kadoop"));
    let mut ask = |namenode: &mut Namenode, mutation: Mutation| {
        number += 1;
        namenode.mutate(&caller, RequestId { client, number, done_below: 0 }, &mutation, &[], 0, 0)
    };
    let create = |path: &str| Mutation::Create {
        path: path.into(),
        overwrite: false,
        mode: 0o644,
        replication: 3,
        chunk_bytes: config.min_chunk_bytes,
        min_replicas: 0,
    };
    let removed = ["/d/one", "/d/deep/two", "/d/deep/three"];
    for path in removed.into_iter().chain(["/kept"]) {
        ask(&mut namenode, create(path)).unwrap();
    }
    let delete = Mutation::Delete { path: "/d".into(), recursive: true };
    assert_eq!(ask(&mut namenode, delete), Ok(Answer::Changed(true)));
    assert_eq!(paths(&namenode, &caller).into_keys().collect::<Vec<_>>(), ["/kept"]);
    assert_eq!(namenode.state().open.len(), 1, "only the writer of /kept goes on");
    // Another file may have the name while the old one isn't freed.
    ask(&mut namenode, create("/d/one")).unwrap();
    let before = namenode.state().inodes.count();
    assert_eq!((namenode.sweep(), namenode.sweep(), namenode.sweep()), (true, true, false));
    assert_eq!(namenode.state().inodes.count(), before - removed.len() - 2);
    assert_eq!(paths(&namenode, &caller).into_keys().collect::<Vec<_>>(), ["/d", "/d/one", "/kept"]);
}

#[test]
fn answers_and_names_are_the_models_through_crashes_at_any_write() {
    let seeds = std::env::var("KADOOP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let one = std::env::var("KADOOP_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in one.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        run(seed, None).unwrap_or_else(|error| panic!("KADOOP_SEED={seed}: {error}"));
    }
}

#[test]
fn each_fault_planted_in_the_log_is_noticed() {
    for fault in [
        Fault::LogNotSynced,
        Fault::SegmentNameNotSynced,
        Fault::MarkedEarly,
        Fault::TornFrameRead,
        Fault::CheckpointNotSynced,
        Fault::LogDroppedEarly,
        Fault::RetryExecuted,
        Fault::RetryNotReplayed,
    ] {
        let noticed = (0..100_000).find(|seed| run(*seed, Some(fault)).is_err());
        assert!(noticed.is_some(), "{fault:?} goes unnoticed");
    }
}

#[test]
fn rights_are_demanded_of_everybody_but_the_superuser() {
    let config = Config::default();
    let mut namenode = Namenode::new(config.clone(), strait_kadoop_core::namenode::State::new(&config), 0, 1);
    let client = namenode.join_client(0);
    let mut number = 0;
    let mut ask = |who: &str, mutation: Mutation| {
        number += 1;
        namenode.mutate(&someone(who), RequestId { client, number, done_below: 0 }, &mutation, &[], 0, 0)
    };
    let mkdirs = |path: &str, mode| Mutation::Mkdirs { path: path.into(), mode };
    let delete = |path: &str| Mutation::Delete { path: path.into(), recursive: true };
    assert_eq!(ask("ann", mkdirs("/ann", 0o755)), Err(Error::PermissionDenied));
    assert_eq!(ask("kadoop", mkdirs("/tmp", 0o1777)), Ok(Answer::Done));
    assert_eq!(ask("ann", mkdirs("/tmp/ann/deep", 0o700)), Ok(Answer::Done));
    assert_eq!(ask("bob", mkdirs("/tmp/ann/deep/x", 0o700)), Err(Error::PermissionDenied));
    // With the sticky bit everybody may add entries, but only an entry's owner may remove it.
    assert_eq!(ask("bob", delete("/tmp/ann")), Err(Error::PermissionDenied));
    assert_eq!(ask("ann", delete("/tmp/ann")), Ok(Answer::Changed(true)));
}

//! The removal of a large tree by a user whose rights are examined in steps, while others change it.

use crate::{namespace::someone, random::Random};
use strait_kadoop_core::{
    ClientId, Config, Error,
    faults::{Fault, Faults},
    messages::{Answer, Attributes, Mutation, RequestId},
    namenode::{Namenode, State},
};

const SEEDS: u64 = 400;
const TOP: &str = "/home/top";

struct World {
    config: Config,
    namenode: Namenode,
    client: ClientId,
    number: u64,
    random: Random,
}

impl World {
    /// A tree of ann's with directories of others in it.
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let faults = fault.map_or(Faults::NONE, Faults::planted);
        let config = Config { sweep_inodes: 1, faults, ..Config::default() };
        let mut namenode = Namenode::new(config.clone(), State::new(&config), 0, 1);
        let client = namenode.join_client(0);
        let mut world = Self { config, namenode, client, number: 0, random: Random(seed) };
        for path in ["/home", "/other", TOP] {
            world.ask("kadoop", &Mutation::Mkdirs { path: path.to_owned(), mode: 0o777 }).unwrap();
        }
        let attributes = Attributes { owner: Some("ann".into()), ..Attributes::default() };
        world.ask("kadoop", &Mutation::SetAttributes { path: TOP.to_owned(), attributes }).unwrap();
        (0..40).for_each(|_| world.build());
        world
    }

    fn request(&mut self) -> RequestId {
        self.number += 1;
        RequestId { client: self.client, number: self.number, done_below: self.number }
    }

    fn ask(&mut self, user: &str, mutation: &Mutation) -> Result<Answer, Error> {
        let request = self.request();
        self.namenode.mutate(&someone(user), request, mutation, &[], 0, 0)
    }

    fn path(&mut self, top: &str) -> String {
        let names = ["/a", "/b", "/c", "/d"];
        let levels = 1 + self.random.below(4);
        let path = |random: &mut Random| names[random.below(4) as usize];
        (0..levels).fold(top.to_owned(), |at, _| at + path(&mut self.random))
    }

    fn build(&mut self) {
        let mode = [0o777, 0o775, 0o700][self.random.below(3) as usize];
        let path = self.path(TOP);
        let _ = self.ask("ann", &Mutation::Mkdirs { path, mode });
    }

    /// A change by anybody, allowed or not.
    fn change(&mut self) {
        let user = ["ann", "bob", "kadoop"][self.random.below(3) as usize];
        let top = if self.random.one_in(3) { "/other" } else { TOP };
        let (path, to) = (self.path(top), self.path(TOP));
        let mode = [0o777, 0o755, 0o700, 0o500][self.random.below(4) as usize];
        let mutation = match self.random.below(6) {
            0 | 1 => Mutation::Mkdirs { path, mode },
            2 => {
                let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
                Mutation::SetAttributes { path, attributes }
            }
            3 => Mutation::Rename { from: path, to, replace: false },
            4 => Mutation::Delete { path, recursive: self.random.one_in(4) },
            _ => {
                let owner = ["ann", "bob"][self.random.below(2) as usize];
                let attributes = Attributes { owner: Some(owner.into()), ..Attributes::default() };
                Mutation::SetAttributes { path, attributes }
            }
        };
        let _ = self.ask(user, &mutation);
    }

    /// The answer of a removal that examines the whole tree at once.
    fn at_once(&mut self) -> Result<Answer, Error> {
        let mut other = Namenode::new(self.config.clone(), self.namenode.state().clone(), 0, 1);
        let request = self.request();
        other.mutate(&someone("ann"), request, &removal(), &[], 0, 0)
    }
}

fn removal() -> Mutation {
    Mutation::Delete { path: TOP.to_owned(), recursive: true }
}

/// Surveys the tree while it changes, and removes it. None: no survey was needed, or it was refused.
fn remove(seed: u64, fault: Option<Fault>) -> Result<Option<()>, String> {
    let mut world = World::new(seed, fault);
    let ann = someone("ann");
    let Some(survey) = world.namenode.begin_survey(&ann, TOP).unwrap() else { return Ok(None) };
    loop {
        for _ in 0..world.random.below(3) {
            world.change();
        }
        match world.namenode.survey(survey, &ann) {
            Ok(_) => {}
            Err(Error::PermissionDenied) => return Ok(None),
            Err(error) => return Err(format!("the survey fails: {error}")),
        }
        if world.random.one_in(2) {
            world.change();
        }
        if world.namenode.is_surveyed(survey, &ann, TOP) == Ok(true) {
            break;
        }
    }
    let expected = world.at_once();
    let request = world.request();
    let removed = world.namenode.remove_surveyed(survey, &ann, request, &removal(), 0, 0);
    world.namenode.end_survey(survey);
    match (removed == expected, &removed) {
        (true, Ok(_)) => Ok(Some(())),
        _ => Err(format!("seed {seed}: removed: {removed:?}, at once: {expected:?}")),
    }
}

#[test]
fn a_user_removes_a_tree_in_steps_only_if_it_may_remove_it_at_once() {
    let all: Result<Vec<_>, String> = (0..SEEDS).map(|seed| remove(seed, None)).collect();
    let removed = all.unwrap().into_iter().flatten().count();
    assert!(removed > 20, "{removed} removed");
    assert!((0..SEEDS).any(|seed| remove(seed, Some(Fault::SurveyedOnce)).is_err()));
}

#[test]
fn a_quiet_tree_is_surveyed_as_it_is_and_only_where_that_takes_long() {
    for seed in 0..100 {
        let mut world = World::new(seed, None);
        for _ in 0..20 {
            world.change();
        }
        let (ann, expected) = (someone("ann"), world.at_once());
        assert_eq!(world.namenode.begin_survey(&someone("kadoop"), TOP), Ok(None), "it has all rights");
        let Some(survey) = world.namenode.begin_survey(&ann, TOP).unwrap() else { continue };
        let mut steps = 0;
        let told = loop {
            steps += 1;
            match world.namenode.survey(survey, &ann) {
                Ok(false) => {}
                Ok(true) => break Ok(Answer::Changed(true)),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(told, expected);
        assert!(steps > 1 || told.is_err(), "in {steps} steps");
    }
}

#[test]
fn a_tree_that_isnt_there_any_more_is_surveyed_in_vain() {
    let mut world = World::new(1, None);
    let ann = someone("ann");
    let survey = world.namenode.begin_survey(&ann, TOP).unwrap().unwrap();
    let to = "/other/top".to_owned();
    world.ask("kadoop", &Mutation::Rename { from: TOP.to_owned(), to, replace: false }).unwrap();
    assert_eq!(world.namenode.is_surveyed(survey, &ann, TOP), Err(Error::NotFound));
    world.ask("kadoop", &Mutation::Mkdirs { path: TOP.to_owned(), mode: 0o700 }).unwrap();
    assert_eq!(world.namenode.is_surveyed(survey, &ann, TOP), Err(Error::NotFound), "another tree");
    world.namenode.end_survey(survey);
}

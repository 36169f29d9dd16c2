//! Locations of files, by name and by number.

use crate::{namespace::someone, told::Cluster};
use strait_kadoop_core::{
    Error,
    messages::{Attributes, End, Mutation, ReplicaState},
};

#[test]
fn a_file_is_found_by_what_it_is_whatever_it_is_called_and_no_other_is_taken_for_it() {
    let mut cluster = Cluster::new(1, None);
    let file = cluster.create(1);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::Complete { file, ends }).unwrap();
    cluster.pass(3_000, &[]);
    let made = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 10).unwrap().made;
    let rename = |from: &str, to: &str| Mutation::Rename { from: from.into(), to: to.into(), replace: false };
    cluster.ask(Mutation::Mkdirs { path: "/d/e".into(), mode: 0o755 }).unwrap();
    cluster.ask(rename("/f", "/d/e/g")).unwrap();
    let find =
        |cluster: &Cluster, user, made| cluster.namenode.locate_file(&someone(user), made, new.chunk, 0, 10);
    let found = find(&cluster, "kadoop", made).unwrap();
    assert_eq!(found, cluster.namenode.locate(&someone("kadoop"), "/d/e/g", 0, 10).unwrap());
    assert_eq!(find(&cluster, "kadoop", made + 1), Err(Error::NotFound), "another file");
    assert!(find(&cluster, "ada", made).is_ok());
    let mode = |path: &str, mode| Mutation::SetAttributes {
        path: path.into(),
        attributes: Attributes { mode: Some(mode), ..Attributes::default() },
    };
    cluster.ask(mode("/d", 0o700)).unwrap();
    assert_eq!(find(&cluster, "ada", made), Err(Error::PermissionDenied), "it lies where she may not go");
    cluster.ask(mode("/d", 0o711)).unwrap();
    cluster.ask(mode("/d/e/g", 0o600)).unwrap();
    assert_eq!(find(&cluster, "ada", made), Err(Error::PermissionDenied), "it isn't hers to read");
    cluster.ask(Mutation::Delete { path: "/d".into(), recursive: true }).unwrap();
    assert_eq!(find(&cluster, "kadoop", made), Err(Error::NotFound), "it is gone");
}

//! Removals of large trees by users without all rights.

use crate::support::{Cluster, client, superuser, user};
use strait_kadoop_core::{Error, messages::Attributes};

/// Makes a directory of `user`'s, and a tree below it that is too large to be removed at a time.
fn tree(client: &strait_kadoop_client::Client, name: &str) -> String {
    let home = format!("/home/{name}");
    client.mkdirs(&superuser(), &home, 0o755).unwrap();
    let attributes = Attributes { owner: Some(name.into()), ..Attributes::default() };
    client.set_attributes(&superuser(), &home, attributes).unwrap();
    for branch in ["a", "b"] {
        client
            .mkdirs(&user(name), &format!("{home}/tree{}", format!("/{branch}").repeat(900)), 0o755)
            .unwrap();
    }
    format!("{home}/tree")
}

#[test]
fn a_user_removes_a_large_tree_of_its_own() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let tree = tree(&client, "ann");
    let inodes = client.summary(&superuser(), "/").unwrap().directories;
    assert!(client.delete(&user("ann"), &tree, true).unwrap());
    assert_eq!(client.stat(&user("ann"), &tree).map(drop).unwrap_err().error, Error::NotFound);
    assert!(!client.delete(&user("ann"), &tree, true).unwrap());
    assert_eq!(client.summary(&superuser(), "/").unwrap().directories, inodes - 1_801);
}

#[test]
fn a_large_tree_stays_whole_if_one_directory_in_it_is_anothers() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let tree = tree(&client, "ann");
    let inodes = client.summary(&superuser(), "/").unwrap().directories;
    let deep = format!("{tree}{}", "/b".repeat(890));
    let attributes = Attributes { owner: Some("bob".into()), ..Attributes::default() };
    client.set_attributes(&superuser(), &deep, attributes).unwrap();
    let refused = client.delete(&user("ann"), &tree, true).unwrap_err();
    assert_eq!(refused.error, Error::PermissionDenied);
    assert_eq!(client.summary(&superuser(), "/").unwrap().directories, inodes);
}

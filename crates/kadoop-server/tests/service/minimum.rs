//! The minimum of replicas: of the cluster, and of each file.

use crate::support::{Cluster, config, key, superuser};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::{Config, Error, messages::Attributes};
use strait_testkit::wait::eventually;

fn with_minimum(min_replicas: u16) -> CreateOptions {
    CreateOptions { min_replicas, ..CreateOptions::default() }
}

#[test]
fn flush_sync_and_close_tell_how_many_replicas_hold_the_bytes() {
    let cluster = Cluster::start(3);
    let (client, me) = (cluster.client(), superuser());
    let mut writer = client.create(&me, "/f", &with_minimum(2)).unwrap();
    assert_eq!(writer.flush().unwrap(), None, "there are no bytes");
    writer.write("bytes").unwrap();
    assert_eq!(writer.flush().unwrap(), Some(3));
    assert_eq!(writer.sync().unwrap(), Some(3));
    assert_eq!(writer.close().unwrap(), Some(3));
    let one = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&me, "/one", &one).unwrap();
    writer.write("bytes").unwrap();
    assert_eq!(writer.close().unwrap(), Some(1));
    // A minimum above the replication can't be kept.
    let refused = client.create(&me, "/g", &CreateOptions { min_replicas: 2, ..one }).map(drop);
    assert!(matches!(refused.unwrap_err().error, Error::Invalid(_)));
    let fewer = Attributes { replication: Some(1), ..Attributes::default() };
    let refused = client.set_attributes(&me, "/f", fewer).unwrap_err();
    assert!(refused.to_string().contains("minimum"), "{refused}");
}

#[test]
fn a_file_with_fewer_replicas_than_the_clusters_minimum_is_refused() {
    let cluster = Cluster::start_with(2, key(), |mut options| {
        options.config = Config { min_replicas: 2, ..config() };
        options
    });
    let (client, me) = (cluster.client(), superuser());
    assert_eq!(client.min_replicas(), 2);
    let of = |replication| CreateOptions { replication, ..CreateOptions::default() };
    let refused = client.create(&me, "/one", &of(1)).map(drop).unwrap_err();
    assert!(refused.to_string().contains("--min-replicas"), "{refused}");
    client.create(&me, "/two", &of(2)).unwrap().close().unwrap();
    let fewer = Attributes { replication: Some(1), ..Attributes::default() };
    let refused = client.set_attributes(&me, "/two", fewer).unwrap_err();
    assert!(refused.to_string().contains("--min-replicas"), "{refused}");
}

/// The minimum is the cluster's, or else the file's own.
fn closed_after_a_loss(of_cluster: bool) {
    let least = if of_cluster { 2 } else { 1 };
    let mut cluster = Cluster::start_with(2, key(), |mut options| {
        options.config = Config { min_replicas: least, ..config() };
        options
    });
    let (client, me) = (cluster.client(), superuser());
    let options = CreateOptions { replication: 2, ..with_minimum(if of_cluster { 0 } else { 2 }) };
    let mut writer = client.create(&me, "/f", &options).unwrap();
    writer.write("of two replicas, ").unwrap();
    assert_eq!(writer.sync().unwrap(), Some(2));
    let lost = cluster.datanode_addresses()[1];
    cluster.stop(lost);
    writer.write("and more").unwrap();
    let refused = writer.close().unwrap_err();
    assert_eq!(refused.error, Error::Unavailable, "{refused}");
    assert!(refused.why.contains("`strait datanodes`"), "{refused}");
    assert!(client.stat(&me, "/f").unwrap().open);
    cluster.add(cluster.datanode_options(1));
    eventually("it can be closed", || writer.close().is_ok());
    let status = client.stat(&me, "/f").unwrap();
    assert_eq!((status.open, status.length), (false, 25));
    assert_eq!(client.open(&me, "/f").unwrap().read_at(0, 99).unwrap(), "of two replicas, and more");
    let hosts = || client.locations(&me, "/f", 0, 25).unwrap().into_iter().map(|part| part.hosts.len());
    eventually("both have it", || hosts().all(|hosts| hosts == 2));
}

#[test]
fn a_close_below_the_clusters_minimum_fails_and_may_be_repeated() {
    closed_after_a_loss(true);
}

#[test]
fn a_close_below_the_files_own_minimum_fails_and_may_be_repeated() {
    closed_after_a_loss(false);
}

//! The test kit's real HDFS starts, serves, survives a restart, and leaves nothing behind.

use strait_testkit::{MiniHdfs, Options, http_request};

#[test]
fn a_cluster_of_its_own_serves_again_after_its_namenode_was_killed() {
    let mut hdfs =
        MiniHdfs::start_own(&Options { datanodes: 2, replication: 2, ..Options::default() }).unwrap();
    let dir = hdfs.scratch("kept");
    let url = format!("/webhdfs/v1{dir}?op=MKDIRS&user.name=alice");
    let made = http_request("PUT", hdfs.http_address(), &url).unwrap();
    assert_eq!(made.status, 200, "{}", made.body);

    hdfs.stop_namenode();
    assert!(http_request("GET", hdfs.http_address(), "/jmx").is_err());
    hdfs.restart_namenode().unwrap();

    let url = format!("/webhdfs/v1{dir}?op=GETFILESTATUS&user.name=alice");
    let status = http_request("GET", hdfs.http_address(), &url).unwrap();
    assert!(status.body.contains("\"owner\":\"alice\""), "{}", status.body);

    hdfs.stop_datanode(1);
    hdfs.restart_datanode(1).unwrap();
}

#[test]
fn the_shell_and_the_cluster_agree_on_the_address() {
    let hdfs = MiniHdfs::start().unwrap();
    let dir = hdfs.scratch("by-shell");
    let made = hdfs.shell(&["-mkdir", &dir]).unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let listed = hdfs.shell(&["-ls", &format!("{}/", hdfs.uri())]).unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&dir));
}

//! Failures of processes and networks, under writers and readers. Afterwards every acknowledged
//! byte is there, and each chunk regains its replicas without help.

use crate::{
    load::{Acknowledged, Load},
    rack::{DATANODES, Rack, Shape, Who, skip},
    support::{DEADLINE, client_at, pattern, superuser},
};
use bytes::Bytes;
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::Error;
use strait_testkit::LinkRate;
use strait_testkit::wait::{eventually, pause};

/// Files to close before, during and after a failure; some seconds of it.
const FILES: usize = 6;
/// Longer than the silence after which a datanode counts as dead.
const LONG: Duration = Duration::from_secs(6);
/// Slower than the writers: a piece takes more than a second to a datanode with this link.
const CRAWL: LinkRate = LinkRate::mbit(1);
const FAST: LinkRate = LinkRate::mbit(1_000);
/// Small enough to fill at once, and large enough for a test's files.
const SMALL_DISK_BYTES: u64 = 256 << 20;
const SMALL_LOG_DISK_BYTES: u64 = 32 << 20;

fn begin(rack: &Rack) -> Load {
    let load = rack.at_client(|| Load::start(&rack.client));
    load.goes_on_for(FILES, DEADLINE);
    load
}

/// Ends the load and compares all that was acknowledged with the files. Only failures that
/// `expected` accepts may have occurred.
fn finish(what: &str, rack: &Rack, load: Load, expected: fn(&str) -> bool) {
    let done = load.end();
    let unexpected: Vec<&String> = done.failures.iter().filter(|failure| !expected(failure)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    rack.at_client(|| done.demand_every_byte(&rack.client));
    rack.wait_until_whole(&done.files);
    let (files, bytes, reads) = (done.files.len(), done.bytes(), done.reads);
    println!("{what}: {files} files, {bytes} bytes, {reads} read, longest write {:?}", done.longest);
}

fn nothing(_: &str) -> bool {
    false
}

#[test]
fn a_datanode_that_is_cut_off_is_done_without_and_welcome_when_it_is_back() {
    let rack = Rack::start(&Shape::default()).unwrap();
    let load = begin(&rack);
    rack.isolate(Who::Datanode(0));
    rack.wait_for_alive(DATANODES - 1);
    load.goes_on_for(FILES, DEADLINE);
    rack.wait_until_whole(&load.closed());
    rack.rejoin(Who::Datanode(0));
    rack.wait_for_alive(DATANODES);
    load.goes_on_for(FILES, DEADLINE);
    finish("a datanode cut off", &rack, load, nothing);
}

#[test]
fn a_namenode_that_is_cut_off_is_waited_for() {
    let rack = Rack::start(&Shape::default()).unwrap();
    let load = begin(&rack);
    rack.isolate(Who::Namenode);
    pause("a long outage", LONG);
    rack.rejoin(Who::Namenode);
    load.goes_on_for(FILES, DEADLINE);
    rack.wait_for_alive(DATANODES);
    finish("the namenode cut off", &rack, load, nothing);
}

#[test]
fn a_datanode_that_the_namenode_alone_hears_is_gone_round() {
    let Some(rack) = Rack::start_with_links("a link cut between client and datanode") else { return };
    let load = begin(&rack);
    rack.cut(Who::Client, Who::Datanode(0));
    load.goes_on_for(FILES, 2 * DEADLINE);
    rack.mend(Who::Client, Who::Datanode(0));
    load.goes_on_for(FILES, DEADLINE);
    finish("a link cut between client and datanode", &rack, load, nothing);
}

#[test]
fn a_link_cut_within_a_pipeline_breaks_it_and_no_more() {
    let Some(rack) = Rack::start_with_links("a link cut between datanodes") else { return };
    let load = begin(&rack);
    rack.cut(Who::Datanode(0), Who::Datanode(1));
    load.goes_on_for(FILES, 2 * DEADLINE);
    rack.mend(Who::Datanode(0), Who::Datanode(1));
    load.goes_on_for(FILES, DEADLINE);
    finish("a link cut between datanodes", &rack, load, nothing);
}

#[test]
fn a_datanode_whose_link_crawls_holds_nobody_up_for_long() {
    let Some(mut rack) = Rack::start_with_links("a slow link") else { return };
    let load = begin(&rack);
    rack.slow_down(Who::Datanode(0), CRAWL);
    load.goes_on_for(FILES, 2 * DEADLINE);
    rack.slow_down(Who::Datanode(0), FAST);
    load.goes_on_for(FILES, DEADLINE);
    finish("a slow link", &rack, load, nothing);
}

#[test]
fn a_datanode_that_stands_still_is_done_without_and_goes_on() {
    let rack = Rack::start(&Shape::default()).unwrap();
    let load = begin(&rack);
    rack.datanodes[0].freeze();
    load.goes_on_for(FILES, 2 * DEADLINE);
    rack.wait_for_alive(DATANODES - 1);
    rack.datanodes[0].thaw();
    rack.wait_for_alive(DATANODES);
    load.goes_on_for(FILES, DEADLINE);
    finish("a datanode that stands still", &rack, load, nothing);
}

/// Changes a byte in each sealed replica of one of the datanodes: the one that readers of the
/// file's beginning use. Returns the files, with their new bytes.
fn corrupt(rack: &Rack, file: &Acknowledged) -> Vec<(PathBuf, Vec<u8>)> {
    let found = rack.at_client(|| rack.client.locations(&superuser(), &file.path, 0, 1).unwrap());
    let address = found[0].hosts[0].address.to_string();
    let read_from = rack.datanodes.iter().find(|datanode| datanode.address == address).unwrap();
    let entries = fs::read_dir(read_from.data()).unwrap().map(|entry| entry.unwrap().path());
    let sealed = entries.filter(|path| path.extension().is_some_and(|kind| kind == "data"));
    let flipped = sealed.filter_map(|path| {
        let mut bytes = fs::read(&path).ok()?;
        let middle = bytes.len() / 2;
        *bytes.get_mut(middle)? ^= 1;
        // Write in place, since the datanode has the file open.
        let file = fs::File::options().write(true).open(&path).ok()?;
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).ok()?;
        Some((path, bytes))
    });
    let flipped: Vec<_> = flipped.collect();
    assert!(!flipped.is_empty());
    flipped
}

/// Whether the damaged file is gone or was replaced.
fn was_found((path, bytes): &(PathBuf, Vec<u8>)) -> bool {
    fs::read(path).map_or(true, |now| now != *bytes)
}

#[test]
fn bytes_that_change_on_a_disk_are_never_read_and_replaced_once_somebody_meets_them() {
    let rack = Rack::start(&Shape::default()).unwrap();
    let load = begin(&rack);
    let file = &load.closed()[0];
    let flipped = corrupt(&rack, file);
    eventually("one is found", || {
        rack.at_client(|| load.read(file));
        flipped.iter().any(was_found)
    });
    load.goes_on_for(FILES, DEADLINE);
    finish("a corrupted disk, met by readers", &rack, load, nothing);
}

#[test]
fn bytes_that_change_on_a_disk_are_found_and_replaced_though_nobody_reads_them() {
    let rack = Rack::start(&Shape { scrub_ms: Some(3_000), ..Shape::default() }).unwrap();
    let load = begin(&rack);
    let done = load.end();
    assert!(done.failures.is_empty(), "{:?}", done.failures);
    rack.wait_until_whole(&done.files);
    let flipped = corrupt(&rack, &done.files[0]);
    eventually("all are found", || flipped.iter().all(was_found));
    rack.wait_until_whole(&done.files);
    rack.at_client(|| done.demand_every_byte(&rack.client));
    println!("a corrupted disk, scrubbed: {} replicas", flipped.len());
}

#[test]
fn a_datanode_whose_disk_is_full_is_done_without_until_there_is_room() {
    let small_disks = vec![(Who::Datanode(0), SMALL_DISK_BYTES)];
    let Some(rack) = Rack::start(&Shape { small_disks, ..Shape::default() }) else {
        return skip("a full disk");
    };
    let load = begin(&rack);
    rack.disk(Who::Datanode(0)).fill().unwrap();
    load.goes_on_for(FILES, DEADLINE);
    rack.wait_until_whole(&load.closed());
    rack.disk(Who::Datanode(0)).relieve().unwrap();
    load.goes_on_for(FILES, DEADLINE);
    finish("a datanode's full disk", &rack, load, nothing);
}

#[test]
fn a_file_open_while_all_disks_are_full_goes_on_once_there_is_room() {
    let small_disks = (0..DATANODES).map(|at| (Who::Datanode(at), SMALL_DISK_BYTES)).collect();
    let Some(rack) = Rack::start(&Shape { small_disks, ..Shape::default() }) else {
        return skip("full disks of all datanodes");
    };
    rack.at_client(|| {
        let mut writer = rack.client.create(&superuser(), "/f", &CreateOptions::default()).unwrap();
        writer.write("before, ").unwrap();
        writer.sync().unwrap();
        (0..DATANODES).for_each(|at| rack.disk(Who::Datanode(at)).fill().unwrap());
        let while_full = pattern(6 << 20);
        // The library takes what it can hold; then nothing moves.
        let pieces = while_full.chunks(1 << 20).map(Bytes::copy_from_slice);
        let refused = pieces.map(|piece| writer.write(piece)).find_map(Result::err);
        assert_eq!(refused.map(|failure| failure.error), None, "6 MiB fit into its memory");
        let begin = Instant::now();
        let refused = writer.close().unwrap_err();
        assert_eq!(refused.error, Error::NoSpace);
        assert!(begin.elapsed() < Duration::from_secs(15), "after {:?}", begin.elapsed());
        let told = refused.to_string();
        assert!(told.contains("datanodes are full") && told.contains("add a datanode"), "{told}");
        (0..DATANODES).for_each(|at| rack.disk(Who::Datanode(at)).relieve().unwrap());
        writer.write(", after").unwrap();
        assert!(writer.close().unwrap().is_some_and(|replicas| replicas >= 1));
        writer.close().unwrap();
        let all = [b"before, ", &while_full[..], b", after"].concat();
        let reader = rack.client.open(&superuser(), "/f").unwrap();
        assert_eq!(reader.read_at(0, all.len() + 9).unwrap(), all);
    });
}

#[test]
fn a_namenode_whose_disk_is_full_refuses_changes_until_there_is_room_and_serves_readers() {
    let small_disks = vec![(Who::Namenode, SMALL_LOG_DISK_BYTES)];
    let Some(mut rack) = Rack::start(&Shape { small_disks, ..Shape::default() }) else {
        return skip("a full disk of the namenode's log");
    };
    let load = begin(&rack);
    rack.disk(Who::Namenode).fill().unwrap();
    let late = rack.at_client(|| {
        let refused = (0..).find_map(|number| {
            rack.client.mkdirs(&superuser(), &format!("/directories/{number}"), 0o755).err()
        });
        assert_eq!(refused.map(|failure| failure.error), Some(Error::NoSpace));
        let read = load.closed().pop().unwrap();
        let reader = rack.client.open(&superuser(), &read.path).unwrap();
        assert_eq!(reader.read_at(0, read.length).unwrap().len(), read.length);
        let late = client_at(&rack.namenode.address);
        let reader = late.open(&superuser(), &read.path).unwrap();
        assert_eq!(reader.read_at(0, read.length).unwrap().len(), read.length);
        let refused = late.mkdirs(&superuser(), "/late", 0o755);
        assert_eq!(refused.map_err(|failure| failure.error), Err(Error::NoSpace));
        late
    });
    assert!(!rack.namenode.has_ended());
    rack.disk(Who::Namenode).relieve().unwrap();
    load.goes_on_for(FILES, DEADLINE);
    rack.at_client(|| late.mkdirs(&superuser(), "/late", 0o755)).unwrap();
    rack.namenode.kill_and_start();
    load.goes_on_for(FILES, DEADLINE);
    finish("the namenode's full disk", &rack, load, |failure| failure.contains("no space"));
}

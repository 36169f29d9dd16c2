//! Disks that lose power or are full. They take root.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use strait_testkit::{Format, ImageStore, PowerDisk, SmallDisk, skip};

fn write(path: &Path, bytes: &[u8]) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_disk_without_power_keeps_what_was_synced_and_nothing_else() {
    let Some(store) = ImageStore::new_or_skip(4 << 30, "a disk's power loss") else { return };
    for format in [Format::Ext4, Format::Xfs] {
        let mut disk = PowerDisk::new(&store, format, 320 << 20).unwrap();
        let root = disk.path();
        write(&root.join("synced"), b"all of it").sync_all().unwrap();
        let grown = write(&root.join("grown"), b"synced");
        grown.sync_all().unwrap();
        File::open(&root).unwrap().sync_all().unwrap();
        (&grown).write_all(b" and more").unwrap();
        write(&root.join("late"), b"not synced");
        fs::rename(root.join("synced"), root.join("renamed")).unwrap();
        let remains = disk.lose_power().unwrap();
        disk.restart(remains).unwrap();
        let read = |name: &str| fs::read(disk.path().join(name));
        assert_eq!(read("synced").unwrap(), b"all of it", "{format:?}");
        assert_eq!(read("grown").unwrap(), b"synced", "{format:?}");
        for name in ["late", "renamed"] {
            assert_eq!(read(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{format:?}: {name}");
        }
        // A second loss, with other bytes.
        write(&disk.path().join("second"), b"synced").sync_all().unwrap();
        let remains = disk.lose_power().unwrap();
        disk.restart(remains).unwrap();
        assert_eq!(fs::read(disk.path().join("second")).unwrap(), b"synced");
        disk.fill().unwrap();
        let refused = fs::write(disk.path().join("more"), [1; 10_000]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        disk.relieve().unwrap();
        fs::write(disk.path().join("more"), [1; 10_000]).unwrap();
    }
}

#[test]
fn what_is_written_to_a_full_disk_is_refused_until_there_is_room_again() {
    if !rustix::process::geteuid().is_root() {
        return skip("a full disk", "root");
    }
    let disk = SmallDisk::new(4 << 20).unwrap();
    let file = disk.path().join("file");
    disk.fill().unwrap();
    let refused = fs::write(&file, [1; 10_000]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    disk.relieve().unwrap();
    fs::write(&file, [1; 10_000]).unwrap();
    let elsewhere = Command::new("wc").arg("-c").arg(&file).output().unwrap();
    assert!(elsewhere.stdout.starts_with(b"10000 "), "{elsewhere:?}");
}

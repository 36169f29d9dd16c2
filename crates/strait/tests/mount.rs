//! `strait mount`, used by programs of this host that know nothing of it. Only root may mount here.

use crate::support::mounted::{Mounted, is_mounted};
use crate::support::{self, Gateway, Run, ended, fresh};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use strait_testkit::wait::wait_until;
use strait_testkit::{MiniHdfs, OBJECT_BUCKET, ObjectServer, skip};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);
const EXIST: i32 = 17;
const UNSUPPORTED: i32 = 95;

fn files(claim: &str, flags: &[&str]) -> Option<(TempDir, Mounted)> {
    let data = tempfile::tempdir().unwrap();
    let mounted = Mounted::of(claim, &format!("file://{}", data.path().display()), flags)?;
    Some((data, mounted))
}

/// Bytes that no two places share.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

#[test]
fn unmodified_programs_work_in_a_mounted_store() {
    let Some((data, mounted)) = files("programs in a mount", &[]) else { return };
    let bytes = content(3_000_000);
    fs::write(data.path().join("source"), &bytes).unwrap();
    mounted.shell(
        "cp source copy; cmp source copy
         dd if=source of=parts bs=4k status=none; cmp source parts
         cat source source > twice; test $(stat -c %s twice) = 6000000
         mkdir -p tree/a/b; cp source tree/a/b; echo one > tree/one; echo two >> tree/one
         tar cf tree.tar tree; mkdir out; tar xf tree.tar -C out; diff -r tree out/tree
         mv tree moved; test ! -e tree; diff -r moved out/tree
         echo text > edited; cp edited edited~; echo more > .new; mv .new edited; grep -q more edited
         chmod 640 edited; test $(stat -c %a edited) = 640
         touch -d 2001-02-03T04:05:06Z edited; test $(date -u -r edited +%F) = 2001-02-03
         truncate -s 5 copy; cmp -n 5 source copy; test $(stat -c %s copy) = 5
         python3 -c 'import os; f = os.open(\"long\", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 47); os.pwrite(f, b\"x\" * 9, 0)'
         test \"$(tr -d '\\0' < long)\" = xxxxxxxxx; test $(stat -c %s long) = 47
         python3 -c '
import os
for name in (\"x\", \"x.ckpt\"):
    os.makedirs(\"r/s\")
    held = open(\"r/s/\" + name, \"w\")
    os.unlink(held.name); os.rmdir(\"r/s\"); os.rmdir(\"r\")
    held.write(\"more\"); held.close()
for n in range(30):
    os.mkdir(\"d\")
    with open(\"d/f\", \"w\") as file: os.unlink(\"d/f\")
    os.rmdir(\"d\")
import threading
for n in range(20):
    os.mkdir(\"e\")
    held = [open(\"e/%d\" % at, \"w\") for at in range(8)]
    for file in held: os.unlink(file.name)
    closing = threading.Thread(target=lambda: [file.close() for file in held])
    closing.start(); os.rmdir(\"e\"); closing.join()
os.sync()'
         test -z \"$(ls -A | grep strait-removed)\"
         python3 -c 'import json; json.dump({\"a\": 1}, open(\"j\", \"w\")); assert json.load(open(\"j\"))[\"a\"] == 1'
         rm -r moved out; ls > /dev/null; df . > /dev/null",
    );
    assert!(fs::read(data.path().join("parts")).unwrap() == bytes);
    assert_eq!(fs::read_to_string(data.path().join("edited")).unwrap(), "more\n");
    mounted.umount();
}

#[test]
fn git_clones_into_a_mounted_store_and_commits_there() {
    let Some((_data, mounted)) = files("git in a mount", &[]) else { return };
    mounted.shell(
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
         git init -q origin; cd origin; for n in 1 2 3; do seq $n 20000 > $n; git add $n; git commit -qm $n; done
         cd ..; git clone -q file://$PWD/origin clone; cd clone; git fsck --strict --no-progress
         echo x >> 1; git commit -qam x; git gc -q; git log --oneline | wc -l | grep -qx 4; git status --short",
    );
}

#[test]
fn plain_files_are_written_at_their_end_only() {
    let Some((data, mounted)) = files("writes of plain files", &[]) else { return };
    let path = mounted.path("f");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(&content(2_500_000)).unwrap();
    // A file that is being written can be read, by this descriptor and by others.
    assert_eq!(file.metadata().unwrap().len(), 2_500_000);
    let mut read = vec![0; 2_500_000];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == content(2_500_000));
    assert!(fs::read(&path).unwrap() == read);
    let error = file.write_at(b"late", 10).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(UNSUPPORTED), "{error}");
    file.sync_all().unwrap();
    assert!(fs::read(data.path().join("f")).unwrap() == read);
    assert!(mounted.process.log_tail().contains("--plfs"), "{}", mounted.process.log_tail());
    // Beyond the end there are zeros.
    file.write_at(b"end", 2_500_100).unwrap();
    drop(file);
    let mut longer = read.clone();
    longer.extend([0; 100]);
    longer.extend(b"end");
    assert!(fs::read(&path).unwrap() == longer);
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    appended.write_all(b"+").unwrap();
    drop(appended);
    assert_eq!(fs::metadata(data.path().join("f")).unwrap().len(), longer.len() as u64 + 1);
    fs::write(&path, b"again, from the begin").unwrap();
    assert_eq!(fs::read(data.path().join("f")).unwrap(), b"again, from the begin");
}

#[test]
fn a_reader_sees_what_another_program_appends_to_a_file_of_hdfs() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return skip("a reader of a growing file of HDFS", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let uri = format!("{}{}", hdfs.uri(), hdfs.scratch("growing"));
    let home = tempfile::tempdir().unwrap();
    let mut make = support::command(home.path());
    make.args(["mkdir", &uri]);
    Run::of(make, b"").ok();
    let Some(mounted) = Mounted::of("a reader of a growing file of HDFS", &uri, &[]) else { return };
    let path = mounted.path("log");
    fs::write(&path, "one ").unwrap();
    let mut reader = File::open(&path).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    for word in ["two ", "three"] {
        OpenOptions::new().append(true).open(&path).unwrap().write_all(word.as_bytes()).unwrap();
        reader.read_to_string(&mut text).unwrap();
    }
    assert_eq!(text, "one two three");
    drop(reader);
    mounted.umount();
}

#[test]
fn names_behave_as_the_kernel_expects() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let Some((data, mounted)) = files("names in a mount", &[]) else { return };
    let (one, two) = (mounted.path("one"), mounted.path("two"));
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    let error = renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE).unwrap_err();
    assert_eq!(error, rustix::io::Errno::EXIST);
    let again = OpenOptions::new().write(true).create_new(true).open(&one).unwrap_err();
    assert_eq!(again.raw_os_error(), Some(EXIST));
    // A removed or replaced file lives until its last descriptor is closed.
    let mut removed = File::open(&one).unwrap();
    fs::remove_file(&one).unwrap();
    let mut text = String::new();
    removed.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), removed.metadata().unwrap().nlink()), ("1", 0));
    drop(removed);
    // An open file is written under its new name.
    let mut renamed = OpenOptions::new().append(true).open(&two).unwrap();
    renamed.write_all(b" and").unwrap();
    fs::rename(&two, mounted.path("three")).unwrap();
    renamed.write_all(b" more").unwrap();
    drop(renamed);
    assert_eq!(fs::read_to_string(data.path().join("three")).unwrap(), "2 and more");
    wait_until(DEADLINE, || fs::read_dir(data.path()).unwrap().count() == 1);
    let odd = mounted.path(&format!("{}\u{fc} \n", "x".repeat(200)));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&odd).unwrap();
    assert_eq!(fs::metadata(&odd).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(File::create(mounted.path(&"x".repeat(256))).unwrap_err().raw_os_error(), Some(36));
    let wide = mounted.path("wide");
    fs::create_dir(&wide).unwrap();
    for number in 0..1_500 {
        File::create(data.path().join(format!("wide/{number}"))).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(&wide).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1_500);
    assert_eq!(fs::remove_dir(&wide).unwrap_err().raw_os_error(), Some(39));
}

#[test]
fn plfs_files_are_written_anywhere_by_many_programs() {
    let Some((data, mounted)) = files("PLFS in a mount", &["--plfs", "*.ckpt", "--plfs", "*.ckpt-journal"])
    else {
        return;
    };
    let path = mounted.path("n.ckpt");
    let bytes = content(1_000_000);
    File::create(&path).unwrap();
    // Four programs write strided pieces.
    let programs: Vec<_> = (0..4_usize)
        .map(|rank| {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            let bytes = bytes.clone();
            std::thread::spawn(move || {
                for piece in (rank..100).step_by(4) {
                    let range = piece * 10_000..(piece + 1) * 10_000;
                    file.write_all_at(&bytes[range.clone()], range.start as u64).unwrap();
                }
            })
        })
        .collect();
    programs.into_iter().for_each(|program| program.join().unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
    assert!(fs::read(&path).unwrap() == bytes);
    assert!(data.path().join("n.ckpt/.plfs").exists(), "a container");
    // Any program changes it in place.
    mounted.shell(
        "printf XYZ | dd of=n.ckpt bs=1 seek=500 conv=notrunc status=none
         cp n.ckpt plain; cmp plain n.ckpt; truncate -s 600 n.ckpt; test $(stat -c %s n.ckpt) = 600
         truncate -s 700 n.ckpt; mv n.ckpt m.ckpt; cp plain n.ckpt; mv n.ckpt m.ckpt; cmp plain m.ckpt
         chmod 600 m.ckpt; test $(stat -c %a m.ckpt) = 600; touch -d 2001-02-03Z m.ckpt
         test $(date -u -r m.ckpt +%F) = 2001-02-03
         sqlite3 db.ckpt 'create table t(x); insert into t values(1),(2); update t set x = x + 1'
         test $(sqlite3 db.ckpt 'select sum(x) from t') = 5
         rm m.ckpt; test ! -e m.ckpt",
    );
    assert!(!data.path().join("m.ckpt").exists());
    let mut options = OpenOptions::new();
    let open = options.read(true).write(true).create_new(true).open(mounted.path("gone.ckpt")).unwrap();
    open.write_all_at(b"abc", 5).unwrap();
    fs::remove_file(mounted.path("gone.ckpt")).unwrap();
    let mut read = [1; 8];
    open.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"\0\0\0\0\0abc");
}

#[test]
fn plfs_files_live_on_an_object_store() {
    let claim = "PLFS in a mount of a bucket";
    let Some(server) = ObjectServer::moto().unwrap() else { return skip(claim, "moto in .venv-s3") };
    let uri = format!("s3://{OBJECT_BUCKET}/");
    let environment: [(&str, &Path); 2] =
        [("AWS_ACCESS_KEY_ID", Path::new("strait")), ("AWS_SECRET_ACCESS_KEY", Path::new("strait-secret"))];
    let flags = ["--plfs", "*.ckpt", "--endpoint-url", &server.url()];
    let Some(mounted) = Mounted::within(&environment, claim, &uri, &flags) else { return };
    mounted.shell(
        ": > n.ckpt; test $(stat -c %s n.ckpt) = 0; test $(date -r n.ckpt +%Y) -gt 2000
         for rank in 0 1 2; do
             printf %4s $rank | dd of=n.ckpt bs=4 seek=$rank conv=notrunc,fsync status=none &
         done; wait
         test \"$(cat n.ckpt)\" = '   0   1   2'
         printf X | dd of=n.ckpt bs=1 seek=1 conv=notrunc status=none; printf end >> n.ckpt
         test \"$(cat n.ckpt)\" = ' X 0   1   2end'
         truncate -s 6 n.ckpt; mkdir d; mv n.ckpt d/m.ckpt; test \"$(cat d/m.ckpt)\" = ' X 0  '
         test \"$(ls d)\" = m.ckpt; rm d/m.ckpt; test ! -e d/m.ckpt",
    );
    mounted.umount();
}

#[test]
fn open_files_survive_a_restarted_gateway() {
    let mut gateway = Gateway::over_files();
    let flags = ["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let claim = "a gateway restarts under a mount";
    let Some(mounted) = Mounted::of(claim, &gateway.uri("/"), &["--plfs", "*.ckpt", "--soft", "10"]) else {
        return;
    };
    let bytes = content(6_000_000);
    fs::write(gateway.data().join("before"), &bytes).unwrap();
    let reader = File::open(mounted.path("before")).unwrap();
    let mut first = vec![0; 1_000];
    reader.read_exact_at(&mut first, 0).unwrap();
    let mut writer = File::create(mounted.path("plain")).unwrap();
    writer.write_all(&bytes[..3_000_000]).unwrap();
    let logical = File::create(mounted.path("l.ckpt")).unwrap();
    logical.write_all_at(&bytes[3_000_000..], 3_000_000).unwrap();
    // The new process closes its copies of the descriptors as it begins, while no gateway answers:
    // that fails, and loses nothing.
    gateway.replace(&flags);
    writer.write_all(&bytes[3_000_000..]).unwrap();
    writer.sync_all().unwrap();
    logical.write_all_at(&bytes[..3_000_000], 0).unwrap();
    logical.sync_all().unwrap();
    let mut rest = vec![0; 1_000_000];
    reader.read_exact_at(&mut rest, 5_000_000).unwrap();
    assert!(rest == bytes[5_000_000..]);
    drop(writer);
    assert!(fs::read(gateway.data().join("plain")).unwrap() == bytes);
    assert!(fs::read(mounted.path("l.ckpt")).unwrap() == bytes);
}

#[test]
fn a_store_that_stays_away_times_out_and_a_killed_mount_is_replaced() {
    let mut gateway = Gateway::over_files();
    fs::write(gateway.data().join("f"), "text").unwrap();
    let claim = "a store that is away";
    let uri = gateway.uri("/");
    let Some(mut mounted) = Mounted::of(claim, &uri, &["--soft", "2", "--attr-cache", "0"]) else { return };
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "text");
    gateway.process.kill();
    let error = fs::read_to_string(mounted.path("f")).unwrap_err();
    assert!([110, 113].contains(&error.raw_os_error().unwrap()), "{error}");
    mounted.process.kill();
    assert_eq!(fs::metadata(&mounted.place).unwrap_err().raw_os_error(), Some(107), "not connected");
    let data = format!("file://{}", gateway.data().display());
    let mut command = support::command(gateway.dir.path());
    command.args(["mount", "--daemon", &data]).arg(&mounted.place);
    Run::of(command, b"").ok();
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "text");
    // A second mount on the same place is refused.
    let mut command = support::command(gateway.dir.path());
    command.args(["mount", &data]).arg(&mounted.place);
    Run::of(command, b"").fails(19, "umount");
}

#[test]
fn signals_unmount_and_mistakes_are_told() {
    let Some((data, mut mounted)) = files("ending a mount", &[]) else { return };
    let mut open = File::create(mounted.path("open")).unwrap();
    open.write_all(b"written").unwrap();
    // In use: it is detached after some seconds, and its bytes are in the store.
    mounted.process.signal(rustix::process::Signal::TERM);
    assert_eq!(ended(&mut mounted.process), 0, "{}", mounted.process.log_tail());
    assert!(!is_mounted(&mounted.place));
    assert_eq!(fs::read(data.path().join("open")).unwrap(), b"written");

    let home = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let run = |arguments: &[&str]| {
        let mut command = support::command(home.path());
        command.arg("mount").args(arguments);
        Run::of(command, b"")
    };
    let nowhere = home.path().join("nowhere");
    run(&[&uri, nowhere.to_str().unwrap()]).fails(10, "create the directory first");
    let place = fresh(home.path(), "place");
    let place = place.to_str().unwrap();
    run(&["--allow-other", &uri, place]).fails(2, "acts for one user");
    run(&[&format!("{uri}/open"), place]).fails(12, "not a directory");
    run(&["--plfs", "[", &uri, place]).fails(2, "--plfs");
    run(&["--daemon", &format!("{uri}/missing"), place]).fails(10, "/missing");
}

//! The directory that a store is mounted on: mounting, dead mounts, unmounting.

use nix::unistd::geteuid;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Read-ahead of buffered streams, 8 MiB. With the kernel's default, requests of 128 KiB would follow one
/// after the other. Eight requests of 1 MiB hide a store's round trips.
const READ_AHEAD_KB: u32 = 8 << 10;
/// How long to try a plain unmount of a mount in use, before it is detached.
pub const IN_USE: Duration = Duration::from_secs(5);

/// How to mount.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source that mount(8) and df(1) show.
    pub source: String,
    /// Let all users of this host use the mount.
    pub allow_other: bool,
    /// Refuse changes.
    pub read_only: bool,
}

/// Checks the directory, and removes a dead mount, whose process has ended.
///
/// # Errors
/// It isn't a directory, or another FUSE mount is on it.
pub fn prepare(directory: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(directory) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            tracing::info!("{}: removing an earlier mount, whose process has ended", directory.display());
            unmount(directory, true)?;
        }
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let directory = directory.canonicalize()?;
    let metadata = directory.metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let shown = escaped(&directory);
    if let Some(kind) = mounts.lines().find_map(|line| fuse_mounted_at(line, &shown)) {
        let message = format!("{kind} is mounted there already; run `umount {}` first", directory.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    Ok(directory)
}

/// The directory with links resolved, and the device number of Strait's mount on it.
///
/// # Errors
/// There is no such mount.
pub fn served(directory: &Path) -> io::Result<(PathBuf, String)> {
    let directory = directory.canonicalize()?;
    match device(&directory)? {
        Some(number) => Ok((directory, number)),
        None => {
            let why = "no Strait store is mounted there; mount without --take-over";
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
    }
}

/// The device number of Strait's mount on a directory (with links resolved). No two mounts of a host share
/// one.
pub fn device(directory: &Path) -> io::Result<Option<String>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let shown = escaped(directory);
    let of_strait = |line: &&str| fuse_mounted_at(line, &shown) == Some("fuse.strait");
    // The last mount in the list is on top.
    let line = mounts.lines().rfind(of_strait);
    Ok(line.and_then(|line| line.split(' ').nth(2)).map(str::to_owned))
}

/// If the working directory is in the mount with this device number, changes it to `/`. A process that serves
/// a mount and uses it waits for itself.
///
/// # Errors
/// A descriptor that this process inherited, or its program file, is in the mount.
pub fn leave(number: &str) -> io::Result<()> {
    let is_within = |path: &Path| {
        let status = rustix::fs::stat(path);
        let device = status.map(|it| (rustix::fs::major(it.st_dev), rustix::fs::minor(it.st_dev)));
        device.is_ok_and(|(major, minor)| format!("{major}:{minor}") == number)
    };
    let refuse = |what: String| {
        let why = format!("{what} of the new process is in the mount; start the process without it");
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        if is_within(&entry.path()) {
            return refuse(format!("descriptor {}", entry.file_name().display()));
        }
    }
    if is_within(Path::new("/proc/self/exe")) {
        return refuse("the program".to_owned());
    }
    if is_within(Path::new(".")) {
        std::env::set_current_dir("/")?;
    }
    Ok(())
}

/// The type of the file system in a line of mountinfo, if the line is about `place` and FUSE serves it
/// (proc(5)).
fn fuse_mounted_at<'a>(line: &'a str, place: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(" - ")?;
    let kind = after.split(' ').next()?;
    (before.split(' ').nth(4)? == place && kind.starts_with("fuse")).then_some(kind)
}

/// A path as mountinfo writes it.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.push_str(&format!("\\{byte:03o}")),
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

/// Mounts with mount(2), as root. The mount ends when the descriptor is closed.
pub fn mount(directory: &Path, options: &Options) -> io::Result<OwnedFd> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("/dev/fuse: {error}")))?;
    let (uid, gid) = (geteuid(), nix::unistd::getegid());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", device.as_raw_fd());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    let source = options.source.replace('\0', "");
    let data = CString::new(data)?;
    rustix::mount::mount(source.as_str(), directory, "fuse.strait", flags, Some(data.as_c_str()))?;
    Ok(device)
}

/// Options for fuser, which mounts with fusermount3(1) for users other than root.
pub fn for_fusermount(options: &Options) -> Vec<fuser::MountOption> {
    use fuser::MountOption;
    let mut all = vec![
        MountOption::FSName(options.source.replace([',', '\0'], "_")),
        MountOption::Subtype("strait".to_owned()),
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if options.read_only {
        all.push(MountOption::RO);
    }
    all
}

/// Unmounts. With `detach`, also unmounts a mount in use: its open files fail with ENOTCONN once its process
/// ends.
pub fn unmount(directory: &Path, detach: bool) -> io::Result<()> {
    if geteuid().is_root() {
        let flags = if detach { UnmountFlags::DETACH } else { UnmountFlags::NOFOLLOW };
        return Ok(rustix::mount::unmount(directory, flags)?);
    }
    let mut command = Command::new("fusermount3");
    command.arg(if detach { "-uzq" } else { "-uq" }).arg("--").arg(directory);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(io::ErrorKind::ResourceBusy.into()),
        Err(error) => Err(io::Error::new(error.kind(), format!("fusermount3: {error}"))),
    }
}

/// Raises the read-ahead of buffered streams. Returns whether the kernel accepted that. If not, streams are
/// slower.
pub fn raise_read_ahead(directory: &Path) -> bool {
    let Ok(status) = rustix::fs::stat(directory) else { return false };
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(file, READ_AHEAD_KB.to_string()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_whatever_their_directories_are_called() {
        let line = r"29 1 0:30 / /mnt/a\040b rw,nosuid shared:1 - fuse.strait strait://h:9090/ rw,user_id=0";
        assert_eq!(fuse_mounted_at(line, &escaped(Path::new("/mnt/a b"))), Some("fuse.strait"));
        assert_eq!(fuse_mounted_at(line, "/mnt"), None);
        let other = "30 1 8:1 / /mnt rw - ext4 /dev/sda1 rw";
        assert_eq!(fuse_mounted_at(other, "/mnt"), None);
    }
}

//! Syncs of directories.

use std::{fs::File, io, path::Path};

/// Syncs the parent directory of a file or directory, so that the entry's name is on disk. Does nothing if
/// this user has no right to read the parent, or if the parent can't be synced: it is on a read-only file
/// system, or not on a disk.
///
/// # Errors
/// The system call fails, apart from these cases.
pub fn sync_name(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let above = path.parent().filter(|above| !is_here(above)).unwrap_or(Path::new("."));
    match File::open(above).and_then(|above| above.sync_all()) {
        Err(error)
            if matches!(error.kind(), PermissionDenied | InvalidInput | ReadOnlyFilesystem | Unsupported) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Whether the path is empty. The parent of a relative path with one name is such a path.
fn is_here(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_may_stand_where_no_name_can_be_put_on_disk() {
        let error = File::open("/proc").unwrap().sync_all().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        sync_name(Path::new("/proc/self")).unwrap();
    }
}

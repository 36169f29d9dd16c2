//! A server's files with secrets: its keys.

use crate::failure::Failure;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file `path`; `what` names it in errors.
///
/// # Errors
/// It can't be opened, isn't a regular file, can be read by others, or belongs to a user who is neither this
/// process's nor root: such a user knows the secret.
pub fn open(path: &Path, what: &str) -> Result<File, Failure> {
    let failed = |error| Failure::local(error, "open", path);
    // If it is a FIFO, opening it doesn't wait for a writer.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let shown = path.display();
    let refused = |why: String| Err(Failure::other(format!("{what} {shown}: {why}")));
    if !metadata.is_file() {
        return refused("not a regular file".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        return refused(format!("others can read it; run `chmod 600 {shown}`"));
    }
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        let why = "it belongs to another user, who knows it";
        return refused(format!(
            "{why} (user id {owner}; this process has {own}): make a new one, or chown it"
        ));
    }
    Ok(file)
}

//! `passwd`.

use crate::cli::Passwd;
use crate::failure::Failure;
use crate::password;
use strait_gateway::PasswordFile;

/// Sets a user's password in a gateway's file, or takes the user out of it.
pub fn passwd(passwd: Passwd) -> Result<(), Failure> {
    if passwd.remove {
        return PasswordFile::remove(&passwd.file, &passwd.user).map_err(Failure::other);
    }
    let password = password::new_one(&passwd.user)?;
    PasswordFile::set(&passwd.file, &passwd.user, &password.0).map_err(Failure::other)
}

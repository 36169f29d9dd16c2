//! `passwd`.

use crate::cli::Passwd;
use crate::failure::Failure;
use crate::password;
use strait_gateway::PasswordFile;

/// Sets a user's password in a gateway's file.
pub fn passwd(passwd: Passwd) -> Result<(), Failure> {
    let password = password::new_one(&passwd.user)?;
    PasswordFile::set(&passwd.file, &passwd.user, &password.0).map_err(Failure::other)
}

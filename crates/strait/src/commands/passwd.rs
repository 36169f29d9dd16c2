//! `passwd`.

use crate::cli::Passwd;
use crate::failure::Failure;
use crate::password;
use strait_gateway::PasswordFile;
use strait_store::ErrorKind;

/// Sets a user's password in the password file of a gateway or namenode, or removes the user from it.
pub fn passwd(passwd: Passwd) -> Result<(), Failure> {
    if passwd.remove {
        let users = PasswordFile::users(&passwd.file).map_err(Failure::other)?;
        if !users.contains(&passwd.user) {
            let why = format!("it has no user {}", passwd.user);
            return Err(Failure::at(ErrorKind::NotFound, "passwd", passwd.file.display(), why));
        }
        return PasswordFile::remove(&passwd.file, &passwd.user).map_err(Failure::other);
    }
    let password = password::new_one(&passwd.user)?;
    PasswordFile::set(&passwd.file, &passwd.user, &password.0).map_err(Failure::other)
}

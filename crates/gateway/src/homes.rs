//! A home directory for each user who logs in. The operator owns the store's root, so
//! without a home other users couldn't create anything.

use std::sync::Arc;
use strait_store::{ErrorKind, FileSystem, Principal, Result, SetAttributes, StorePath};

/// The directory of homes, as in HDFS. A 2009 program's relative paths begin in its user's home.
pub const HOMES: &str = "/user";
/// Only its owner can list a home, unless the owner changes this.
const HOME_PERMISSION: u32 = 0o700;
/// Users can list the names of all homes, but can't make a home.
const HOMES_PERMISSION: u32 = 0o755;

/// Makes `/user/NAME` when NAME logs in and has none.
#[derive(Clone)]
pub struct Homes {
    /// The store.
    pub fs: Arc<dyn FileSystem>,
    /// The user who may change a directory's owner there.
    pub superuser: Principal,
}

impl Homes {
    /// Makes a user's home, unless there is one. The home gets its name after its owner
    /// is set, so a crash leaves no home that would keep the user out.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn make(&self, user: &str) -> Result<()> {
        let homes = StorePath::parse(HOMES)?;
        let home = homes.join(user)?;
        if self.is_there(&home).await? {
            return Ok(());
        }
        let (fs, who) = (&self.fs, &self.superuser);
        fs.mkdirs(who, &homes, Some(HOMES_PERMISSION)).await?;
        // Each attempt uses the same name, so that the next attempt uses a directory that a crash left.
        let unfinished = homes.join(&format!(".new-home-of-{user}"))?;
        fs.mkdirs(who, &unfinished, Some(HOME_PERMISSION)).await?;
        let owner = Some(user.to_owned());
        let given = SetAttributes { owner, permission: Some(HOME_PERMISSION), ..SetAttributes::default() };
        let made = async {
            fs.set_attributes(who, &unfinished, &given).await?;
            fs.rename(who, &unfinished, &home, false).await
        };
        match made.await {
            // Another login of the same user was faster.
            Err(_) if self.is_there(&home).await? => Ok(()),
            made => made,
        }
    }

    async fn is_there(&self, path: &StorePath) -> Result<bool> {
        match self.fs.stat(&self.superuser, path).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.at("look for the home", path)),
        }
    }
}

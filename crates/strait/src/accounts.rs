//! The users that may log in at a namenode: those in a password file. Their groups are this host's.

use crate::failure::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strait_gateway::PasswordFile;
use strait_kadoop_server::Accounts;
use strait_kadoop_wire::Epoch;
use strait_store_kadoop::Callers;

/// Time between two checks whether the file changed. After a password is changed or removed, its user's older
/// credentials fail within seconds.
const LOOK: Duration = Duration::from_secs(1);

/// The users in the current password file.
pub struct Users {
    file: PasswordFile,
    groups: Callers,
}

impl Users {
    /// Reads the file at `path`. A thread rereads it after each change, until the returned value is dropped.
    pub fn watch(path: &Path) -> Result<Arc<Self>, Failure> {
        let file = PasswordFile::load(path).map_err(Failure::other)?;
        let users = Arc::new(Self { file, groups: Callers::default() });
        let watched = Arc::downgrade(&users);
        let look = move || {
            while let Some(users) = watched.upgrade() {
                users.look();
                drop(users);
                std::thread::sleep(LOOK);
            }
        };
        let spawned = std::thread::Builder::new().name("passwords".to_owned()).spawn(look);
        spawned
            .map_err(|error| Failure::other(format!("can't start the password file's thread: {error}")))?;
        Ok(users)
    }

    fn look(&self) {
        match self.file.reload_if_changed() {
            Ok(true) => tracing::info!("reread the password file"),
            Ok(false) => {}
            Err(problem) => {
                tracing::error!(problem, "rejected the changed password file; the old one stays in force");
            }
        }
    }
}

impl Accounts for Users {
    fn log_in(&self, user: &str, password: &str) -> Option<Epoch> {
        self.file.verify(user, password).map(|epoch| epoch.0)
    }

    fn epoch(&self, user: &str) -> Option<Epoch> {
        self.file.epoch(user).map(|epoch| epoch.0)
    }

    fn groups(&self, user: &str) -> Vec<String> {
        self.groups.groups(user)
    }
}

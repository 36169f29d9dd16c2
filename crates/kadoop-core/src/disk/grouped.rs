//! Group commit of a directory's names: one sync serves all threads that made their changes before
//! the sync began.

use super::Disk;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// A directory whose users share the syncs of names. Clones stand for the same directory.
#[derive(Debug, Clone)]
pub struct Grouped<D> {
    disk: D,
    names: Arc<Names>,
}

#[derive(Debug, Default)]
struct Names {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of syncs that have begun, and of syncs that have ended.
    begun: u64,
    ended: u64,
    /// Number of the latest sync that failed.
    failed: u64,
    /// Whether a sync has failed since the last [`Grouped::settle`]. All further syncs fail then.
    unsettled: bool,
    /// Threads that wait for a running sync.
    waiting: usize,
}

impl<D> Grouped<D> {
    /// Groups the syncs of `disk`. No other code must sync the names of `disk`.
    pub fn new(disk: D) -> Self {
        Self { disk, names: Arc::default() }
    }

    /// The directory itself.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Allows syncs again after one has failed. A later sync may succeed without the names that the
    /// failed one lost, so the caller must no longer rely on those names.
    pub fn settle(&self) {
        self.names.state().unsettled = false;
    }
}

impl Names {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        // A sync that already runs may miss the caller's names, so the caller needs the next one.
        let needed = state.begun + 1;
        while state.begun != state.ended && state.ended < needed {
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        let mut done = Ok(());
        if state.ended < needed && !state.unsettled {
            state.begun += 1;
            let number = state.begun;
            drop(state);
            done = sync();
            state = self.state();
            state.ended = number;
            if done.is_err() {
                (state.failed, state.unsettled) = (number, true);
            }
            drop(state);
            self.changed.notify_all();
            return done;
        }
        if state.unsettled || state.failed >= needed {
            done = Err(io::Error::other("a sync of the directory failed"));
        }
        done
    }
}

impl<D: Disk> Disk for Grouped<D> {
    type File = D::File;

    fn create(&self, name: &str) -> io::Result<D::File> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<D::File> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    /// As [`Disk::sync_names`]. After a failure, every call fails until [`Grouped::settle`].
    fn sync_names(&self) -> io::Result<()> {
        self.names.sync(|| self.disk.sync_names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    #[test]
    fn threads_share_the_sync_that_begins_after_their_changes() {
        const WAITING: usize = 8;
        let (names, syncs) = (Names::default(), AtomicUsize::new(0));
        let (go, until) = mpsc::channel::<()>();
        let until = Mutex::new(until);
        let counted = || {
            syncs.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                names.sync(|| {
                    until.lock().unwrap().recv().unwrap();
                    Ok(())
                })
            });
            while names.state().begun == 0 {
                thread::yield_now();
            }
            // These threads make their changes after the first sync has begun.
            let waiting: Vec<_> = (0..WAITING).map(|_| scope.spawn(|| names.sync(counted))).collect();
            while names.state().waiting < WAITING {
                thread::yield_now();
            }
            assert_eq!(syncs.load(Ordering::SeqCst), 0);
            go.send(()).unwrap();
            waiting.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert_eq!(syncs.into_inner(), 1);
    }

    #[test]
    fn after_a_failure_no_sync_succeeds_before_its_names_are_given_up() {
        let names = Names::default();
        assert!(names.sync(|| Err(io::ErrorKind::Other.into())).is_err());
        assert!(names.sync(|| Ok(())).is_err());
        names.state().unsettled = false;
        assert!(names.sync(|| Ok(())).is_ok());
    }
}

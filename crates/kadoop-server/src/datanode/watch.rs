//! Checks one data directory in a separate thread. If its disk hangs instead of failing, only that thread
//! blocks.

use super::space::Space;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

/// A directory's latest known state. After a drop, its thread ends as soon as its disk operation ends. No
/// other thread waits for that.
pub(super) struct Watch {
    asks: mpsc::Sender<bool>,
    answers: mpsc::Receiver<io::Result<()>>,
    /// When the pending check began.
    asked: Option<Instant>,
    /// A caller met an error since the last check began.
    suspicious: bool,
    /// Space found by the last finished check.
    space: Arc<Mutex<Space>>,
}

impl Watch {
    /// Begins to watch a directory, whose space is now `space`. `look` returns the current space and, if
    /// its argument is true, tests whether the directory works.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        space: Space,
        mut look: impl FnMut(bool) -> io::Result<Space> + Send + 'static,
    ) -> io::Result<Self> {
        let (asks, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let space = Arc::new(Mutex::new(space));
        let seen = Arc::clone(&space);
        thread::Builder::new().name("kadoop-disk".to_owned()).spawn(move || {
            while let Ok(suspicious) = asked.recv() {
                let found = look(suspicious);
                let found = found.map(|space| *seen.lock().unwrap_or_else(PoisonError::into_inner) = space);
                if answer.send(found).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { asks, answers, asked: None, suspicious: false, space })
    }

    /// Space found by the last finished check.
    pub(super) fn space(&self) -> Space {
        *self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result of the pending check and begins the next, without waiting. If the pending check
    /// still runs, no new one begins. With `suspicious`, the next check also tests the directory.
    ///
    /// # Errors
    /// The directory doesn't work, or hasn't answered for `patience`.
    pub(super) fn tick(&mut self, suspicious: bool, patience: Duration) -> io::Result<()> {
        self.suspicious |= suspicious;
        if let Some(since) = self.asked {
            match self.answers.try_recv() {
                Ok(found) => found?,
                Err(TryRecvError::Empty) if since.elapsed() < patience => return Ok(()),
                Err(TryRecvError::Empty) => return Err(io::ErrorKind::TimedOut.into()),
                Err(TryRecvError::Disconnected) => return Err(panicked()),
            }
        }
        self.asks.send(std::mem::take(&mut self.suspicious)).map_err(|_| panicked())?;
        self.asked = Some(Instant::now());
        Ok(())
    }
}

fn panicked() -> io::Error {
    io::Error::other("the thread that watches the directory panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use strait_testkit::wait::eventually;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn room(available: u64) -> Space {
        Space { capacity: 100, available }
    }

    #[test]
    fn what_a_look_finds_is_known_at_the_next_tick() {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        let mut watch = Watch::start(room(50), |suspicious| {
            LOOKS.fetch_add(1, Ordering::SeqCst);
            if suspicious { Err(io::ErrorKind::NotFound.into()) } else { Ok(room(40)) }
        })
        .unwrap();
        assert_eq!(watch.space().available, 50);
        eventually("it was looked at", || {
            watch.tick(false, PATIENCE).unwrap();
            watch.space().available == 40
        });
        // While a check runs, no other begins, but the request for a test is remembered.
        watch.tick(true, PATIENCE).unwrap();
        eventually("it was tried", || watch.tick(false, PATIENCE).is_err());
    }

    #[test]
    fn a_directory_that_hangs_is_waited_for_by_nobody_and_given_up_in_the_end() {
        let (end, until) = mpsc::channel::<()>();
        let mut watch = Watch::start(room(50), move |_| {
            let _ = until.recv();
            Ok(room(40))
        })
        .unwrap();
        for _ in 0..3 {
            watch.tick(true, PATIENCE).unwrap();
            assert_eq!(watch.space().available, 50);
        }
        let error = watch.tick(false, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(end);
    }
}

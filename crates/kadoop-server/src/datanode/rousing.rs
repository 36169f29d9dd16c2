//! A call at the namenode that ends when there are orders for this datanode, or with the namenode:
//! then a heartbeat goes out at once. Without it, both would wait for the next heartbeat.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, Transport};
use strait_kadoop_core::{Identity, error::Error};
use strait_kadoop_wire::{failure::Lost, stop::Stop, wire::KadoopClusterV1Client};

/// How long a watch may take: longer than a namenode leaves one unanswered.
const PATIENCE: Duration = Duration::from_secs(30);
/// Least time between the beginnings of two watches, however soon the first one fails.
const APART: Duration = Duration::from_secs(1);
/// Pause if the namenode is older and knows no watches, or has too many.
const LATER: Duration = Duration::from_secs(30);
/// Pause without a session. A new session ends it.
const IDLE: Duration = Duration::from_secs(60);

/// The session whose orders are watched for; None without one.
#[derive(Clone, Default)]
pub(super) struct Rousing {
    session: Arc<Mutex<Option<Session>>>,
    stop: Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    namenode: SocketAddr,
    session: u64,
}

impl Rousing {
    /// The namenode there has answered a heartbeat in this session.
    pub(super) fn note(&self, namenode: SocketAddr, session: u64) {
        let new = Some(Session { namenode, session });
        let mut session = self.session();
        if *session != new {
            *session = new;
            self.stop.nudge();
        }
    }

    /// The signal that ends the watches.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Watches until the datanode ends, and nudges its heartbeats. It doesn't hold the datanode: a watch
    /// can't be interrupted, and another process may take the directories meanwhile.
    pub(super) fn run(&self, heartbeats: &Stop, identity: Identity, rpc: &flexrpc::Client) {
        let (mut pause, mut began) = (IDLE, None::<Instant>);
        while !self.stop.sleep(pause) {
            let Some(of) = *self.session() else {
                pause = IDLE;
                continue;
            };
            let wait = began.map_or(Duration::ZERO, |began| APART.saturating_sub(began.elapsed()));
            if !wait.is_zero() {
                pause = wait;
                continue;
            }
            let begin = Instant::now();
            let told = watch(rpc, identity, of);
            began = None;
            pause = Duration::ZERO;
            match told {
                Ok(true) => heartbeats.nudge(),
                Ok(false) => {}
                Err(Lost::Refused(failure)) if failure.error != Error::NotRegistered => {
                    (began, pause) = (Some(begin), LATER);
                }
                // The namenode has ended, or forgotten the session.
                Err(_) => {
                    self.session().take_if(|session| *session == of);
                    (began, pause) = (Some(begin), IDLE);
                    heartbeats.nudge();
                }
            }
        }
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(rpc: &flexrpc::Client, identity: Identity, of: Session) -> Result<bool, Lost> {
    let mut to = KadoopClusterV1Client::new(rpc.handle(of.namenode, Transport::Tcp)?);
    to.options.timeout = Some(PATIENCE);
    Ok(to.cl_watch(identity.0, of.session)?)
}

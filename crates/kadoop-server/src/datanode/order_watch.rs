//! A watch: a call that the namenode answers when it has orders for this datanode. Its end, by an answer or
//! by the end of the namenode, triggers a heartbeat. Without a watch, orders would wait for the next
//! regular heartbeat.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, Transport};
use strait_kadoop_core::{Identity, error::Error};
use strait_kadoop_wire::{failure::Lost, stop::Stop, wire::KadoopClusterV1Client};

/// Timeout of a watch: longer than a namenode takes to answer one without orders.
const PATIENCE: Duration = Duration::from_secs(30);
/// If a watch fails, least time from its beginning to that of the next one.
const APART: Duration = Duration::from_secs(1);
/// Pause if the namenode refuses the watch: its version is too old for watches, or too many wait.
const LATER: Duration = Duration::from_secs(30);
/// Pause without a session. The beginning of a session ends the pause.
const IDLE: Duration = Duration::from_secs(60);

/// The session to watch, if any, and the signal that ends or wakes the watching thread.
#[derive(Clone, Default)]
pub(super) struct OrderWatch {
    session: Arc<Mutex<Option<Session>>>,
    stop: Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    namenode: SocketAddr,
    session: u64,
}

impl OrderWatch {
    /// Records that the namenode at this address has answered a heartbeat of this session.
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

    /// Watches until the datanode ends, and sends heartbeats early. A watch can't be interrupted, so this
    /// thread may outlive the datanode. So it doesn't hold the datanode, whose directories another process
    /// may have taken by then.
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
                // The namenode can't be reached, or doesn't know the session any more.
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

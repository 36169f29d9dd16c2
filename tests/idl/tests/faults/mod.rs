//! Callees that die, stop and restart, and links between them that fail at a byte.

use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use strait_testkit::signal_child;

/// A callee, with its successive processes.
pub struct Callee {
    number: usize,
    log: PathBuf,
    key: Option<&'static str>,
    child: Child,
    running: bool,
    pub address: SocketAddr,
}

impl Callee {
    pub fn start(number: usize, log: PathBuf, key: Option<&'static str>) -> Self {
        let (child, address) = spawn(number, &log, key);
        Self { number, log, key, child, running: true, address }
    }

    /// Kills it by SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.running = false;
    }

    /// Stops it until [`Callee::revive`].
    pub fn stop(&self) {
        signal_child(&self.child, Signal::STOP);
    }

    /// Restarts or continues it, after a kill or a stop.
    pub fn revive(&mut self) {
        if self.running {
            return signal_child(&self.child, Signal::CONT);
        }
        (self.child, self.address) = spawn(self.number, &self.log, self.key);
        self.running = true;
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(number: usize, log: &PathBuf, key: Option<&str>) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ledger"))
        .arg(number.to_string())
        .arg(log)
        .args(key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a callee starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("it says where it listens");
    (child, line.trim().parse().expect("an address"))
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the callee.
    There,
    /// From it.
    Back,
}

/// All connections to a callee, from any peer.
pub struct Link {
    /// The callee's address for its peers.
    pub address: SocketAddr,
    target: Mutex<SocketAddr>,
    connections: Mutex<Connections>,
    passed: [AtomicUsize; 2],
    trigger: Mutex<Trigger>,
    fired: Condvar,
}

#[derive(Default)]
struct Connections {
    /// Whether nothing passes, without an error for either side.
    silent: bool,
    open: Vec<Connection>,
}

struct Connection {
    ends: Vec<TcpStream>,
    silent: Arc<AtomicBool>,
}

impl Connection {
    fn close(&self) {
        self.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }
}

/// An action after this many bytes.
enum Trigger {
    None,
    Armed { direction: Direction, left: usize, fire: Box<dyn FnOnce() + Send> },
    Firing,
}

impl Link {
    pub fn to(target: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let link = Arc::new(Self {
            address: listener.local_addr().expect("bound"),
            target: Mutex::new(target),
            connections: Mutex::default(),
            passed: Default::default(),
            trigger: Mutex::new(Trigger::None),
            fired: Condvar::new(),
        });
        let accepting = Arc::clone(&link);
        // Ends with the test's process.
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|caller| accepting.connect(caller));
        });
        link
    }

    /// Leads to the callee's present address, ends the silence, and breaks silent connections.
    pub fn mend(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
        let mut connections = self.connections.lock().unwrap();
        connections.silent = false;
        connections.open.retain(|connection| {
            let silent = connection.silent.load(Ordering::SeqCst);
            if silent {
                connection.close();
            }
            !silent
        });
    }

    /// Drops all bytes under way. Accepts new connections, which lead nowhere.
    pub fn silence(&self) {
        let mut connections = self.connections.lock().unwrap();
        connections.silent = true;
        connections.open.iter().for_each(|connection| connection.silent.store(true, Ordering::SeqCst));
    }

    /// Ends all connections; new ones work.
    pub fn cut(&self) {
        self.connections.lock().unwrap().open.drain(..).for_each(|connection| connection.close());
    }

    /// Runs `fire` after `left` more bytes in that direction, before the next.
    pub fn arm(&self, direction: Direction, left: usize, fire: impl FnOnce() + Send + 'static) {
        *self.trigger.lock().unwrap() = Trigger::Armed { direction, left, fire: Box::new(fire) };
    }

    /// Whether the trigger fired; if not, it won't.
    pub fn disarm(&self) -> bool {
        let trigger = self.trigger.lock().unwrap();
        let mut trigger =
            self.fired.wait_while(trigger, |trigger| matches!(trigger, Trigger::Firing)).unwrap();
        matches!(std::mem::replace(&mut *trigger, Trigger::None), Trigger::None)
    }

    /// Bytes that have passed in that direction.
    pub fn passed(&self, direction: Direction) -> usize {
        self.passed[direction as usize].load(Ordering::SeqCst)
    }

    fn connect(self: &Arc<Self>, caller: TcpStream) {
        let mut connections = self.connections.lock().unwrap();
        let silent = Arc::new(AtomicBool::new(connections.silent));
        let mut ends = vec![caller];
        if !connections.silent {
            // A dead callee's connection closes at once, as its own would.
            let target = *self.target.lock().unwrap();
            let Ok(callee) = TcpStream::connect(target) else { return };
            ends.push(callee);
        }
        ends.iter().for_each(|end| end.set_nodelay(true).expect("an open socket"));
        let clone = |end: &TcpStream| end.try_clone().expect("a descriptor");
        if let [caller, callee] = &ends[..] {
            for (direction, from, to) in
                [(Direction::There, caller, callee), (Direction::Back, callee, caller)]
            {
                let (link, from, to, silent) =
                    (Arc::clone(self), clone(from), clone(to), Arc::clone(&silent));
                std::thread::spawn(move || link.pass(direction, from, to, &silent));
            }
        }
        connections.open.push(Connection { ends, silent });
    }

    fn pass(&self, direction: Direction, mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let mut bytes = &buffer[..len];
            if let Some((before, fire)) = self.due(direction, len) {
                let _ = to.write_all(&bytes[..before]);
                bytes = &bytes[before..];
                fire();
                *self.trigger.lock().unwrap() = Trigger::None;
                self.fired.notify_all();
            }
            if silent.load(Ordering::SeqCst) {
                continue;
            }
            // Count before the receiver of these bytes can look.
            self.passed[direction as usize].fetch_add(len, Ordering::SeqCst);
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        // The end of a silent connection stays hidden until the link is mended.
        if !silent.load(Ordering::SeqCst) {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        }
    }

    /// The action due within these bytes, and its position in them.
    fn due(&self, direction: Direction, len: usize) -> Option<(usize, Box<dyn FnOnce() + Send>)> {
        let mut trigger = self.trigger.lock().unwrap();
        match &mut *trigger {
            Trigger::Armed { direction: armed, left, .. } if *armed == direction => {
                if *left > len {
                    *left -= len;
                    return None;
                }
            }
            _ => return None,
        }
        match std::mem::replace(&mut *trigger, Trigger::Firing) {
            Trigger::Armed { left, fire, .. } => Some((left, fire)),
            _ => None,
        }
    }
}

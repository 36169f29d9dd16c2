//! Clients in separate processes. A client reads orders from its standard input, one a line, and answers each
//! with a line.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use strait_testkit::spawn_bound;

/// A running client, ended when dropped.
pub struct Ordered {
    name: String,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ordered {
    /// Starts the client.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_bound(command)?;
        let orders = child.stdin.take().ok_or("no pipe to a client")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe from a client")?);
        Ok(Self { name: name.to_owned(), child, orders, answers })
    }

    /// The client's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order, and waits for the answer.
    pub fn obey(&mut self, order: &str) -> Result<String> {
        writeln!(self.orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(format!("{}'s client failed at {order:?}", self.name).into()),
            _ => Ok(answer),
        }
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

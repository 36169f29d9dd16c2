//! A callee in a process of its own, which tests can kill: `ledger CALLEE LOG [KEY]`. It logs each
//! execution before it answers. It prints its address, and ends with its standard input.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Mutex;
use strait_flexrpc::{ClusterKey, Request, Server, ServerOptions, ServiceError};
use strait_idl_tests::ledger::*;

struct Ledger {
    callee: i32,
    log: Mutex<File>,
}

impl LedgerV1Service for Ledger {
    fn ledger_enter(&self, _: &Request, entry: Entry<'static>) -> Result<Receipt, ServiceError> {
        let line = format!("{}\n", entry.number);
        // One write to the kernel: if the process is killed after it, the process has executed the
        // call.
        self.log.lock().expect("no writer panics").write_all(line.as_bytes()).expect("the log takes it");
        Ok(Receipt { callee: self.callee, number: entry.number })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(callee), Some(log)) = (arguments.next(), arguments.next()) else {
        return Err("ledger CALLEE LOG [KEY]".into());
    };
    let key = arguments.next().map(|key| ClusterKey::new(key.as_bytes()));
    let log = Mutex::new(File::options().append(true).create(true).open(log)?);
    let ledger = Ledger { callee: callee.parse()?, log };
    let (program, version) = (LedgerV1Server::<Ledger>::PROGRAM, LedgerV1Server::<Ledger>::VERSION);
    let server = Server::builder(ServerOptions { key: key.transpose()?, ..ServerOptions::default() })
        .register(program, version, LedgerV1Server(ledger))
        .start()?;
    println!("{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

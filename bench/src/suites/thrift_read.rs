//! The tables of the technical report TR-09-03: one client, and twenty at a time, each read a file of MalGen
//! records from HDFS (replication 1) and write it to the local disk; natively, and through the gateway.
//!
//! The limit is the report's native program: HDFS's Java client, which reads and writes buffers of 4,096
//! bytes in turn. Our clients run in two ways: with the same structure, and with their defaults.
//!
//! | variable | default | |
//! | --- | --- | --- |
//! | `STRAIT_BENCH_PLACES` | `loopback,hosts` | where to measure; `gluster` within `scripts/with-gluster.sh` |
//! | `STRAIT_BENCH_CLIENTS` | `1,20` | numbers of clients |
//! | `STRAIT_BENCH_RECORDS` | 10,000,000 | records in the file of a single client; 101 bytes each |
//! | `STRAIT_BENCH_RECORDS_EACH` | 1,000,000 | records in the file of each of many clients |
//! | `STRAIT_BENCH_HOSTS` | 4 | hosts with a datanode and clients |
//! | `STRAIT_BENCH_RUNS` | 5; with many clients, 3 | counted rounds |
//! | `STRAIT_BENCH_WITHOUT` | nothing | readers to leave out, by parts of their names |
//!
//! The hosts are network namespaces with links of 1 Gbit/s. One has the namenode, and one has only a gateway
//! ("an unused slave node"). Each of the others has a datanode, clients and a gateway.
//!
//! `gluster` is a GlusterFS volume in place of HDFS. There the native program is one with libgfapi, and the gateway has
//! our plugin for it, in a process of its own.

mod contest;
mod files;
mod place;

use crate::Result;
use crate::host::setting;
use crate::programs::Programs;
use crate::report::Row;
use contest::{Contestant, contest};
use place::{Place, Store};

/// Size of the report's buffers.
const REPORT_BUFFER_BYTES: usize = 4_096;
/// Buffer size of a well-tuned native program.
const LARGE_BUFFER_BYTES: usize = 1 << 20;
/// Divisor of the size of the files that are read with blocking calls of 4,096 bytes: each call takes a round
/// trip.
const BLOCKING_SHARE: usize = 10;

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let list = |name: &str, default: &str| -> Vec<String> {
        let text = std::env::var(name).unwrap_or_else(|_| default.to_owned());
        text.split(',').map(str::to_owned).collect()
    };
    let mut rows = Vec::new();
    for name in list("STRAIT_BENCH_PLACES", "loopback,hosts") {
        let place = match name.as_str() {
            "loopback" => Place::loopback()?,
            "hosts" => Place::hosts(setting("STRAIT_BENCH_HOSTS", 4)?)?,
            "gluster" => Place::gluster()?,
            _ => return Err(format!("unknown place {name:?}: use loopback, hosts or gluster").into()),
        };
        for clients in list("STRAIT_BENCH_CLIENTS", "1,20") {
            rows.extend(tables(&programs, &place, clients.parse()?)?);
        }
    }
    Ok(rows)
}

/// Makes the tables of the defaults and of the blocking buffers, for this number of clients.
fn tables(programs: &Programs, place: &Place, clients: usize) -> Result<Vec<Row>> {
    let (records, runs) = match clients {
        1 => (setting("STRAIT_BENCH_RECORDS", 10_000_000)?, 5),
        _ => (setting("STRAIT_BENCH_RECORDS_EACH", 1_000_000)?, 3),
    };
    let runs = setting("STRAIT_BENCH_RUNS", runs)?;
    let title = format!("{}, {clients} client{}", place.name, if clients == 1 { "" } else { "s" });
    let large = contest(&title, place.load(records, clients)?, runs, contestants(programs, place)?)?;
    if clients > 1 {
        return Ok(large);
    }
    let small = contest(
        &format!("{title}, blocking {REPORT_BUFFER_BYTES} B"),
        place.load(records / BLOCKING_SHARE, clients)?,
        runs,
        blocking_contestants(programs, place)?,
    )?;
    Ok([large, small].concat())
}

/// The contestants with their defaults. The first is the reference for the others; for whole processes, the
/// second is.
fn contestants<'a>(programs: &'a Programs, place: &'a Place) -> Result<Vec<Contestant<'a>>> {
    let mut all = natives(programs, place, REPORT_BUFFER_BYTES)?;
    all.extend(natives(programs, place, LARGE_BUFFER_BYTES)?);
    if let Store::Hdfs(hdfs) = &place.store {
        all.insert(1, Contestant::fs_shell(place, hdfs));
        all.push(Contestant::hdfs_native(programs, place, hdfs));
    }
    for gateways in place.gateway_placements() {
        all.extend(Contestant::ours(programs, place, gateways, None));
    }
    Ok(all)
}

fn blocking_contestants<'a>(programs: &'a Programs, place: &'a Place) -> Result<Vec<Contestant<'a>>> {
    let mut all = natives(programs, place, REPORT_BUFFER_BYTES)?;
    for gateways in place.gateway_placements() {
        all.extend(Contestant::ours(programs, place, gateways, Some(REPORT_BUFFER_BYTES)));
    }
    Ok(all)
}

fn natives<'a>(programs: &'a Programs, place: &'a Place, buffer: usize) -> Result<Vec<Contestant<'a>>> {
    Ok(match &place.store {
        Store::Hdfs(hdfs) => vec![
            Contestant::native_java(programs, place, hdfs, buffer)?,
            Contestant::libhdfs(programs, place, hdfs, buffer),
        ],
        Store::Gluster(volume) => vec![Contestant::libgfapi(place, volume, buffer)],
    })
}

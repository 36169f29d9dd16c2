//! A datanode fails while the HDFS adapter or Hadoop's Java client writes a file of three replicas through
//! it. The two take turns on the same cluster. Measures the longest `write()` of 1 MiB. The datanode is
//! killed, as by `kill -9`, or its link is unplugged, as in `kadoop-faults`. Needs root.
//!
//! `BENCH_FAULTS_MIB`: a file's size, 512 by default. `BENCH_FAULTS_ROUNDS`: rounds of kills, 3 by
//! default. `BENCH_FAULTS_LINKS`: rounds of unplugged links, 1 by default; each takes minutes.

use crate::Result;
use crate::host::setting;
use crate::kadoop::losses::{HdfsClient, HdfsRack, Loss, Lossy};
use crate::pairs::Sample;
use crate::report::{Better, Row};

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_FAULTS_MIB", 512)?;
    let rounds = [
        (Loss::Killed, setting("BENCH_FAULTS_ROUNDS", 3)?),
        (Loss::Unplugged, setting("BENCH_FAULTS_LINKS", 1)?),
    ];
    let mut rack = HdfsRack::start(HdfsClient::Java)?;
    let mut rows = Vec::new();
    for (loss, rounds) in rounds.into_iter().filter(|(_, rounds)| *rounds > 0) {
        let clients = [HdfsClient::Adapter, HdfsClient::Java];
        let mut longest = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (client, longest) in clients.into_iter().zip(&mut longest) {
                rack.change_client(client)?;
                let suffered = rack.lose(loss, &format!("/{loss}-{client:?}-{round}"), mib)?;
                println!("{}, {loss}, round {round}: {suffered:?}", rack.name());
                longest.push(suffered.longest_write_s);
            }
        }
        let [ours, java] = longest.map(Sample::new);
        let case = format!("a datanode {loss}: longest write()");
        rows.push(Row::new(case, "s", Better::Lower, rounds, &ours).with_peer("Java", java.median()));
    }
    Ok(rows)
}

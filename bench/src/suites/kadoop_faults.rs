//! A datanode fails while a client writes a file of three replicas through it. Measures the longest
//! `write()` of 1 MiB, and the time until each chunk has three replicas again. The datanode is
//! killed, as by `kill -9`, or its link is unplugged, of which no host gets an error. The peer is HDFS. A
//! client, a namenode and four datanodes are processes on separate hosts, with links of 1 Gbit/s. Needs root.
//!
//! `BENCH_FAULTS_MIB`: a file's size, 512 by default. `BENCH_FAULTS_ROUNDS`: 3 by default.
//! `BENCH_FAULTS_HDFS_ROUNDS`: 1 by default, which takes minutes; with 0, only Kadoop is measured.
//! `BENCH_KADOOP_DIR`: as in `kadoop-hdfs`.

use crate::Result;
use crate::host::setting;
use crate::kadoop::losses::{HdfsClient, HdfsRack, KadoopRack, Loss, Lossy, Suffered};
use crate::pairs::Sample;
use crate::report::{Better, Row};

/// Goals for the longest write, in seconds.
const BARS: [(Loss, f64); 2] = [(Loss::Killed, 0.3), (Loss::Unplugged, 3.0)];

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_FAULTS_MIB", 512)?;
    let rounds = setting("BENCH_FAULTS_ROUNDS", 3)?;
    let hdfs_rounds = setting("BENCH_FAULTS_HDFS_ROUNDS", 1)?;
    let ours = suffer(&mut KadoopRack::start()?, mib, rounds)?;
    let peer = match hdfs_rounds {
        0 => Vec::new(),
        rounds => suffer(&mut HdfsRack::start(HdfsClient::Java)?, mib, rounds)?,
    };
    let mut rows = Vec::new();
    for (index, (loss, bar)) in BARS.into_iter().enumerate() {
        let of = |figure: fn(&Suffered) -> f64, what: &str| {
            let sample = Sample::new(ours[index].iter().map(figure).collect());
            let case = format!("a datanode {loss}: {what}");
            let row = Row::new(case, "s", Better::Lower, ours[index].len(), &sample);
            match peer.get(index) {
                Some(peer) => row.with_peer("HDFS", Sample::new(peer.iter().map(figure).collect()).median()),
                None => row,
            }
        };
        rows.push(of(|suffered| suffered.longest_write_s, "longest write()").with_limit(bar));
        rows.push(of(|suffered| suffered.whole_again_s, "until three replicas again"));
    }
    Ok(rows)
}

/// The results of all rounds, for each kind of loss.
fn suffer(rack: &mut dyn Lossy, mib: usize, rounds: usize) -> Result<Vec<Vec<Suffered>>> {
    let mut all = Vec::new();
    for (loss, _) in BARS {
        let mut suffered = Vec::new();
        for round in 0..rounds {
            let one = rack.lose(loss, &format!("/{loss}-{round}"), mib)?;
            println!("{}, {loss}, round {round}: {one:?}", rack.name());
            suffered.push(one);
        }
        all.push(suffered);
    }
    Ok(all)
}

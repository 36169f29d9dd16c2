//! Faults of processes.

use crate::Outcome;
use crate::cluster::{Cluster, HDFS_DATANODES, Server, Store};
use crate::history::{History, Line};
use crate::random::Random;
use rustix::process::Signal;
use std::time::Duration;
use strait_testkit::wait;

/// Strikes one process (now and then all datanodes), and has it back some time later.
pub fn strike(cluster: &mut Cluster, random: &mut Random, history: &History) -> Outcome<()> {
    let outage = Duration::from_millis(200 + random.below(2_000));
    let (strikes_gateway, kills) = (random.below(3) == 0, random.below(3) > 0);
    if strikes_gateway {
        let gateway = &mut cluster.gateways[random.below(2) as usize];
        return strike_server(gateway, kills, outage, history);
    }
    match &mut cluster.store {
        Store::Kadoop(servers) if random.below(8) == 0 => kill_all(&mut servers[1..], outage, history),
        Store::Kadoop(servers) => {
            let chosen = random.below(servers.len() as u64) as usize;
            strike_server(&mut servers[chosen], kills, outage, history)
        }
        // HDFS's namenode takes many seconds to start.
        Store::Hdfs(hdfs) => match random.below(8) {
            0 => {
                told(history, "kill", "namenode", || hdfs.stop_namenode());
                wait::pause("an outage", outage);
                Ok(hdfs.restart_namenode()?)
            }
            number => {
                let index = number as usize % HDFS_DATANODES;
                told(history, "kill", &format!("datanode-{index}"), || hdfs.stop_datanode(index));
                wait::pause("an outage", outage);
                Ok(hdfs.restart_datanode(index)?)
            }
        },
    }
}

/// Kills a server and starts it again, or stops it for a while.
fn strike_server(server: &mut Server, kills: bool, outage: Duration, history: &History) -> Outcome<()> {
    if kills {
        told(history, "kill", &server.name, || server.process.kill());
        wait::pause("an outage", outage);
        return server.again();
    }
    told(history, "stop", &server.name, || server.process.signal(Signal::STOP));
    wait::pause("an outage", outage);
    server.process.signal(Signal::CONT);
    Ok(())
}

fn kill_all(datanodes: &mut [Server], outage: Duration, history: &History) -> Outcome<()> {
    told(history, "kill", "all datanodes", || datanodes.iter_mut().for_each(|one| one.process.kill()));
    wait::pause("an outage", outage);
    datanodes.iter_mut().try_for_each(Server::again)
}

fn told(history: &History, kind: &'static str, whom: &str, strike: impl FnOnce()) {
    let line = Line { outcome: kind, ..Line::called(history, 0, "fault", whom) };
    strike();
    history.write(&Line { answered: history.now(), ..line });
}

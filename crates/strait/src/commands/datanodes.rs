//! `datanodes`, `decommission` and `rebalance`: what operators do with a Kadoop cluster.

use crate::cli::{Datanodes, Decommission, Rebalance};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use serde_json::Value;
use std::time::Duration;
use strait_kadoop::NodeId;
use strait_kadoop::namenode::{Rebalancing, Standing};
use strait_kadoop::service::{ClusterStatus, NodeStatus, Standings};
use strait_store::kadoop::KadoopStore;
use strait_store::{ErrorKind, Principal, StorePath};

/// From one look at what is waited for to the next.
const LOOK: Duration = Duration::from_secs(1);

/// Prints one line a datanode that has ever joined, and one on the last rebalance.
pub async fn datanodes(context: &Context, of: Datanodes) -> Result<(), Failure> {
    let (cluster, who) = context.cluster(&of.uri).await?;
    let (status, standings) = look(&cluster, &who).await?;
    let mut out = context.output();
    for (node, standing) in &standings.nodes {
        let known = status.nodes.iter().find(|known| known.host.node == *node);
        match context.json {
            true => object(&mut out, *node, *standing, known)?,
            false => line(&mut out, *node, *standing, known)?,
        }
    }
    if let Some(told) = standings.rebalancing {
        tell(context, &mut out, told)?;
    }
    out.finish()?;
    if standings.nodes.is_empty() {
        context.messages().warn("no datanode has registered");
    }
    Ok(())
}

/// Does without datanodes, or doesn't after all.
pub async fn decommission(context: &Context, flags: Decommission) -> Result<(), Failure> {
    let Some((uri, named @ [_, ..])) = flags.operands.split_last() else {
        return Err(Failure::usage("decommission: which DATANODE… of which cluster (kadoop://HOST:PORT/)?"));
    };
    let (cluster, who) = context.cluster(uri).await?;
    let (status, standings) = look(&cluster, &who).await?;
    let found: Result<Vec<NodeId>, Failure> =
        named.iter().map(|name| find(name, &status, &standings)).collect();
    let (nodes, cancel) = (found?, flags.cancel);
    let operation = if cancel { "recommission" } else { "decommission" };
    let mut out = context.output();
    for node in nodes.clone() {
        cluster
            .operate(operation, &who, move |client, caller| client.decommission(caller, node, cancel))
            .await?;
        out.done(operation, &StorePath::root(), [("datanode", node.0.into())])?;
    }
    if flags.wait {
        while !are_missed_by_nobody(&look(&cluster, &who).await?.1, &nodes) {
            tokio::time::sleep(LOOK).await;
        }
    }
    out.finish()
}

/// Evens out how full datanodes are, or stops to.
pub async fn rebalance(context: &Context, flags: Rebalance) -> Result<(), Failure> {
    let (cluster, who) = context.cluster(&flags.uri).await?;
    let threshold = (!flags.stop).then_some(flags.threshold);
    cluster.operate("rebalance", &who, move |client, caller| client.rebalance(caller, threshold)).await?;
    if flags.no_wait {
        return Ok(());
    }
    let told = loop {
        match look(&cluster, &who).await?.1.rebalancing {
            Some(told) if told.running => tokio::time::sleep(LOOK).await,
            told => break told,
        }
    };
    let mut out = context.output();
    match told {
        Some(told) => tell(context, &mut out, told)?,
        None if flags.stop => {}
        None => return Err(Failure::other("the namenode has restarted, and has forgotten it: begin anew")),
    }
    out.finish()
}

fn are_missed_by_nobody(standings: &Standings, nodes: &[NodeId]) -> bool {
    nodes.iter().all(|node| standings.nodes.get(node) == Some(&Standing::Decommissioned))
}

async fn look(cluster: &KadoopStore, who: &Principal) -> Result<(ClusterStatus, Standings), Failure> {
    let looked =
        cluster.operate("list datanodes", who, |client, _| Ok((client.status()?, client.standings()?)));
    Ok(looked.await?)
}

/// The datanode of that number or address.
fn find(name: &str, status: &ClusterStatus, standings: &Standings) -> Result<NodeId, Failure> {
    let by_number = name.parse().ok().map(NodeId).filter(|node| standings.nodes.contains_key(node));
    let addressed = status.nodes.iter().find(|known| known.host.address.to_string() == name);
    by_number.or(addressed.map(|known| known.host.node)).ok_or_else(|| {
        let why = "no datanode of that number or address; `strait datanodes` lists them";
        Failure::at(ErrorKind::NotFound, "find datanode", name, why)
    })
}

fn line(
    out: &mut Output,
    node: NodeId,
    standing: Standing,
    known: Option<&NodeStatus>,
) -> Result<(), Failure> {
    let standing = match standing {
        Standing::InService => "in service".to_owned(),
        Standing::Decommissioned => "decommissioned".to_owned(),
        Standing::Decommissioning { chunks: Some(chunks) } => {
            format!("decommissioning, needed for {chunks} chunks")
        }
        Standing::Decommissioning { chunks: None } => "decommissioning, not heard yet".to_owned(),
    };
    let node = node.0;
    let Some(known) = known else { return out.line(format_args!("{node}\t-\t-\t-\tunheard\t{standing}")) };
    let NodeStatus { host, alive, capacity_bytes, used_bytes, .. } = known;
    let life = if *alive { "alive" } else { "dead" };
    let (name, rack) = (out.name(&host.name), out.name(&host.rack));
    let line = format!(
        "{node}\t{}\t{name}\t{rack}\t{life}\t{standing}\tcapacity {capacity_bytes}\tused {used_bytes}",
        host.address
    );
    out.line(line)
}

fn object(
    out: &mut Output,
    node: NodeId,
    standing: Standing,
    known: Option<&NodeStatus>,
) -> Result<(), Failure> {
    let (standing, chunks) = match standing {
        Standing::InService => ("in service", None),
        Standing::Decommissioning { chunks } => ("decommissioning", chunks),
        Standing::Decommissioned => ("decommissioned", None),
    };
    let of = |field: fn(&NodeStatus) -> Value| known.map_or(Value::Null, field);
    out.object([
        ("datanode", node.0.into()),
        ("address", of(|known| known.host.address.to_string().into())),
        ("host", of(|known| known.host.name.as_str().into())),
        ("rack", of(|known| known.host.rack.as_str().into())),
        ("alive", of(|known| known.alive.into())),
        ("standing", standing.into()),
        ("needed_for", chunks.into()),
        ("capacity", of(|known| known.capacity_bytes.into())),
        ("used", of(|known| known.used_bytes.into())),
    ])
}

fn tell(context: &Context, out: &mut Output, told: Rebalancing) -> Result<(), Failure> {
    let Rebalancing { running, threshold_percent, moving, moved_chunks, moved_bytes } = told;
    if context.json {
        return out.object([
            ("rebalance", if running { "running" } else { "ended" }.into()),
            ("threshold_percent", threshold_percent.into()),
            ("moving", moving.into()),
            ("moved_chunks", moved_chunks.into()),
            ("moved_bytes", moved_bytes.into()),
        ]);
    }
    let state = if running { "is under way" } else { "has ended" };
    out.line(format_args!("the rebalance {state}: {moved_chunks} replicas moved, {moved_bytes} bytes"))
}

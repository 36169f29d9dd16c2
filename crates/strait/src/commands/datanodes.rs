//! `datanodes`, `admit`, `decommission` and `rebalance`: operators' commands for a Kadoop cluster.

use crate::cli::{Admit, Datanodes, Decommission, Rebalance};
use crate::context::{Cluster, Context};
use crate::failure::Failure;
use crate::messages::Messages;
use crate::output::{Output, Row};
use crate::waiting;
use serde_json::Value;
use std::time::{Duration, Instant};
use strait_kadoop_client::{ClusterStatus, NodeStatus, RefusedNode, Standings};
use strait_kadoop_core::namenode::{Rebalancing, Standing};
use strait_kadoop_core::{Identity, NodeId};
use strait_store::{ErrorKind, StorePath};

/// Time between two checks whether the awaited state is reached.
const LOOK: Duration = Duration::from_secs(1);

/// Names of the columns.
const COLUMNS: [&str; 8] = ["DATANODE", "ADDRESS", "HOST", "RACK", "STATE", "SERVICE", "CAPACITY", "USED"];

/// Prints one line for each datanode that has ever joined or that the namenode refuses, the reasons for
/// refusals, and one line about the latest rebalance.
pub async fn datanodes(context: &Context, of: Datanodes) -> Result<(), Failure> {
    let cluster = context.cluster("datanodes", &of.uri).await?;
    let (status, standings) = look(&cluster).await?;
    let refused = cluster.operate("list datanodes", |client, _| client.refused()).await?;
    let mut out = context.output();
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for (node, standing) in &standings.nodes {
        let known = status.nodes.iter().find(|known| known.host.node == *node);
        match context.json {
            true => object(&mut out, *node, *standing, known)?,
            false => rows.push(row(&out, *node, *standing, known)),
        }
    }
    for node in &refused {
        match context.json {
            true => refused_object(&mut out, node)?,
            false => rows.push(refused_row(&out, node)),
        }
    }
    if rows.len() > 1 {
        out.table(&rows)?;
    }
    if !context.json {
        for RefusedNode { address, why, .. } in &refused {
            out.line(format!("{address} is refused: {}", out.name(why)))?;
        }
    }
    if let Some(told) = standings.rebalancing {
        tell(context, &mut out, told)?;
    }
    out.finish()?;
    if standings.nodes.is_empty() && refused.is_empty() {
        context.messages().warn("no datanode has registered");
    }
    Ok(())
}

/// Admits datanodes that the namenode refuses, for example since they know of records that its log lacks.
pub async fn admit(context: &Context, flags: Admit) -> Result<(), Failure> {
    let Some((uri, named @ [_, ..])) = flags.operands.split_last() else {
        return Err(Failure::usage(
            "admit: datanode or cluster missing: strait admit DATANODE… kadoop://HOST:PORT/",
        ));
    };
    let cluster = context.cluster("admit", uri).await?;
    let refused = cluster.operate("list datanodes", |client, _| client.refused()).await?;
    let found: Result<Vec<Identity>, Failure> =
        named.iter().map(|name| find_refused(name, &refused)).collect();
    let mut out = context.output();
    for identity in found? {
        cluster.operate("admit", move |client, caller| client.admit(caller, identity)).await?;
        out.done("admit", &StorePath::root(), [("datanode", shown(identity).into())])?;
    }
    out.finish()
}

/// The text of a refused datanode's identity, as it is printed and as users give it.
fn shown(identity: Identity) -> String {
    format!("{:016x}", identity.0)
}

fn find_refused(name: &str, refused: &[RefusedNode]) -> Result<Identity, Failure> {
    let is_it = |node: &&RefusedNode| shown(node.identity) == name || node.address.to_string() == name;
    let Some(node) = refused.iter().find(is_it) else {
        let why = "no refused datanode of that identity or address; `strait datanodes` lists them";
        return Err(Failure::at(ErrorKind::NotFound, "find datanode", name, why));
    };
    if !node.admissible {
        let why = format!("it can't be admitted: {}", node.why);
        return Err(Failure::at(ErrorKind::InvalidArgument, "admit", name, &why));
    }
    Ok(node.identity)
}

fn refused_row(out: &Output, node: &RefusedNode) -> Row<{ COLUMNS.len() }> {
    [
        shown(node.identity),
        node.address.to_string(),
        out.name(&node.name).into_owned(),
        out.name(&node.rack).into_owned(),
        "refused".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
    ]
}

fn refused_object(out: &mut Output, node: &RefusedNode) -> Result<(), Failure> {
    out.object([
        ("refused", shown(node.identity).into()),
        ("address", node.address.to_string().into()),
        ("host", node.name.as_str().into()),
        ("rack", node.rack.as_str().into()),
        ("why", node.why.as_str().into()),
        ("admissible", node.admissible.into()),
    ])
}

/// Decommissions datanodes, or cancels decommissions.
pub async fn decommission(context: &Context, flags: Decommission) -> Result<(), Failure> {
    let Some((uri, named @ [_, ..])) = flags.operands.split_last() else {
        return Err(Failure::usage(
            "decommission: datanode or cluster missing: strait decommission DATANODE… kadoop://HOST:PORT/",
        ));
    };
    let cluster = context.cluster("decommission", uri).await?;
    let (status, standings) = look(&cluster).await?;
    let found: Result<Vec<NodeId>, Failure> =
        named.iter().map(|name| find(name, &status, &standings)).collect();
    let (nodes, cancel) = (found?, flags.cancel);
    let operation = if cancel { "recommission" } else { "decommission" };
    let mut out = context.output();
    for node in nodes.clone() {
        cluster.operate(operation, move |client, caller| client.decommission(caller, node, cancel)).await?;
        out.done(operation, &StorePath::root(), [("datanode", node.0.into())])?;
    }
    if flags.wait {
        let mut notices = Notices::begin(context);
        loop {
            let standings = look(&cluster).await?.1;
            let Some((node, standing)) = first_missed(&standings, &nodes) else { break };
            notices.due(|| {
                format!(
                    "datanode {}: {}; still waiting",
                    node.0,
                    standing.map_or_else(|| "the namenode doesn't know it any more".to_owned(), service)
                )
            });
            tokio::time::sleep(LOOK).await;
        }
    }
    out.finish()
}

/// Moves replicas until the datanodes are used evenly, or stops a rebalance.
pub async fn rebalance(context: &Context, flags: Rebalance) -> Result<(), Failure> {
    let cluster = context.cluster("rebalance", &flags.uri).await?;
    let threshold = (!flags.stop).then_some(flags.threshold);
    cluster.operate("rebalance", move |client, caller| client.rebalance(caller, threshold)).await?;
    if flags.no_wait {
        return Ok(());
    }
    let mut notices = Notices::begin(context);
    let told = loop {
        match look(&cluster).await?.1.rebalancing {
            Some(told) if told.running => {
                notices.due(|| format!("{}; still waiting", summary(told)));
                tokio::time::sleep(LOOK).await;
            }
            told => break told,
        }
    };
    let mut out = context.output();
    match told {
        Some(told) => tell(context, &mut out, told)?,
        None if flags.stop => {}
        None => {
            return Err(Failure::other(
                "rebalance: the namenode restarted, which ended the rebalance; run `strait rebalance` again",
            ));
        }
    }
    out.finish()
}

/// The first of `nodes` that the namenode doesn't report as decommissioned, with its state if the namenode
/// knows it.
fn first_missed(standings: &Standings, nodes: &[NodeId]) -> Option<(NodeId, Option<Standing>)> {
    let mut asked = nodes.iter().map(|node| (*node, standings.nodes.get(node).copied()));
    asked.find(|(_, standing)| *standing != Some(Standing::Decommissioned))
}

/// Prints the progress at intervals, for operations that may take hours.
struct Notices {
    messages: Messages,
    next: Instant,
}

impl Notices {
    fn begin(context: &Context) -> Self {
        Self { messages: context.messages(), next: Instant::now() + waiting::PATIENCE }
    }

    fn due(&mut self, notice: impl FnOnce() -> String) {
        if Instant::now() >= self.next {
            self.messages.warn(&notice());
            self.next = Instant::now() + waiting::AGAIN;
        }
    }
}

async fn look(cluster: &Cluster) -> Result<(ClusterStatus, Standings), Failure> {
    let looked = cluster.operate("list datanodes", |client, _| Ok((client.status()?, client.standings()?)));
    Ok(looked.await?)
}

/// The datanode that `name` names by its number or address.
fn find(name: &str, status: &ClusterStatus, standings: &Standings) -> Result<NodeId, Failure> {
    let by_number = name.parse().ok().map(NodeId).filter(|node| standings.nodes.contains_key(node));
    let addressed = status.nodes.iter().find(|known| known.host.address.to_string() == name);
    by_number.or(addressed.map(|known| known.host.node)).ok_or_else(|| {
        let why = "no datanode of that number or address; `strait datanodes` lists them";
        Failure::at(ErrorKind::NotFound, "find datanode", name, why)
    })
}

fn row(out: &Output, node: NodeId, standing: Standing, known: Option<&NodeStatus>) -> Row<{ COLUMNS.len() }> {
    let state = match known {
        Some(known) if known.alive => "alive",
        Some(_) => "dead",
        None => "unheard",
    };
    let of = |field: &dyn Fn(&NodeStatus) -> String| known.map_or_else(|| "-".to_owned(), field);
    [
        node.0.to_string(),
        of(&|known| known.host.address.to_string()),
        of(&|known| out.name(&known.host.name).into_owned()),
        of(&|known| out.name(&known.host.rack).into_owned()),
        state.to_owned(),
        service(standing),
        of(&|known| known.capacity_bytes.to_string()),
        of(&|known| known.used_bytes.to_string()),
    ]
}

fn service(standing: Standing) -> String {
    match standing {
        Standing::InService => "in service".to_owned(),
        Standing::Decommissioned => "decommissioned".to_owned(),
        Standing::Decommissioning { chunks: Some(chunks) } => {
            format!("decommissioning, needed for {chunks} chunks")
        }
        Standing::Decommissioning { chunks: None } => {
            "decommissioning, its chunks not counted yet".to_owned()
        }
    }
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
    if context.json {
        let Rebalancing { running, threshold_percent, moving, moved_chunks, moved_bytes } = told;
        return out.object([
            ("rebalance", if running { "running" } else { "ended" }.into()),
            ("threshold_percent", threshold_percent.into()),
            ("moving", moving.into()),
            ("moved_chunks", moved_chunks.into()),
            ("moved_bytes", moved_bytes.into()),
        ]);
    }
    out.line(summary(told))
}

fn summary(told: Rebalancing) -> String {
    let Rebalancing { running, moved_chunks, moved_bytes, .. } = told;
    let state = if running { "is under way" } else { "has ended" };
    format!("the rebalance {state}: {moved_chunks} replicas moved, {moved_bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datanode_that_the_namenode_doesnt_know_isnt_done_with() {
        let nodes = [(NodeId(1), Standing::Decommissioned), (NodeId(2), Standing::InService)].into();
        let standings = Standings { nodes, rebalancing: None };
        assert_eq!(first_missed(&standings, &[NodeId(1)]), None);
        assert_eq!(
            first_missed(&standings, &[NodeId(1), NodeId(2)]),
            Some((NodeId(2), Some(Standing::InService)))
        );
        assert_eq!(first_missed(&standings, &[NodeId(1), NodeId(3)]), Some((NodeId(3), None)));
    }
}

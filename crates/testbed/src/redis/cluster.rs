//! A Redis Cluster of real nodes, whose slots can be moved and whose masters can be replaced.

use std::process::Command;

use super::topology::{Member, parse};
use super::{Redis, says};
use crate::process::run;
use crate::resp::Reply;
use crate::wait::{WAIT_TIMEOUT, try_until, until};

/// The fewest masters that can agree that one of them is gone.
const FEWEST_MASTERS: usize = 3;

/// All slots of a cluster, however many nodes it has.
const SLOTS: usize = 16_384;

/// How long a node may be silent before the others replace it. The least that a busy machine bears.
const NODE_TIMEOUT_MILLIS: &str = "1500";

/// A running cluster. Nodes are known by their place in [`RedisCluster::nodes`].
pub struct RedisCluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts three masters or more, each with so many replicas, and returns once all of them agree
    /// about who serves what and every replica has what its master has.
    pub fn start(masters: usize, replicas_each: usize) -> Self {
        assert!(masters >= FEWEST_MASTERS, "a cluster has {FEWEST_MASTERS} masters or more");
        let nodes: Vec<Redis> = (0..masters * (1 + replicas_each)).map(|_| start_node()).collect();
        let id = |node: &Redis| node.command(&["CLUSTER", "MYID"]).text().to_owned();
        let cluster = Self { ids: nodes.iter().map(id).collect(), nodes };
        cluster.share_slots(masters);
        cluster.introduce();
        for replica in masters..cluster.nodes.len() {
            cluster.tell(replica, &["REPLICATE", &cluster.ids[replica % masters]]);
        }
        cluster.wait_until_whole();
        cluster
    }

    /// All nodes, masters and replicas.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// What a client needs to connect: any of them is enough.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// The node that serves a slot. While none does, as after a master was killed, it waits.
    pub fn master_of(&self, slot: u16) -> usize {
        until(&format!("a master that serves slot {slot}"), || {
            let claims = self.selves().filter(|(_, member)| member.serves(slot));
            claims.max_by_key(|(_, member)| member.epoch).map(|(node, _)| node)
        })
    }

    /// A replica of a node, which runs.
    pub fn replica_of(&self, node: usize) -> usize {
        let master = Some(self.ids[node].clone());
        until(&format!("a replica of node {node}"), || {
            self.selves().find(|(_, member)| member.master == master).map(|(replica, _)| replica)
        })
    }

    /// Makes a replica the master of what its master served, without a loss, and returns once all
    /// nodes know it.
    pub fn failover(&self, replica: usize) {
        self.tell(replica, &["FAILOVER"]);
        until(&format!("node {replica} to be a master"), || {
            self.selves().find(|(node, member)| *node == replica && member.is_master)
        });
        self.wait_until_whole();
    }

    /// Moves the first slots of one master to another, with the keys in them, and returns once all
    /// nodes know it.
    pub fn move_slots(&self, from: usize, to: usize, count: u16) {
        run(Command::new("redis-cli")
            .args(["--cluster", "reshard", &self.nodes[to].address().to_string()])
            .args(["--cluster-from", &self.ids[from], "--cluster-to", &self.ids[to]])
            .args(["--cluster-slots", &count.to_string(), "--cluster-yes"]));
        self.wait_until_whole();
    }

    /// Kills a node without warning. [`Redis::restart`] brings it back, empty, and under its name.
    pub fn kill_node(&self, node: usize) {
        self.nodes[node].kill();
    }

    /// Stops a node where it is, until [`Redis::resume`].
    pub fn pause_node(&self, node: usize) {
        self.nodes[node].pause();
    }

    /// Waits until all nodes that run agree about who serves what, every slot is served, and every
    /// replica has what its master has.
    pub fn wait_until_whole(&self) {
        if try_until(WAIT_TIMEOUT, || self.is_whole().then_some(())).is_none() {
            let views = self.awake().map(|(place, node)| {
                let [nodes, info, replication] =
                    [&["CLUSTER", "NODES"], &["CLUSTER", "INFO"], &["INFO", "replication"]]
                        .map(|command| node.try_command(command));
                format!("node {place}:\n{nodes:?}\n{info:?}\n{replication:?}\n")
            });
            panic!("waited in vain for a cluster that is whole\n{}", views.collect::<String>());
        }
    }

    /// Gives each of the first nodes its part of all slots, and each an epoch, so that they need not
    /// argue about who is right.
    fn share_slots(&self, masters: usize) {
        for node in 0..self.nodes.len() {
            self.tell(node, &["SET-CONFIG-EPOCH", &(node + 1).to_string()]);
        }
        for node in 0..masters {
            let first = (SLOTS * node / masters).to_string();
            let last = (SLOTS * (node + 1) / masters - 1).to_string();
            self.tell(node, &["ADDSLOTSRANGE", &first, &last]);
        }
    }

    /// Introduces every node to every other, again if needed: a busy node forgets a greeting that takes too long.
    fn introduce(&self) {
        until("nodes that know each other", || {
            let mut all_are_known = true;
            for (place, node) in self.nodes.iter().enumerate() {
                let known = members(node)?;
                all_are_known &= known.iter().filter(|it| !it.has_failed).count() == self.ids.len();
                let is_known = |other: &Redis| known.iter().any(|it| it.port == other.port());
                for other in self.nodes.iter().filter(|other| !is_known(other)) {
                    self.tell(place, &["MEET", "127.0.0.1", &other.port().to_string()]);
                }
            }
            all_are_known.then_some(())
        });
    }

    fn tell(&self, node: usize, command: &[&str]) {
        let answer = self.nodes[node].command(&[&["CLUSTER"], command].concat());
        assert_eq!(answer, Reply::Text("OK".into()), "node {node} obeys {command:?}");
    }

    fn is_whole(&self) -> bool {
        let views: Option<Vec<_>> = self.awake().map(|(_, node)| common_view(node)).collect();
        let Some(views) = views else { return false };
        views.iter().all(|view| view.len() == views.len() && *view == views[0])
            && self.awake().all(|(_, node)| is_served(node))
    }

    fn awake(&self) -> impl Iterator<Item = (usize, &Redis)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_awake())
    }

    /// What the nodes that run say about themselves.
    fn selves(&self) -> impl Iterator<Item = (usize, Member)> {
        self.awake().filter_map(|(place, node)| {
            let itself = members(node)?.into_iter().find(|member| member.is_self)?;
            Some((place, itself))
        })
    }
}

fn start_node() -> Redis {
    Redis::builder()
        .setting("cluster-enabled", "yes")
        .setting("cluster-node-timeout", NODE_TIMEOUT_MILLIS)
        .start()
}

/// `None` while it is unreachable or loading.
fn members(node: &Redis) -> Option<Vec<Member>> {
    let Reply::Text(text) = node.try_command(&["CLUSTER", "NODES"]).ok()? else { return None };
    Some(parse(&text))
}

/// The part that all nodes have to agree on. Unreachable ones do not count, and epochs may lag.
fn common_view(node: &Redis) -> Option<Vec<Member>> {
    let present = members(node)?.into_iter().filter(|member| !member.has_failed);
    Some(present.map(|member| Member { is_self: false, epoch: 0, ..member }).collect())
}

/// Whether a node sees every slot served and, if it is a replica, has what its master has.
fn is_served(node: &Redis) -> bool {
    let facts = |command: &[&str]| node.facts(command).unwrap_or_default();
    let cluster = facts(&["CLUSTER", "INFO"]);
    let replication = facts(&["INFO", "replication"]);
    says(&cluster, "cluster_state", "ok")
        && says(&cluster, "cluster_slots_ok", &SLOTS.to_string())
        && (says(&replication, "role", "master") || says(&replication, "master_link_status", "up"))
}

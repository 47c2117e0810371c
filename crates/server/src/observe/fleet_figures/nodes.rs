//! The nodes of a fleet: each announces itself once a second.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate::{Micros, Timestamp};

use super::NodeStatus;
use crate::check::decision_id::NodeName;
use crate::observe::audit_log::shortened;

/// How many other nodes are known at most.
const MAX_NODES: usize = 1_000;
/// After this time without an announcement, a node is forgotten.
const FORGET_AFTER: Micros = Micros::from_secs(600);
/// A node that announced itself within this time is expected to respond.
const LIVE_FOR: Micros = Micros::from_secs(5);
/// How far the clocks of nodes may differ: an announcement that is older is one of the past, sent again.
const MAX_SKEW: Micros = Micros::from_secs(300);

/// What a node says of itself. Texts of other versions may lack fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Announcement {
    pub(super) host: String,
    pub(super) version: String,
    /// In microseconds since 1970, as the other times.
    pub(super) started: u64,
    pub(super) revision: u64,
    pub(super) revision_since: u64,
    pub(super) requests_per_second: f64,
    pub(super) refused_per_second: f64,
    pub(super) store_servers_up: u32,
    pub(super) store_servers: u32,
    pub(super) is_draining: bool,
    /// When it was sent, by the clock of the node.
    pub(super) at: u64,
}

impl Announcement {
    /// The node as it is shown.
    pub(super) fn status(self, name: NodeName, last_seen: Timestamp, is_this: bool) -> NodeStatus {
        NodeStatus {
            name: name.text(),
            host: shortened(&self.host).to_owned(),
            version: shortened(&self.version).to_owned(),
            started: Timestamp::from_micros(self.started),
            revision: self.revision,
            revision_since: Timestamp::from_micros(self.revision_since),
            requests_per_second: self.requests_per_second,
            refused_per_second: self.refused_per_second,
            store_servers_up: self.store_servers_up,
            store_servers: self.store_servers,
            is_draining: self.is_draining,
            last_seen,
            is_this,
        }
    }
}

/// The other nodes, and when they were last heard.
#[derive(Debug, Default)]
pub(super) struct HeardNodes(Mutex<HashMap<NodeName, HeardNode>>);

#[derive(Clone, Debug)]
struct HeardNode {
    said: Announcement,
    at: Timestamp,
}

impl HeardNodes {
    /// Notes an announcement, unless it is an old one that was sent again.
    pub(super) fn hear(&self, node: NodeName, said: Announcement, now: Timestamp) {
        let sent = Timestamp::from_micros(said.at);
        if now.since(sent) > MAX_SKEW {
            return;
        }
        let mut nodes = self.0.lock();
        nodes.retain(|_, heard| now.since(heard.at) <= FORGET_AFTER);
        let is_repeated = nodes.get(&node).is_some_and(|known| known.said.at >= said.at);
        if !is_repeated && (nodes.len() < MAX_NODES || nodes.contains_key(&node)) {
            nodes.insert(node, HeardNode { said, at: now });
        }
    }

    /// The nodes that are expected to respond.
    pub(super) fn live(&self, now: Timestamp) -> Vec<NodeName> {
        let nodes = self.0.lock();
        let live = nodes.iter().filter(|(_, heard)| now.since(heard.at) <= LIVE_FOR);
        live.map(|(node, _)| *node).collect()
    }

    /// All nodes, in the order of their machines.
    pub(super) fn list(&self, now: Timestamp) -> Vec<NodeStatus> {
        let nodes = self.0.lock();
        let known = nodes.iter().filter(|(_, heard)| now.since(heard.at) <= FORGET_AFTER);
        let status = |(node, heard): (&NodeName, &HeardNode)| {
            heard.said.clone().status(*node, heard.at, false)
        };
        let mut list: Vec<NodeStatus> = known.map(status).collect();
        list.sort_unstable_by(|it, other| (&it.host, &it.name).cmp(&(&other.host, &other.name)));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(second: u64) -> Announcement {
        Announcement { at: second * 1_000_000, ..Announcement::default() }
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    #[test]
    fn nodes_are_listed_with_their_age_until_they_are_forgotten() {
        let nodes = HeardNodes::default();
        let (a, b) = (NodeName::in_fleet(1), NodeName::in_fleet(2));
        nodes.hear(a, said(10_000), at(10_000));
        nodes.hear(b, said(9_990), at(10_001));
        assert_eq!(nodes.list(at(10_001)).len(), 2);
        nodes.hear(a, said(10_007), at(10_007));
        assert_eq!(nodes.live(at(10_007)), [a], "the other is silent");
        let seen: Vec<Timestamp> = nodes.list(at(10_007)).iter().map(|it| it.last_seen).collect();
        assert_eq!(seen, [at(10_007), at(10_001)]);
        assert_eq!(nodes.list(at(10_603)).len(), 1);
        assert_eq!(nodes.list(at(10_608)).len(), 0);
    }

    #[test]
    fn an_old_announcement_that_is_sent_again_is_ignored() {
        let nodes = HeardNodes::default();
        let node = NodeName::in_fleet(1);
        nodes.hear(node, said(10_000), at(10_000));
        nodes.hear(node, said(10_000), at(10_009));
        assert!(nodes.live(at(10_009)).is_empty(), "the same again");
        nodes.hear(NodeName::in_fleet(2), said(9_000), at(10_000));
        assert_eq!(nodes.list(at(10_009)).len(), 1, "of another day");
    }

    #[test]
    fn the_number_of_nodes_is_bounded() {
        let nodes = HeardNodes::default();
        for number in 0..2 * MAX_NODES as u64 {
            nodes.hear(NodeName::in_fleet(number), said(10_000), at(10_000));
        }
        assert_eq!(nodes.list(at(10_000)).len(), MAX_NODES);
    }
}

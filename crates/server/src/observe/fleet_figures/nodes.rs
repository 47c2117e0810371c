//! The nodes of a fleet: each announces itself once a second.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate::store::StoreErrorKind;
use tollgate::{Micros, Timestamp};

use super::{NodeState, NodeStatus};
use crate::app::readiness::NodeReadiness;
use crate::check::decision_id::NodeName;
use crate::observe::audit_log::shortened;

/// How many other nodes are known at most.
const MAX_NODES: usize = 1_000;
/// After this time without an announcement, a node is forgotten.
const FORGET_AFTER: Micros = Micros::from_secs(600);
/// A node that announced itself within this time is expected to respond; another is silent.
pub(super) const LIVE_FOR: Micros = Micros::from_secs(5);
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
    pub(super) file_digest: Option<String>,
    pub(super) envoy_digest: Option<String>,
    pub(super) requests_per_second: f64,
    pub(super) refused_per_second: f64,
    pub(super) store_servers_up: u32,
    pub(super) store_servers: u32,
    /// Why a server of the store cannot be used, by the name of a [`StoreErrorKind`].
    pub(super) store_failure: Option<String>,
    pub(super) is_waiting: bool,
    pub(super) is_draining: bool,
    /// Whether it is its last one: the node ends, and is not missed.
    pub(super) is_farewell: bool,
    /// When it was sent, by the clock of the node.
    pub(super) at: u64,
}

impl Announcement {
    /// The node as it is shown while it is heard.
    pub(super) fn status(self, name: NodeName, last_seen: Timestamp) -> NodeStatus {
        let shown = |digest: String| shortened(&digest).to_owned();
        NodeStatus {
            name: name.text(),
            host: shortened(&self.host).to_owned(),
            version: shortened(&self.version).to_owned(),
            started: Timestamp::from_micros(self.started),
            revision: self.revision,
            revision_since: Timestamp::from_micros(self.revision_since),
            file_digest: self.file_digest.map(shown),
            envoy_digest: self.envoy_digest.map(shown),
            state: Some(NodeState {
                requests_per_second: self.requests_per_second,
                refused_per_second: self.refused_per_second,
                store_servers_up: self.store_servers_up,
                store_servers: self.store_servers,
                store_failure: self.store_failure.as_deref().and_then(StoreErrorKind::from_name),
                readiness: match (self.is_draining, self.is_waiting) {
                    (true, _) => NodeReadiness::Draining,
                    (false, true) => NodeReadiness::WaitingForCatalog,
                    (false, false) => NodeReadiness::Ready,
                },
            }),
            last_seen,
            is_this: false,
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

impl HeardNode {
    fn is_live(&self, now: Timestamp) -> bool {
        !self.said.is_farewell && now.since(self.at) <= LIVE_FOR
    }

    fn is_known(&self, now: Timestamp) -> bool {
        !self.said.is_farewell && now.since(self.at) <= FORGET_AFTER
    }
}

impl HeardNodes {
    /// Notes an announcement, unless it is an old one that was sent again. None follows a farewell.
    pub(super) fn hear(&self, node: NodeName, said: Announcement, now: Timestamp) {
        let sent = Timestamp::from_micros(said.at);
        if now.since(sent) > MAX_SKEW {
            return;
        }
        let mut nodes = self.0.lock();
        nodes.retain(|_, heard| now.since(heard.at) <= FORGET_AFTER);
        let is_over = |known: &HeardNode| known.said.is_farewell || known.said.at >= said.at;
        if nodes.get(&node).is_some_and(is_over) {
            return;
        }
        if nodes.len() >= MAX_NODES && !nodes.contains_key(&node) {
            // Nodes that are alive come first: the one that was heard last the longest ago makes room.
            let oldest = nodes.iter().filter(|(_, heard)| !heard.is_live(now));
            let Some(oldest) = oldest.min_by_key(|(_, heard)| heard.at).map(|(node, _)| *node)
            else {
                return;
            };
            nodes.remove(&oldest);
        }
        nodes.insert(node, HeardNode { said, at: now });
    }

    /// The nodes that are expected to respond.
    pub(super) fn live(&self, now: Timestamp) -> Vec<NodeName> {
        let nodes = self.0.lock();
        nodes.iter().filter(|(_, heard)| heard.is_live(now)).map(|(node, _)| *node).collect()
    }

    /// How many nodes were alive when this node last heard anything.
    pub(super) fn alive_at(&self, heard_at: Timestamp) -> usize {
        self.0.lock().values().filter(|heard| heard.is_live(heard_at)).count()
    }

    /// The nodes that are listed, and not expected to respond.
    pub(super) fn silent(&self, now: Timestamp) -> Vec<NodeName> {
        let nodes = self.0.lock();
        let is_silent = |heard: &HeardNode| heard.is_known(now) && !heard.is_live(now);
        nodes.iter().filter(|(_, heard)| is_silent(heard)).map(|(node, _)| *node).collect()
    }

    /// The nodes that are listed.
    pub(super) fn known(&self, now: Timestamp) -> Vec<NodeName> {
        let nodes = self.0.lock();
        nodes.iter().filter(|(_, heard)| heard.is_known(now)).map(|(node, _)| *node).collect()
    }

    /// All nodes, in the order of their machines.
    pub(super) fn list(&self, now: Timestamp) -> Vec<NodeStatus> {
        let nodes = self.0.lock();
        let known = nodes.iter().filter(|(_, heard)| heard.is_known(now));
        let status = |(node, heard): (&NodeName, &HeardNode)| {
            let status = heard.said.clone().status(*node, heard.at);
            if heard.is_live(now) { status } else { NodeStatus { state: None, ..status } }
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
        let is_silent = |node: &NodeStatus| node.state.is_none();
        let silent: Vec<bool> = nodes.list(at(10_007)).iter().map(is_silent).collect();
        assert_eq!(silent, [false, true], "what it said is of the past");
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

    /// One that ended looked like one that had crashed.
    #[test]
    fn a_node_that_says_farewell_is_gone_and_does_not_come_back() {
        let nodes = HeardNodes::default();
        let node = NodeName::in_fleet(1);
        nodes.hear(node, said(10_000), at(10_000));
        nodes.hear(node, Announcement { is_farewell: true, ..said(10_001) }, at(10_001));
        assert!(nodes.list(at(10_001)).is_empty() && nodes.live(at(10_001)).is_empty());
        // One that was under way.
        nodes.hear(node, said(10_002), at(10_002));
        assert!(nodes.known(at(10_002)).is_empty());
    }

    /// A node that announces itself just before this one looked silent for the second in which nothing arrived from either,
    /// and one that had crashed came back when the others could not be reached any more.
    #[test]
    fn the_nodes_that_are_alive_stay_the_same_while_nothing_is_heard() {
        let nodes = HeardNodes::default();
        let (crashed, other) = (NodeName::in_fleet(1), NodeName::in_fleet(2));
        nodes.hear(crashed, said(10_000), at(10_000));
        nodes.hear(other, said(10_004), at(10_004));
        assert_eq!(nodes.alive_at(at(10_005)), 2);
        assert_eq!(nodes.alive_at(at(10_006)), 1);
    }

    #[test]
    fn the_number_of_nodes_is_bounded() {
        let nodes = HeardNodes::default();
        let name = |number: usize| NodeName::in_fleet(number as u64);
        for number in 0..2 * MAX_NODES {
            nodes.hear(name(number), said(10_000), at(10_000));
        }
        assert_eq!(nodes.list(at(10_000)).len(), MAX_NODES);
        // Silent ones make room.
        nodes.hear(name(0), said(10_009), at(10_009));
        nodes.hear(name(MAX_NODES), said(10_009), at(10_009));
        assert_eq!(nodes.live(at(10_009)).len(), 2);
        assert_eq!(nodes.list(at(10_009)).len(), MAX_NODES);
    }
}

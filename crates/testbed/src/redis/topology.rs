//! The view of a node on its cluster, as `CLUSTER NODES` returns it.

use std::ops::RangeInclusive;

/// One node, as another one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) port: u16,
    /// Whether it is the node that replied.
    pub(super) is_self: bool,
    pub(super) is_master: bool,
    /// Whether it is considered unreachable.
    pub(super) has_failed: bool,
    /// Its master, if it is a replica.
    pub(super) master: Option<String>,
    /// Of two nodes that claim a slot, the one with the higher epoch owns it.
    pub(super) epoch: u64,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Member {
    pub(super) fn serves(&self, slot: u16) -> bool {
        self.is_master && self.slots.iter().any(|range| range.contains(&slot))
    }
}

/// All nodes, in the order of their names, so that what two nodes say can be compared.
pub(super) fn parse(text: &str) -> Vec<Member> {
    let member = |line: &str| member(line).unwrap_or_else(|| panic!("not a node: {line:?}"));
    let mut members: Vec<Member> = text.lines().map(member).collect();
    members.sort_by(|one, other| one.id.cmp(&other.id));
    members
}

/// `id address flags master ping pong epoch link slot...`
fn member(line: &str) -> Option<Member> {
    let words: Vec<&str> = line.split(' ').collect();
    let [id, address, flags, master, _ping, _pong, epoch, _link, slots @ ..] = &words[..] else {
        return None;
    };
    let has = |flag: &str| flags.split(',').any(|word| word == flag);
    Some(Member {
        id: (*id).to_owned(),
        port: address.split('@').next()?.rsplit(':').next()?.parse().ok()?,
        is_self: has("myself"),
        is_master: has("master"),
        has_failed: has("fail") || has("fail?") || has("handshake") || has("noaddr"),
        master: (*master != "-").then(|| (*master).to_owned()),
        epoch: epoch.parse().ok()?,
        // Slots in brackets are being migrated.
        slots: slots
            .iter()
            .filter(|slots| !slots.starts_with('['))
            .map(|slots| range(slots))
            .collect::<Option<_>>()?,
    })
}

fn range(slots: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read() {
        let text = "\
b2 127.0.0.1:30002@31002,host slave,fail? a1 0 1426238316232 5 connected
a1 127.0.0.1:30001@31001 myself,master - 0 0 7 connected 0-5460 5462 [93->-b2]
";
        let master = Member {
            id: "a1".into(),
            port: 30001,
            is_self: true,
            is_master: true,
            has_failed: false,
            master: None,
            epoch: 7,
            slots: vec![0..=5460, 5462..=5462],
        };
        let replica = Member {
            id: "b2".into(),
            port: 30002,
            is_self: false,
            is_master: false,
            has_failed: true,
            master: Some("a1".into()),
            epoch: 5,
            slots: vec![],
        };
        let served = [0, 5460, 5461, 5462, 5463].map(|slot| master.serves(slot));
        assert_eq!(served, [true, true, false, true, false]);
        assert_eq!(parse(text), [master, replica]);
    }

    #[test]
    #[should_panic(expected = "not a node")]
    fn what_is_no_node_is_refused() {
        parse("a1 127.0.0.1:30001@31001 master - 0 0 x connected 0-5460");
    }
}

//! Whether other nodes can be reached: a node hears its own announcements too, unless what carries messages is away.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::Timestamp;

use super::nodes::LIVE_FOR;

/// When this node last heard itself.
#[derive(Debug, Default)]
pub(super) struct ExchangeState {
    /// In microseconds since 1970; 0 before the first announcement.
    echoed_at: AtomicU64,
}

impl ExchangeState {
    /// Notes that this node announces itself. From the first time on it expects to hear that.
    pub(super) fn note_announcement(&self, now: Timestamp) {
        let (began, order) = (now.as_micros(), Ordering::Relaxed);
        let _ = self.echoed_at.compare_exchange(0, began, order, order);
    }

    /// Notes that an announcement of this node arrived. It need not be genuine: one that another sender made shows too that
    /// messages arrive.
    pub(super) fn note_echo(&self, now: Timestamp) {
        self.echoed_at.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    /// When messages arrived for the last time, if this node announces itself.
    pub(super) fn heard_at(&self) -> Option<Timestamp> {
        let echoed_at = self.echoed_at.load(Ordering::Relaxed);
        (echoed_at > 0).then(|| Timestamp::from_micros(echoed_at))
    }

    /// Since when no announcement arrived, if that is longer than it takes.
    pub(super) fn lost_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.heard_at().filter(|heard_at| now.since(*heard_at) > LIVE_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_out_of_reach_while_this_node_does_not_hear_itself() {
        let (exchange, at) = (ExchangeState::default(), Timestamp::from_secs);
        assert_eq!(exchange.lost_since(at(1_000)), None, "nothing was announced");
        exchange.note_announcement(at(1_000));
        exchange.note_announcement(at(1_004));
        assert_eq!(exchange.lost_since(at(1_005)), None);
        assert_eq!(exchange.lost_since(at(1_006)), Some(at(1_000)), "nothing arrived");
        exchange.note_echo(at(1_006));
        assert_eq!(exchange.lost_since(at(1_006)), None);
        exchange.note_announcement(at(1_011));
        assert_eq!(exchange.lost_since(at(1_012)), Some(at(1_006)));
    }
}

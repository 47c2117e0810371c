//! Requests that people composed on the page Try and checked. Most allowed requests are not recorded; of these the page of
//! the decision is opened next.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_api::RecordedRequest;

/// How many are kept.
const TRIED_CAPACITY: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct TriedRequests(Mutex<VecDeque<(String, RecordedRequest)>>);

impl TriedRequests {
    /// Keeps the request of a decision; the oldest makes room.
    pub(crate) fn keep(&self, decision_id: String, request: RecordedRequest) {
        let mut kept = self.0.lock();
        if kept.len() >= TRIED_CAPACITY {
            kept.pop_front();
        }
        kept.push_back((decision_id, request));
    }

    /// The request of a decision, if it is kept.
    pub(crate) fn find(&self, decision_id: &str) -> Option<RecordedRequest> {
        let kept = self.0.lock();
        kept.iter().rev().find(|(id, _)| id == decision_id).map(|(_, request)| request.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_makes_room() {
        let tried = TriedRequests::default();
        for id in 0..=TRIED_CAPACITY {
            let request = RecordedRequest { node: Some(id.to_string()), ..<_>::default() };
            tried.keep(id.to_string(), request);
        }
        assert_eq!(tried.find("0"), None);
        let last = tried.find(&TRIED_CAPACITY.to_string()).expect("kept");
        assert_eq!(last.node, Some(TRIED_CAPACITY.to_string()));
    }
}

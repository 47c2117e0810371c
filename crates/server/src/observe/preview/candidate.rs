//! What the candidates of changed rules would have refused, of the requests that pass.

use std::cmp::Reverse;
use std::collections::HashMap;

use tollgate::Decision;

/// What a candidate would have refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CandidatePreview {
    /// Its id, which ends in `~candidate`.
    pub(crate) id: String,
    /// The requests that it counted: those that pass the rules in force beside it.
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    /// How many clients it would have refused.
    pub(crate) clients_refused: u64,
    /// The clients that it would have refused most.
    pub(crate) clients: Vec<CandidateClient>,
}

/// A client that a candidate would have refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CandidateClient {
    pub(crate) client: String,
    /// Its requests that the candidate counted.
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

/// The counts of one candidate, by the numbers of clients.
#[derive(Debug, Default)]
pub(super) struct CandidateCounts {
    id: String,
    requests: u64,
    refused: u64,
    clients: HashMap<usize, (u64, u64)>,
}

impl CandidateCounts {
    pub(super) fn of(id: String) -> Self {
        Self { id, ..Self::default() }
    }

    /// Adds a request that passed.
    pub(super) fn add(&mut self, client: usize, decision: &Decision) {
        if !decision.is_allowed() {
            return;
        }
        let Some(own) = decision.outcomes().find(|it| *it.rule.id == *self.id) else { return };
        let refused = u64::from(!own.outcome.admitted);
        self.requests += 1;
        self.refused += refused;
        let counted = self.clients.entry(client).or_default();
        *counted = (counted.0 + 1, counted.1 + refused);
    }

    /// The figures, with at most so many clients.
    pub(super) fn figures(self, most: usize, name: impl Fn(usize) -> String) -> CandidatePreview {
        let mut refused: Vec<(usize, (u64, u64))> =
            self.clients.into_iter().filter(|(_, (_, refused))| *refused > 0).collect();
        refused.sort_unstable_by_key(|(number, (_, refused))| (Reverse(*refused), *number));
        CandidatePreview {
            id: self.id,
            requests: self.requests,
            refused: self.refused,
            clients_refused: refused.len() as u64,
            clients: refused
                .into_iter()
                .take(most)
                .map(|(number, (requests, refused))| CandidateClient {
                    client: name(number),
                    requests,
                    refused,
                })
                .collect(),
        }
    }
}

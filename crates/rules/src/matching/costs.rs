//! What one request costs under a rule: by endpoint, or else the same for all.

use std::cmp::Reverse;

use crate::compile::flaw::Flaw;
use crate::matching::method::MethodSet;
use crate::matching::path::PathMatcher;
use crate::matching::path_index::PathIndex;
use crate::plan::facts::Facts;

/// The costs of a rule.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Costs {
    otherwise: u64,
    /// Narrowest first: of several that match, the first one counts.
    entries: Box<[CostEntry]>,
    index: PathIndex<usize>,
}

#[derive(Clone, Debug)]
struct CostEntry {
    methods: Option<MethodSet>,
    cost: u64,
}

impl Costs {
    /// `entries` are keyed by "METHOD /pattern" or "/pattern". Returns all flaws.
    pub(crate) fn parse<'a>(
        otherwise: u64,
        entries: impl IntoIterator<Item = (&'a String, &'a u64)>,
        flaws: &mut Vec<Flaw>,
    ) -> Self {
        let mut parsed = Vec::new();
        for (text, cost) in entries {
            match parse_endpoint(text) {
                Ok((methods, pattern)) => {
                    parsed.push((pattern, CostEntry { methods, cost: *cost }));
                }
                Err(flaw) => {
                    let key = serde_json::Value::from(text.as_str());
                    flaws.push(flaw.within(&format!("costs[{key}]")));
                }
            }
        }
        parsed.sort_by_key(|(pattern, entry)| {
            Reverse((pattern.narrowness(), entry.methods.is_some()))
        });
        let mut index = PathIndex::default();
        for (at, (pattern, _)) in parsed.iter().enumerate() {
            index.insert(pattern, at);
        }
        let entries = parsed.into_iter().map(|(_, entry)| entry).collect();
        Self { otherwise, entries, index }
    }

    /// What a request costs, before its own cost multiplies it.
    #[inline]
    pub(crate) fn of(&self, facts: &Facts<'_>) -> u64 {
        if self.are_equal() { self.otherwise } else { self.by_endpoint(facts) }
    }

    fn by_endpoint(&self, facts: &Facts<'_>) -> u64 {
        let Some(path) = facts.path.as_deref() else { return self.otherwise };
        let mut narrowest = usize::MAX;
        self.index.visit(path, facts.path_case, &mut |at| {
            let accepts = |methods: &MethodSet| facts.method().is_some_and(|m| methods.contains(m));
            if self.entries[at].methods.as_ref().is_none_or(accepts) {
                narrowest = narrowest.min(at);
            }
        });
        self.entries.get(narrowest).map_or(self.otherwise, |entry| entry.cost)
    }

    /// What every request costs, if all cost the same.
    pub(crate) fn of_all(&self) -> Option<u64> {
        self.are_equal().then_some(self.otherwise)
    }

    /// Whether all requests cost the same.
    #[inline]
    pub(crate) fn are_equal(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether no request costs anything.
    pub(crate) fn are_all_free(&self) -> bool {
        self.all().all(|cost| cost == 0)
    }

    /// Whether some request costs nothing.
    pub(crate) fn can_be_free(&self) -> bool {
        self.all().any(|cost| cost == 0)
    }

    /// Whether every request provably costs at least as much as under `other`.
    pub(crate) fn are_at_least(&self, other: &Self) -> bool {
        self.all().min() >= other.all().max()
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.cost).chain([self.otherwise])
    }
}

fn parse_endpoint(text: &str) -> Result<(Option<MethodSet>, PathMatcher), Flaw> {
    let Some((method, pattern)) = text.split_once(' ') else {
        return Ok((None, PathMatcher::parse(text)?));
    };
    let mut methods = MethodSet::default();
    methods.insert(method)?;
    Ok((Some(methods), PathMatcher::parse(pattern.trim_start())?))
}

//! The descriptors of one domain as a tree, which is walked down along the entries of a request.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::envoy::limit::LimitStep;
use crate::envoy::wildcard::Wildcard;

/// The branches of one level.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeLevel {
    branches: Vec<Branch>,
    /// By key, or key and value as one name: `a_b` with `c` is the same as `a` with `b_c`.
    by_name: HashMap<Box<str>, usize, FixedState>,
    /// In the order of the file.
    wildcards: Vec<(Wildcard, usize)>,
}

/// One node of the tree.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// What the file says about the entry that leads here.
    pub(super) step: LimitStep,
    /// The index of its limit.
    pub(super) limit: Option<usize>,
    /// The name it is found by, if all that match it are counted together.
    pub(super) shared: Option<Box<str>>,
    pub(super) below: TreeLevel,
}

/// Where an entry leads.
pub(super) struct TreeMatch<'a> {
    pub(super) branch: &'a Branch,
    /// What stands for the value in the key of the counter, if not the value.
    pub(super) pattern: Option<&'a str>,
}

impl TreeLevel {
    /// Adds a branch under a name that is not there yet.
    pub(super) fn add(&mut self, name: &str, branch: Branch) {
        let at = self.branches.len();
        self.branches.push(branch);
        self.by_name.insert(name.into(), at);
        self.wildcards.extend(Wildcard::parse(name).map(|wildcard| (wildcard, at)));
    }

    /// Whether there is a branch of that name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// All branches, in the order of the file.
    pub(super) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The branch for an entry: that for the very value, else the first wildcard that matches, else
    /// that for any value. There is no way back from a branch, even if it leads nowhere.
    ///
    /// `scratch` is memory to work in; it comes back as it was.
    pub(super) fn find(
        &self,
        key: &str,
        value: &str,
        scratch: &mut String,
    ) -> Option<TreeMatch<'_>> {
        if self.branches.is_empty() {
            return None;
        }
        let start = scratch.len();
        scratch.extend([key, "_", value]);
        let found = self.find_joined(key, &scratch[start..]);
        scratch.truncate(start);
        found
    }

    fn find_joined(&self, key: &str, joined: &str) -> Option<TreeMatch<'_>> {
        let branch = |at: usize, by_wildcard: bool| {
            let branch = self.branches.get(at)?;
            let shared = branch.shared.as_deref().filter(|_| by_wildcard);
            let pattern = shared.map(|name| without_key(name, key));
            Some(TreeMatch { branch, pattern })
        };
        if let Some(at) = self.by_name.get(joined) {
            return branch(*at, false);
        }
        if let Some((_, at)) = self.wildcards.iter().find(|(wildcard, _)| wildcard.matches(joined))
        {
            return branch(*at, true);
        }
        branch(*self.by_name.get(key)?, false)
    }
}

/// The part of a name that stands for the value; all of it if the wildcard is in the key.
fn without_key<'a>(name: &'a str, key: &str) -> &'a str {
    name.strip_prefix(key).and_then(|rest| rest.strip_prefix('_')).unwrap_or(name)
}

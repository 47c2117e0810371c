//! Which limit each descriptor of a request meets, and which counter it is counted in.

use std::fmt;
use std::fmt::Write as _;
use std::mem::take;

use smallvec::SmallVec;

use crate::envoy::EnvoyConfig;
use crate::envoy::limit::{Allowance, FileLimit};
use crate::envoy::tree::{TreeLevel, TreeMatch};

/// One descriptor of a request.
#[derive(Clone, Copy)]
pub struct Descriptor<'a> {
    /// Keys and values, in the order of the request.
    pub entries: &'a [(&'a str, &'a str)],
    /// Whether it brings its own limit along. Then no limit of the files applies to it.
    pub carries_limit: bool,
}

/// The verdict on one descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorVerdict {
    /// No limit is for it; it passes.
    Unmatched,
    /// It passes, and nothing is counted.
    Unlimited,
    /// Its limit is replaced by that of another descriptor of the request; it passes.
    Replaced,
    /// It is counted.
    Limit {
        /// The index of the limit in [`EnvoyConfig::limits`].
        limit: usize,
        /// The counter.
        key: CounterKey,
    },
    /// It is counted by the limit that it carries.
    Carried {
        /// The counter.
        key: CounterKey,
    },
}

/// Names a counter: the domain and all keys and values of the descriptor, each after its length, as
/// in `4:shop6:tenant4:acme`. So no two descriptors share a counter, whatever is in their values.
/// Only where a limit has `share_threshold`, the wildcard stands in place of the value.
///
/// The limit is no part of it: what was counted stays when a limit changes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CounterKey(String);

impl CounterKey {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Values may be secrets, so they are not shown.
impl fmt::Debug for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CounterKey({} bytes)", self.0.len())
    }
}

impl EnvoyConfig {
    /// The verdict on each descriptor of one request, in their order. `None`: no file is for that
    /// domain.
    #[must_use]
    pub fn judge(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> Option<Vec<DescriptorVerdict>> {
        let root = self.domains.get(domain)?;
        let mut text = String::new();
        let mut replaced = SmallVec::<[&str; 8]>::new();
        let mut verdicts = Vec::with_capacity(descriptors.len());
        for Descriptor { entries, carries_limit } in descriptors {
            text.clear();
            text.reserve(expected_length(domain, entries));
            push_part(&mut text, domain);
            verdicts.push(if *carries_limit {
                push_entries(&mut text, entries);
                DescriptorVerdict::Carried { key: CounterKey(take(&mut text)) }
            } else if let Some((at, limit)) = self.find(root, entries, &mut text) {
                replaced.extend(limit.replaces.iter().map(|name| &**name));
                match limit.allowance {
                    Allowance::Unlimited => DescriptorVerdict::Unlimited,
                    Allowance::Limited { .. } => {
                        DescriptorVerdict::Limit { limit: at, key: CounterKey(take(&mut text)) }
                    }
                }
            } else {
                DescriptorVerdict::Unmatched
            });
        }
        // All at once: what a limit replaces does not depend on whether it is replaced itself.
        replaced.sort_unstable();
        for verdict in &mut verdicts {
            if let DescriptorVerdict::Limit { limit, .. } = verdict
                && let Some(name) = self.limits.get(*limit).and_then(|limit| limit.name.as_deref())
                && replaced.binary_search(&name).is_ok()
            {
                *verdict = DescriptorVerdict::Replaced;
            }
        }
        Some(verdicts)
    }

    /// The limit at the end of the way along all entries. Their part of the counter's key is
    /// written on the way.
    fn find(
        &self,
        root: &TreeLevel,
        entries: &[(&str, &str)],
        text: &mut String,
    ) -> Option<(usize, &FileLimit)> {
        let mut level = root;
        let mut limit = None;
        for (key, value) in entries {
            let TreeMatch { branch, pattern } = level.find(key, value, text)?;
            push_part(text, key);
            push_part(text, pattern.unwrap_or(value));
            level = &branch.below;
            limit = branch.limit;
        }
        limit.and_then(|at| Some((at, self.limits.get(at)?)))
    }
}

fn push_entries(text: &mut String, entries: &[(&str, &str)]) {
    for (key, value) in entries {
        push_part(text, key);
        push_part(text, value);
    }
}

fn push_part(text: &mut String, part: &str) {
    let _ = write!(text, "{}:{part}", part.len());
}

/// Enough for the key and for looking up its last entry behind it, so that the text grows once.
fn expected_length(domain: &str, entries: &[(&str, &str)]) -> usize {
    const LENGTHS: usize = 8;
    let of = |(key, value): &(&str, &str)| key.len() + value.len() + LENGTHS;
    let longest = entries.iter().map(of).max().unwrap_or(0);
    domain.len() + LENGTHS + entries.iter().map(of).sum::<usize>() + longest
}

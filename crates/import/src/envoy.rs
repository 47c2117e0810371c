//! The files of envoyproxy/ratelimit, read and matched as it does, so that they can be kept when
//! Tollgate replaces it.
//!
//! A file has one domain and a tree of descriptors. A request of Envoy names a domain and has
//! descriptors, each a list of keys and values, which is followed down the tree entry by entry. It
//! meets the limit at the node where its last entry arrives, if there is one: a request that is
//! deeper than the tree, or less deep, meets none.
//!
//! ```
//! use tollgate_import::envoy::{Descriptor, EnvoyConfig, DescriptorVerdict};
//!
//! let file = "
//! domain: shop
//! descriptors:
//!   - key: tenant
//!     rate_limit: {unit: minute, requests_per_unit: 100}
//!   - key: tenant
//!     value: acme
//!     rate_limit: {unlimited: true}
//! ";
//! let config = EnvoyConfig::parse(&[("shop.yaml", file)]).expect("a valid file");
//! let descriptor = |entries| Descriptor { entries, carries_limit: false };
//! let request = [descriptor(&[("tenant", "acme")]), descriptor(&[("tenant", "other")])];
//! let verdicts = config.judge("shop", &request).expect("the domain is known");
//! assert_eq!(verdicts[0], DescriptorVerdict::Unlimited);
//! let DescriptorVerdict::Limit { limit, key } = &verdicts[1] else { panic!("it is counted") };
//! assert_eq!(&*config.limits()[*limit].id, "shop.tenant");
//! assert_eq!(key.as_str(), "4:shop6:tenant5:other");
//! ```
//!
//! [`EnvoyConfig::to_document`] makes a policy of the files, which can then replace them.
//!
//! What is not obvious in these files:
//!
//! - A key and its value are one name, `key_value`. On each level an entry goes to the node of that
//!   very name, else to the first wildcard in the file that matches it, else to the node of the key
//!   alone, and never back: a node without a limit is an exception from its wider siblings.
//! - `*` stands for any text, anywhere in the name.
//! - Each value has its own counter, unless `share_threshold` puts all that match a wildcard
//!   into one.
//! - `replaces` is one step over all descriptors of a request, and an unlimited one replaces too.
//! - `requests_per_unit` is 0 if it is left out, and 0 blocks.
//! - `algorithm`, beside `unit`, is an addition of ours: any of the algorithms of a policy.
//!   Without it a limit counts by `fixed_window`, as in envoyproxy/ratelimit.
//! - The YAML is that of yaml.v2: merge keys, of a field given twice the last, the first document only.
//! - A field in the wrong place is refused, where envoyproxy/ratelimit silently ignores it.

mod document;
mod doubts;
mod judge;
mod limit;
mod recognise;
mod rule_id;
mod scalars;
mod to_document;
mod tree;
mod unit;
mod wildcard;

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_document::{Position, Problem, quote};

use crate::FileProblem;
use crate::envoy::document::{DescriptorDocument, FileDocument};
use crate::envoy::rule_id::{EnvoyRuleIds, Trail};
use crate::envoy::tree::{Branch, TreeLevel};

pub use crate::envoy::judge::{CounterKey, Descriptor, DescriptorVerdict};
pub use crate::envoy::limit::{Allowance, FileLimit, LimitStep};
pub use crate::envoy::recognise::FileKind;
pub use crate::envoy::to_document::EnvoyImport;
pub use crate::envoy::to_document::note::{EnvoyLoss, EnvoyNote};
pub use crate::envoy::unit::Unit;

/// What a domain in several files is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedDomain {
    /// A problem.
    #[default]
    Refused,
    /// One domain with the descriptors of all of them.
    Merged,
}

/// The limits of all files.
#[derive(Clone, Debug, Default)]
pub struct EnvoyConfig {
    domains: HashMap<Arc<str>, TreeLevel>,
    limits: Vec<FileLimit>,
}

impl EnvoyConfig {
    /// Reads files, each given by its name and its text.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, Vec<FileProblem>> {
        Self::parse_domains(files, RepeatedDomain::Refused)
    }

    /// Reads files, each given by its name and its text.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn parse_domains(
        files: &[(&str, &str)],
        repeated: RepeatedDomain,
    ) -> Result<Self, Vec<FileProblem>> {
        let mut config = Self::default();
        let mut ids = EnvoyRuleIds::default();
        let mut problems = Vec::new();
        let mut first = HashMap::<String, (&str, Position)>::new();
        for (file, text) in files {
            let tell = |problem| FileProblem { file: (*file).to_owned(), problem };
            let (document, told) = document::read(text);
            problems.extend(told.into_iter().map(tell));
            let Some(document) = document else { continue };
            let position = document.domain_position;
            let known = first.get(&document.domain);
            if known.is_some() && repeated == RepeatedDomain::Merged {
                problems.extend(config.merge(document, file, &mut ids).into_iter().map(tell));
                continue;
            }
            if let Some((file, place)) = known {
                let domain = quote(&document.domain);
                let message = format!("the domain {domain} is in {file} already, at {place}");
                let advice =
                    "put all descriptors of a domain into one file, or set envoy.merge_domains";
                let problem = Problem::new("domain", message).with_advice(advice);
                problems.push(tell(problem.at(position)));
                continue;
            }
            first.insert(document.domain.clone(), (file, position));
            config.add(document, file, &mut ids);
        }
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// All limits. A [`DescriptorVerdict`] names them by their index.
    #[must_use]
    pub fn limits(&self) -> &[FileLimit] {
        &self.limits
    }

    /// The domains, in no order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|domain| &**domain)
    }

    /// Adds the descriptors of a domain that is known already. No name may be on its first level twice.
    fn merge(
        &mut self,
        document: FileDocument,
        file: &str,
        ids: &mut EnvoyRuleIds,
    ) -> Vec<Problem> {
        let Some((domain, mut root)) = self.domains.remove_entry(&*document.domain) else {
            return Vec::new();
        };
        let trail = Trail::start(&domain);
        let mut builder = LimitTreeBuilder {
            limits: &mut self.limits,
            ids,
            domain: &domain,
            file: file.into(),
            path: vec![],
        };
        let mut problems = Vec::new();
        for descriptor in document.descriptors {
            let name = descriptor.joined();
            if root.contains(&name) {
                let message = format!("{} is in another file of this domain already", quote(&name));
                let problem = Problem::new("descriptors", message).at(descriptor.position);
                problems.push(problem.with_advice("join the two; key and value count as one name"));
                continue;
            }
            let branch = builder.branch(descriptor, &name, &trail.below(&name));
            root.add(&name, branch);
        }
        self.domains.insert(domain, root);
        problems
    }

    fn add(&mut self, document: FileDocument, file: &str, ids: &mut EnvoyRuleIds) {
        let domain = Arc::<str>::from(document.domain);
        let trail = Trail::start(&domain);
        let mut builder = LimitTreeBuilder {
            limits: &mut self.limits,
            ids,
            domain: &domain,
            file: file.into(),
            path: vec![],
        };
        let root = builder.level(document.descriptors, &trail);
        self.domains.insert(domain, root);
    }
}

/// Turns the descriptors of a domain into a tree and a list of limits.
struct LimitTreeBuilder<'a> {
    limits: &'a mut Vec<FileLimit>,
    ids: &'a mut EnvoyRuleIds,
    domain: &'a Arc<str>,
    file: Arc<str>,
    /// The way to the level that is being built.
    path: Vec<LimitStep>,
}

impl LimitTreeBuilder<'_> {
    fn level(&mut self, descriptors: Vec<DescriptorDocument>, trail: &Trail) -> TreeLevel {
        let mut level = TreeLevel::default();
        for descriptor in descriptors {
            let name = descriptor.joined();
            let branch = self.branch(descriptor, &name, &trail.below(&name));
            level.add(&name, branch);
        }
        level
    }

    fn branch(&mut self, descriptor: DescriptorDocument, name: &str, trail: &Trail) -> Branch {
        let DescriptorDocument { shadow_mode, detailed_metric, share_threshold, .. } = descriptor;
        let step = LimitStep {
            key: descriptor.key.into(),
            value: descriptor.value.map(Into::into),
            share_threshold,
            value_to_metric: descriptor.value_to_metric,
        };
        self.path.push(step.clone());
        let limit = descriptor.rate_limit.map(|document| {
            self.limits.push(FileLimit {
                id: self.ids.give(trail),
                domain: Arc::clone(self.domain),
                file: Arc::clone(&self.file),
                position: descriptor.position,
                path: self.path.clone().into(),
                allowance: document.allowance,
                name: document.name.map(Into::into),
                replaces: document.replaces.into_iter().map(Into::into).collect(),
                shadow: shadow_mode,
                detailed_metric,
                quota: descriptor.quota_mode,
                metadata: descriptor.metadata,
            });
            self.limits.len() - 1
        });
        let below = self.level(descriptor.descriptors, trail);
        self.path.pop();
        Branch { step, limit, shared: share_threshold.then(|| name.into()), below }
    }
}

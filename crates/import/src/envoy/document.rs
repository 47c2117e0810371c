//! A file of envoyproxy/ratelimit, with everything that is wrong with it and where.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate_core::{Algorithm, Quota};
use tollgate_document::{
    Decode, Field, Fields, Node, Position, Problem, Scope, Value, quote, read_as_yaml_v2,
};
use tollgate_rules::AlgorithmName;
use tollgate_rules::syntax::compile_quota;

use crate::envoy::limit::Allowance;
use crate::envoy::scalars::restore;
use crate::envoy::unit::Unit;

/// One file.
pub(super) struct FileDocument {
    pub(super) domain: String,
    /// Where the domain stands.
    pub(super) domain_position: Position,
    pub(super) descriptors: Vec<DescriptorDocument>,
}

/// One node of the tree in a file.
pub(super) struct DescriptorDocument {
    pub(super) key: String,
    /// Never empty.
    pub(super) value: Option<String>,
    pub(super) rate_limit: Option<RateLimitDocument>,
    pub(super) descriptors: Vec<Self>,
    pub(super) shadow_mode: bool,
    pub(super) detailed_metric: bool,
    pub(super) value_to_metric: bool,
    pub(super) share_threshold: bool,
    pub(super) quota_mode: bool,
    pub(super) metadata: Option<Node>,
    /// Where it stands.
    pub(super) position: Position,
}

/// What a node allows.
pub(super) struct RateLimitDocument {
    pub(super) allowance: Allowance,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

/// Reads a whole file: as much of it as can be read, and everything that is wrong with it.
pub(super) fn read(text: &str) -> (Option<FileDocument>, Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = match read_as_yaml_v2(text) {
        Ok(root) => root,
        Err(problem) => return (None, vec![problem]),
    };
    restore(&mut root, text);
    let mut scope = Scope::default();
    let document = match root.value {
        Value::Null => {
            let advice = "write the domain and its descriptors";
            scope.problem(root.position, "the file is empty", advice);
            None
        }
        _ => FileDocument::decode(&root, &mut scope),
    };
    let (mut problems, _) = scope.finish();
    problems.sort_by_key(|problem| (problem.position.is_none(), problem.position));
    (document, problems)
}

const fn field(name: &'static str, about: &'static [&'static str]) -> Field {
    Field { name, about, range: None, pattern: None }
}

impl FileDocument {
    const FIELDS: &'static [Field] = &[
        field("domain", &["the domain that Envoy asks for"]),
        field("descriptors", &["what is limited in it"]),
    ];
}

impl Decode for FileDocument {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, Self::FIELDS, scope)?;
        let domain = required_name(&mut fields, "domain");
        let descriptors = fields.optional("descriptors");
        let domain_position = fields.get("domain").map_or(node.position, |node| node.position);
        let descriptors = descriptors.map_or_else(Vec::new, |Siblings(descriptors)| descriptors);
        Some(Self { domain: domain?, domain_position, descriptors })
    }
}

impl DescriptorDocument {
    const FIELDS: &'static [Field] = &[
        field("key", &["the key of an entry that Envoy sends"]),
        field("value", &["its value; any, if left out"]),
        field("rate_limit", &["what is allowed"]),
        field("descriptors", &["descriptors of the next entry"]),
        field("shadow_mode", &["whether the limit only watches"]),
        field(
            "quota_mode",
            &["whether it refuses only together with all other quotas of a request"],
        ),
        field("detailed_metric", &["whether metrics name the values of requests"]),
        field("value_to_metric", &["whether metrics name the value of this entry"]),
        field("share_threshold", &["whether all that match the wildcard are counted together"]),
        field("metadata", &["what responses carry while the limit is not exceeded"]),
    ];

    /// What the node is found by: the key and the value as one name.
    pub(super) fn joined(&self) -> String {
        match &self.value {
            Some(value) => format!("{}_{value}", self.key),
            None => self.key.clone(),
        }
    }
}

impl Decode for DescriptorDocument {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, Self::FIELDS, scope)?;
        let key = required_name(&mut fields, "key");
        let value = fields.optional("value").filter(|value: &String| !value.is_empty());
        let rate_limit = fields.optional("rate_limit");
        let descriptors = fields.optional("descriptors");
        let metadata = fields.get("metadata").cloned();
        let mut flag = |name| fields.optional(name).unwrap_or(false);
        let document = Self {
            shadow_mode: flag("shadow_mode"),
            detailed_metric: flag("detailed_metric"),
            value_to_metric: flag("value_to_metric"),
            share_threshold: flag("share_threshold"),
            quota_mode: flag("quota_mode"),
            metadata,
            position: node.position,
            value,
            rate_limit,
            descriptors: descriptors.map_or_else(Vec::new, |Siblings(descriptors)| descriptors),
            key: String::new(),
        };
        let document = Self { key: key?, ..document };
        if document.share_threshold && !document.joined().contains('*') {
            let message = "there is no wildcard whose matches could share a counter";
            let advice = "put a * into the value, or leave share_threshold out";
            refuse(&mut fields, "share_threshold", message, advice);
        }
        Some(document)
    }
}

/// The nodes on one level, which must have different names.
struct Siblings(Vec<DescriptorDocument>);

impl Decode for Siblings {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let Value::List(items) = &node.value else {
            scope.expected(node, "a list", "write each descriptor as an item: - key: ...");
            return None;
        };
        let mut first = HashMap::new();
        let mut siblings = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            scope.in_item(index, |scope| {
                let Some(document) = DescriptorDocument::decode(item, scope) else { return };
                match first.entry(document.joined()) {
                    Entry::Vacant(free) => {
                        free.insert(item.position);
                        siblings.push(document);
                    }
                    Entry::Occupied(taken) => {
                        let (name, place) = (quote(taken.key()), taken.get());
                        let message = format!("{name} is on this level already, at {place}");
                        let advice = "join the two; key and value count as one name, key_value";
                        scope.problem(item.position, message, advice);
                    }
                }
            });
        }
        Some(Self(siblings))
    }
}

impl RateLimitDocument {
    const FIELDS: &'static [Field] = &[
        field("unit", &["second, minute, hour, day, week, month or year"]),
        field("requests_per_unit", &["how many requests are allowed; 0 blocks"]),
        field("unlimited", &["whether everything is allowed"]),
        field("name", &["what other limits call it"]),
        field("replaces", &["limits that do not apply where this one does"]),
        field("algorithm", &["how requests are counted"]),
    ];
}

impl Decode for RateLimitDocument {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, Self::FIELDS, scope)?;
        let allowance = allowance(&mut fields);
        let name = fields.optional::<String>("name").filter(|name| !name.is_empty());
        let replaces = fields.optional::<Vec<Replaced>>("replaces").unwrap_or_default();
        for replaced in replaces.iter().filter(|replaced| Some(&replaced.name) == name.as_ref()) {
            let advice = "name another limit, or leave it out";
            fields.problem("replaces", replaced.position, "a limit cannot replace itself", advice);
        }
        let replaces = replaces.into_iter().map(|replaced| replaced.name).collect();
        Some(Self { allowance: allowance?, name, replaces })
    }
}

fn allowance(fields: &mut Fields<'_>) -> Option<Allowance> {
    let requests = fields.optional::<u32>("requests_per_unit").unwrap_or(0);
    let algorithm = fields.optional("algorithm").unwrap_or(AlgorithmName(Algorithm::FixedWindow));
    if fields.optional("unlimited").unwrap_or(false) {
        let unit = fields.get("unit").and_then(Node::as_str).and_then(Unit::from_name);
        if unit.is_some() {
            let message = "what is unlimited has no unit";
            refuse(fields, "unit", message, "leave out either the unit or unlimited");
        }
        return Some(Allowance::Unlimited);
    }
    let unit = fields.required::<Unit>("unit")?;
    let quota = Quota::new(algorithm.0, requests.into(), unit.window());
    match compile_quota(quota) {
        Ok(limit) => Some(Allowance::Limited { unit, quota, limit: Box::new(limit) }),
        Err(problem) => {
            let advice = problem.advice.unwrap_or_default();
            refuse(fields, "algorithm", &problem.message, &advice);
            None
        }
    }
}

/// The name of a limit that is replaced.
struct Replaced {
    name: String,
    position: Position,
}

impl Replaced {
    const FIELDS: &'static [Field] = &[field("name", &["the name of the other limit"])];
}

impl Decode for Replaced {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, Self::FIELDS, scope)?;
        let name = required_name(&mut fields, "name")?;
        let position = fields.get("name").map_or(node.position, |node| node.position);
        Some(Self { name, position })
    }
}

/// A text that must be there and must not be empty.
fn required_name(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let text = fields.required::<String>(name)?;
    if text.is_empty() {
        refuse(fields, name, &format!("the {name} is empty"), "write a text");
        return None;
    }
    Some(text)
}

/// Reports a problem of a field that is there.
fn refuse(fields: &mut Fields<'_>, name: &str, message: &str, advice: &str) {
    if let Some(Node { position, .. }) = fields.get(name) {
        fields.problem(name, *position, message, advice);
    }
}

//! What `http`, a server or a location says about limits, and what it inherits.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_document::quote;

use crate::nginx::directive::Directive;
use crate::nginx::limit::{RequestLimit, limit};
use crate::nginx::place::FilePosition;
use crate::nginx::reader::Findings;

/// The status of refusals by nginx, unless `limit_req_status` sets another.
const DEFAULT_STATUS: u16 = 503;

/// What is in force at one level.
#[derive(Clone, Debug)]
pub(super) struct BlockLevel {
    pub(super) limits: Arc<LevelLimits>,
    pub(super) status: u16,
    pub(super) is_dry_run: bool,
}

/// The limits that stand together at one level. All of them apply.
#[derive(Debug, Default)]
pub(super) struct LevelLimits {
    pub(super) list: Vec<RequestLimit>,
    /// Where the first of them stands.
    pub(super) place: Option<FilePosition>,
}

impl Default for BlockLevel {
    fn default() -> Self {
        Self { limits: Arc::default(), status: DEFAULT_STATUS, is_dry_run: false }
    }
}

impl BlockLevel {
    /// The level without its limits.
    pub(super) fn unlimited(self) -> Self {
        Self { limits: Arc::default(), ..self }
    }

    /// Whether both do the same to requests.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let set = |level: &Self| level.limits.list.iter().cloned().collect::<HashSet<_>>();
        let is_same = Arc::ptr_eq(&self.limits, &other.limits) || set(self) == set(other);
        is_same && (self.is_dry_run == other.is_dry_run || self.limits.list.is_empty())
    }
}

/// Reads one level. The limits of the outer one are inherited only if it sets none itself.
pub(super) fn level<'a>(
    directives: impl Iterator<Item = &'a Directive>,
    outer: &BlockLevel,
    findings: &mut Findings,
) -> BlockLevel {
    let mut own = LevelLimits::default();
    let mut zones = HashSet::new();
    let (mut status, mut dry_run) = (None, None);
    for directive in directives {
        match directive.name.as_str() {
            "limit_req" => {
                own.place.get_or_insert_with(|| directive.place.clone());
                own.list.extend(another(directive, &mut zones, findings));
            }
            "limit_req_status" => {
                once(directive, status.is_some(), findings);
                status = parse_status(directive, findings).or(status);
            }
            "limit_req_dry_run" => {
                once(directive, dry_run.is_some(), findings);
                dry_run = parse_switch(directive, findings).or(dry_run);
            }
            _ => {}
        }
    }
    BlockLevel {
        limits: if own.place.is_some() { Arc::new(own) } else { Arc::clone(&outer.limits) },
        status: status.unwrap_or(outer.status),
        is_dry_run: dry_run.unwrap_or(outer.is_dry_run),
    }
}

/// A limit beside others, each of another zone.
fn another(
    directive: &Directive,
    zones: &mut HashSet<Arc<str>>,
    findings: &mut Findings,
) -> Option<RequestLimit> {
    let limit = limit(directive, findings)?;
    if !zones.insert(Arc::clone(&limit.zone)) {
        let message = format!("the zone {} is limited here already", quote(&limit.zone));
        findings.problem(&directive.place, &message, "keep one limit_req for each zone");
        return None;
    }
    Some(limit)
}

fn once(directive: &Directive, is_known: bool, findings: &mut Findings) {
    if is_known {
        let message = format!("{} is here twice", directive.name);
        findings.problem(&directive.place, &message, "keep one of them");
    }
}

fn parse_status(directive: &Directive, findings: &mut Findings) -> Option<u16> {
    let status = directive.argument(0).filter(|_| directive.arguments.len() == 1);
    let status = status.and_then(|text| text.parse().ok());
    let status = status.filter(|status| (400..=599).contains(status));
    if status.is_none() {
        let message = "limit_req_status has one status from 400 to 599";
        findings.problem(&directive.place, message, "write limit_req_status 429;");
    }
    status
}

fn parse_switch(directive: &Directive, findings: &mut Findings) -> Option<bool> {
    match directive.argument(0).filter(|_| directive.arguments.len() == 1) {
        Some(text) if text.eq_ignore_ascii_case("on") => Some(true),
        Some(text) if text.eq_ignore_ascii_case("off") => Some(false),
        _ => {
            let message = "limit_req_dry_run is either on or off";
            findings.problem(&directive.place, message, "write limit_req_dry_run on;");
            None
        }
    }
}

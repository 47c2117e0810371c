//! From one rule of a document to a compiled rule.

use std::cmp::Reverse;
use std::sync::Arc;

use tollgate_core::{Algorithm, CalendarUnit, Micros, Mode, Quota};

use crate::calendar::calendar;
use crate::compile::CompileOptions;
use crate::compile::candidate::CandidateLimit;
use crate::compile::flaw::Flaw;
use crate::compile::group::{Counted, group, rule_digest};
use crate::compile::quota::compile_quota;
use crate::directory::client::parse_identifiers;
use crate::document::{
    Action, AppliesTo, PenaltyDocument, RefusalDocument, RuleDocument, SoftDocument,
};
use crate::identifier::Identifier;
use crate::limit_from::LimitFrom;
use crate::matching::conditions::Conditions;
use crate::matching::costs::Costs;
use crate::matching::glob::Glob;
use crate::matching::globs::Globs;
use crate::matching::host::HostMatcher;
use crate::matching::method::MethodSet;
use crate::matching::path::PathMatcher;
use crate::refusal::{InvalidRefusal, RefusalBody, RuleRefusal};
use crate::rule::{Penalty, Rule, SoftLimit, StatusSet};
use crate::window::{WindowLength, calendar_text};

/// How long `throttle` holds requests unless the rule says otherwise.
const DEFAULT_DELAY: Micros = Micros::from_millis(1000);
/// When a client is warned unless the rule says otherwise.
const DEFAULT_SOFT: SoftLimit = SoftLimit { warn_at: 800_000, clear_at: 700_000 };
const MILLION: u64 = 1_000_000;
/// Up to here the refusals that lead to a ban are remembered one by one; beyond, they are estimated as
/// any other usage is.
const REMEMBERED_REFUSALS: u64 = 100;

/// Compiles a rule by itself, and its candidate. What it says about other rules and tiers is for the caller.
pub(crate) fn compile_rule(
    document: &RuleDocument,
    options: CompileOptions,
) -> Result<(Rule, Option<Rule>), Vec<Flaw>> {
    let mut flaws = Flaws::default();
    flaws.keep("rule_id", check_id(&document.rule_id));
    let before = flaws.0.len();
    let quota = quota(document, &mut flaws);
    let limit = compile_quota(quota, options.unbounded_log).map_err(|flaw| flaws.0.push(flaw)).ok();
    let limit_from = document.limit_from.as_ref().filter(|_| limit.is_some()).and_then(|from| {
        let parsed = LimitFrom::parse(from, &quota, options.unbounded_log);
        flaws.keep("limit_from", parsed).map(Box::new)
    });
    let has_limit = flaws.0.len() == before;
    let candidate =
        has_limit.then(|| CandidateLimit::compile(document, options, &mut flaws)).flatten();
    let identifiers = flaws.keep("identifier_type", parse_identifiers(&document.identifier_type));
    let key_pattern = flaws.keep("key_pattern", Glob::parse(&document.key_pattern));
    let conditions = conditions(document, &mut flaws);
    let costs = Costs::parse(document.cost, &document.costs, &mut flaws.0);
    let soft = soft(document.soft.as_ref(), &mut flaws);
    let tenant = conditions.tenant.as_deref();
    let penalty = penalty(document, identifiers.as_deref().unwrap_or_default(), tenant, &mut flaws);
    let refusal = document.refusal.as_ref().and_then(|document| refusal(document, &mut flaws));
    if document.fallback_factor == 0 {
        let flaw =
            Flaw::new("a node that counts alone allows at least the limit", "write 1 or more");
        flaws.add("fallback_factor", flaw);
    }
    let (Some(limit), Some(identifiers), Some(key_pattern), []) =
        (limit, identifiers, key_pattern, &*flaws.0)
    else {
        return Err(flaws.0);
    };
    let rule = Rule {
        id: document.rule_id.as_str().into(),
        candidate_of: None,
        name: document.name.as_deref().map(Into::into),
        enabled: document.enabled,
        plain: None,
        digest: 0,
        quota,
        limit,
        limit_from,
        mode: if document.action == Action::LogOnly { Mode::Shadow } else { Mode::Enforce },
        action: document.action,
        soft,
        consistency: document.consistency,
        on_store_failure: document.on_store_failure,
        fallback_factor: document.fallback_factor,
        penalty: penalty.map(Box::new),
        refund_on: statuses(document),
        refusal,
        group: group(Counted::Requests, &identifiers, tenant),
        identifiers: identifiers.into(),
        on_missing: document.on_missing,
        tenant: conditions.tenant.clone(),
        priority: document.priority,
        conditions,
        key_pattern,
        costs,
        replaces: Box::default(),
    };
    let candidate = candidate.map(|candidate| candidate.beside(&rule));
    Ok((rule, candidate))
}

/// What is wrong with a rule so far.
#[derive(Default)]
pub(super) struct Flaws(pub(super) Vec<Flaw>);

impl Flaws {
    /// The value, or `None` after the flaw was noted.
    fn keep<T>(&mut self, field: &str, result: Result<T, Flaw>) -> Option<T> {
        result.map_err(|flaw| self.add(field, flaw)).ok()
    }

    pub(super) fn add(&mut self, field: &str, flaw: Flaw) {
        self.0.push(flaw.within(field));
    }

    /// Reads every item of a list.
    fn items<T>(
        &mut self,
        field: &str,
        items: &[String],
        parse: impl Fn(&str) -> Result<T, Flaw>,
    ) -> Vec<T> {
        let mut parsed = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            parsed.extend(self.keep(&format!("{field}[{at}]"), parse(item)));
        }
        parsed
    }
}

fn check_id(id: &str) -> Result<(), Flaw> {
    let accepted = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    if (1..=100).contains(&id.len()) && id.bytes().all(accepted) {
        return Ok(());
    }
    let advice = "write 1 to 100 of a-z, 0-9, underscore, dot and hyphen";
    Err(Flaw::new("not a rule_id", advice))
}

pub(super) fn quota(document: &RuleDocument, flaws: &mut Flaws) -> Quota {
    let (window, calendar) = window(document, flaws);
    let algorithm = document.algorithm.0;
    let throttles = document.action == Action::Throttle;
    if throttles && !algorithm.is_bucket() {
        let message = format!("{algorithm} knows no turn that a request could wait for");
        let advice = "throttle with leaky_bucket, token_bucket or gcra, or write action: reject";
        flaws.add("action", Flaw::new(message, advice));
    }
    let delay = document.throttle.as_ref().map(|held| Micros::from_millis(held.max_delay_ms));
    let max_delay = delay.unwrap_or(DEFAULT_DELAY);
    Quota {
        burst: document.burst,
        grace: document.soft.as_ref().map_or(0, |soft| soft.grace),
        max_delay: if throttles && algorithm.is_bucket() { max_delay } else { Micros::ZERO },
        calendar,
        ..Quota::new(algorithm, document.limit, window)
    }
}

/// The window, and the calendar that it is of.
fn window(
    document: &RuleDocument,
    flaws: &mut Flaws,
) -> (Micros, Option<&'static tollgate_core::Calendar>) {
    let length = match (document.window_seconds, &document.window) {
        (Some(seconds), None) => WindowLength::Equal(seconds.micros()),
        (None, Some(window)) => window.length(),
        (None, None) | (Some(_), Some(_)) => {
            let flaw = Flaw::new("a rule has one window", "give window_seconds or window");
            flaws.add("window_seconds", flaw);
            return (tollgate_core::MIN_WINDOW, None);
        }
    };
    match (length, document.time_zone.as_deref()) {
        (WindowLength::Equal(window), None) => (window, None),
        (WindowLength::Equal(window), Some(_)) => {
            let message = "only days, weeks and months of the calendar have a time zone";
            let advice = "write window: 1 day, 1 week or 1 month, or remove time_zone";
            flaws.add("time_zone", Flaw::new(message, advice));
            (window, None)
        }
        (WindowLength::Calendar(unit), None) => {
            let message = format!("{} of the calendar begins in a time zone", calendar_text(unit));
            let equal = match unit {
                CalendarUnit::Day => "; for 24 hours write window: 1d",
                CalendarUnit::Week => "; for 7 times 24 hours write window: 7d",
                CalendarUnit::Month => "",
            };
            let advice = format!("add time_zone: UTC, or one like Europe/Berlin{equal}");
            flaws.add("time_zone", Flaw::new(message, advice));
            (unit.nominal(), None)
        }
        (WindowLength::Calendar(unit), Some(zone)) => {
            (unit.nominal(), flaws.keep("time_zone", calendar(unit, zone)))
        }
    }
}

fn soft(document: Option<&SoftDocument>, flaws: &mut Flaws) -> SoftLimit {
    let Some(document) = document else { return DEFAULT_SOFT };
    let mut share = |field: &str, millionths: u64| {
        if millionths > MILLION {
            let flaw = Flaw::new("a share is between 0 and 1", "write 0.8 for 80 % of the limit");
            flaws.add(field, flaw);
        }
        u32::try_from(millionths).unwrap_or(u32::MAX)
    };
    let warn_at = share("soft.warn_at", document.warn_at.millionths());
    let clear_at = share("soft.clear_at", document.clear_at.millionths());
    if clear_at > warn_at {
        let flaw = Flaw::new("a warning ends below where it begins", "make it at most warn_at");
        flaws.add("soft.clear_at", flaw);
    }
    SoftLimit { warn_at, clear_at }
}

fn penalty(
    document: &RuleDocument,
    identifiers: &[Identifier],
    tenant: Option<&str>,
    flaws: &mut Flaws,
) -> Option<Penalty> {
    let PenaltyDocument { after, within_seconds, ban_seconds } = *document.penalty.as_ref()?;
    let fields = [
        ("penalty.after", after),
        ("penalty.within_seconds", within_seconds),
        ("penalty.ban_seconds", ban_seconds),
    ];
    for (field, _) in fields.iter().filter(|(_, value)| *value == 0) {
        let flaw = Flaw::new("must be at least 1", "leave the penalty out to ban no client");
        flaws.add(field, flaw);
    }
    let within = Micros::from_secs(within_seconds);
    let algorithm = if after <= REMEMBERED_REFUSALS {
        Algorithm::SlidingWindowLog
    } else {
        Algorithm::SlidingWindowCounter
    };
    let limit = Quota::new(algorithm, after, within).compile();
    let limit = limit.map_err(|error| {
        let advice = "count up to 1000000 refusals within at most 31622400 seconds";
        Flaw::new(error.to_string(), advice)
    });
    let counter = format!("{}!penalty", document.rule_id);
    Some(Penalty {
        after,
        within,
        ban: Micros::from_secs(ban_seconds),
        digest: rule_digest(&counter),
        counter: counter.into(),
        group: group(Counted::Refusals, identifiers, tenant),
        limit: flaws.keep("penalty", limit)?,
    })
}

fn refusal(document: &RefusalDocument, flaws: &mut Flaws) -> Option<Arc<RuleRefusal>> {
    let RefusalDocument { status, body, content_type } = document;
    // An unknown status would be an error of the decoder; compiled documents need not come from one.
    let status = status.map(|status| u16::try_from(status).unwrap_or_default());
    if status.is_some_and(|status| !(400..=599).contains(&status)) {
        let flaw = Flaw::new("a refusal is an error", "write a status from 400 to 599");
        flaws.add("refusal.status", flaw);
    }
    let body = match (body.as_deref(), content_type.as_deref()) {
        (Some(body), content_type) => match RefusalBody::parse(body, content_type) {
            Ok(body) => Some(body),
            Err(InvalidRefusal::Body(error)) => {
                let advice = "write problem, flat, or a text with figures like {retry_after}";
                flaws.add("refusal.body", Flaw::new(error.to_string(), advice));
                None
            }
            Err(InvalidRefusal::ContentType) => {
                let advice = "leave it out, or write a text as body";
                let flaw = Flaw::new(format!("the body {body} has a content type"), advice);
                flaws.add("refusal.content_type", flaw);
                None
            }
        },
        (None, Some(_)) => {
            let flaw = Flaw::new("there is no body that it could describe", "add refusal.body");
            flaws.add("refusal.content_type", flaw);
            None
        }
        (None, None) if status.is_none() => {
            let advice = "write a status, a body, or both; or leave refusal out";
            flaws.add("refusal", Flaw::new("it says nothing", advice));
            None
        }
        (None, None) => None,
    };
    Some(Arc::new(RuleRefusal { status, body }))
}

fn statuses(document: &RuleDocument) -> StatusSet {
    let mut set = StatusSet::default();
    for pattern in &document.refund_on {
        match (pattern.parse::<u16>(), pattern.get(..1).map(str::parse::<u16>)) {
            (Ok(status), _) => set.statuses.push(status),
            (Err(_), Some(Ok(class))) => set.classes.push(class),
            (Err(_), _) => {}
        }
    }
    set
}

fn conditions(document: &RuleDocument, flaws: &mut Flaws) -> Conditions {
    let AppliesTo { hosts, endpoints, methods, user_tiers, .. } = &document.applies_to;
    let tenant = document.tenant.as_deref();
    if tenant.is_some_and(str::is_empty) {
        let flaw =
            Flaw::new("a tenant has a name", "leave the field out for a rule of all tenants");
        flaws.add("tenant", flaw);
    }
    let mut patterns = flaws.items("applies_to.endpoints", endpoints, PathMatcher::parse);
    patterns.sort_by_key(|pattern| Reverse(pattern.narrowness()));
    let hosts = flaws.items("applies_to.hosts", hosts, HostMatcher::parse);
    let mut set = MethodSet::default();
    for (at, method) in methods.iter().enumerate() {
        flaws.keep(&format!("applies_to.methods[{at}]"), set.insert(method));
    }
    Conditions {
        tenant: tenant.map(Arc::from),
        hosts: hosts.into(),
        endpoints: patterns.into(),
        methods: (!methods.is_empty()).then_some(set),
        tiers: user_tiers.iter().map(|tier| Arc::from(tier.as_str())).collect(),
        attributes: attributes(&document.applies_to, flaws),
    }
}

fn attributes(applies_to: &AppliesTo, flaws: &mut Flaws) -> Box<[(Identifier, Globs)]> {
    let mut conditions = Vec::with_capacity(applies_to.attributes.len());
    for (name, globs) in &applies_to.attributes {
        let field = format!("applies_to.attributes[{}]", serde_json::Value::from(name.as_str()));
        let identifier = flaws.keep(&field, attribute_of(name));
        if globs.is_empty() {
            let flaw = Flaw::new("no value would match", "list globs, or leave the attribute out");
            flaws.add(&field, flaw);
        }
        let globs = flaws.items(&field, globs, Glob::parse);
        conditions.extend(identifier.map(|identifier| (identifier, Globs::new(globs))));
    }
    conditions.into()
}

/// A name alone is an attribute of the caller's own, unless it is an identifier type.
fn attribute_of(name: &str) -> Result<Identifier, Flaw> {
    let elsewhere = |field: &str| {
        let message = format!("{name} is not matched as an attribute");
        Err(Flaw::new(message, format!("use applies_to.{field}")))
    };
    match name {
        "host" => elsewhere("hosts"),
        "path" | "endpoint" => elsewhere("endpoints"),
        "method" => elsewhere("methods"),
        "tier" => elsewhere("user_tiers"),
        "user_id" | "api_key" | "ip" | "tenant" => Identifier::parse(name),
        _ if name.contains(':') => Identifier::parse(name),
        _ => Identifier::parse(&format!("attribute:{name}")),
    }
}

//! Why a request passes or not, as a tree: identity, tier, lists, rules. The rule that binds stands out; those that do
//! not apply say why in grey.

use maud::{Markup, html};

use crate::model::{CounterFigures, CounterState, ExplainedRule, Explanation, Time, Verdict};
use crate::part::{identifiers, moment, rule, sentence, shadow_tag, t};
use crate::{format, path};

/// The decision in one line, and the tree below it.
pub(crate) fn explanation(model: &Explanation, now: Time) -> Markup {
    html! {
        (verdict(model, now))
        @if let Some(why) = &model.degraded {
            p.dim {
                "The store is away (" (t(why)) "): what is left is counted by this node alone. Beyond it, up to "
                code { "fallback_factor" } " times the limit passes on each node."
            }
        }
        ol.tree {
            li.step.(if model.identity.is_empty() { "off" } else { "yes" }) {
                b { "identity" } " "
                @if model.identity.is_empty() { span.dim { "none: only rules that need no identifier apply" } }
                @else { (identifiers(&model.identity)) }
            }
            @if let Some(path) = &model.path { li.step.yes { b { "path" } " " code { (t(path)) } span.dim { " as rules see it" } } }
            li.step.(if model.tier.is_some() { "yes" } else { "off" }) {
                b { "tier" } " "
                @match &model.tier {
                    Some(tier) => { (t(tier)) " " span.dim { (t(&model.tier_origin)) } }
                    None => span.dim { "none" },
                }
            }
            (listed(model))
            li.step { b { "rules" } span.dim { " of revision " (model.revision) } (rules(&model.rules, now)) }
            @if model.has_envoy_limits {
                li.step.off { b { "limits of Envoy's files" } " " span.dim { "may apply too; they are not explained here" } }
            }
        }
    }
}

fn verdict(model: &Explanation, now: Time) -> Markup {
    let (class, would, did) = match model.verdict {
        Verdict::Passes => ("tag good", "would pass", "passed"),
        Verdict::Waits => ("tag warn", "would pass after a delay", "passed after a delay"),
        Verdict::Refused => ("tag bad", "would be refused", "was refused"),
    };
    html! {
        h2 {
            "Decision " span class=(class) { (if model.is_charged { did } else { would }) }
            @if model.is_charged { span.legend { "checked and charged" } } @else { span.legend { "nothing was charged" } }
        }
        p {
            @match (&model.binding, &model.because) {
                (Some(rule_id), _) => {
                    @if model.verdict == Verdict::Refused { "by " } @else { "least is left of " }
                    b { (rule(rule_id)) }
                }
                (None, Some(because)) => (sentence(because, now)),
                (None, None) => "no rule applies",
            }
            @if let (Some(_), Some(because)) = (&model.binding, &model.because) { ": " (sentence(because, now)) }
            @if let Some(retry) = model.retry_ms.filter(|_| model.verdict == Verdict::Refused) {
                ", try again in " b { (format::duration(retry)) }
            }
            @if let Some(delay) = model.delay_ms { ", after " b { (format::duration(delay)) } }
            @if let Some(id) = &model.decision_id { " · " a href=(path::decision(id)) { "decision " (t(id)) } }
        }
    }
}

fn listed(model: &Explanation) -> Markup {
    html! {
        @match &model.listed {
            None => li.step.off { b { "lists" } " " span.dim { "none matches" } },
            Some((is_allowed, by, reason)) => li.step.(if *is_allowed { "yes" } else { "binds" }) {
                b { "lists" } " "
                @if *is_allowed { "on the allow list: never limited" } @else { "on the deny list: always refused" }
                span.dim.line { "by " (t(by)) @if let Some(reason) = reason { " · " (t(reason)) } }
            },
        }
    }
}

/// The rules: those that apply, then those that do not.
pub(crate) fn rules(rules: &[ExplainedRule], now: Time) -> Markup {
    let (applying, others): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.applies);
    html! {
        ol {
            @for rule in applying { (applies(rule, now)) }
            @if others.len() > 8 {
                li.step.off {
                    details {
                        summary { (format::counted(others.len() as u64, "rule")) " not applying" }
                        ol { @for rule in &others { (applies_not(rule, now)) } }
                    }
                }
            } @else {
                @for rule in &others { (applies_not(rule, now)) }
            }
            @if rules.is_empty() { li.step.off { span.dim { "there are none" } } }
        }
    }
}

fn applies(it: &ExplainedRule, now: Time) -> Markup {
    let refuses = it.lacks_identifier
        || it.banned_until.is_some()
        || it.figures.is_some_and(|figures| figures.is_exceeded);
    let class = match (it.binds, refuses) {
        (true, true) => "binds",
        (false, true) => "no",
        _ => "yes",
    };
    html! {
        li.step.(class) {
            b { (rule(&it.rule_id)) } " " @if !it.is_uncounted { (t(&format::quota(&it.quota))) }
            @if it.is_shadow { (shadow_tag(&it.rule_id)) }
            @if it.figures.is_some_and(|figures| figures.is_exceeded) { " " span.tag.bad { "exceeded" } }
            @if let Some(until) = it.banned_until { " " span.tag.bad { "banned until " (moment(until, now)) } }
            @if it.lacks_identifier { " " span.tag.bad { "lacks the identifier" } }
            @if it.binds { " " span.tag { "binds" } }
            span.dim.line {
                @for (at, fact) in facts(it, now).iter().enumerate() { @if at > 0 { " · " } (fact) }
            }
        }
    }
}

/// The key, the figures, the cost and the reason, as far as they are known.
fn facts(it: &ExplainedRule, now: Time) -> Vec<Markup> {
    let mut facts = Vec::new();
    if !it.key.is_empty() {
        facts.push(html! { "key " (identifiers(&it.key)) });
    }
    facts.extend(it.figures.map(counter));
    if !it.is_uncounted {
        facts.push(html! { "cost " (format::count(it.cost)) });
    }
    if !it.because.is_empty() {
        facts.push(sentence(&it.because, now));
    }
    facts.extend(
        it.quota_origin.as_ref().map(|origin| html! { "limit from " (sentence(origin, now)) }),
    );
    facts
}

fn counter(figures: CounterFigures) -> Markup {
    let used = figures.limit.saturating_sub(figures.remaining);
    html! {
        (format::count(used)) " of " (format::count(figures.limit)) " used"
        @match figures.state {
            CounterState::Normal => {}
            CounterState::Warning => ", close to the limit",
            CounterState::Throttled => ", delayed",
        }
        @match figures.window_reset_ms {
            Some(window) if window > 0 && used > 0 => {
                ", resets in " (format::duration(window))
                @if figures.reset_ms > window { ", full again in " (format::duration(figures.reset_ms)) }
            }
            _ if figures.reset_ms > 0 => { ", full again in " (format::duration(figures.reset_ms)) }
            _ => {}
        }
    }
}

fn applies_not(it: &ExplainedRule, now: Time) -> Markup {
    html! {
        li.step.off {
            b { (rule(&it.rule_id)) } " "
            span.dim {
                @match &it.replaced_by {
                    Some(other) => { "replaced by " (t(other)) }
                    None => (sentence(&it.because, now)),
                }
            }
        }
    }
}

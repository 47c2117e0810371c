//! One client: who it is and what to do about it, its limits as bars, its last decisions.

use maud::{Markup, html};

use crate::model::{Chrome, Client, ClientLimit, OverrideRow, Section, TryForm};
use crate::part::{
    DecisionColumns, Field, bar, card, client_pairs, decisions, empty, failed, hidden, identifiers,
    menu, moment, post, rule, select, t, until,
};
use crate::{format, path};

/// How long something can hold, in minutes.
pub(crate) const TERMS: [(&str, &str); 6] = [
    ("60", "1 hour"),
    ("240", "4 hours"),
    ("1440", "1 day"),
    ("10080", "7 days"),
    ("43200", "30 days"),
    ("", "no end"),
];

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Client) -> Markup {
    html! {
        (who(chrome, model))
        @for ban in &model.bans {
            div.banner.bad {
                b { "Banned by " (rule(&ban.rule_id)) " until " (moment(ban.until, chrome.now)) } " — " (t(&ban.reason)) ". "
                @if can_edit(chrome) {
                    @let fields = html! {
                        (hidden("rule_id", &ban.rule_id))
                        @for value in &ban.identifier { (hidden("identifier", value)) }
                        button.small type="submit" { "Lift the ban" }
                    };
                    (post(chrome, path::BAN_LIFT, Some(&here(model)), &fields))
                }
            }
        }
        @if let Some(listing) = &model.listing {
            div.banner.(if listing.is_allowed { "info" } else { "bad" }) {
                b { @if listing.is_allowed { "Never limited" } @else { "Always refused" } }
                " — on the " @if listing.is_allowed { "allow list" } @else { "deny list" }
                " as " (identifiers(&listing.entry))
                @if let Some(reason) = &listing.reason { ": " (t(reason)) }
                @if listing.expires_at.is_some() { ", ends " (until(listing.expires_at, chrome.now)) }
                ". "
                @if can_edit(chrome) {
                    @let fields = html! {
                        (hidden("list", if listing.is_allowed { "whitelist" } else { "blacklist" }))
                        (client_pairs(&listing.entry))
                        button.small type="submit" { "Take it off the list" }
                    };
                    (post(chrome, path::LIST_REMOVE, Some(&here(model)), &fields))
                }
            }
        }
        div.two { (limits(chrome, model)) (last(chrome, model)) }
        (overrides(chrome, model))
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &Client) -> Vec<(&'static str, Markup)> {
    vec![("limits", limits(chrome, model)), ("last-decisions", last(chrome, model))]
}

fn can_edit(chrome: &Chrome) -> bool {
    chrome.viewer.rights.edits_rules && chrome.read_only.is_none()
}

fn here(model: &Client) -> String {
    path::client_by(&model.identifiers)
}

/// The name of the client, its tier, and the buttons.
fn who(chrome: &Chrome, model: &Client) -> Markup {
    html! {
        section.card.who-card {
            div {
                h2 {
                    @if model.identifiers.is_empty() { "(none)" }
                    @for part in &model.identifiers {
                        span { span.id { (t(&part.value)) } " " span.tag.text { (t(&part.identifier_type)) } }
                    }
                }
                p.dim {
                    @match &model.tier {
                        Some(tier) => { "tier " b { (t(&tier.name)) } " · " (t(&tier.origin)) }
                        None => "in no tier",
                    }
                    " · " a href=(path::try_request(&as_request(model))) { "try a request" }
                }
            }
            div.actions {
                @if can_edit(chrome) { (override_form(chrome, model)) }
                @if chrome.viewer.rights.operates {
                    @if chrome.read_only.is_none() { (tier_form(chrome, model)) }
                    (reset_form(chrome, model))
                }
                @if can_edit(chrome) { (ban_form(chrome, model)) }
            }
        }
    }
}

fn override_form(chrome: &Chrome, model: &Client) -> Markup {
    let rules: Vec<(&str, &str)> =
        model.limits.iter().map(|it| (it.rule_id.as_str(), it.rule_id.as_str())).collect();
    let first = rules.first().map_or("", |(id, _)| id);
    let fields = html! {
        (client_pairs(&model.identifiers))
        @if rules.is_empty() {
            (Field { label: "Rule", name: "rule_id", is_required: true, ..Field::default() }.html())
        } @else {
            (select("Rule", "rule_id", &rules, first))
        }
        (Field { label: "Times the limit", name: "multiplier", value: "2", hint: "or a limit below", ..Field::default() }.html())
        (Field { label: "Limit", name: "limit", kind: "number", ..Field::default() }.html())
        (select("Ends after", "minutes", &TERMS, "240"))
        button.primary type="submit" { "Override" }
    };
    menu("Override", "", &post(chrome, path::CLIENT_OVERRIDE, Some(&here(model)), &fields))
}

fn tier_form(chrome: &Chrome, model: &Client) -> Markup {
    let tiers = model.tiers.iter().map(|it| (it.as_str(), it.as_str()));
    let tiers: Vec<(&str, &str)> =
        [("", "none: as the rules say")].into_iter().chain(tiers).collect();
    let assigned = model.tier.as_ref().filter(|tier| tier.is_assigned);
    let fields = html! {
        (client_pairs(&model.identifiers))
        (select("Tier", "tier", &tiers, assigned.map_or("", |tier| &tier.name)))
        button.primary type="submit" { "Change the tier" }
    };
    menu("Tier", "", &post(chrome, path::CLIENT_TIER, Some(&here(model)), &fields))
}

fn reset_form(chrome: &Chrome, model: &Client) -> Markup {
    let rules = model.limits.iter().map(|it| (it.rule_id.as_str(), it.rule_id.as_str()));
    let rules: Vec<(&str, &str)> =
        [("", "all rules that apply")].into_iter().chain(rules).collect();
    let fields = html! {
        (client_pairs(&model.identifiers))
        (select("Rule", "rule_id", &rules, ""))
        p.dim { "The counters start anew; requests that were refused pass again." }
        button.primary type="submit" { "Reset" }
    };
    menu("Reset", "", &post(chrome, path::CLIENT_RESET, Some(&here(model)), &fields))
}

fn ban_form(chrome: &Chrome, model: &Client) -> Markup {
    let fields = html! {
        (client_pairs(&model.identifiers))
        (Field { label: "Reason", name: "reason", placeholder: "why", ..Field::default() }.html())
        (select("Ends after", "minutes", &TERMS, "60"))
        p.dim { "Every request of it is refused, on all nodes." }
        button.danger type="submit" { "Ban" }
    };
    menu("Ban", "danger", &post(chrome, path::CLIENT_BAN, Some(&here(model)), &fields))
}

fn limits(chrome: &Chrome, model: &Client) -> Markup {
    html! {
        section.card #limits {
            h2 { "Limits that apply" @if !model.endpoint.is_empty() { span.legend { "to " (t(&model.method)) " " (t(&model.endpoint)) } } }
            form.filters method="get" action=(path::CLIENT) {
                (client_pairs(&model.identifiers))
                (Field { label: "Method", name: "method", value: &model.method, placeholder: "GET", ..Field::default() }.html())
                (Field { label: "Endpoint", name: "endpoint", value: &model.endpoint, placeholder: "/orders", is_wide: true, ..Field::default() }.html())
                button type="submit" { "Show" }
            }
            @if model.limits.is_empty() && (!model.bans.is_empty() || model.listing.is_some()) {
                (empty("Nothing is counted now.", &html! { "A ban or a list decides before limits are counted." }))
            } @else if model.limits.is_empty() {
                (empty("No limit applies.", &html! { "Name an endpoint above to see limits of single endpoints." }))
            } @else {
                ul.limits { @for limit in &model.limits { (one_limit(chrome, limit)) } }
            }
            @if !model.not_applying.is_empty() {
                details {
                    summary { (format::counted(model.not_applying.len() as u64, "rule")) " not applying" }
                    ul.plain {
                        @for (rule_id, because) in &model.not_applying {
                            li { (rule(rule_id)) " " span.dim { (t(because)) } }
                        }
                    }
                }
            }
        }
    }
}

fn one_limit(chrome: &Chrome, limit: &ClientLimit) -> Markup {
    let used = limit.capacity.saturating_sub(limit.remaining);
    let share = if limit.capacity == 0 { 1.0 } else { used as f64 / limit.capacity as f64 };
    let (class, state) = match limit {
        limit if limit.remaining == 0 => ("k-ref", "used up"),
        limit if limit.is_warned || share >= 0.8 => ("k-thr", "close to the limit"),
        _ => ("", ""),
    };
    let label = format!(
        "{}: {} of {} used",
        limit.rule_id,
        format::count(used),
        format::count(limit.capacity)
    );
    html! {
        li {
            div {
                b { (rule(&limit.rule_id)) } " " span.dim { (t(&format::quota(&limit.quota))) }
                @if limit.is_shadow { " " span.tag { "shadow" } }
                @if limit.is_override {
                    " " span.tag { "override" @if limit.override_until.is_some() { ", ends " (until(limit.override_until, chrome.now)) } }
                }
            }
            (bar(&label, used as f64, limit.capacity as f64, class))
            div.between {
                span {
                    (format::count(limit.remaining)) " of " (format::count(limit.capacity)) " left"
                    @if !state.is_empty() { " · " b class=(if class == "k-ref" { "bad" } else { "warn" }) { (state) } }
                }
                span.dim { (reset(chrome, limit)) }
            }
        }
    }
}

fn reset(chrome: &Chrome, limit: &ClientLimit) -> Markup {
    html! {
        @match (limit.resets_at, limit.full_at) {
            (Some(at), _) if at > chrome.now => { "resets " (until(Some(at), chrome.now)) }
            (_, Some(at)) if at > chrome.now => { "full " (until(Some(at), chrome.now)) }
            _ => "unused",
        }
    }
}

fn last(chrome: &Chrome, model: &Client) -> Markup {
    let name = model.identifiers.first().map_or("", |it| it.value.as_str());
    let more = path::with_query(path::AUDIT, &[("log", "decisions"), ("client", name)]);
    html! {
        section.card #last-decisions {
            h2 { "Last decisions" a.more href=(more) { "All" } }
            @match &model.decisions {
                Section::Failed(failure) => (failed(failure, chrome.now)),
                Section::Ready(rows) if rows.is_empty() => (empty(
                    "No decisions are kept of this client.",
                    &html! { "Refused requests are always kept, allowed ones by sample." },
                )),
                Section::Ready(rows) => (decisions(rows, DecisionColumns::OneClient, chrome.now)),
            }
        }
    }
}

fn overrides(chrome: &Chrome, model: &Client) -> Markup {
    match &model.overrides {
        Section::Ready(rows) if rows.is_empty() => html! {},
        Section::Failed(failure) => {
            card(&html! { "Overrides" }, None, &failed(failure, chrome.now))
        }
        Section::Ready(rows) => {
            card(&html! { "Overrides" }, None, &override_table(chrome, rows, &here(model)))
        }
    }
}

/// A table of overrides.
pub(crate) fn override_table(chrome: &Chrome, rows: &[OverrideRow], here: &str) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Client" }
                    th scope="col" { "Rule" }
                    th scope="col" { "Instead" }
                    th scope="col" .m-hide { "Ends" }
                    th scope="col" .m-hide { "By" }
                    th scope="col" { span.hidden-text { "Remove" } }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        td.cut { (crate::part::client_by(&row.identifiers)) }
                        td.cut { (rule(&row.rule_id)) }
                        td.word {
                            (t(&row.what))
                            div.dim.small.m-show { "ends " (until(row.expires_at, chrome.now)) }
                            @if let Some(start) = row.starts_at.filter(|start| *start > chrome.now) {
                                div.dim.small { "begins " (until(Some(start), chrome.now)) }
                            }
                        }
                        td.nowrap.m-hide { (until(row.expires_at, chrome.now)) }
                        td.m-hide.dim.cut { (t(row.written_by.as_deref().unwrap_or("–"))) }
                        td.num {
                            @if row.can_remove && can_edit(chrome) {
                                @let fields = html! {
                                    (hidden("list", "overrides"))
                                    (hidden("rule_id", &row.rule_id))
                                    (client_pairs(&row.identifiers))
                                    button.small type="submit" { "Remove" }
                                };
                                (post(chrome, path::LIST_REMOVE, Some(here), &fields))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A request of this client, to try.
fn as_request(model: &Client) -> TryForm {
    let value = |name: &str| {
        let found = model.identifiers.iter().find(|it| it.identifier_type == name);
        found.map_or_else(String::new, |it| it.value.clone())
    };
    TryForm {
        method: model.method.clone(),
        endpoint: model.endpoint.clone(),
        user_id: value("user_id"),
        api_key: value("api_key"),
        ip: value("ip"),
        tenant: value("tenant"),
        ..TryForm::default()
    }
}

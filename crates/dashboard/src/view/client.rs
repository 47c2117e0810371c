//! One client: who it is and what to do about it, its limits as bars, its last decisions.

use maud::{Markup, html};

use super::client_menus;
use crate::model::{
    Chrome, Client, ClientKey, ClientLimit, ClientListing, Identifier, OverrideRow, RefusedRequest,
    Section, Time, TryForm,
};
use crate::part::{
    DecisionColumns, Field, bar, card, client_by, client_pairs, decisions, empty, failed, hidden,
    identifier_links, identifiers, moment, post, rule, sentence, t, until,
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
        @if let Some(mistake) = &model.mistake { div.notice.bad role="alert" { (t(&mistake.text)) } }
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
        @for listing in &model.listings { (listed(chrome, model, listing)) }
        @if let Some(why) = &model.degraded {
            div.banner.warn {
                b { "The store is away (" (t(why)) ")." }
                " What is left here is counted by this node alone. Beyond it, up to " code { "fallback_factor" } " times the limit passes on each node."
            }
        }
        div.two { (limits(chrome, model)) (last(chrome, model)) }
        (overrides(chrome, model))
    }
}

fn listed(chrome: &Chrome, model: &Client, listing: &ClientListing) -> Markup {
    html! {
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
                @if let Some(key) = &model.key { (api_key(key)) }
                @if !model.seen_with.is_empty() {
                    p.dim { "Its decisions also have " (identifier_links(&model.seen_with)) }
                }
            }
            // The beginning of a digest names no entry.
            @if !model.key.as_ref().is_some_and(|key| key.is_cut) {
                div.actions {
                    @if can_edit(chrome) { (client_menus::override_limit(chrome, model, &here(model))) }
                    @if chrome.viewer.rights.operates {
                        @if chrome.read_only.is_none() { (client_menus::tier(chrome, model, &here(model))) }
                        @if !model.key.as_ref().is_some_and(|key| key.is_digest) { (client_menus::reset(chrome, model, &here(model))) }
                    }
                    @if can_edit(chrome) { (client_menus::deny(chrome, model, &here(model))) }
                }
            }
        }
    }
}

/// What is known of the API key, and what is not.
fn api_key(key: &ClientKey) -> Markup {
    html! {
        @if let Some(id) = &key.key_id {
            p.dim {
                "API key " span.id { (t(key.name.as_deref().unwrap_or(id))) } " (" (t(id)) ")"
                @if let Some(owner) = &key.owner { " of user " (client_by(&[user(owner)])) }
            }
        }
        @if key.is_digest {
            p.dim {
                @if key.is_cut { "Of this API key only the beginning of its digest is known here: it cannot be put into a tier or on a list from this page. " }
                "What is left of limits by API key is not known: counters are kept by the key itself. Open this page with the key to see it."
            }
        }
    }
}

fn user(name: &str) -> Identifier {
    Identifier { identifier_type: "user_id".to_owned(), value: name.to_owned() }
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
            @if model.limits.is_empty() && (!model.bans.is_empty() || !model.listings.is_empty()) {
                (empty("Nothing is counted now.", &html! { "A ban or a list decides before limits are counted." }))
            } @else if model.limits.is_empty() {
                (empty("No limit applies.", &html! { "Name an endpoint above to see limits of single endpoints." }))
            } @else {
                ul.limits { @for limit in &model.limits { (one_limit(chrome, model, limit)) } }
            }
            @if !model.not_applying.is_empty() {
                details {
                    summary { (format::counted(model.not_applying.len() as u64, "rule")) " not applying" }
                    ul.plain {
                        @for (rule_id, because) in &model.not_applying {
                            li { (rule(rule_id)) " " span.dim { (sentence(because, chrome.now)) } }
                        }
                    }
                }
            }
        }
    }
}

fn one_limit(chrome: &Chrome, model: &Client, limit: &ClientLimit) -> Markup {
    html! {
        li {
            div.limit {
                div {
                    b { (rule(&limit.rule_id)) } " " span.dim { (t(&format::quota(&limit.quota))) }
                    @if limit.candidate_of.is_some() { " " span.tag { "candidate" } } @else if limit.is_shadow { " " span.tag { "shadow" } }
                    @if limit.is_override {
                        " " span.tag { "override" @if limit.override_until.is_some() { ", ends " (until(limit.override_until, chrome.now)) } }
                    }
                }
                @if limit.with.is_empty() && may_double(chrome, model, limit) {
                    (client_menus::double(chrome, &here(model), &limit.rule_id, &model.identifiers))
                }
            }
            @if let Some(end) = limit.banned_until {
                div.dim { "Nothing is counted until the ban ends, " (moment(end, chrome.now)) "." }
            } @else if limit.is_unknown {
                div.dim { "What is left is not known: it is counted by the API key, of which only the digest is known." }
            } @else {
                (usage(chrome, limit))
            }
            @if let Some(request) = &limit.refused { (refused(chrome, model, limit, request)) }
        }
    }
}

/// Whether the limit can be doubled for a while. An override in force is not replaced, and a candidate has none.
fn may_double(chrome: &Chrome, model: &Client, limit: &ClientLimit) -> bool {
    let is_cut = model.key.as_ref().is_some_and(|key| key.is_cut);
    let has_none = !limit.is_override && limit.candidate_of.is_none();
    can_edit(chrome) && !is_cut && has_none && !limit.is_unknown
}

fn usage(chrome: &Chrome, limit: &ClientLimit) -> Markup {
    let used = limit.capacity.saturating_sub(limit.remaining);
    let share = if limit.capacity == 0 { 1.0 } else { used as f64 / limit.capacity as f64 };
    let (class, state) = match limit {
        // It refuses nothing.
        limit if limit.remaining == 0 && limit.is_shadow => ("k-thr", "would refuse"),
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

/// The request behind a limit, and what can be done about it: by what the rule counts.
fn refused(
    chrome: &Chrome,
    model: &Client,
    limit: &ClientLimit,
    request: &RefusedRequest,
) -> Markup {
    let pairs = counted_by(model, limit);
    let has_secret = pairs.iter().any(|it| it.identifier_type == "api_key") && limit.is_unknown;
    html! {
        div.dim {
            a href=(path::decision(&request.decision_id)) {
                (if request.has_passed { "would have refused " } else { "refused " }) (t(request.method.as_deref().unwrap_or(""))) " " (t(request.endpoint.as_deref().unwrap_or("")))
            }
            " at " (moment(request.at, chrome.now))
            @if !limit.with.is_empty() { ", counted by " (identifier_links(&limit.with)) }
        }
        @if !limit.with.is_empty() && !pairs.is_empty() && !has_secret && limit.candidate_of.is_none() {
            div.actions {
                @if can_edit(chrome) { (client_menus::override_of(chrome, &here(model), &limit.rule_id, &pairs)) }
                @if may_double(chrome, model, limit) { (client_menus::double(chrome, &here(model), &limit.rule_id, &pairs)) }
                @if chrome.viewer.rights.operates {
                    @let fields = html! {
                        (client_pairs(&pairs))
                        (hidden("rule_id", &limit.rule_id))
                        button.small type="submit" { "Reset" }
                    };
                    (post(chrome, path::CLIENT_RESET, Some(&here(model)), &fields))
                }
            }
        }
    }
}

/// The identifiers that a limit counts by, as far as entries can name a client by them.
fn counted_by(model: &Client, limit: &ClientLimit) -> Vec<Identifier> {
    let all = || model.identifiers.iter().chain(&limit.with);
    let types = limit.key.iter().map(|part| &part.identifier_type);
    types.filter_map(|kind| all().find(|it| it.identifier_type == *kind).cloned()).collect()
}

/// When the current window ends; or when nothing is in use, for a limit that has used something before that window.
fn reset(chrome: &Chrome, limit: &ClientLimit) -> Markup {
    let is_ahead = |time: &Time| *time > chrome.now;
    let full = limit.full_at.filter(is_ahead);
    let is_unused = limit.remaining >= limit.capacity && full.is_none();
    let resets = limit.resets_at.filter(|time| is_ahead(time) && !is_unused);
    html! {
        @match (resets, full) {
            (Some(at), Some(full)) if full > at => { "resets " (until(Some(at), chrome.now)) ", full again " (until(Some(full), chrome.now)) }
            (Some(at), _) => { "resets " (until(Some(at), chrome.now)) }
            (None, Some(full)) => { "full again " (until(Some(full), chrome.now)) }
            (None, None) => "unused",
        }
    }
}

fn last(chrome: &Chrome, model: &Client) -> Markup {
    let first = model.identifiers.first();
    let (kind, name) =
        first.map_or(("", ""), |it| (it.identifier_type.as_str(), it.value.as_str()));
    let filter = [("log", "decisions"), ("client", name), ("client_type", kind)];
    let more = path::with_query(path::AUDIT, &filter);
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
                        td.cut { (client_by(&row.identifiers)) }
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

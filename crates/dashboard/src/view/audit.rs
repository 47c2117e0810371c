//! Both logs, with filters: who changed what, and who was refused.

use maud::{Markup, html};

use super::live::outcomes;
use crate::model::{Audit, AuditFilter, AuditRow, AuditTab, Chrome, Outcome, Section, Tab};
use crate::part::{
    DecisionColumns, Field, decisions, diff, empty, failed, hidden, moment, paging, rule, select,
    t, tabs,
};
use crate::path;

/// What the client of a filter can be named by.
const CLIENT_TYPES: [(&str, &str); 5] = [
    ("", "any"),
    ("user_id", "user_id"),
    ("api_key", "api_key"),
    ("ip", "ip"),
    ("tenant", "tenant"),
];

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Audit) -> Markup {
    let is_changes = model.tab == AuditTab::Changes;
    let log = if is_changes { "changes" } else { "decisions" };
    let kept = kept(&model.filter, log);
    html! {
        (tabs("Logs", &[
            (path::with_query(path::AUDIT, &[("log", "changes")]), "Changes", None, is_changes),
            (path::with_query(path::AUDIT, &[("log", "decisions")]), "Decisions", None, !is_changes),
        ]))
        section.card {
            form.filters method="get" action=(path::AUDIT) {
                (hidden("log", log))
                @if is_changes { (change_filters(model)) } @else { (decision_filters(&model.filter)) }
                (field("Tenant", "tenant", &model.filter.tenant, ""))
                (time_field("Since", "since", &model.filter.since, "21:00 or 2h"))
                (time_field("Until", "until", &model.filter.until, "now"))
                button type="submit" { "Filter" }
                a.button.ghost href=(path::with_query(path::AUDIT, &[("log", log)])) { "All" }
            }
            @if is_changes { (changes(chrome, model)) } @else { (refusals(chrome, model)) }
            (paging(path::AUDIT, &kept, &model.paging))
        }
    }
}

fn field(label: &str, name: &str, value: &str, placeholder: &str) -> Markup {
    Field { label, name, value, placeholder, ..Field::default() }.html()
}

fn time_field(label: &str, name: &str, value: &str, placeholder: &str) -> Markup {
    let title = "UTC: 21:00 is today; 2026-11-18 21:00; 2h is two hours ago";
    html! {
        label title=(title) {
            span { (label) ", UTC" }
            input type="text" name=(name) value=(value) placeholder=(placeholder) autocomplete="off" spellcheck="false";
        }
    }
}

fn kept<'a>(filter: &'a AuditFilter, log: &'a str) -> [(&'static str, &'a str); 11] {
    [
        ("log", log),
        ("actor", &filter.actor),
        ("kind", &filter.kind),
        ("entry", &filter.entry),
        ("client", &filter.client),
        ("client_type", &filter.client_type),
        ("rule_id", &filter.rule_id),
        ("action", &filter.action),
        ("tenant", &filter.tenant),
        ("since", &filter.since),
        ("until", &filter.until),
    ]
}

fn change_filters(model: &Audit) -> Markup {
    let kinds = model.kinds.iter().map(|it| (it.as_str(), it.as_str()));
    let kinds: Vec<(&str, &str)> = [("", "any")].into_iter().chain(kinds).collect();
    html! {
        (select("Kind", "kind", &kinds, &model.filter.kind))
        (field("Entry", "entry", &model.filter.entry, ""))
        (field("By", "actor", &model.filter.actor, "name or id"))
    }
}

fn decision_filters(filter: &AuditFilter) -> Markup {
    let mut outcomes = outcomes();
    outcomes.insert(1, (Outcome::REFUSALS, "refused or denied"));
    html! {
        (select("Outcome", "action", &outcomes, &filter.action))
        (field("Client", "client", &filter.client, "user, address or key"))
        (select("Named by", "client_type", &CLIENT_TYPES, &filter.client_type))
        (field("Rule", "rule_id", &filter.rule_id, ""))
    }
}

fn changes(chrome: &Chrome, model: &Audit) -> Markup {
    match &model.changes {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => {
            empty("No changes that fit.", &html! { a href=(path::AUDIT) { "Show all changes" } })
        }
        Section::Ready(rows) => html! {
            table.audit {
                thead {
                    tr {
                        th scope="col" { "When, UTC" }
                        th scope="col" .num .m-hide { "Revision" }
                        th scope="col" { "By" }
                        th scope="col" { "Change" }
                    }
                }
                tbody { @for row in rows { (change(chrome, row)) } }
            }
        },
    }
}

fn change(chrome: &Chrome, row: &AuditRow) -> Markup {
    html! {
        tr {
            td.nowrap.dim { (moment(row.at, chrome.now)) }
            td.num.m-hide { (row.revision) }
            td {
                @match &row.actor_name {
                    Some(name) => { (t(name)) " " span.dim.small.id { (t(&row.actor)) } }
                    None => (t(&row.actor)),
                }
                " " span.dim.small.id { (t(&row.role)) }
                @if let Some(address) = &row.address { div.dim.small.m-hide { (t(address)) } }
            }
            td {
                (t(&row.kind)) " "
                @if row.kind == "rule" { (rule(&row.entry)) } @else { b.id { (t(&row.entry)) } }
                " " span.tag.text.(action_class(&row.action)) { (t(past(&row.action))) }
                @if !row.summary.is_empty() && row.action == "update" { " " span.dim { (t(&row.summary)) } }
                @if !row.diff.is_empty() {
                    details { summary { "Show the change" } (diff(&row.diff)) }
                }
            }
        }
    }
}

fn action_class(action: &str) -> &'static str {
    match action {
        "create" => "good",
        "delete" => "bad",
        _ => "plain",
    }
}

fn past(action: &str) -> &str {
    match action {
        "create" => "created",
        "update" => "changed",
        "delete" => "deleted",
        other => other,
    }
}

fn refusals(chrome: &Chrome, model: &Audit) -> Markup {
    match &model.decisions {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => empty(
            "No decisions that fit.",
            &html! {
                "Refused requests are always kept, allowed ones by sample. "
                a href=(path::with_query(path::AUDIT, &[("log", "decisions")])) { "Show all decisions" }
            },
        ),
        Section::Ready(rows) if chrome.hidden.contains(&Tab::Clients) => {
            decisions(rows, DecisionColumns::PlainClients, chrome.now)
        }
        Section::Ready(rows) => decisions(rows, DecisionColumns::All, chrome.now),
    }
}

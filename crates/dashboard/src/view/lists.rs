//! Bans, the deny list, the allow list and overrides, each on a tab.

use maud::{Markup, html};

use super::client::{TERMS, override_table};
use crate::model::{BanRow, Chrome, ListRow, ListTab, Lists, Section};
use crate::part::{
    Field, client, client_by, client_pairs, empty, failed, hidden, identifiers, menu, moment,
    paging, post, rule, select, t, tabs, tenant_tag, until,
};
use crate::path;

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Lists) -> Markup {
    let texts = ["Bans", "Deny list", "Allow list", "Overrides"];
    let list: Vec<_> = ListTab::ALL
        .into_iter()
        .zip(texts)
        .zip(model.counts)
        .map(|(((tab, word), text), count)| {
            (path::with_query(path::LISTS, &[("list", word)]), text, count, tab == model.tab)
        })
        .collect();
    let kept = [("list", model.tab.word()), ("q", model.query.as_str())];
    html! {
        (tabs("Lists", &list))
        section.card {
            div.between {
                form.filters method="get" action=(path::LISTS) {
                    (hidden("list", model.tab.word()))
                    label.grow {
                        span { "Search" }
                        input type="search" name="q" value=(model.query) placeholder="identifier or rule" autocomplete="off";
                    }
                    button type="submit" { "Show" }
                }
                @if can_edit(chrome) { (add(chrome, model)) }
            }
            @match model.tab {
                ListTab::Bans => (bans(chrome, model)),
                ListTab::Blacklist | ListTab::Whitelist => (entries(chrome, model)),
                ListTab::Overrides => (overrides(chrome, model)),
            }
            (paging(path::LISTS, &kept, &model.paging))
        }
    }
}

fn can_edit(chrome: &Chrome) -> bool {
    chrome.viewer.rights.edits_rules && chrome.read_only.is_none()
}

fn here(model: &Lists) -> String {
    path::with_query(path::LISTS, &[("list", model.tab.word())])
}

fn types(model: &Lists) -> Vec<(&str, &str)> {
    model.identifier_types.iter().map(|it| (it.as_str(), it.as_str())).collect()
}

fn add(chrome: &Chrome, model: &Lists) -> Markup {
    let next = here(model);
    let kind = model.identifier_types.first().map_or("ip", String::as_str);
    let who = html! {
        (select("Type", "type", &types(model), kind))
        (Field { label: "Identifier", name: "value", is_required: true, hint: "for ip also a network: 10.0.0.0/8", ..Field::default() }.html())
    };
    match model.tab {
        ListTab::Bans => html! {},
        ListTab::Blacklist | ListTab::Whitelist => {
            let fields = html! {
                (hidden("list", model.tab.word()))
                (who)
                (Field { label: "Reason", name: "reason", ..Field::default() }.html())
                (select("Ends after", "minutes", &TERMS, ""))
                button.primary type="submit" { "Add" }
            };
            menu("Add", "primary", &post(chrome, path::LIST_ADD, Some(&next), &fields))
        }
        ListTab::Overrides => {
            let rules: Vec<(&str, &str)> =
                model.rule_ids.iter().map(|it| (it.as_str(), it.as_str())).collect();
            let fields = html! {
                (select("Rule", "rule_id", &rules, model.rule_ids.first().map_or("", String::as_str)))
                (who)
                (Field { label: "Times the limit", name: "multiplier", hint: "or a limit below", ..Field::default() }.html())
                (Field { label: "Limit", name: "limit", kind: "number", ..Field::default() }.html())
                (select("Ends after", "minutes", &TERMS, "1440"))
                button.primary type="submit" { "Add" }
            };
            menu("Add", "primary", &post(chrome, path::CLIENT_OVERRIDE, Some(&next), &fields))
        }
    }
}

fn bans(chrome: &Chrome, model: &Lists) -> Markup {
    match &model.bans {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => empty(
            "No client is banned.",
            &html! {
                "Rules with a " code { "penalty" } " ban clients that keep exceeding them. To refuse a client yourself, put it on the "
                a href=(path::with_query(path::LISTS, &[("list", "blacklist")])) { "deny list" } "."
            },
        ),
        Section::Ready(rows) => html! {
            table {
                thead {
                    tr {
                        th scope="col" { "Client" }
                        th scope="col" { "Rule" }
                        th scope="col" .m-hide { "Since" }
                        th scope="col" { "Ends" }
                        th scope="col" { span.hidden-text { "Lift" } }
                    }
                }
                tbody { @for row in rows { (ban(chrome, model, row)) } }
            }
        },
    }
}

fn ban(chrome: &Chrome, model: &Lists, row: &BanRow) -> Markup {
    let fields = html! {
        (hidden("rule_id", &row.rule_id))
        @for value in &row.identifier { (hidden("identifier", value)) }
        button.small type="submit" { "Lift" }
    };
    html! {
        tr {
            td.cut { (client(&row.client)) (tenant_tag(row.tenant.as_deref())) }
            td.cut { (rule(&row.rule_id)) }
            td.m-hide.dim { @if let Some(at) = row.made_at { (moment(at, chrome.now)) } @else { "–" } }
            td.nowrap { (until(Some(row.until), chrome.now)) }
            td.num { @if row.can_lift { (post(chrome, path::BAN_LIFT, Some(&here(model)), &fields)) } }
        }
    }
}

fn entries(chrome: &Chrome, model: &Lists) -> Markup {
    let (nothing, next) = if model.tab == ListTab::Blacklist {
        ("No client is on the deny list.", "Clients on it are always refused, before any rule.")
    } else {
        ("No client is on the allow list.", "Clients on it are never limited.")
    };
    match &model.entries {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => empty(nothing, &html! { (next) }),
        Section::Ready(rows) => html! {
            table {
                thead {
                    tr {
                        th scope="col" { "Client" }
                        th scope="col" { "Reason" }
                        th scope="col" { "Ends" }
                        th scope="col" .m-hide { "By" }
                        th scope="col" { span.hidden-text { "Remove" } }
                    }
                }
                tbody { @for row in rows { (entry(chrome, model, row)) } }
            }
        },
    }
}

fn entry(chrome: &Chrome, model: &Lists, row: &ListRow) -> Markup {
    let fields = html! {
        (hidden("list", model.tab.word()))
        (client_pairs(&row.identifiers))
        button.small type="submit" { "Remove" }
    };
    html! {
        tr {
            td.cut {
                (client_by(&row.identifiers))
                span.hidden-text { " by " (identifiers(&row.identifiers)) }
                @for part in &row.identifiers { " " span.tag.text { (t(&part.identifier_type)) } }
            }
            td { (t(row.reason.as_deref().unwrap_or("–"))) }
            td.nowrap { (until(row.expires_at, chrome.now)) }
            td.m-hide.dim {
                (t(row.written_by.as_deref().unwrap_or("–")))
                @if let Some(at) = row.written_at { " · " (moment(at, chrome.now)) }
            }
            td.num {
                @if row.can_remove && can_edit(chrome) { (post(chrome, path::LIST_REMOVE, Some(&here(model)), &fields)) }
            }
        }
    }
}

fn overrides(chrome: &Chrome, model: &Lists) -> Markup {
    match &model.overrides {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => empty(
            "No overrides.",
            &html! { "An override gives one client another limit, for a while or for good." },
        ),
        Section::Ready(rows) => override_table(chrome, rows, &here(model)),
    }
}

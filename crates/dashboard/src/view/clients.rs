//! The search for clients.

use maud::{Markup, html};

use crate::model::{Chrome, Clients, FoundClient, Section};
use crate::part::{ago, by, client, empty, failed, paging, select, t};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Clients) -> Markup {
    let types = model.identifier_types.iter().map(|it| (it.as_str(), it.as_str()));
    let types: Vec<(&str, &str)> = [("", "any")].into_iter().chain(types).collect();
    let kept = [("q", model.query.as_str()), ("type", model.identifier_type.as_str())];
    html! {
        section.card {
            form.filters method="get" action=(path::CLIENTS) {
                label.grow {
                    span { "Client" }
                    input type="search" name="q" value=(model.query) autocomplete="off"
                        placeholder="user, address, API key or tenant";
                }
                (select("Type", "type", &types, &model.identifier_type))
                button.primary type="submit" { "Search" }
            }
            (found(chrome, model))
            (paging(path::CLIENTS, &kept, &model.paging))
        }
    }
}

fn found(chrome: &Chrome, model: &Clients) -> Markup {
    match &model.found {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if !rows.is_empty() => html! {
            @if model.query.is_empty() { p.dim { "Seen in the last minutes, the most refused first, and put into a tier:" } }
            (table(model, rows, chrome))
        },
        Section::Ready(_) if model.query.is_empty() => empty(
            "No client was refused lately, and none is in a tier.",
            &html! { "Search for one by its exact user, address, API key or tenant." },
        ),
        Section::Ready(_) => empty(
            "Not seen lately.",
            &html! { "Its limits can be shown all the same: choose the type of the identifier above and search again." },
        ),
    }
}

fn table(model: &Clients, rows: &[FoundClient], chrome: &Chrome) -> Markup {
    let span = format::duration(model.window_seconds.saturating_mul(1_000));
    // Rankings know names only, so a column may have nothing to say.
    let has_types = rows.iter().any(|row| !row.client.identifiers.is_empty());
    let has_times = rows.iter().any(|row| row.seen_at.is_some());
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Client" }
                    @if has_types { th scope="col" { "Type" } }
                    th scope="col" .m-hide { "Tier" }
                    th scope="col" .num { "Refused" span.m-hide { ", last " (span) } }
                    th scope="col" .num .m-hide { "Requests, last " (span) }
                    @if has_times { th scope="col" .m-hide { "Seen" } }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        td.cut {
                            (client(&row.client))
                            @if row.is_typed && row.known.is_empty() { div.dim.small { "nothing is known of it" } }
                            @else if row.is_typed { div.dim.small { (t(&row.known.join(", "))) } }
                            @for mark in &row.marks {
                                " " span.tag.text.bad[mark == "banned" || mark == "blacklist"] { (t(mark)) }
                            }
                        }
                        @if has_types { td.dim { @if row.client.identifiers.is_empty() { "–" } @else { (by(&row.client.identifiers)) } } }
                        td.m-hide { (t(row.tier.as_deref().unwrap_or("–"))) }
                        td.num { (figure(row.refused)) }
                        td.num.m-hide { (figure(row.recorded)) }
                        @if has_times { td.dim.m-hide { @if let Some(at) = row.seen_at { (ago(at, chrome.now)) } } }
                    }
                }
            }
        }
    }
}

fn figure(number: Option<u64>) -> Markup {
    html! {
        @match number {
            Some(number) => (format::count(number)),
            None => span.dim { "–" },
        }
    }
}

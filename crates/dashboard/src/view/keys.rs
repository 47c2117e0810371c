//! API keys and tokens, and a secret that was created a moment ago.

use maud::{Markup, html};

use crate::model::{ApiKeyRow, Chrome, Keys, Section, TokenRow};
use crate::part::{
    Choice, Field, ago, copyable, empty, failed, hidden, menu, moment, paging, post, select, t,
    until,
};
use crate::path;

const DAYS: [(&str, &str); 5] =
    [("1", "1 day"), ("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "no end")];

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Keys) -> Markup {
    html! {
        @if let Some(created) = &model.created {
            section.card.created role="status" {
                h2 { "Your new " (t(&created.kind)) " " span.id { (t(&created.id)) } }
                (copyable("secret", &created.secret, "The new secret"))
                p { b { "It is shown once." } " Only its digest is stored. Copy it now." }
            }
        }
        (tokens(chrome, model))
        (api_keys(chrome, model))
    }
}

fn tokens(chrome: &Chrome, model: &Keys) -> Markup {
    let Some(tokens) = &model.tokens else { return html! {} };
    html! {
        section.card {
            h2 { "Tokens" @if can_administer(chrome) { span.more { (token_form(chrome, model)) } } }
            @match tokens {
                Section::Failed(failure) => (failed(failure, chrome.now)),
                Section::Ready(rows) if rows.is_empty() => (empty("No tokens.", &html! { "The token of the settings is not listed." })),
                Section::Ready(rows) => {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Token" }
                                th scope="col" { "Role" }
                                th scope="col" .m-hide { "Last used" }
                                th scope="col" .m-hide { "Expires" }
                                th scope="col" .m-hide { "Created" }
                                th scope="col" { span.hidden-text { "Revoke" } }
                            }
                        }
                        tbody { @for row in rows { (token(chrome, row)) } }
                    }
                }
            }
            (paging(path::KEYS, &[], &model.tokens_paging))
        }
    }
}

fn can_administer(chrome: &Chrome) -> bool {
    chrome.viewer.rights.administers && chrome.read_only.is_none()
}

fn can_operate(chrome: &Chrome) -> bool {
    chrome.viewer.rights.operates && chrome.read_only.is_none()
}

fn token(chrome: &Chrome, row: &TokenRow) -> Markup {
    let fields = html! {
        p { "The next call with it is refused; its sessions here end." }
        (hidden("token_id", &row.token_id))
        button.danger type="submit" { "Revoke " (t(&row.token_id)) }
    };
    html! {
        tr {
            td.cut {
                span.nowrap { (t(&row.token_id)) }
                @if row.is_own { " " span.tag { "yours" } }
                @if let Some(name) = &row.name { div.dim.small { (t(name)) } }
            }
            td.word { (t(&row.role)) @if let Some(tenant) = &row.tenant { " " span.dim { (t(tenant)) } } }
            td.nowrap.m-hide { @match row.last_used { Some(at) => (ago(at, chrome.now)), None => span.dim { "never" } } }
            td.nowrap.m-hide { (until(row.expires_at, chrome.now)) }
            td.m-hide.dim { (created(chrome, row.created_at, row.created_by.as_deref())) }
            td.num {
                @if can_administer(chrome) {
                    (menu("Revoke", "small", &post(chrome, path::TOKEN_REVOKE, Some(path::KEYS), &fields)))
                }
            }
        }
    }
}

fn created(chrome: &Chrome, at: Option<crate::model::Time>, by: Option<&str>) -> Markup {
    html! {
        @if let Some(at) = at { (moment(at, chrome.now)) }
        @if let Some(by) = by { " by " (t(by)) }
    }
}

fn token_form(chrome: &Chrome, model: &Keys) -> Markup {
    // None is chosen for the person: a role is what a token may do.
    let roles = model.roles.iter().map(|it| (it.as_str(), it.as_str()));
    let roles: Vec<(&str, &str)> = [("", "choose one")].into_iter().chain(roles).collect();
    let fields = html! {
        (Field { label: "Name", name: "name", placeholder: "what it is for", ..Field::default() }.html())
        (Choice { label: "Role", name: "role", options: &roles, value: "", is_required: true, is_fixed: false }.html())
        (Field { label: "Tenant", name: "tenant", hint: "of a tenant-admin", ..Field::default() }.html())
        (select("Expires after", "days", &DAYS, "90"))
        button.primary type="submit" { "Create" }
    };
    menu("New token", "primary small", &post(chrome, path::TOKEN_CREATE, None, &fields))
}

fn api_keys(chrome: &Chrome, model: &Keys) -> Markup {
    html! {
        section.card {
            h2 { "API keys" @if can_operate(chrome) { span.more { (key_form(chrome, model)) } } }
            @match &model.api_keys {
                Section::Failed(failure) => (failed(failure, chrome.now)),
                Section::Ready(rows) if rows.is_empty() => (empty("No API keys.", &html! { "A known key identifies its owner, tier and tenant." })),
                Section::Ready(rows) => {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Key" }
                                th scope="col" { "Owner" }
                                th scope="col" { "Tier" }
                                th scope="col" .m-hide { "Tenant" }
                                th scope="col" .m-hide { "Created" }
                                th scope="col" { span.hidden-text { "Remove" } }
                            }
                        }
                        tbody { @for row in rows { (api_key(chrome, row)) } }
                    }
                }
            }
            (paging(path::KEYS, &[], &model.api_keys_paging))
        }
    }
}

fn api_key(chrome: &Chrome, row: &ApiKeyRow) -> Markup {
    let fields = html! {
        p { "It identifies no client any more." }
        (hidden("key_id", &row.key_id))
        button.danger type="submit" { "Remove " (t(&row.key_id)) }
    };
    let text = |text: &Option<String>| html! { (t(text.as_deref().unwrap_or("–"))) };
    html! {
        tr {
            td.cut { span.nowrap { (t(&row.key_id)) } @if let Some(name) = &row.name { div.dim.small { (t(name)) } } }
            td.cut {
                @match &row.owner {
                    Some(owner) => (crate::part::client(&crate::model::ClientRef::one("user_id", owner))),
                    None => span.dim { "–" },
                }
            }
            td { (text(&row.tier)) }
            td.m-hide { (text(&row.tenant)) }
            td.m-hide.dim { (created(chrome, row.created_at, row.created_by.as_deref())) }
            td.num {
                @if can_operate(chrome) {
                    (menu("Remove", "small", &post(chrome, path::KEY_REMOVE, Some(path::KEYS), &fields)))
                }
            }
        }
    }
}

fn key_form(chrome: &Chrome, model: &Keys) -> Markup {
    let tiers = model.tiers.iter().map(|it| (it.as_str(), it.as_str()));
    let tiers: Vec<(&str, &str)> = [("", "none")].into_iter().chain(tiers).collect();
    let fields = html! {
        (Field { label: "Name", name: "name", placeholder: "what it is for", ..Field::default() }.html())
        (Field { label: "Owner", name: "owner", hint: "the user it belongs to", ..Field::default() }.html())
        (select("Tier", "tier", &tiers, ""))
        (Field { label: "Tenant", name: "tenant", ..Field::default() }.html())
        button.primary type="submit" { "Create" }
    };
    menu("New API key", "primary small", &post(chrome, path::KEY_CREATE, None, &fields))
}

//! Texts that others chose, clients, rules and moments. Texts of others are escaped, and their invisible characters shown.

use maud::{Markup, PreEscaped, Render, html};
use tollgate_chart::escaped;

use crate::model::{Chrome, ClientRef, FiguresOf, Identifier, Range, RangeChoice, Time};
use crate::{format, path};

/// A text that others chose: control, bidi and zero-width characters become visible.
pub(crate) struct Text<'a>(&'a str);

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&escaped(self.0));
    }
}

/// A text that others chose.
pub(crate) const fn t(text: &str) -> Text<'_> {
    Text(text)
}

/// A name that others chose, which may be long: it can be broken after `_`, `-` and `:`.
pub(crate) fn name(text: &str) -> Markup {
    // References of HTML have none of these.
    let parts = ['_', '-', ':']
        .into_iter()
        .fold(escaped(text), |text, mark| text.replace(mark, &format!("{mark}<wbr>")));
    PreEscaped(parts)
}

/// A link to a client.
pub(crate) fn client(client: &ClientRef) -> Markup {
    let shown = if client.name.is_empty() { "(none)" } else { &client.name };
    html! { a.id href=(path::client(client)) { (name(shown)) } }
}

/// A link to a client that is known by its identifiers.
pub(crate) fn client_by(parts: &[Identifier]) -> Markup {
    html! {
        a.id href=(path::client_by(parts)) {
            @for (at, part) in parts.iter().enumerate() {
                @if at > 0 { " / " }
                (name(&part.value))
            }
        }
    }
}

/// Links to the pages of identifiers: `ip 192.0.2.7, user_id u_8121`.
pub(crate) fn identifier_links(parts: &[Identifier]) -> Markup {
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at > 0 { ", " }
            span.dim { (t(&part.identifier_type)) } " " (client_by(std::slice::from_ref(part)))
        }
    }
}

/// The types of identifiers, in words: `tenant, user_id`.
pub(crate) fn by(parts: &[Identifier]) -> Markup {
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at > 0 { ", " }
            (t(&part.identifier_type))
        }
    }
}

/// Identifiers with their types: `tenant acme, user_id u_8121`.
pub(crate) fn identifiers(parts: &[Identifier]) -> Markup {
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at > 0 { ", " }
            span.dim { (t(&part.identifier_type)) } " " span.id { (t(&part.value)) }
        }
    }
}

/// A link to a rule.
pub(crate) fn rule(rule_id: &str) -> Markup {
    html! { a.id href=(path::rule(rule_id)) { (name(rule_id)) } }
}

/// A tag for a shadow rule, or for the candidate of a rule.
pub(crate) fn shadow_tag(rule_id: &str) -> Markup {
    let word = if rule_id.ends_with(path::CANDIDATE) { "candidate" } else { "shadow" };
    html! { " " span.tag { (word) } }
}

/// A tag with a tenant.
pub(crate) fn tenant_tag(tenant: Option<&str>) -> Markup {
    html! { @if let Some(tenant) = tenant { " " span.tag.text { "tenant " (t(tenant)) } } }
}

/// A moment in UTC, as short as it can be, with the whole of it as its title.
pub(crate) fn moment(time: Time, now: Time) -> Markup {
    let whole = format::rfc_3339(time);
    html! { time datetime=(whole) title=(whole) { (format::moment(time, now)) } }
}

/// How long ago a moment was.
pub(crate) fn ago(time: Time, now: Time) -> Markup {
    let whole = format::rfc_3339(time);
    html! { time datetime=(whole) title=(whole) { (format::rough(now.since(time))) " ago" } }
}

/// When something ends: how far ahead that is, or `never`.
pub(crate) fn until(time: Option<Time>, now: Time) -> Markup {
    let Some(time) = time else { return html! { span.dim { "never" } } };
    let whole = format::rfc_3339(time);
    html! {
        time datetime=(whole) title=(whole) {
            @if time <= now { "ended" } @else { "in " (format::duration(time.since(now))) }
        }
    }
}

/// What time figures over the range of the page are of: `in the last 1 h`.
pub(crate) fn range_words(chrome: &Chrome) -> String {
    let Range { choice, from, until } = chrome.range;
    match choice {
        RangeChoice::Custom => format!("from {}", format::span(from, until, chrome.now)),
        _ => format!("in the last {}", format::duration(until.since(from))),
    }
}

/// Whose figures a card shows, beside its title.
pub(crate) fn of_nodes(of: &FiguresOf) -> Markup {
    let FiguresOf { nodes, silent, is_cut_off } = *of;
    html! {
        @if is_cut_off {
            span.warn { "this node only: others cannot be reached" }
        } @else if silent > 0 {
            span.warn { (nodes) " of " (format::counted((nodes + silent) as u64, "node")) }
        } @else if nodes > 1 {
            (format::counted(nodes as u64, "node"))
        } @else {
            "this node"
        }
    }
}

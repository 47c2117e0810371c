//! A page in place of one that cannot be shown: what failed, since when, what still works, where to go.

use maud::{Markup, html};

use crate::model::{Chrome, ErrorPage};
use crate::part::{moment, t};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &ErrorPage) -> Markup {
    html! {
        section.card.error {
            p.status.dim { "Status " (model.status) }
            p { (t(&model.detail)) }
            @if let Some(since) = model.since { p { "Since " (moment(since, chrome.now)) " UTC." } }
            @if let Some(still_works) = &model.still_works { p { (t(still_works)) } }
            div.actions {
                @for (text, address) in &model.links { a.button href=(address) { (t(text)) } }
                @if model.links.is_empty() { a.button href=(crate::path::OVERVIEW) { "Overview" } }
            }
        }
    }
}

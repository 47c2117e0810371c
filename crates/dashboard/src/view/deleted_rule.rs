//! A rule that was deleted: when, by whom, and the way back.

use maud::{Markup, html};

use super::rule::history;
use crate::model::{Chrome, DeletedRule};
use crate::part::{hidden, moment, post, t};
use crate::{format, path};

/// The line below the title.
pub(crate) fn about(chrome: &Chrome, model: &DeletedRule) -> String {
    format!("Deleted {} by {}", format::moment(model.deleted_at, chrome.now), model.deleted_by)
}

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &DeletedRule) -> Markup {
    let can_write = model.is_writable && chrome.read_only.is_none();
    let here = path::rule(&model.rule_id);
    let before = model.revision.saturating_sub(1);
    let restore = html! {
        (hidden("revision", &before.to_string()))
        div.actions { button.primary type="submit" { "Restore " (t(&model.rule_id)) } }
    };
    html! {
        section.card #deleted {
            h2 { "This rule was deleted" }
            p {
                (t(&model.deleted_by)) " deleted it " (moment(model.deleted_at, chrome.now)) " UTC, with revision "
                (model.revision) ". It applies to no request any more. This is what it was:"
            }
            pre.code tabindex="0" aria-label="The rule as it was" {
                @for line in model.yaml.lines() { (t(line)) "\n" }
            }
            @if can_write {
                (post(chrome, &path::rule_rollback(&model.rule_id), Some(&here), &restore))
            } @else if chrome.read_only.is_none() {
                p.dim { "You may read rules, not restore them." }
            }
        }
        (history(chrome, &model.rule_id, can_write, &model.history))
    }
}

//! One rule: edited with its consequences in view, and its history below.

use maud::{Markup, PreEscaped, html};

use super::rule_form::editor;
use super::rules::tried;
use crate::model::{
    CandidateEffect, CandidateFigures, Chrome, EditedRule, Effect, EffectPreview, RuleRevision,
    RuleState, Section,
};
use crate::part::{
    card, caveat, client, course, course_legend, course_part, effect_course, empty, failed, hidden,
    menu, moment, of_nodes, post, t, top_list,
};
use crate::{format, path};

/// The title.
pub(crate) fn title(model: &EditedRule) -> String {
    if model.is_new { "New rule".to_owned() } else { model.rule_id.clone() }
}

/// The line below the title.
pub(crate) fn about(chrome: &Chrome, model: &EditedRule) -> String {
    if model.is_new {
        return "Saved rules are in force on all nodes within seconds".to_owned();
    }
    let mut parts = vec!["Rule".to_owned()];
    if let Some(quota) = &model.quota {
        parts.push(format::quota(quota));
    }
    let on = if model.applies_to.is_empty() { "all requests" } else { &model.applies_to };
    parts.push(match model.state {
        RuleState::Enforced => format!("enforced on {on}"),
        RuleState::Shadow => format!("shadow on {on}"),
        RuleState::Disabled => "disabled".to_owned(),
    });
    if let (Some(at), Some(actor)) = (model.updated_at, &model.updated_by) {
        parts.push(format!("changed {} by {actor}", format::moment(at, chrome.now)));
    }
    parts.join(" · ")
}

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &EditedRule) -> Markup {
    let can_restore = model.is_writable && chrome.read_only.is_none();
    html! {
        @if !model.is_new { (toolbar(chrome, model)) }
        div.two.wide { (editor(chrome, model)) (effect(chrome, model)) }
        @if !model.is_new {
            section.card {
                h2 { "Requests per second " (course_legend()) span.legend { "this node" } }
                (course("rule-course", "Requests of this rule per second", &model.course, chrome))
            }
            div.two { (most_refused(model)) (history(chrome, &model.rule_id, can_restore, &model.history)) }
            @if let Some(figures) = &model.candidate { (candidate(chrome, figures, model)) }
        }
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &EditedRule) -> Vec<(&'static str, Markup)> {
    if model.is_new {
        return Vec::new();
    }
    let title = "Requests of this rule per second";
    vec![
        ("rule-course", course_part("rule-course", title, &model.course, chrome)),
        ("most-refused", most_refused(model)),
    ]
}

/// Buttons for the rule as it is saved.
fn toolbar(chrome: &Chrome, model: &EditedRule) -> Markup {
    let here = path::rule(&model.rule_id);
    let version = model.version.map(|version| hidden("version", &version.to_string()));
    let change = |state: RuleState, word: &str, what: &str, text: &str| {
        let fields = html! {
            p { (what) }
            (hidden("state", state.word()))
            @if let Some(version) = &version { (version) }
            button.danger[state != RuleState::Enforced].primary[state == RuleState::Enforced] type="submit" { (text) }
        };
        menu(word, "", &post(chrome, &path::rule_state(&model.rule_id), Some(&here), &fields))
    };
    let delete = html! {
        p { "Its counters expire. Overrides and bans of it stay without effect." }
        @if let Some(version) = &version { (version) }
        button.danger type="submit" { "Delete " (t(&model.rule_id)) }
    };
    let by_rule =
        |list: &str| path::with_query(path::LISTS, &[("list", list), ("q", &model.rule_id)]);
    html! {
        div.toolbar {
            b { (model.state.word()) }
            @if model.is_writable && chrome.read_only.is_none() {
                @if model.state != RuleState::Enforced { (change(RuleState::Enforced, "Enforce", "Requests beyond its limit are refused from then on, on all nodes.", "Enforce the rule")) }
                @if model.state != RuleState::Shadow { (change(RuleState::Shadow, "Shadow", "It goes on counting and reports what it would refuse, and lets every request pass.", "Shadow: count, refuse nothing")) }
                @if model.state != RuleState::Disabled { (change(RuleState::Disabled, "Disable", "It applies to no request from then on, and counts nothing.", "Disable the rule")) }
                (menu("Delete", "danger", &post(chrome, &path::rule_delete(&model.rule_id), Some(path::RULES), &delete)))
            }
            span.grow {}
            a href=(by_rule("overrides")) { (format::counted(model.overrides, "override")) }
            a href=(by_rule("bans")) { (format::counted(model.bans, "ban")) }
        }
    }
}

/// What the edited rule would have done.
fn effect(chrome: &Chrome, model: &EditedRule) -> Markup {
    html! {
        section.card #effect {
            @match &model.effect {
                EffectPreview::Replayed(effect) => (replayed(chrome, effect)),
                EffectPreview::NotAsked => {
                    h2 { "Effect on recent traffic" }
                    @if chrome.read_only.is_some() {
                        (empty("Nothing can be changed here.", &html! {
                            "Try a changed file on the recent requests of this server: "
                            code { "tollgate rules preview -f FILE" }
                        }))
                    } @else if !model.is_writable {
                        (empty("You may read this rule, not change it.", &html! { "So there is no effect to show." }))
                    } @else {
                    (empty("Change something to see its effect.", &html! {
                        "The recent requests of this node are replayed against the rule as edited: how many it would have refused, and whose."
                    }))
                    }
                }
                EffectPreview::NoTraffic => {
                    h2 { "Effect on recent traffic" }
                    (empty("No recent traffic.", &html! {
                        "This node has checked no requests lately. An access log can be replayed instead: "
                        a href=(path::SIMULATE) { "Simulate" } "."
                    }))
                }
                EffectPreview::Off(why) => {
                    h2 { "Effect on recent traffic" }
                    (empty("Not replayed.", &html! { (t(why)) }))
                }
            }
        }
    }
}

fn replayed(chrome: &Chrome, effect: &Effect) -> Markup {
    let since = format::minute(effect.since, chrome.now);
    let class = match effect.refused_then.cmp(&effect.refused_now) {
        std::cmp::Ordering::Less => "ok",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "bad",
    };
    html! {
        h2 { "Effect on the traffic of this node since " (since) }
        p {
            "Would have refused " b { (format::count(effect.refused_then)) } " of "
            (format::counted(effect.requests, "request")) " since " (since) ", "
            (format::counted(effect.clients_then, "client")) "; now "
            (format::count(effect.refused_now)) ", " (format::counted(effect.clients_now, "client")) "."
        }
        div.effect {
            div { b { (format::count(effect.refused_now)) } span.dim { "refused now" } }
            div.arrow aria-hidden="true" { "→" }
            div { b class=(class) { (format::count(effect.refused_then)) } span.dim { "with the change" } }
            div {
                b { (format::count(effect.clients_now)) " → " (format::count(effect.clients_then)) }
                span.dim { "clients refused" }
            }
        }
        @if let Some(candidate) = &effect.candidate { (candidate_effect(candidate)) }
        (effect_course(effect))
        @if effect.clients.is_empty() && effect.candidate.is_some() {
            p.dim { "The rule itself refuses as before." }
        } @else if effect.clients.is_empty() {
            p.dim { "No client is refused more or less often." }
        } @else {
            table {
                thead {
                    tr {
                        th scope="col" { "Client" }
                        th scope="col" .num .m-hide { "Requests" }
                        th scope="col" .num { "Refused now" }
                        th scope="col" .num { "Then" }
                    }
                }
                tbody {
                    @for row in &effect.clients {
                        tr {
                            td.cut { (client(&row.client)) }
                            td.num.m-hide { (format::count(row.requests)) }
                            td.num { (format::count(row.now)) }
                            td.num { b { (format::count(row.then)) } }
                        }
                    }
                }
            }
        }
        p.dim.small {
            @if effect.clients_unchanged > 0 {
                "As often as now: " (format::counted(effect.clients_unchanged, "refused client")) ". "
            }
            "Refusals of all rules are counted, not only of this one."
        }
        (caveat(effect.caveat.as_deref()))
    }
}

/// What the candidate of the edited rule would have refused.
fn candidate_effect(effect: &CandidateEffect) -> Markup {
    html! {
        section.candidate-effect #candidate-effect {
            h3 { "Candidate " (t(&format::quota(&effect.quota))) }
            p {
                "Would have refused " b { (format::count(effect.refused)) } " of "
                (format::counted(effect.requests, "request")) " that pass, of "
                (format::counted(effect.clients_refused, "client")) ". As a candidate it refuses nothing."
            }
            @if !effect.clients.is_empty() {
                table {
                    thead {
                        tr {
                            th scope="col" { "Client" }
                            th scope="col" .num { "Requests" }
                            th scope="col" .num { "Would be refused" }
                        }
                    }
                    tbody {
                        @for row in &effect.clients {
                            tr {
                                td.cut { (client(&row.client)) }
                                td.num { (format::count(row.requests)) }
                                td.num { b { (format::count(row.then)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn most_refused(model: &EditedRule) -> Markup {
    let window = format::duration(model.top_seconds.saturating_mul(1_000));
    html! {
        section.card #most-refused {
            h2 {
                "Most refused by this rule"
                @if model.top_seconds > 0 {
                    span.legend { span { (of_nodes(&model.most_refused_of)) ", in the last " (window) } }
                }
                a.more href=(path::with_query(path::LIVE, &[("rule_id", &model.rule_id)])) { "Live" }
            }
            @if model.most_refused.is_empty() {
                (empty("It refuses no client.", &PreEscaped(String::new())))
            } @else {
                (top_list(&model.most_refused, "k-ref"))
            }
        }
    }
}

fn candidate(chrome: &Chrome, figures: &CandidateFigures, model: &EditedRule) -> Markup {
    let rule_id = format!("{}{}", model.rule_id, path::CANDIDATE);
    let fields = [("log", "decisions"), ("action", "would_refuse"), ("rule_id", &rule_id)];
    let more = path::with_query(path::AUDIT, &fields);
    let promote = html! {
        p { "The rule gets this limit, and the candidate is removed. Requests beyond it are refused from then on." }
        @if let Some(version) = model.version { (hidden("version", &version.to_string())) }
        button.primary type="submit" { "Promote to " (t(&format::quota(&figures.quota))) }
    };
    let here = path::rule(&model.rule_id);
    html! {
        section.card #candidate {
            h2 { "Candidate" a.more href=(more) { "What it would have refused" } }
            p { (tried(figures, chrome)) }
            p.dim {
                "It counts the requests that pass, beside the rule, and refuses nothing."
            }
            @if !figures.clients.is_empty() {
                h3 { "Clients of this node that it would have refused in the last 5 min" }
                (top_list(&figures.clients, "k-thr"))
            }
            @if model.is_writable && chrome.read_only.is_none() {
                (menu("Promote", "", &post(chrome, &path::rule_promote(&model.rule_id), Some(&here), &promote)))
            }
        }
    }
}

/// The changes of a rule, and the way back to each state of it.
pub(crate) fn history(
    chrome: &Chrome,
    rule_id: &str,
    can_restore: bool,
    history: &Section<Vec<RuleRevision>>,
) -> Markup {
    let fields = [("log", "changes"), ("kind", "rule"), ("entry", rule_id)];
    let more = path::with_query(path::AUDIT, &fields);
    let list = match history {
        Section::Failed(failure) => failed(failure, chrome.now),
        Section::Ready(rows) if rows.is_empty() => {
            empty("No changes are kept.", &html! { "The audit log does not go back that far." })
        }
        Section::Ready(rows) => html! {
            table {
                thead {
                    tr {
                        th scope="col" { "Revision" }
                        th scope="col" { "When" }
                        th scope="col" .m-hide { "By" }
                        th scope="col" { "Change" }
                        th scope="col" { span.hidden-text { "Restore" } }
                    }
                }
                tbody { @for row in rows { (revision(chrome, rule_id, can_restore, row)) } }
            }
        },
    };
    card(&html! { "History" }, Some(("Audit", &more)), &list)
}

fn revision(chrome: &Chrome, rule_id: &str, can_restore: bool, row: &RuleRevision) -> Markup {
    let fields = html! {
        p { "The rule becomes what it was at revision " (row.revision) ", as a new revision. Later changes of it are undone, and no other entry changes." }
        (hidden("revision", &row.revision.to_string()))
        button.danger type="submit" { "Roll back to revision " (row.revision) }
    };
    let here = path::rule(rule_id);
    html! {
        tr {
            td { (row.revision) }
            td.nowrap { (moment(row.at, chrome.now)) }
            td.m-hide.cut { (t(&row.actor)) }
            td {
                (t(&row.summary))
                @if let Some(note) = &row.note { " " span.dim { (t(note)) } }
            }
            td.num {
                @if row.can_restore && can_restore {
                    (menu("Roll back", "small", &post(chrome, &path::rule_rollback(rule_id), Some(&here), &fields)))
                }
            }
        }
    }
}

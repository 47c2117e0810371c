//! A rule as a form or as text, with the linter, the difference and the buttons below.

use maud::{Markup, html};

use crate::model::{Chrome, EditMode, EditedRule, FindingKind, RuleForm};
use crate::part::{Field, diff, findings, hidden, post, select, t};
use crate::path;

/// The card with the editor.
pub(crate) fn editor(chrome: &Chrome, model: &EditedRule) -> Markup {
    let address = if model.is_new { path::NEW_RULE.to_owned() } else { path::rule(&model.rule_id) };
    let is_form = model.mode == EditMode::Form;
    let can_write = model.is_writable && chrome.read_only.is_none();
    let has_errors = model.findings.iter().any(|finding| finding.kind == FindingKind::Error);
    let fields = html! {
        (hidden("mode", if is_form { "form" } else { "yaml" }))
        // Enter in a field presses the first button of its form.
        @if can_write { button.hidden-text type="submit" name="do" value="preview" tabindex="-1" aria-hidden="true" { "Preview" } }
        @if let Some(version) = model.version { (hidden("version", &version.to_string())) }
        h2 {
            "Edit "
            span.seg.small role="group" aria-label="Edit as" {
                button type="submit" name="do" value="as_form" aria-pressed=(is_form) formnovalidate { "Form" }
                button type="submit" name="do" value="as_yaml" aria-pressed=(!is_form) formnovalidate { "YAML" }
            }
        }
        @match model.mode {
            EditMode::Form => (form(model, can_write)),
            EditMode::Yaml => (text(&model.yaml, can_write)),
        }
        (findings(&model.findings))
        (difference(model))
        @if can_write {
            div.actions {
                button type="submit" name="do" value="preview" { "Preview" }
                button.primary type="submit" name="do" value="save" {
                    "Save as revision " (chrome.revision.saturating_add(1))
                }
                @if !model.diff.is_empty() { a.button.ghost href=(address) { "Discard" } }
            }
            @if has_errors { p.dim { "A rule with errors is not saved: the one in force stays." } }
        } @else if chrome.read_only.is_none() {
            p.dim { "You may read this rule, not change it." }
        }
    };
    html! { section.card.editor data-preview=[can_write.then_some("")] { (post(chrome, &address, None, &fields)) } }
}

fn text(yaml: &str, can_write: bool) -> Markup {
    let rows = yaml.lines().count().clamp(10, 40) + 2;
    html! {
        label {
            span.hidden-text { "The rule in YAML" }
            textarea.code name="yaml" rows=(rows) spellcheck="false" autocomplete="off" readonly[!can_write] {
                "\n" (yaml)
            }
        }
    }
}

fn difference(model: &EditedRule) -> Markup {
    html! {
        div #difference {
            @if !model.diff.is_empty() { h3 { "Change" } (diff(&model.diff)) }
        }
    }
}

/// The fields, the most used first.
fn form(model: &EditedRule, can_write: bool) -> Markup {
    let RuleForm {
        rule_id,
        name,
        description,
        limit,
        window,
        time_zone,
        algorithm,
        burst,
        identifier_type,
        on_missing,
        tenant,
        hosts,
        endpoints,
        methods,
        user_tiers,
        cost,
        action,
        max_delay_ms,
        warn_at,
        grace,
        priority,
        consistency,
        on_store_failure,
        fallback_factor,
        penalty_after,
        penalty_within_seconds,
        penalty_ban_seconds,
        candidate_limit,
        enabled,
        others,
    } = &model.form;
    let field = |label, name, value, hint| {
        let field = Field { label, name, value, hint, is_fixed: !can_write, ..Field::default() };
        field.html()
    };
    let figure = |label, name, value, hint| {
        let field = Field {
            label,
            name,
            value,
            hint,
            kind: "number",
            is_fixed: !can_write,
            ..Field::default()
        };
        field.html()
    };
    let lines = |label, name, value, hint| {
        let base = Field { label, name, value, hint, is_fixed: !can_write, ..Field::default() };
        Field { is_multiline: true, is_wide: true, ..base }.html()
    };
    // A rule that does not say has the first option.
    let choice = |label, name, options: &[String], value: &str| {
        let default = options.first().map_or_else(String::new, |it| format!("{it} (default)"));
        let mut options: Vec<(&str, &str)> =
            options.iter().map(|it| (it.as_str(), it.as_str())).collect();
        if let (Some(first), true) = (options.first_mut(), value.is_empty()) {
            *first = ("", &default);
        }
        select(label, name, &options, value)
    };
    let choices = &model.choices;
    html! {
        (hidden("yaml", &model.yaml))
        div.form {
            (Field {
                label: "Id", name: "rule_id", value: rule_id, is_required: true, is_fixed: !model.is_new,
                hint: "a-z, 0-9, underscore, dot, hyphen", ..Field::default()
            }.html())
            (Field { label: "Limit", name: "limit", value: limit, kind: "number", is_required: true,
                hint: "units per window; 0 blocks", is_fixed: !can_write, ..Field::default() }.html())
            (Field { label: "Window", name: "window", value: window, is_required: true,
                hint: "500ms, 10s, 5m, 1h, 1d", is_fixed: !can_write, ..Field::default() }.html())
            (Field { label: "Counts by", name: "identifier_type", value: identifier_type, is_required: true,
                hint: "several, with commas, make one key", list: "identifier-types", is_fixed: !can_write,
                ..Field::default() }.html())
            div.grow { (choice("Algorithm", "algorithm", &choices.algorithms, algorithm)) }
            (lines("Endpoints", "endpoints", endpoints, "one a line: /login, /users/{id}, /api/*; empty for all"))
            (field("Methods", "methods", methods, "GET, POST; empty for all"))
            (figure("Burst", "burst", burst, "of buckets; the limit if empty"))
            (choice("Beyond the limit", "action", &choices.actions, action))
            (choice("Without the store", "on_store_failure", &choices.on_store_failure, on_store_failure))
            (Field { label: "Tiers", name: "user_tiers", value: user_tiers, list: "tiers", hint: "empty for all",
                is_fixed: !can_write, ..Field::default() }.html())
            (figure("Cost of a request", "cost", cost, "units; 1 if empty"))
            (figure("Candidate limit", "candidate_limit", candidate_limit, "tried beside the limit, refuses nothing"))
        }
        details.more-fields {
            summary { "More fields" }
            div.form {
                (field("Name", "name", name, "what people call it"))
                (Field { label: "Description", name: "description", value: description, is_wide: true,
                    is_fixed: !can_write, ..Field::default() }.html())
                (field("Hosts", "hosts", hosts, "*.example.com"))
                (field("Tenant", "tenant", tenant, "that it belongs to"))
                (choice("Lacks the identifier", "on_missing", &choices.on_missing, on_missing))
                (figure("Longest delay, ms", "max_delay_ms", max_delay_ms, "with throttle"))
                (field("Warn at", "warn_at", warn_at, "share of the limit, as 0.8"))
                (figure("Grace", "grace", grace, "units above the limit"))
                (figure("Priority", "priority", priority, "higher ones are reported first"))
                (choice("Counted", "consistency", &choices.consistency, consistency))
                (figure("Fallback factor", "fallback_factor", fallback_factor, "with local, without the store"))
                (field("Time zone", "time_zone", time_zone, "of calendar windows"))
                (figure("Ban after", "penalty_after", penalty_after, "refusals"))
                (figure("within, s", "penalty_within_seconds", penalty_within_seconds, ""))
                (figure("for, s", "penalty_ban_seconds", penalty_ban_seconds, ""))
            }
        }
        label.check {
            input type="checkbox" name="enabled" checked[*enabled] disabled[!can_write];
            span { "Enabled" }
        }
        @if !others.is_empty() {
            p.dim { "Kept as they are, shown as YAML only: " (t(&others.join(", "))) }
        }
        datalist #identifier-types { @for it in &choices.identifier_types { option value=(it) {} } }
        datalist #tiers { @for it in &choices.tiers { option value=(it) {} } }
    }
}

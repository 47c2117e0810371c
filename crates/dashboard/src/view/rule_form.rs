//! A rule as a form or as text, with the linter, the difference and the buttons below.

use maud::{Markup, html};

use crate::model::{Chrome, EditConflict, EditMode, EditedRule, Finding, FindingKind, RuleForm};
use crate::part::{Choice, Field, diff, findings, hidden, moment, post, t};
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
        @if let Some(version) = model.conflict.as_ref().map(|it| it.based_on).or(model.version) {
            (hidden("version", &version.to_string()))
        }
        h2 {
            @if can_write { "Edit " } @else { "Rule " }
            span.seg.small role="group" aria-label=(if can_write { "Edit as" } else { "Show as" }) {
                button type="submit" name="do" value="as_form" aria-pressed=(is_form) formnovalidate { "Form" }
                button type="submit" name="do" value="as_yaml" aria-pressed=(!is_form) formnovalidate { "YAML" }
            }
        }
        @if let Some(conflict) = &model.conflict { (changed_meanwhile(chrome, model, conflict)) }
        @match model.mode {
            EditMode::Form => (form(model, can_write)),
            EditMode::Yaml => (text(&model.yaml, can_write)),
        }
        (findings(&model.findings, !is_form))
        (difference(model))
        @if can_write {
            div.actions {
                button type="submit" name="do" value="preview" { "Preview" }
                @if let Some(conflict) = &model.conflict {
                    (hidden("over", &conflict.version.to_string()))
                    button.danger type="submit" name="do" value="overwrite" {
                        "Save mine over version " (conflict.version)
                    }
                    a.button href=(address) { "Discard mine" }
                } @else {
                    button.primary type="submit" name="do" value="save" {
                        "Save as revision " (chrome.revision.saturating_add(1))
                    }
                    @if has_errors || !model.diff.is_empty() { a.button.ghost href=(address) { "Discard" } }
                }
            }
            @if has_errors { p.dim { "A rule with errors is not saved: the one in force stays." } }
        } @else if chrome.read_only.is_none() {
            p.dim { "You may read this rule, not change it." }
        }
    };
    html! { section.card.editor data-preview=[can_write.then_some("")] { (post(chrome, &address, None, &fields)) } }
}

/// What another person changed since the form began.
fn changed_meanwhile(chrome: &Chrome, model: &EditedRule, conflict: &EditConflict) -> Markup {
    html! {
        section.notice.bad #conflict role="alert" {
            p {
                b { "This rule was changed while you edited it." } " "
                @if let (Some(at), Some(actor)) = (model.updated_at, &model.updated_by) {
                    (t(actor)) " saved version " (conflict.version) " " (moment(at, chrome.now)) " UTC; "
                } @else {
                    "Version " (conflict.version) " is saved; "
                }
                "you began with version " (conflict.based_on) ". "
                "Below is your text, compared with what is saved now: saving it undoes what it leaves out."
            }
            @if conflict.diff.is_empty() {
                p { "What changed is not known any more." }
            } @else {
                h3 { "What the other one changed" }
                (diff(&conflict.diff))
            }
        }
    }
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
    let of = |name| {
        let problem = problem_of(&model.findings, name);
        Field { name, problem, is_fixed: !can_write, ..Field::default() }
    };
    let field = |label, name, value, hint| Field { label, value, hint, ..of(name) }.html();
    let figure =
        |label, name, value, hint| Field { label, value, hint, kind: "number", ..of(name) }.html();
    let lines = |label, name, value, hint| {
        Field { label, value, hint, is_multiline: true, is_wide: true, ..of(name) }.html()
    };
    // A list with one item a line is easier to read than one with commas.
    let endpoints = &endpoints.replace(", ", "\n");
    // A rule that does not say has the first option.
    let choice = |label, name, options: &[String], value: &str| {
        let default = options.first().map_or_else(String::new, |it| format!("{it} (default)"));
        let mut options: Vec<(&str, &str)> =
            options.iter().map(|it| (it.as_str(), it.as_str())).collect();
        if let (Some(first), true) = (options.first_mut(), value.is_empty()) {
            *first = ("", &default);
        }
        Choice { label, name, options: &options, value, is_required: false, is_fixed: !can_write }
            .html()
    };
    let choices = &model.choices;
    html! {
        (hidden("yaml", &model.yaml))
        div.form {
            (Field {
                label: "Id", value: rule_id, is_required: true, is_fixed: !model.is_new,
                hint: "a-z, 0-9, underscore, dot, hyphen", ..of("rule_id")
            }.html())
            (Field { label: "Limit", value: limit, kind: "number", is_required: true,
                hint: "units per window; 0 blocks", ..of("limit") }.html())
            (Field { label: "Window", value: window, is_required: true,
                hint: "500ms, 10s, 5m, 1h, 1d", ..of("window") }.html())
            (Field { label: "Counts by", value: identifier_type, is_required: true,
                hint: "several, with commas, make one key", list: "identifier-types",
                ..of("identifier_type") }.html())
            div.grow { (choice("Algorithm", "algorithm", &choices.algorithms, algorithm)) }
            (lines("Endpoints", "endpoints", endpoints, "one a line, as /login, /users/{id} or /api/*; empty for all"))
            (field("Methods", "methods", methods, "GET, POST; empty for all"))
            (figure("Burst", "burst", burst, "of buckets; the limit if empty"))
            (choice("Beyond the limit", "action", &choices.actions, action))
            (choice("Without the store", "on_store_failure", &choices.on_store_failure, on_store_failure))
            (Field { label: "Tiers", value: user_tiers, list: "tiers", hint: "empty for all",
                ..of("user_tiers") }.html())
            (figure("Cost of a request", "cost", cost, "units; 1 if empty"))
            (figure("Candidate limit", "candidate_limit", candidate_limit, "tried beside the limit, refuses nothing"))
        }
        details.more-fields {
            summary { "More fields" }
            div.form {
                (field("Name", "name", name, "what people call it"))
                (Field { label: "Description", value: description, is_wide: true, ..of("description") }.html())
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

/// What is wrong with a field of the form: the first error that names it, or a part of it.
fn problem_of<'a>(findings: &'a [Finding], name: &str) -> &'a str {
    let errors = findings.iter().filter(|it| it.kind == FindingKind::Error);
    errors
        .filter(|it| field_of(&it.field) == name)
        .map(|it| it.message.as_str())
        .next()
        .unwrap_or("")
}

/// The field of the form for a path in a rule, like `applies_to.methods[0]`.
fn field_of(path: &str) -> &str {
    let path = path.split('[').next().unwrap_or(path);
    match path {
        "window_seconds" => "window",
        "candidate" | "candidate.limit" => "candidate_limit",
        "penalty" | "penalty.after" => "penalty_after",
        "penalty.within_seconds" => "penalty_within_seconds",
        "penalty.ban_seconds" => "penalty_ban_seconds",
        "throttle" => "max_delay_ms",
        "soft" => "warn_at",
        path => path.rsplit('.').next().unwrap_or(path),
    }
}

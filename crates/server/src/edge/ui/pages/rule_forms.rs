//! The forms of a rule: preview, save, another state, promote, delete, restore.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use http::{HeaderName, HeaderValue, Method};
use serde_json::json;
use tollgate::rules::document::RuleDocument;
use tollgate::rules::{Format, Source, to_yaml};
use tollgate_dashboard::model::{
    EditMode, EditedRule, Finding, FindingKind, Notice, RuleState, Tab,
};
use tollgate_dashboard::{Page, path};

use super::rule::{RuleEdit, SavedRule, edited, rule_at};
use super::{local_path, path_of};
use crate::app::offload::Offload;
use crate::edge::ui::api::{if_absent, if_match, segment};
use crate::edge::ui::chrome::refused as refusal;
use crate::edge::ui::form::Form;
use crate::edge::ui::notice;
use crate::edge::ui::page::{html, refused, see_other};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::rule_form::{put_into, typed};
use crate::edge::ui::rule_text::{CheckedRule, yaml_of};
use crate::edge::ui::visit::{FormVisit, Visit};

/// Previews or saves a rule.
pub(in crate::edge::ui) async fn edit(
    rule_id: Result<Path<String>, PathRejection>,
    FormVisit { visit, form }: FormVisit,
) -> Response {
    let queue = queue_of(&visit, &form);
    visit
        .show_by(queue, |visit| async move {
            let saved = visit.saved_rule(&path_of(rule_id)?).await?;
            Box::pin(edit_rule(&visit, &form, Some(saved))).await
        })
        .await
}

/// Previews or saves a new rule.
pub(in crate::edge::ui) async fn edit_new(FormVisit { visit, form }: FormVisit) -> Response {
    let queue = queue_of(&visit, &form);
    let edit = |visit: Visit| async move { Box::pin(edit_rule(&visit, &form, None)).await };
    visit.show_by(queue, edit).await
}

/// The queue of an edited rule: a preview waits for a replay.
fn queue_of<'v>(visit: &'v Visit, form: &Form) -> &'v Offload {
    let queues = &visit.ui.app.queues;
    if is_preview(form) { &queues.preview_pages } else { &queues.pages }
}

fn is_preview(form: &Form) -> bool {
    !matches!(form.text("do"), Some("save" | "overwrite" | "as_form" | "as_yaml"))
}

async fn edit_rule(
    visit: &Visit,
    form: &Form,
    saved: Option<SavedRule>,
) -> Result<Response, PageProblem> {
    let mut edit = edit_of(form);
    let (checked, mut refused_to) = (visit.checked(&edit.yaml), None);
    match form.text("do") {
        Some("save" | "overwrite") => {}
        Some("as_form") if checked.rule.is_some() => edit.mode = EditMode::Form,
        Some("as_form") => {
            let text = "The text has errors: correct them, then it can be shown as a form.";
            refused_to = Some(refusal(text.to_owned()));
        }
        Some("as_yaml") => {
            edit.mode = EditMode::Yaml;
            (edit.typed, edit.base) = (None, None);
        }
        _ => edit.has_effect = is_preview(form),
    }
    if !matches!(form.text("do"), Some("save" | "overwrite")) {
        let page = edited(visit, saved, edit, checked).await?;
        return Ok(html(page_of(visit, page, refused_to)));
    }
    match save(visit, form, saved.as_ref(), &checked).await {
        Ok(rule_id) => {
            let revision = visit.ui.app.policy_source.in_force().revision.number;
            let next = local_path(form.text("next")).unwrap_or_else(|| path::rule(&rule_id));
            Ok(see_other(&notice::with(&next, "saved", Some(revision))))
        }
        Err(problem) if is_of_form(&problem) => {
            let findings = problem.problems.iter().map(|flaw| Finding {
                kind: FindingKind::Error,
                field: flaw.field.clone(),
                line: None,
                message: flaw.message.clone(),
                advice: flaw.advice.clone(),
            });
            let mut checked = checked;
            let is_new = !checked.findings.iter().any(|it| it.kind == FindingKind::Error);
            checked.findings.extend(findings.filter(|_| is_new));
            let page = edited(visit, saved, edit, checked).await?;
            let why = Some(refusal(problem.sentence()));
            Ok(refused(page_of(visit, page, why), &problem))
        }
        Err(problem) => Err(problem),
    }
}

fn page_of(visit: &Visit, rule: EditedRule, why: Option<Notice>) -> String {
    let mut chrome = visit.chrome(Tab::Rules);
    chrome.notice = why.or(chrome.notice);
    Page::Rule(Box::new(rule)).html(&chrome)
}

/// Whether a person can put a problem right in the form.
fn is_of_form(problem: &PageProblem) -> bool {
    matches!(problem.status.as_u16(), 400 | 403 | 409 | 412 | 413 | 422)
}

/// The edited rule, in the text or in the fields of a form.
fn edit_of(form: &Form) -> RuleEdit {
    let yaml = form.one("yaml").unwrap_or_default().to_owned();
    let based_on = form.text("version").and_then(|text| text.parse().ok());
    let mode = EditMode::Yaml;
    let edit = RuleEdit { mode, yaml, typed: None, base: None, based_on, has_effect: false };
    if form.text("mode") == Some("yaml") {
        return edit;
    }
    let source = Source::parse_item_as(&edit.yaml, "rules", Format::Yaml);
    let before = source.document.rules.first().map(serde_json::to_value);
    let before = before.and_then(Result::ok).unwrap_or_default();
    let fields = typed(form);
    let document = put_into(&before, &fields);
    let source = Source::parse_item(&document.to_string(), "rules");
    let read = source.document.rules.first().filter(|_| source.problems.is_empty());
    let yaml = read.map_or_else(|| to_yaml(&document).unwrap_or_default(), yaml_of);
    // What cannot be read stays in its field as it was typed.
    let base = read.is_none().then(|| edit.yaml.clone());
    let typed = read.is_none().then_some(fields);
    RuleEdit { mode: EditMode::Form, yaml, typed, base, ..edit }
}

/// Saves a rule through the API; returns its id.
async fn save(
    visit: &Visit,
    form: &Form,
    saved: Option<&SavedRule>,
    checked: &CheckedRule,
) -> Result<String, PageProblem> {
    let Some(rule) = checked.rule.as_ref().filter(|_| checked.is_valid()) else {
        return Err(PageProblem::invalid("the rule has errors, so it was not saved"));
    };
    let condition = match saved {
        Some(_) => condition_of(form)?,
        None => Some(if_absent()),
    };
    let rule_id = saved.map_or(&rule.rule_id, |saved| &saved.rule.rule_id);
    put(visit, rule_id, rule, condition).await?;
    Ok(rule_id.clone())
}

async fn put(
    visit: &Visit,
    rule_id: &str,
    rule: &RuleDocument,
    condition: Option<(HeaderName, HeaderValue)>,
) -> Result<(), PageProblem> {
    let body = serde_json::to_string(rule).map_err(|_| PageProblem::internal("no JSON"))?;
    let path = format!("/api/v1/rules/{}", segment(rule_id));
    let fields: Vec<_> = condition.into_iter().collect();
    visit.call(Method::PUT, &path, &[], &fields, Some(body)).await?;
    Ok(())
}

/// The condition that a rule still has the version that the form is based on.
fn condition_of(form: &Form) -> Result<Option<(HeaderName, HeaderValue)>, PageProblem> {
    // What another person changed meanwhile is replaced only if the person says so, of that version.
    let name = if form.text("do") == Some("overwrite") { "over" } else { "version" };
    let Some(text) = form.text(name) else { return Ok(None) };
    let version = text.parse().map_err(|_| PageProblem::invalid("version: a number"))?;
    Ok(Some(if_match(version)))
}

/// Enforces, shadows or disables a rule.
pub(in crate::edge::ui) async fn set_state(
    rule_id: Result<Path<String>, PathRejection>,
    FormVisit { visit, form }: FormVisit,
) -> Response {
    visit
        .show(|visit| async move {
            let rule_id = path_of(rule_id)?;
            let word = form.required("state")?;
            let known = RuleState::ALL.into_iter().find(|(_, known)| *known == word);
            let (state, _) =
                known.ok_or_else(|| PageProblem::invalid("state: enforced, shadow or disabled"))?;
            let saved = visit.saved_rule(&rule_id).await?;
            let (patch, done) = match state {
                RuleState::Disabled => (json!({"enabled": false}), "disabled"),
                RuleState::Shadow => (json!({"enabled": null, "action": "log_only"}), "shadowed"),
                RuleState::Enforced => {
                    let action = if saved.rule.throttle.is_some() { "throttle" } else { "reject" };
                    (json!({"enabled": null, "action": action}), "enforced")
                }
            };
            let fields: Vec<_> = condition_of(&form)?.into_iter().collect();
            let path = format!("/api/v1/rules/{}", segment(&rule_id));
            visit.call(Method::PATCH, &path, &[], &fields, Some(patch.to_string())).await?;
            Ok(back(&form, &rule_id, done, None))
        })
        .await
}

/// Puts the candidate of a rule in force, and removes it: one write.
pub(in crate::edge::ui) async fn promote(
    rule_id: Result<Path<String>, PathRejection>,
    FormVisit { visit, form }: FormVisit,
) -> Response {
    visit
        .show(|visit| async move {
            let rule_id = path_of(rule_id)?;
            let saved = visit.saved_rule(&rule_id).await?;
            let Some(promoted) = saved.rule.promoted() else {
                return Err(PageProblem::invalid("the rule has no candidate any more"));
            };
            put(&visit, &rule_id, &promoted, condition_of(&form)?).await?;
            let now = visit.ui.app.policy_source.in_force().revision.number;
            Ok(back(&form, &rule_id, "promoted", Some(now)))
        })
        .await
}

/// Deletes a rule.
pub(in crate::edge::ui) async fn delete(
    rule_id: Result<Path<String>, PathRejection>,
    FormVisit { visit, form }: FormVisit,
) -> Response {
    visit
        .show(|visit| async move {
            let rule_id = path_of(rule_id)?;
            let fields: Vec<_> = condition_of(&form)?.into_iter().collect();
            let path = format!("/api/v1/rules/{}", segment(&rule_id));
            visit.call(Method::DELETE, &path, &[], &fields, None).await?;
            Ok(see_other(&notice::after_deletion(&rule_id)))
        })
        .await
}

/// Restores a rule as it was after a revision.
pub(in crate::edge::ui) async fn restore(
    rule_id: Result<Path<String>, PathRejection>,
    FormVisit { visit, form }: FormVisit,
) -> Response {
    visit
        .show(|visit| async move {
            let rule_id = path_of(rule_id)?;
            let revision = form.required("revision")?;
            let revision: u64 =
                revision.parse().map_err(|_| PageProblem::invalid("revision: a number"))?;
            let Some(rule) = rule_at(&visit, &rule_id, revision).await? else {
                let detail = format!("at revision {revision} there was no rule {rule_id}");
                return Err(PageProblem::not_found(detail));
            };
            let path = format!("/api/v1/rules/{}", segment(&rule_id));
            visit.send(Method::PUT, &path, &[], &rule).await?;
            let now = visit.ui.app.policy_source.in_force().revision.number;
            Ok(back(&form, &rule_id, "restored", Some(now)))
        })
        .await
}

/// Leads back to the page of the form, or to that of the rule.
fn back(form: &Form, rule_id: &str, word: &str, number: Option<u64>) -> Response {
    let next = local_path(form.text("next")).unwrap_or_else(|| path::rule(rule_id));
    see_other(&notice::with(&next, word, number))
}

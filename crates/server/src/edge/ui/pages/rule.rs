//! One rule: as it is, as it is being edited, and what the edit would do to real traffic.

use serde::Deserialize;
use serde_json::Value as JsonValue;
use tollgate::rules::document::RuleDocument;
use tollgate::rules::{PolicyDocument, Source, candidate_of};
use tollgate_catalog::rule_prefix;
use tollgate_dashboard::model::{
    CandidateEffect, ClientRef, EditConflict, EditMode, EditedRule, Effect, EffectClient,
    EffectPreview, Quota, RevisionMark, RuleChoices, RuleForm, RuleRevision,
};

use super::audit::{ChangeJson, ChangesJson, summary};
use super::candidate::candidate_figures;
use super::client::tiers;
use super::lists::OverridesJson;
use super::overview::{figures_of, top_client};
use crate::admin::auth::Right;
use crate::edge::ui::api::segment;
use crate::edge::ui::convert::{applies_to, quota_of, section, state_of, time, time_of};
use crate::edge::ui::diff::diff;
use crate::edge::ui::figures::rules_figures;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::rule_form::fields_of;
use crate::edge::ui::rule_text::{CheckedRule, check, yaml_of};
use crate::edge::ui::visit::Visit;
use crate::observe::fleet_figures::FigureScope;
use crate::observe::preview::{PolicyChange, PreviewFigures, PreviewPoint};
use crate::observe::recent_traffic::top::RankedEntry;
use crate::policy::source::PolicySource;

/// How many changes of a rule are listed.
const HISTORY: &str = "20";
/// How many clients are listed.
const LISTED: usize = 8;
/// What responses with details have besides the rule.
const DETAILS: [&str; 6] =
    ["version", "created_at", "created_by", "updated_at", "updated_by", "written_by"];
/// A rule to begin with.
const NEW: &str = "rule_id: new_rule\nlimit: 100\nwindow: 1m\nidentifier_type: ip\n";

/// The policy at a revision, as the API shows it.
#[derive(Debug, Deserialize)]
struct RevisionJson {
    rules: Vec<JsonValue>,
}

/// A rule as the catalog or the file has it.
#[derive(Clone, Debug)]
pub(super) struct SavedRule {
    pub(super) rule: RuleDocument,
    pub(super) version: Option<u64>,
    updated_at: Option<String>,
    updated_by: Option<String>,
    is_of_tenant_admin: bool,
}

/// A rule as it is being edited.
#[derive(Clone, Debug)]
pub(super) struct RuleEdit {
    pub(super) mode: EditMode,
    pub(super) yaml: String,
    /// The fields as typed, if they could not be put into the text.
    pub(super) typed: Option<RuleForm>,
    /// The text that the fields are put into, if they could not be: the next ones are put into it again.
    pub(super) base: Option<String>,
    /// The version of the rule that the form began with.
    pub(super) based_on: Option<u64>,
    /// Whether the effect on recent traffic is wanted.
    pub(super) has_effect: bool,
}

/// What the page of a rule shows.
pub(super) async fn gather(visit: &Visit, rule_id: &str) -> Result<EditedRule, PageProblem> {
    let saved = visit.saved_rule(rule_id).await?;
    let edit = edit_of(visit, yaml_of(&saved.rule));
    let checked = visit.checked(&edit.yaml);
    edited(visit, Some(saved), edit, checked).await
}

/// What the page of a new rule shows.
pub(super) async fn gather_new(visit: &Visit) -> Result<EditedRule, PageProblem> {
    visit.require(Right::RuleEditor)?;
    let mut yaml = NEW.to_owned();
    if let Some(tenant) = visit.principal.tenant() {
        // Ids of its rules begin with the tenant.
        let id = JsonValue::from(format!("{}new_rule", rule_prefix(tenant)));
        let tenant = JsonValue::from(tenant);
        yaml = format!("{}tenant: {tenant}\n", NEW.replacen("new_rule", &id.to_string(), 1));
    }
    let edit = edit_of(visit, yaml);
    let checked = visit.checked(&edit.yaml);
    edited(visit, None, edit, checked).await
}

fn edit_of(visit: &Visit, yaml: String) -> RuleEdit {
    let is_text = visit.parameter("edit") == Some("yaml");
    let mode = if is_text { EditMode::Yaml } else { EditMode::Form };
    RuleEdit { mode, yaml, typed: None, base: None, based_on: None, has_effect: false }
}

impl Visit {
    /// A rule as it is stored, if the visitor may see it.
    pub(super) async fn saved_rule(&self, rule_id: &str) -> Result<SavedRule, PageProblem> {
        let path = format!("/api/v1/rules/{}", segment(rule_id));
        let response = self.get(&path, &[("detail", "true")]).await?;
        let mut fields: serde_json::Map<String, JsonValue> = response.json()?;
        let mut details = DETAILS.map(|name| fields.remove(name));
        let mut text = |at: usize| {
            let detail = details.get_mut(at).and_then(Option::take);
            detail.and_then(|detail| detail.as_str().map(str::to_owned))
        };
        let (updated_at, updated_by, written_by) = (text(3), text(4), text(5));
        let source = Source::parse_item(&JsonValue::Object(fields).to_string(), "rules");
        let rule = source.document.rules.into_iter().next();
        let rule = rule.ok_or_else(|| PageProblem::internal("the stored rule cannot be read"))?;
        let is_of_tenant_admin = written_by.is_some();
        Ok(SavedRule { rule, version: response.tag(), updated_at, updated_by, is_of_tenant_admin })
    }

    /// The other entries that a rule is looked at beside: those that the visitor may see.
    pub(super) fn policy_for_linter(&self) -> PolicyDocument {
        let tiers = match &self.ui.app.policy_source {
            PolicySource::Catalog(catalog_sync) => {
                catalog_sync.view().tiers().values().cloned().collect()
            }
            PolicySource::File(source) => source.loaded.load().document.tiers.clone(),
        };
        PolicyDocument { rules: self.visible_rules(), tiers, ..PolicyDocument::default() }
    }

    /// Looks at an edited rule.
    pub(super) fn checked(&self, yaml: &str) -> CheckedRule {
        check(yaml, &self.policy_for_linter(), &self.ui.lint_context())
    }
}

/// What the page of a rule shows that was edited and looked at.
pub(super) async fn edited(
    visit: &Visit,
    saved: Option<SavedRule>,
    edit: RuleEdit,
    checked: CheckedRule,
) -> Result<EditedRule, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let effect =
        if edit.has_effect { effect(visit, &checked).await } else { EffectPreview::NotAsked };
    let form = edit.typed.or_else(|| checked.rule.as_ref().map(fields_of)).unwrap_or_default();
    let before = saved.as_ref().map(|saved| yaml_of(&saved.rule)).unwrap_or_default();
    // What cannot be read has other names and another order: a difference to that says nothing.
    let after = checked.rule.as_ref().map_or_else(|| before.clone(), yaml_of);
    let conflict = Box::pin(conflict(visit, saved.as_ref(), edit.based_on)).await;
    let can_write = visit.may(Right::RuleEditor) && visit.ui.app.policy_source.catalog().is_ok();
    let mut model = EditedRule {
        is_new: saved.is_none(),
        is_writable: can_write,
        mode: edit.mode,
        form,
        yaml: edit.base.unwrap_or(edit.yaml),
        conflict,
        choices: RuleChoices { tiers: tiers(visit).await, ..RuleChoices::default() },
        findings: checked.findings,
        diff: diff(&before, &after),
        effect,
        ..EditedRule::default()
    };
    if let Some(saved) = saved {
        fill_saved(visit, &mut model, saved).await;
    }
    Ok(model)
}

/// What another person changed since a form began with a version of the rule. Versions are revisions of the policy.
async fn conflict(
    visit: &Visit,
    saved: Option<&SavedRule>,
    based_on: Option<u64>,
) -> Option<EditConflict> {
    let (saved, based_on) = saved.zip(based_on)?;
    let version = saved.version.filter(|version| *version != based_on)?;
    let known = rule_at(visit, &saved.rule.rule_id, based_on).await.ok().flatten();
    let began = known.and_then(|rule| {
        let source = Source::parse_item(&rule.to_string(), "rules");
        source.document.rules.into_iter().next()
    });
    let diff = began.map(|began| diff(&yaml_of(&began), &yaml_of(&saved.rule)));
    Some(EditConflict { based_on, version, diff: diff.unwrap_or_default() })
}

/// A rule as it was at a revision of the policy; `None` if there was none.
pub(super) async fn rule_at(
    visit: &Visit,
    rule_id: &str,
    revision: u64,
) -> Result<Option<JsonValue>, PageProblem> {
    let path = format!("/api/v1/policy/revisions/{revision}");
    let policy: RevisionJson = visit.read(&path, &[]).await?;
    Ok(policy.rules.into_iter().find(|rule| rule["rule_id"] == rule_id))
}

/// Adds what is known of a rule that is stored.
async fn fill_saved(visit: &Visit, model: &mut EditedRule, saved: SavedRule) {
    let SavedRule { rule, version, updated_at, updated_by, is_of_tenant_admin } = saved;
    // Administrators of a tenant can change only what they wrote.
    model.is_writable &= visit.principal.tenant().is_none() || is_of_tenant_admin;
    model.state = state_of(&rule);
    model.quota = Some(quota_of(&rule));
    model.applies_to = applies_to(&rule.applies_to);
    model.version = version;
    model.updated_at = updated_at.as_deref().and_then(time_of);
    model.updated_by = updated_by;
    let figures = visit.rule_figures(|id| candidate_of(id).unwrap_or(id) == rule.rule_id);
    let own = figures.get(rule.rule_id.as_str());
    model.course = rules_figures(own, &visit.range()).course();
    let ask = visit.candidate_clients();
    if rule.candidate.is_some() {
        // What the candidate counted is known of this node, and so are the clients beside it.
        let own = visit.top(FigureScope::Node, &ask).await.figures;
        model.candidate = candidate_figures(&rule, &figures, &own.would_refuse.entries);
    }
    let merged = visit.top(FigureScope::Fleet, &ask).await;
    (model.most_refused_of, model.top_seconds) = (figures_of(&merged), ask.window_seconds);
    let top = merged.figures;
    let of_rule = |it: &RankedEntry| it.rule_id.as_deref() == Some(rule.rule_id.as_str());
    let refused = top.refused.entries.into_iter().filter(of_rule);
    model.most_refused = refused.take(LISTED).map(top_client).collect();
    let history = changes_of(visit, &rule.rule_id).await.map(revisions);
    if let Ok(changes) = &history {
        // The last change has the name of the token; the rule has its id.
        let last = changes.first().filter(|_| model.updated_by.is_some());
        model.updated_by = last.map(|it| it.actor.clone()).or(model.updated_by.take());
        let range = visit.range();
        let marks = changes.iter().filter(|it| (range.from..range.until).contains(&it.at));
        model.course.marks = marks
            .map(|it| RevisionMark { at: it.at, revision: it.revision, what: it.summary.clone() })
            .collect();
    }
    model.history = section(history);
    model.overrides = overrides(visit, &rule.rule_id).await;
    model.bans = visit.ui.app.limiter.policy().directory().bans_of_rule(&rule.rule_id) as u64;
    model.rule_id = rule.rule_id;
}

/// The last changes of a rule that the visitor may see, the newest first.
pub(super) async fn changes_of(
    visit: &Visit,
    rule_id: &str,
) -> Result<Vec<ChangeJson>, PageProblem> {
    let query = [("kind", "rule"), ("entry", rule_id), ("limit", HISTORY)];
    let ChangesJson { records } = visit.read("/api/v1/audit", &query).await?;
    Ok(records)
}

/// Changes as the history of a rule shows them.
pub(super) fn revisions(changes: Vec<ChangeJson>) -> Vec<RuleRevision> {
    let revision = |(place, change): (usize, ChangeJson)| RuleRevision {
        revision: change.revision,
        at: time_of(&change.at).unwrap_or_default(),
        summary: summary(&change),
        actor: change.actor_name.unwrap_or(change.actor),
        note: None,
        can_restore: place > 0 && change.becomes.is_some(),
    };
    changes.into_iter().enumerate().map(revision).collect()
}

async fn overrides(visit: &Visit, rule_id: &str) -> u64 {
    let query = [("rule_id", rule_id), ("limit", "1000")];
    let found = visit.read::<OverridesJson>("/api/v1/overrides", &query).await;
    found.map_or(0, |found| found.overrides.len() as u64)
}

/// What the edited rule would have done to the recent traffic of this node.
async fn effect(visit: &Visit, checked: &CheckedRule) -> EffectPreview {
    let Some(rule) = checked.rule.clone().filter(|_| checked.is_valid()) else {
        return EffectPreview::Off("The rule has errors: correct them first.".to_owned());
    };
    let document = PolicyDocument { rules: vec![rule], ..PolicyDocument::default() };
    let change = PolicyChange { document, removed: Vec::new() };
    let tenant = visit.principal.tenant().map(str::to_owned);
    let candidate = change.document.rules.first().and_then(RuleDocument::promoted);
    let candidate = candidate.as_ref().map(quota_of);
    match visit.ui.app.preview(&visit.caller(), change, tenant).await {
        Ok(figures) => effect_of(figures, candidate),
        Err(problem) => EffectPreview::Off(PageProblem::from(problem).sentence()),
    }
}

fn effect_of(figures: PreviewFigures, candidate: Option<Quota>) -> EffectPreview {
    let Some((since, until)) = figures.span else { return EffectPreview::NoTraffic };
    let mut caveats = Vec::new();
    if figures.nodes > 1 {
        caveats.push(format!(
            "These are the requests of this node, one of {} that share the counters: clients sent requests to the others, too, \
             so that more are refused than shown.",
            figures.nodes
        ));
    }
    if figures.one_in > 1 {
        caveats.push(format!("One in {} clients was kept.", figures.one_in));
    }
    if !figures.unknown.is_empty() {
        let names = figures.unknown.join(", ");
        caveats.push(format!("Not known of these requests: {names}."));
    }
    if figures.is_cut {
        caveats.push("Older requests were left out, to end in time.".to_owned());
    }
    let step = match &*figures.points {
        [first, second, ..] => second.at.since(first.at).as_secs_ceil(),
        _ => 1,
    };
    let course = |count: fn(&PreviewPoint) -> u64| {
        figures.points.iter().map(|point| count(point) as f64).collect()
    };
    let tried = candidate.zip(figures.candidates.into_iter().next());
    let candidate = tried.map(|(quota, tried)| CandidateEffect {
        quota,
        requests: tried.requests,
        refused: tried.refused,
        clients_refused: tried.clients_refused,
        clients: tried
            .clients
            .into_iter()
            .take(LISTED)
            .map(|it| EffectClient {
                client: ClientRef { name: it.client, identifiers: Vec::new() },
                requests: it.requests,
                now: 0,
                then: it.refused,
            })
            .collect(),
    });
    EffectPreview::Replayed(Effect {
        candidate: candidate.map(Box::new),
        since: time(since),
        until: time(until),
        requests: figures.requests,
        refused_now: figures.now.refused,
        refused_then: figures.then.refused,
        clients_now: figures.now.clients,
        clients_then: figures.then.clients,
        start: figures.points.first().map_or(time(since), |point| time(point.at)),
        step_seconds: step,
        course_now: course(|point| point.refused_now),
        course_then: course(|point| point.refused_then),
        clients_unchanged: figures.clients_unchanged,
        clients: figures
            .clients
            .into_iter()
            .filter(|it| it.refused_now != it.refused_then)
            .take(LISTED)
            .map(|it| EffectClient {
                client: ClientRef { name: it.client, identifiers: Vec::new() },
                requests: it.requests,
                now: it.refused_now,
                then: it.refused_then,
            })
            .collect(),
        caveat: (!caveats.is_empty()).then(|| caveats.join(" ")),
    })
}

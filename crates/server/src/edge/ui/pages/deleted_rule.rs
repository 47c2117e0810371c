//! A rule that was deleted, by its history.

use tollgate::rules::Source;
use tollgate_dashboard::model::{DeletedRule, Section};

use super::rule::{changes_of, revisions};
use crate::admin::auth::Right;
use crate::edge::ui::convert::time_of;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::rule_text::yaml_of;
use crate::edge::ui::visit::Visit;
use crate::policy::source::PolicySource;

/// What the page of a rule that is not there shows, if it was once. `missing` is the problem otherwise.
pub(super) async fn gather(
    visit: &Visit,
    rule_id: &str,
    missing: PageProblem,
) -> Result<DeletedRule, PageProblem> {
    if matches!(visit.ui.app.policy_source, PolicySource::File(_)) {
        return Err(missing);
    }
    let changes = changes_of(visit, rule_id).await?;
    let Some(last) = changes.first().filter(|it| it.becomes.is_none()) else { return Err(missing) };
    let was = last.was.as_ref().map(|was| Source::parse_item(&was.to_string(), "rules"));
    let was = was.and_then(|source| source.document.rules.into_iter().next());
    Ok(DeletedRule {
        rule_id: rule_id.to_owned(),
        deleted_at: time_of(&last.at).unwrap_or_default(),
        deleted_by: last.actor.clone(),
        revision: last.revision,
        yaml: was.as_ref().map(yaml_of).unwrap_or_default(),
        is_writable: visit.may(Right::RuleEditor),
        history: Section::Ready(revisions(changes)),
    })
}

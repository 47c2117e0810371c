//! Bans, the deny list, the allow list and overrides.

use axum::response::Response;
use serde::Deserialize;
use serde_json::Number;
use tollgate_dashboard::model::{
    BanRow, ClientRef, Identifier, ListRow, ListTab, Lists, OverrideRow, Paging, Section,
};
use tollgate_dashboard::path;

use super::client_forms::{client_of, put_on_list, query_of};
use super::clients::TYPES;
use super::local_path;
use crate::admin::auth::Right;
use crate::edge::ui::convert::{Texts, identifier, identifiers, section, time_of};
use crate::edge::ui::form::Form;
use crate::edge::ui::notice;
use crate::edge::ui::page::see_other;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::{FormVisit, Visit};

/// How many entries a page has.
const PAGE: &str = "100";
/// How many rules a form suggests.
const MAX_SUGGESTED: usize = 1_000;

/// Overrides, as the API lists them.
#[derive(Debug, Deserialize)]
pub(super) struct OverridesJson {
    pub(super) overrides: Vec<OverrideJson>,
}

/// An override, as the API lists it.
#[derive(Debug, Deserialize)]
pub(super) struct OverrideJson {
    identifier_type: Texts,
    identifier: Texts,
    rule_id: String,
    limit: Option<u64>,
    window_seconds: Option<Number>,
    burst: Option<u64>,
    multiplier: Option<Number>,
    starts_at: Option<String>,
    expires_at: Option<String>,
    created_by: Option<String>,
    updated_by: Option<String>,
}

#[derive(Debug, Deserialize)]
struct BansJson {
    bans: Vec<BanJson>,
}

#[derive(Debug, Deserialize)]
struct BanJson {
    rule_id: String,
    identifier: Texts,
    tenant: Option<String>,
    expires_at: String,
    created_at: Option<String>,
}

/// The allow list or the deny list, by the name that it has in the response.
#[derive(Debug, Deserialize)]
struct EntriesJson {
    #[serde(alias = "whitelist", alias = "blacklist")]
    entries: Vec<EntryJson>,
}

#[derive(Debug, Deserialize)]
struct EntryJson {
    identifier_type: Texts,
    identifier: Texts,
    reason: Option<String>,
    expires_at: Option<String>,
    created_by: Option<String>,
    updated_by: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

/// Puts a client on a list.
pub(in crate::edge::ui) async fn add(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let list = list_of(&form, &["blacklist", "whitelist"])?;
            let client = client_of(&form)?;
            put_on_list(&visit, &form, &list, &client).await?;
            Ok(back(&form, &list, "listed"))
        })
        .await
}

/// Takes a client off a list, or removes an override.
pub(in crate::edge::ui) async fn remove(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let list = list_of(&form, &["blacklist", "whitelist", "overrides"])?;
            let client = client_of(&form)?;
            let mut query = query_of(&client);
            let is_override = list == "overrides";
            if is_override {
                query.push(("rule_id", form.required("rule_id")?));
            }
            visit.delete(&format!("/api/v1/{list}"), &query).await?;
            Ok(back(&form, &list, if is_override { "override-removed" } else { "unlisted" }))
        })
        .await
}

/// Lifts a ban.
pub(in crate::edge::ui) async fn lift(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let mut query = vec![("rule_id", form.required("rule_id")?)];
            query.extend(form.all("identifier").map(|value| ("identifier", value)));
            if query.len() == 1 {
                return Err(PageProblem::invalid("name the client whose ban is to be lifted"));
            }
            visit.delete("/api/v1/bans", &query).await?;
            Ok(back(&form, "bans", "lifted"))
        })
        .await
}

/// The list that a form names.
fn list_of(form: &Form, known: &[&str]) -> Result<String, PageProblem> {
    let list = form.required("list")?;
    if known.contains(&list) {
        return Ok(list.to_owned());
    }
    Err(PageProblem::invalid(format!("list: one of {}", known.join(", "))))
}

/// Leads back to the page of the form, or to that of the list.
fn back(form: &Form, list: &str, word: &str) -> Response {
    let page = || path::with_query(path::LISTS, &[("list", list)]);
    see_other(&notice::with(&local_path(form.text("next")).unwrap_or_else(page), word, None))
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Lists, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let tab = visit.parameter("list").and_then(|word| {
        ListTab::ALL.into_iter().find(|(_, known)| *known == word).map(|(tab, _)| tab)
    });
    let tab = tab.unwrap_or_default();
    let query = visit.parameter("q").unwrap_or_default().trim().to_owned();
    let rules = visit.visible_rules();
    let mut lists = Lists {
        tab,
        query,
        identifier_types: TYPES.map(str::to_owned).to_vec(),
        rule_ids: rules.iter().map(|rule| rule.rule_id.clone()).take(MAX_SUGGESTED).collect(),
        ..Lists::default()
    };
    let read = match tab {
        ListTab::Bans => bans(visit, &mut lists).await,
        ListTab::Blacklist | ListTab::Whitelist => entries(visit, &mut lists).await,
        ListTab::Overrides => overrides(visit, &mut lists).await,
    };
    match read {
        Ok(next) => {
            let link = |after: &str| {
                let parameters =
                    [("list", tab.word()), ("q", lists.query.as_str()), ("after", after)];
                path::with_query("", &parameters).trim_start_matches('?').to_owned()
            };
            lists.paging = Paging {
                next: next.map(|after| link(&after)),
                first: visit.parameter("after").map(|_| link("")),
                total: None,
            };
        }
        // The page shows what is wrong in place of the list.
        Err(problem) => {
            let failure = problem.failure();
            lists.bans = Section::Failed(failure.clone());
            lists.entries = Section::Failed(failure.clone());
            lists.overrides = Section::Failed(failure);
        }
    }
    Ok(lists)
}

/// Reads bans, and returns where the next page begins.
async fn bans(visit: &Visit, lists: &mut Lists) -> Result<Option<String>, PageProblem> {
    let response = visit.get("/api/v1/bans", &list_query(visit)).await?;
    let found: BansJson = response.json()?;
    let can_lift = visit.may(Right::RuleEditor);
    let rules = visit.visible_rules();
    let rows = found.bans.into_iter().map(|ban| {
        let values = ban.identifier.into_vec();
        let types = rules.iter().find(|rule| rule.rule_id == ban.rule_id);
        let types = types.map(|rule| rule.identifier_type.to_vec()).unwrap_or_default();
        let pairs: Vec<Identifier> =
            types.iter().zip(&values).map(|(kind, value)| identifier(kind, value)).collect();
        BanRow {
            client: ClientRef { name: values.join(", "), identifiers: pairs },
            rule_id: ban.rule_id,
            identifier: values,
            tenant: ban.tenant,
            made_at: ban.created_at.as_deref().and_then(time_of),
            until: time_of(&ban.expires_at).unwrap_or_default(),
            can_lift,
        }
    });
    let query = lists.query.to_lowercase();
    let is_found = |row: &BanRow| {
        row.rule_id.contains(&query) || row.client.name.to_lowercase().contains(&query)
    };
    lists.bans = Section::Ready(rows.filter(is_found).collect());
    Ok(response.next("after"))
}

/// Reads the allow list or the deny list, and returns where the next page begins.
async fn entries(visit: &Visit, lists: &mut Lists) -> Result<Option<String>, PageProblem> {
    let list = format!("/api/v1/{}", lists.tab.word());
    let response = visit.get(&list, &list_query(visit)).await?;
    let found: EntriesJson = response.json()?;
    let can_remove = visit.may(Right::RuleEditor);
    let row = |it: EntryJson| ListRow {
        identifiers: identifiers(it.identifier_type, it.identifier),
        reason: it.reason,
        expires_at: it.expires_at.as_deref().and_then(time_of),
        written_by: it.updated_by.or(it.created_by),
        written_at: it.updated_at.or(it.created_at).as_deref().and_then(time_of),
        can_remove,
    };
    let query = lists.query.to_lowercase();
    let is_found = |row: &ListRow| {
        let has = |text: &str| text.to_lowercase().contains(&query);
        row.identifiers.iter().any(|it| has(&it.value)) || row.reason.as_deref().is_some_and(has)
    };
    lists.entries = Section::Ready(found.entries.into_iter().map(row).filter(is_found).collect());
    Ok(response.next("after"))
}

/// Reads overrides, and returns where the next page begins.
async fn overrides(visit: &Visit, lists: &mut Lists) -> Result<Option<String>, PageProblem> {
    let response = visit.get("/api/v1/overrides", &list_query(visit)).await?;
    let found: OverridesJson = response.json()?;
    let can_remove = visit.may(Right::RuleEditor);
    let rows = found.overrides.into_iter().map(|it| it.into_row(can_remove));
    let query = lists.query.to_lowercase();
    let is_found = |row: &OverrideRow| {
        row.rule_id.contains(&query)
            || row.identifiers.iter().any(|it| it.value.to_lowercase().contains(&query))
    };
    lists.overrides = section(Ok(rows.filter(is_found).collect()));
    Ok(response.next("after"))
}

fn list_query(visit: &Visit) -> Vec<(&str, &str)> {
    let mut query = vec![("limit", PAGE), ("detail", "true")];
    query.extend(visit.parameter("after").map(|after| ("after", after)));
    query
}

impl OverrideJson {
    pub(super) fn into_row(self, can_remove: bool) -> OverrideRow {
        let parts = [
            self.limit.map(|limit| format!("limit {limit}")),
            self.multiplier.map(|times| format!("{times} times the limit")),
            self.window_seconds.map(|seconds| format!("window {seconds} s")),
            self.burst.map(|burst| format!("burst {burst}")),
        ];
        OverrideRow {
            identifiers: identifiers(self.identifier_type, self.identifier),
            rule_id: self.rule_id,
            what: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
            starts_at: self.starts_at.as_deref().and_then(time_of),
            expires_at: self.expires_at.as_deref().and_then(time_of),
            written_by: self.updated_by.or(self.created_by),
            can_remove,
        }
    }
}

//! Random writes, one after the other, and resets of counters in between: after each, the tables, a node
//! that follows, a node that starts anew, a copy and a model agree; in the end, what the log tells is
//! what there is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use serde_json::{Map, Value as Json};
use tokio::runtime::{Builder, Runtime};
use tollgate_catalog::{
    AuditFilter, AuditKind, Author, Catalog, ChangesSince, Edit, Entry, Expect, Filter, Intent,
    Kind, Reset, View,
};
use tollgate_core::Timestamp;
use tollgate_rules::{Attribute, Attributes, Explanation, Policy, Source};

use crate::desk::{TestCatalog, admin, contents, later, name_of, reset, reset_of, tenant_admin};
use crate::draw::{Action, Draft, DraftEdit, Expected, Item, Step, steps};
use crate::model::{Model, Stamp, patch};
use crate::place::Place;

/// How many writes a sequence has at most.
const STEPS: usize = 40;

#[test]
fn sequences_in_a_file() {
    check(64, Place::file);
}

#[test]
fn sequences_in_a_database() {
    // It ends with the last of its databases, and is to serve all of them.
    let _stays = Place::database();
    check(16, Place::database);
}

/// So many sequences, or as many times more as a campaign wants.
fn check(cases: u32, place: impl Fn() -> Place) {
    let factor = std::env::var("TOLLGATE_SOAK_CATALOG").ok();
    let factor = factor.and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let config = Config {
        cases: cases.saturating_mul(factor),
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime: Runtime = runtime.expect("a runtime");
    let checked = TestRunner::new(config).run(&steps(STEPS), |steps| {
        let (place, copy) = (place(), Place::file());
        runtime.block_on(Box::pin(async {
            let mut stage = Stage::open(&place, &copy).await;
            for (at, step) in (1..).zip(&steps) {
                stage.take(step, at).await?;
            }
            stage.finish().await
        }))
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

/// Everything that has to agree.
struct Stage {
    catalog: Catalog,
    /// A node that reads changes now and then.
    view: View,
    /// Its copy.
    copy: Catalog,
    model: Model,
    /// What was reset so far, and under which revision.
    resets: Vec<(u64, Reset)>,
}

impl Stage {
    async fn open(place: &Place, copy: &Place) -> Self {
        let catalog = TestCatalog::open(place).await.catalog;
        let view = catalog.view().await.expect("a view");
        let copy = copy.catalog();
        copy.migrate(later(0)).await.expect("tables");
        copy.copy_from(&catalog).await.expect("a copy");
        Self { catalog, view, copy, model: Model::default(), resets: Vec::new() }
    }

    async fn take(&mut self, step: &Step, at: u64) -> TestCaseResult {
        let author = step.tenant.map_or_else(admin, tenant_admin);
        let now = later(at);
        self.reset(step.resets, &author, now).await?;
        let intent = self.intent(&step.intent);
        let written = self.catalog.write(&author, intent, now, step.is_trial).await;
        let stamp = stamp(&author, now);
        let before = self.model.clone();
        match (self.model.write(&step.intent, &stamp), &written) {
            (Ok(count), Ok(written)) => prop_assert_eq!(count, written.changes.len(), "{:?}", step),
            (Err(wrong), Err(error)) => {
                prop_assert!(wrong.contains(name_of(error)), "{error}, not {wrong:?}: {step:?}");
            }
            (expected, _) => prop_assert!(false, "{expected:?}, not {written:?}: {step:?}"),
        }
        if step.is_trial || written.as_ref().is_ok_and(|written| written.changes.is_empty()) {
            self.model = before;
        }
        let head = self.catalog.version().await.expect("a version");
        prop_assert_eq!(head.revision.number, self.model.number);
        if let Ok(written) = written {
            prop_assert_eq!(written.version, head);
        }
        self.compare_tables().await?;
        if step.is_seen {
            self.look().await?;
        }
        Ok(())
    }

    /// Logs resets, which nodes that follow do not read.
    async fn reset(&mut self, count: u64, author: &Author, now: Timestamp) -> TestCaseResult {
        let head = self.catalog.version().await.expect("a version");
        let user = |number: u64| format!("u{number}");
        let records: Vec<_> =
            (0..count).map(|number| reset(author, "r", &user(number), now)).collect();
        self.catalog.log_resets(&records).await.expect("kept");
        let noted = records.into_iter().map(|record| (head.revision.number, record.reset));
        self.resets.extend(noted);
        prop_assert_eq!(self.catalog.version().await.expect("a version"), head);
        let since = self.catalog.since(head).await.expect("an answer");
        prop_assert!(matches!(since, ChangesSince::Nothing), "{since:?}");
        Ok(())
    }

    /// The step as a catalog takes it.
    fn intent(&self, draft: &Draft) -> Intent {
        match draft {
            Draft::Edits(edits) => {
                Intent::Edits(edits.iter().map(|edit| self.edit(edit)).collect())
            }
            Draft::Apply { items, prune } => {
                let mut lists: BTreeMap<&str, Vec<Json>> = BTreeMap::new();
                for item in items {
                    let body = Json::Object(item.body.clone());
                    lists.entry(item.kind.plural()).or_default().push(body);
                }
                let source = Source::parse(&serde_json::json!(lists).to_string());
                Intent::Apply {
                    document: Box::new(source.document),
                    prune: prune.clone(),
                    revision: None,
                }
            }
        }
    }

    fn edit(&self, edit: &DraftEdit) -> Edit {
        let Item { kind, name, body, .. } = &edit.item;
        let (kind, name) = (*kind, name.clone());
        let version = self.model.entries.get(&(kind, name.clone())).map_or(1, |it| it.version);
        let expect = match edit.expect {
            Expected::Anything => Expect::Anything,
            Expected::Absent => Expect::Absent,
            Expected::Present => Expect::Present,
            Expected::ThisVersion => Expect::Version(version),
            Expected::OtherVersion => Expect::Version(version + 1),
        };
        match edit.action {
            Action::Put => {
                let entry = Entry::parse(kind, &Json::Object(body.clone()).to_string());
                Edit::Put { entry: entry.expect("an entry"), expect }
            }
            Action::Patch(_) => {
                Edit::Patch { kind, name, fields: Json::Object(patch(edit)), expect }
            }
            Action::Remove => Edit::Remove { kind, name, expect },
        }
    }

    async fn compare_tables(&self) -> TestCaseResult {
        let kept = contents(&self.catalog).await;
        let names: Vec<_> = kept.keys().collect();
        prop_assert_eq!(names, self.model.entries.keys().collect::<Vec<_>>());
        for (key, kept) in &kept {
            let expected = &self.model.entries[key];
            prop_assert_eq!(&object(&kept.body), &expected.body, "{:?}", key);
            prop_assert_eq!(kept.version, expected.version, "{:?}", key);
            prop_assert_eq!(kept.created_at, expected.created_at, "{:?}", key);
            prop_assert_eq!(&kept.created_by, &expected.created_by, "{:?}", key);
        }
        self.compare_authors(&self.catalog).await
    }

    async fn compare_authors(&self, catalog: &Catalog) -> TestCaseResult {
        for kind in [Kind::Rule, Kind::Override, Kind::Blacklist] {
            let page = catalog.page(kind, &Filter::default(), None, 100).await.expect("a page");
            for kept in page.entries {
                let expected = &self.model.entries[&(kind, kept.name.clone())];
                prop_assert_eq!(&kept.author_tenant, &expected.author, "{} {}", kind, kept.name);
            }
        }
        Ok(())
    }

    /// A node catches up, and sees what one sees that starts now.
    async fn look(&mut self) -> TestCaseResult {
        match self.catalog.since(self.view.version()).await.expect("an answer") {
            ChangesSince::Nothing => {}
            ChangesSince::Changes(update) => {
                let next = self.view.apply(&update);
                self.view =
                    next.map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
                let followed = self.copy.follow(&update).await;
                followed.map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            other => prop_assert!(false, "{other:?}"),
        }
        self.compare_views().await
    }

    async fn compare_views(&self) -> TestCaseResult {
        self.compare_authors(&self.copy).await?;
        let fresh = self.catalog.view().await.expect("a view");
        let copied = self.copy.view().await.expect("a view");
        let policy = Policy::from_text(&self.model.document());
        let policy = policy.map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        let policy = policy.with_revision(self.view.version().revision);
        for view in [&self.view, &fresh, &copied] {
            prop_assert_eq!(view.version(), self.view.version());
            prop_assert_eq!(view.policy().directory().sizes(), policy.directory().sizes());
            for probe in PROBES {
                prop_assert_eq!(explain(view.policy(), &probe), explain(&policy, &probe));
            }
            prop_assert_eq!(view.rules(), fresh.rules());
            prop_assert_eq!(view.tiers(), fresh.tiers());
            prop_assert_eq!(view.api_keys(), fresh.api_keys());
            prop_assert_eq!(view.tokens(), fresh.tokens());
        }
        for (kind, count) in
            [(Kind::ApiKey, fresh.api_keys().len()), (Kind::Token, fresh.tokens().len())]
        {
            let kept = self.model.entries.keys().filter(|key| key.0 == kind).count();
            prop_assert_eq!(kept, count);
        }
        Ok(())
    }

    async fn compare_owners(&self) -> TestCaseResult {
        for tenant in ["acme", "umbrella"] {
            let filter = Filter { tenant: Some(tenant.to_owned()), ..Filter::default() };
            for kind in [Kind::Rule, Kind::Override, Kind::Blacklist, Kind::Ban, Kind::Token] {
                for (catalog, is_copy) in [(&self.catalog, false), (&self.copy, true)] {
                    let page = catalog.page(kind, &filter, None, 100).await.expect("a page");
                    // A copy that skips revisions does not learn whose a ban is whose rule came and
                    // went meanwhile. Copies are not read for that.
                    let counts =
                        |name: &&str| !is_copy || kind != Kind::Ban || self.model.has_rule_of(name);
                    let names: Vec<&str> =
                        page.entries.iter().map(|it| it.name.as_str()).filter(counts).collect();
                    let expected: Vec<&str> =
                        self.model.names_of(kind, tenant).into_iter().filter(counts).collect();
                    prop_assert_eq!(names, expected, "{} of {}", kind, tenant);
                }
            }
        }
        Ok(())
    }

    /// The log, applied to an empty catalog, gives the current contents.
    async fn finish(mut self) -> TestCaseResult {
        self.look().await?;
        self.compare_owners().await?;
        let log = self.catalog.audit(&AuditFilter::default(), None, 100_000).await.expect("a log");
        let mut told: BTreeMap<(Kind, String), String> = BTreeMap::new();
        let (mut last, mut resets) = (0, Vec::new());
        for record in log.iter().rev() {
            let AuditKind::Entry(kind) = record.kind else {
                prop_assert_eq!(record.revision, last, "behind what was in force");
                resets.push((record.revision, reset_of(record)));
                continue;
            };
            prop_assert!(record.revision == last || record.revision == last + 1, "a gap");
            last = record.revision;
            if kind == Kind::Ban && !record.name.contains(',') {
                // All bans by a rule.
                let prefix = format!("{},", record.name.trim_end_matches(']'));
                told.retain(|(kind, name), _| *kind != Kind::Ban || !name.starts_with(&prefix));
                continue;
            }
            let key = (kind, record.name.clone());
            let before = match &record.after {
                Some(body) => told.insert(key, body.clone()),
                None => told.remove(&key),
            };
            prop_assert_eq!(&before, &record.before, "{:?}", record);
        }
        prop_assert_eq!(last, self.model.number);
        prop_assert_eq!(resets, self.resets);
        let kept = contents(&self.catalog).await;
        let kept: BTreeMap<_, _> = kept.into_iter().map(|(key, kept)| (key, kept.body)).collect();
        prop_assert_eq!(told, kept);
        Ok(())
    }
}

fn stamp(author: &Author, now: Timestamp) -> Stamp<'_> {
    Stamp { actor: &author.actor, tenant: author.tenant.as_deref(), at: now.as_micros() }
}

fn object(body: &str) -> Map<String, Json> {
    serde_json::from_str(body).expect("an object")
}

/// Requests of every client that entries may name: user, tenant, address.
const PROBES: [Probe; 6] = [
    Probe(Some("u1"), None, None),
    Probe(Some("u2"), None, None),
    Probe(Some("u1"), Some("acme"), None),
    Probe(Some("u1"), Some("umbrella"), Some("2001:db8::1")),
    Probe(Some("u2"), Some("acme"), Some("2001:db8::1")),
    Probe(None, None, Some("2001:db8::2")),
];

struct Probe(Option<&'static str>, Option<&'static str>, Option<&'static str>);

impl Attributes for Probe {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::UserId => self.0,
            Attribute::Tenant => self.1,
            Attribute::Ip => self.2,
            _ => None,
        }
    }
}

fn explain(policy: &Policy, probe: &Probe) -> Explanation {
    policy.explain(probe, later(0))
}

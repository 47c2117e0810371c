//! A catalog and an author. Each edit is made as a dry run, then for real, and the promises of every write
//! are checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use tollgate_catalog::{
    AuditFilter, AuditKind, AuditRecord, Author, Catalog, CatalogError, Edit, Entry, Expect,
    Filter, Intent, Kind, PolicyBounds, Reset, ResetRecord, Seed, Stored, Update, Version,
};
use tollgate_core::{Micros, Timestamp};
use tollgate_rules::Source;

use crate::place::Place;

/// When everything happens.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// So many seconds later.
pub(crate) fn later(seconds: u64) -> Timestamp {
    NOW.plus(Micros::from_secs(seconds))
}

pub(crate) struct TestCatalog {
    pub(crate) catalog: Catalog,
    pub(crate) author: Author,
}

/// All entries, by kind and name.
pub(crate) type Contents = BTreeMap<(Kind, String), Kept>;

/// What is kept of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) body: String,
    pub(crate) version: u64,
    pub(crate) created_at: u64,
    pub(crate) created_by: String,
    pub(crate) updated_at: Option<u64>,
    pub(crate) updated_by: Option<String>,
}

impl From<&Stored> for Kept {
    fn from(stored: &Stored) -> Self {
        let stored = stored.clone();
        let Stored { body, version, created_at, created_by, updated_at, updated_by, .. } = stored;
        Self { body, version, created_at, created_by, updated_at, updated_by }
    }
}

impl TestCatalog {
    /// An empty catalog, and an author with all permissions.
    pub(crate) async fn open(place: &Place) -> Self {
        Self::open_for(place, PolicyBounds::default()).await
    }

    pub(crate) async fn open_for(place: &Place, policy_bounds: PolicyBounds) -> Self {
        let catalog = Catalog::new(place.url(), policy_bounds);
        let is_new = catalog.open(Seed::default(), NOW, true).await.expect("a catalog");
        assert!(is_new, "a place that was empty");
        Self { catalog, author: admin() }
    }

    /// The same catalog, for another author.
    pub(crate) fn of(place: &Place, author: Author) -> Self {
        Self { catalog: place.catalog(), author }
    }

    /// Makes a write as a dry run, then for real. `expected` is the result of both: the changes, or the
    /// error; with two dots at its end, how that begins.
    pub(crate) async fn check(&self, intent: Intent, expected: &str) {
        let (head, before) = (self.version().await, contents(&self.catalog).await);
        let trial = self.catalog.write(&self.author, intent.clone(), NOW, true).await;
        assert_eq!(self.version().await, head, "the version after a trial of {intent:?}");
        let written = self.catalog.write(&self.author, intent.clone(), NOW, false).await;
        let told = tell(&written);
        assert_eq!(told, tell(&trial), "a trial of {intent:?}");
        match expected.strip_suffix("..") {
            Some(beginning) => assert!(told.starts_with(beginning), "{told}, not {expected}"),
            None => assert_eq!(told, expected, "{intent:?}"),
        }
        // If the dry run had changed anything, the contents would differ from those of the write alone.
        let after = contents(&self.catalog).await;
        match written {
            Ok(written) if !written.changes.is_empty() => {
                self.check_kept(&written, head, before, &after).await;
            }
            _ => {
                assert_eq!(self.version().await, head, "the version after {told}");
                assert_eq!(after, before, "contents after {told}");
            }
        }
    }

    /// The changes turn the old contents into the new ones, and are in the log.
    async fn check_kept(
        &self,
        written: &Update,
        head: Version,
        mut contents: Contents,
        after: &Contents,
    ) {
        assert_eq!(written.version.revision.epoch, head.revision.epoch);
        assert_eq!(written.version.revision.number, head.revision.number + 1);
        assert_eq!(self.version().await, written.version);
        for change in &written.changes {
            let key = (change.kind, change.name.clone());
            if change.kind == Kind::Ban && !change.name.contains(',') {
                // All bans by a rule.
                let prefix = format!("{},", change.name.trim_end_matches(']'));
                contents.retain(|(kind, name), _| *kind != Kind::Ban || !name.starts_with(&prefix));
                continue;
            }
            let was = contents.remove(&key);
            assert_eq!(was.as_ref().map(|it| it.body.clone()), body(&change.before), "{key:?}");
            let Some(body) = body(&change.after) else { continue };
            let (created_at, created_by) = match was {
                Some(was) => (was.created_at, was.created_by),
                None => (NOW.as_micros(), self.author.actor.clone()),
            };
            let version = written.version.revision.number;
            let (updated_at, updated_by) = (Some(NOW.as_micros()), Some(self.author.actor.clone()));
            let kept = Kept { body, version, created_at, created_by, updated_at, updated_by };
            contents.insert(key, kept);
        }
        assert_eq!(&contents, after, "contents");
        let count = written.changes.len();
        let log = self.catalog.audit(&AuditFilter::default(), None, count + 1).await;
        let log: Vec<_> = log.expect("a log").into_iter().take(count).rev().collect();
        for (record, change) in log.iter().zip(&written.changes) {
            assert_eq!(record.kind, AuditKind::Entry(change.kind));
            assert_eq!((&record.name, &record.tenant), (&change.name, &change.tenant));
            assert_eq!(record.before, body(&change.before));
            assert_eq!(record.after, body(&change.after));
            assert_eq!(record.revision, written.version.revision.number);
            assert_eq!((&record.actor, &record.role), (&self.author.actor, &self.author.role));
            assert_eq!((record.at, &record.address), (NOW, &self.author.address));
        }
        assert_eq!(log.len(), count);
    }

    /// Makes edits that nothing is wrong with.
    pub(crate) async fn write(&self, edits: Vec<Edit>) -> Update {
        self.write_at(edits, NOW).await
    }

    pub(crate) async fn write_at(&self, edits: Vec<Edit>, now: Timestamp) -> Update {
        let written = self.catalog.write(&self.author, Intent::Edits(edits), now, false).await;
        written.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn version(&self) -> Version {
        self.catalog.version().await.expect("a version")
    }
}

/// Everything that a catalog holds, by small pages.
pub(crate) async fn contents(catalog: &Catalog) -> Contents {
    let mut contents = Contents::new();
    for kind in Kind::ALL {
        let mut after = None;
        loop {
            let page = catalog.page(kind, &Filter::default(), after.as_deref(), 20).await;
            let page = page.unwrap_or_else(|error| panic!("{error}"));
            let entries = page.entries.iter();
            contents.extend(entries.map(|it| ((kind, it.name.clone()), it.into())));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    contents
}

/// The result of a write, in a line.
pub(crate) fn tell(written: &Result<Update, CatalogError>) -> String {
    match written {
        Ok(written) if written.changes.is_empty() => "nothing".to_owned(),
        Ok(written) => {
            let told = written.changes.iter().map(|change| {
                let sign = match (&change.before, &change.after) {
                    (None, _) => '+',
                    (_, None) => '-',
                    _ => '~',
                };
                format!("{sign}{} {}", change.kind, change.name)
            });
            told.collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("{}: {error}", name_of(error)),
    }
}

/// What a record of the log is about.
pub(crate) fn subject_of(record: &AuditRecord) -> String {
    format!("{} {}", record.kind.name(), record.name)
}

/// The reset that a record of the log is about.
pub(crate) fn reset_of(record: &AuditRecord) -> Reset {
    let AuditRecord { name, tenant, before, after, .. } = record.clone();
    let (was, becomes) = (before.expect("what was left"), after.expect("what is left"));
    Reset { entry: name, tenant, was, becomes }
}

fn body(entry: &Option<Arc<Entry>>) -> Option<String> {
    entry.as_ref().map(|entry| entry.body())
}

/// A reset of what a rule counts for a client.
pub(crate) fn reset(author: &Author, rule_id: &str, user: &str, at: Timestamp) -> ResetRecord {
    let left = |remaining: u64| {
        serde_json::json!({"rule_id": rule_id, "limit": 10, "remaining": remaining}).to_string()
    };
    let reset = Reset {
        entry: serde_json::json!([rule_id, "user_id", user]).to_string(),
        tenant: author.tenant.clone(),
        was: left(3),
        becomes: left(10),
    };
    ResetRecord { at, author: author.clone(), reset }
}

/// The name of an error.
pub(crate) fn name_of(error: &CatalogError) -> &'static str {
    match error {
        CatalogError::Away(_) => "away",
        CatalogError::Unknown(_) => "unknown",
        CatalogError::Unusable(_) => "unusable",
        CatalogError::Invalid(_) => "invalid",
        CatalogError::Missing { .. } => "missing",
        CatalogError::Exists { .. } => "exists",
        CatalogError::Changed { .. } => "changed",
        CatalogError::Moved { .. } => "moved",
        CatalogError::NoRevision { .. } => "no revision",
        CatalogError::TooManyChanges { .. } => "too many changes",
        CatalogError::InUse(_) => "in use",
        CatalogError::LastAdmin => "last admin",
        CatalogError::NoSpace(_) => "no space",
        CatalogError::NotYours(_) => "not yours",
        CatalogError::ReadOnly(_) => "read only",
    }
}

pub(crate) fn admin() -> Author {
    Author {
        actor: "ada".to_owned(),
        role: "admin".to_owned(),
        tenant: None,
        address: Some("192.0.2.1".to_owned()),
    }
}

pub(crate) fn tenant_admin(tenant: &str) -> Author {
    Author {
        actor: format!("admin of {tenant}"),
        role: "tenant-admin".to_owned(),
        tenant: Some(tenant.to_owned()),
        address: None,
    }
}

pub(crate) fn entry(kind: Kind, body: &Json) -> Entry {
    Entry::parse(kind, &body.to_string()).unwrap_or_else(|problems| panic!("{body}: {problems:?}"))
}

pub(crate) fn put_if(expect: Expect, kind: Kind, body: &Json) -> Edit {
    Edit::Put { entry: entry(kind, body), expect }
}

pub(crate) fn put(kind: Kind, body: &Json) -> Edit {
    put_if(Expect::Anything, kind, body)
}

pub(crate) fn patch(kind: Kind, name: &str, fields: Json) -> Edit {
    Edit::Patch { kind, name: name.to_owned(), fields, expect: Expect::Anything }
}

pub(crate) fn remove(kind: Kind, name: &str) -> Edit {
    Edit::Remove { kind, name: name.to_owned(), expect: Expect::Anything }
}

/// One edit as an intent.
pub(crate) fn only(edit: Edit) -> Intent {
    Intent::Edits(vec![edit])
}

/// A whole document, and of which kinds everything else goes.
pub(crate) fn apply(text: &str, prune: &[Kind]) -> Intent {
    let source = Source::parse(text);
    assert_eq!(source.problems, [], "{text}");
    Intent::Apply { document: Box::new(source.document), prune: prune.to_vec(), revision: None }
}

/// The body of a rule that limits users, with some fields more.
pub(crate) fn rule(rule_id: &str, more: &Json) -> Json {
    let mut body = serde_json::json!({
        "rule_id": rule_id, "limit": 10, "window_seconds": 60, "identifier_type": "user_id",
    });
    if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
        body.extend(more.clone());
    }
    body
}

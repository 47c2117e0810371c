//! A task that writes three rules at a time, whatever happens, and remembers each result.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tollgate_catalog::{AuditFilter, Catalog, CatalogError, Intent};

use crate::{NOW, PASSWORD, author, rule};
use tollgate_testbed::eventually;

/// How many rules each write makes.
const TOGETHER: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    NotKept,
    Unknown,
}

pub(crate) struct Writer {
    fates: Arc<Mutex<Vec<Fate>>>,
    writing: JoinHandle<()>,
}

impl Writer {
    pub(crate) fn start(catalog: Arc<Catalog>) -> Self {
        let fates = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&fates);
        let writing = tokio::spawn(async move {
            for number in 0.. {
                let edits = (0..TOGETHER).map(|part| rule(&format!("w{number}.{part}"))).collect();
                let written = catalog.write(&author(), Intent::Edits(edits), NOW, false).await;
                noted.lock().push(fate(written.err()));
            }
        });
        Self { fates, writing }
    }

    fn kept(&self) -> usize {
        self.fates.lock().iter().filter(|fate| **fate == Fate::Kept).count()
    }

    /// Waits until so many more writes were kept.
    pub(crate) async fn keeps(&self, more: usize) {
        let wanted = self.kept() + more;
        eventually("writes", || async { (self.kept() >= wanted).then_some(()) }).await;
    }

    /// Waits until one more write failed.
    pub(crate) async fn fails(&self) {
        let count = || self.fates.lock().iter().filter(|fate| **fate != Fate::Kept).count();
        let wanted = count() + 1;
        eventually("a failure", || async { (count() >= wanted).then_some(()) }).await;
    }

    /// Stops, and compares the results of writes with the contents of the catalog.
    pub(crate) async fn check(self, catalog: &Catalog) {
        self.writing.abort();
        // It stops in the middle of a write, whose result is not known.
        let _ = self.writing.await;
        let fates = self.fates.lock().clone();
        let view = eventually("a view", || async { catalog.view().await.ok() }).await;
        let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
        for rule_id in view.rules().keys() {
            let number = rule_id.trim_start_matches('w').split_once('.').expect("a number").0;
            *parts.entry(number.parse().expect("a number")).or_default() += 1;
        }
        for (number, count) in &parts {
            assert_eq!(*count, TOGETHER, "of write {number}");
        }
        for (number, fate) in fates.iter().enumerate() {
            match fate {
                Fate::Kept => assert!(parts.contains_key(&number), "write {number} is lost"),
                Fate::NotKept => assert!(!parts.contains_key(&number), "write {number} was made"),
                Fate::Unknown => {}
            }
        }
        // Each has its revision, and there are no others.
        let log = catalog.audit(&AuditFilter::default(), None, 100_000).await.expect("a log");
        assert_eq!(log.len(), parts.len() * TOGETHER);
        assert_eq!(view.version().revision.number, parts.len() as u64);
    }
}

fn fate(error: Option<CatalogError>) -> Fate {
    let Some(error) = error else { return Fate::Kept };
    check_words(&error);
    match error {
        CatalogError::Away(_) => Fate::NotKept,
        CatalogError::Unknown(_) => Fate::Unknown,
        other => panic!("{other:?}"),
    }
}

/// An error says which catalog it is about, and keeps secrets.
pub(crate) fn check_words(error: &CatalogError) {
    let said = format!("{error} {error:?}");
    assert!(error.to_string().starts_with("the catalog "), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}

//! The policy from a file that may change, or one without rules. An invalid policy never replaces a valid
//! one.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate::rules::{PolicyDocument, SECRET_DIGEST, Source, uncountable_in_redis};
use tollgate::{Policy, Revision, Timestamp};

use crate::policy::file_digest::digest_of_file;
use crate::policy::load_status::LoadStatus;
use crate::policy::redact;

/// The built-in rules, which a new catalog starts with.
pub(crate) const DEFAULT_RULES: &str = include_str!("default_rules.yaml");

/// The rules of a server that has neither a file nor a catalog.
const NO_RULES: &str = "rules: []";

/// After how many consecutive checks that miss the file it is reported.
const MAX_MISSED: u32 = 2;

/// The policy in force, with the document it was made of.
#[derive(Debug)]
pub(crate) struct LoadedPolicy {
    pub(crate) document: PolicyDocument,
    /// The beginning of what `sha256sum` prints for the file; `None` without one. Nodes that read the same rules from their
    /// own files have it in common, while revisions are counted by each.
    pub(crate) file_digest: Option<String>,
    pub(crate) revision: Revision,
    pub(crate) at: Timestamp,
}

/// Follows the policy file.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    file: Option<PathBuf>,
    /// Whether its rules are counted in Redis, which cannot count every limit.
    for_redis: bool,
    pub(crate) loaded: ArcSwap<LoadedPolicy>,
    /// Held from reading the file until its policy is in force. Otherwise, of two concurrent reloads,
    /// the one that read the older file could win.
    watch: Mutex<FileWatch>,
    /// How often a change could not be put into force.
    pub(crate) errors: AtomicU64,
    status: ArcSwap<LoadStatus>,
}

/// The states of the file that were seen.
#[derive(Debug, Default)]
struct FileWatch {
    /// The version that was read last, valid or not.
    read: Option<FileStamp>,
    /// The version at the last check, if that is not the one that was read.
    glimpsed: Option<FileStamp>,
    /// How many consecutive checks have not found the file.
    missed: u32,
}

/// Identifies a version of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Two files can be written within one tick of the clock, so time and length are not enough.
    inode: u64,
}

impl FileStamp {
    fn of(file: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(file)?;
        Ok(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

impl PolicyFile {
    /// Reads the policy for the first time.
    pub(crate) fn open(
        file: Option<&Path>,
        for_redis: bool,
        now: Timestamp,
    ) -> Result<(Self, Policy), String> {
        // Before reading, so that a change meanwhile is noticed.
        let read = file.and_then(|file| FileStamp::of(file).ok());
        let text = text_of(file)?;
        let revision = Revision { epoch: now.as_micros(), number: 1 };
        let (policy, loaded) = compile(file, &text, for_redis, revision, now)?;
        let source = Self {
            file: file.map(Path::to_owned),
            for_redis,
            loaded: ArcSwap::from_pointee(loaded),
            watch: Mutex::new(FileWatch { read, ..FileWatch::default() }),
            errors: AtomicU64::new(0),
            status: ArcSwap::from_pointee(LoadStatus::loaded(now)),
        };
        Ok((source, policy))
    }

    /// Reloads the file and installs its policy.
    pub(crate) fn reload(
        &self,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Result<Revision, String> {
        self.reload_watched(&mut self.watch.lock(), now, install)
    }

    /// Reloads the file if it has changed and two consecutive checks have found it the same: half a file
    /// can be a valid policy too. `None` if there is nothing to reload yet.
    pub(crate) fn reload_if_settled(
        &self,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Option<Result<Revision, String>> {
        let file = self.file.as_deref()?;
        let mut watch = self.watch.lock();
        let traces = FileStamp::of(file);
        self.count_miss(&mut watch, file, traces.as_ref().err(), now);
        let found = traces.ok().filter(|found| watch.read != Some(*found));
        let before = mem::replace(&mut watch.glimpsed, found);
        let is_settled = found.is_some() && found == before;
        is_settled.then(|| self.reload_watched(&mut watch, now, install))
    }

    /// Logs once that the file cannot be found any more. A file that one check misses is being replaced.
    fn count_miss(
        &self,
        watch: &mut FileWatch,
        file: &Path,
        error: Option<&io::Error>,
        now: Timestamp,
    ) {
        watch.missed = error.map_or(0, |_| watch.missed.saturating_add(1));
        if let Some(error) = error.filter(|_| watch.missed == MAX_MISSED) {
            self.fail(now, &error.to_string());
            // Once it is back, it is read again.
            watch.read = None;
            tracing::warn!(
                "the rules file {} cannot be found any more, the last good rules stay in force: {error}",
                file.display()
            );
        }
    }

    fn reload_watched(
        &self,
        watch: &mut FileWatch,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Result<Revision, String> {
        let file = self.file.as_deref();
        let read = file.and_then(|file| FileStamp::of(file).ok());
        *watch = FileWatch { read, ..FileWatch::default() };
        let Revision { epoch, number } = self.loaded.load().revision;
        let revision = Revision { epoch, number: number + 1 };
        let read =
            text_of(file).and_then(|text| compile(file, &text, self.for_redis, revision, now));
        match read {
            Ok((policy, loaded)) => {
                self.loaded.store(loaded.into());
                self.status.store(LoadStatus::loaded(now).into());
                install(&policy);
                Ok(revision)
            }
            Err(problems) => {
                self.fail(now, &problems);
                Err(problems)
            }
        }
    }

    fn fail(&self, now: Timestamp, why: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.status.store(self.status.load().failed(now, why).into());
    }

    /// How the last load ended; `None` without a file.
    pub(crate) fn status(&self) -> Option<Arc<LoadStatus>> {
        self.file.as_ref().map(|_| self.status.load_full())
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

fn text_of(file: Option<&Path>) -> Result<String, String> {
    let Some(file) = file else { return Ok(NO_RULES.to_owned()) };
    let bytes = fs::read(file)
        .map_err(|error| format!("cannot read the rules file {}: {error}", file.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("the rules file {} is not UTF-8", file.display()))
}

fn compile(
    file: Option<&Path>,
    text: &str,
    for_redis: bool,
    revision: Revision,
    now: Timestamp,
) -> Result<(Policy, LoadedPolicy), String> {
    let mut source = Source::parse(text);
    let compiled = Policy::compile(&source).and_then(|policy| {
        let uncountable =
            if for_redis { uncountable_in_redis(&source, &policy) } else { Vec::new() };
        if uncountable.is_empty() { Ok(policy) } else { Err(uncountable) }
    });
    let policy = compiled.map_err(|problems| {
        let name = file.map_or_else(String::new, |file| file.display().to_string());
        let mut report = format!("{name} has problems:");
        for problem in &problems {
            // Writing to a string cannot fail.
            let _ = write!(report, "\n{}", redact::render(problem, &name, text));
        }
        report
    })?;
    let directory = policy.directory().clone().with_digest(SECRET_DIGEST);
    let policy = policy.with_directory(directory).with_revision(revision);
    // The API shows this document.
    source.document.redact_secrets();
    let file_digest = file.map(|_| digest_of_file(text));
    Ok((policy, LoadedPolicy { document: source.document, file_digest, revision, at: now }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1);
    const ONE: &str = "rules: [{rule_id: one, limit: 1, window: 1s, identifier_type: ip}]";
    const TWO: &str = "rules: [{rule_id: two, limit: 22, window: 1s, identifier_type: ip}]";
    const BAD: &str = "rules: [{rule_id: bad, limit: -1, window: 1s, identifier_type: ip}]";

    fn ids(source: &PolicyFile) -> Vec<String> {
        source.loaded.load().document.rules.iter().map(|rule| rule.rule_id.clone()).collect()
    }

    /// The number of the revision that a check puts into force, if it does.
    fn look(source: &PolicyFile) -> Option<u64> {
        let mut installed = None;
        let looked = source.reload_if_settled(NOW, |policy| installed = Some(policy.revision()));
        let revision = looked.map(|read| read.expect("a valid file"));
        assert_eq!(installed, revision);
        revision.map(|revision| revision.number)
    }

    #[test]
    fn built_in_rules_compile_without_lint_warnings() {
        let policy = Policy::compile(&Source::parse(DEFAULT_RULES)).expect("valid defaults");
        let context = tollgate::rules::LintContext::default();
        let doubts = tollgate::rules::lint(&Source::parse(DEFAULT_RULES), &policy, &context);
        assert!(doubts.is_empty(), "{doubts:?}");
    }

    #[test]
    fn without_a_file_there_are_no_rules() {
        let (source, policy) = PolicyFile::open(None, false, NOW).expect("nothing to read");
        assert_eq!((ids(&source).len(), policy.rules().len()), (0, 0));
        assert_eq!((look(&source), look(&source)), (None, None));
    }

    #[test]
    fn an_invalid_file_keeps_the_last_valid_policy() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        fs::write(&file, ONE).expect("written");
        let (source, _) = PolicyFile::open(Some(&file), false, NOW).expect("a valid file");
        fs::write(&file, BAD).expect("written");
        let problems = source
            .reload(NOW, |_| panic!("an invalid policy is never installed"))
            .expect_err("an invalid file");
        assert!(problems.contains("limit") && problems.contains(":1:"), "{problems}");
        assert_eq!(ids(&source), ["one"]);
        assert_eq!(source.errors.load(Ordering::Relaxed), 1);
        assert_eq!(source.status().expect("a file").error.as_deref(), Some(&*problems));
        assert_eq!((look(&source), look(&source)), (None, None), "the invalid file is read once");
        assert!(PolicyFile::open(Some(&file), false, NOW).is_err());
        assert!(
            PolicyFile::open(Some(Path::new("/nowhere/at/all")), false, NOW)
                .expect_err("no file")
                .contains("cannot read the rules file /nowhere/at/all")
        );
    }

    #[test]
    fn a_file_that_is_still_written_is_not_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        fs::write(&file, ONE).expect("written");
        let (source, _) = PolicyFile::open(Some(&file), false, NOW).expect("a valid file");
        let check = |text: Option<&str>, expected: [Option<u64>; 3], id: &str| {
            match text {
                Some(text) => fs::write(&file, text).expect("written"),
                None => fs::remove_file(&file).expect("removed"),
            }
            let looks: Vec<_> = expected.iter().map(|_| look(&source)).collect();
            assert_eq!(looks, expected, "{text:?}");
            assert_eq!(ids(&source), [id], "{text:?}");
        };
        check(Some(TWO), [None, Some(2), None], "two");
        check(None, [None, None, None], "two");
        check(Some(ONE), [None, Some(3), None], "one");
        for half in ["rules:", "rules: []", "rules: [] # and more"] {
            fs::write(&file, half).expect("written");
            assert_eq!(look(&source), None, "{half}");
        }
        check(Some(TWO), [None, Some(4), None], "two");
        // An explicit reload does not wait.
        fs::write(&file, ONE).expect("written");
        let revision = source.reload(NOW, |_| {}).expect("a valid file");
        assert_eq!((revision.number, look(&source), look(&source)), (5, None, None));
    }

    /// A deleted file used to go unnoticed until the next start, which then failed.
    #[test]
    fn a_file_that_is_deleted_is_noticed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        fs::write(&file, ONE).expect("written");
        let (source, _) = PolicyFile::open(Some(&file), false, NOW).expect("a valid file");
        let errors = || {
            assert_eq!(look(&source), None);
            source.errors.load(Ordering::Relaxed)
        };
        assert_eq!(errors(), 0);
        // One check misses the file, as when it is replaced.
        let away = folder.path().join("away.yaml");
        fs::rename(&file, &away).expect("moved");
        assert_eq!(errors(), 0);
        fs::rename(&away, &file).expect("moved back");
        assert_eq!(errors(), 0);
        for known in [0, 1] {
            fs::rename(&file, &away).expect("moved");
            assert_eq!(
                [errors(), errors(), errors(), errors()],
                [known, known + 1, known + 1, known + 1]
            );
            assert_eq!(ids(&source), ["one"], "the last good rules stay in force");
            assert!(source.status().expect("a file").error.is_some());
            fs::rename(&away, &file).expect("moved back");
            assert_eq!(errors(), known + 1);
            assert!(look(&source).is_some(), "it is read again");
            assert_eq!(source.status().expect("a file").error, None);
        }
    }

    #[test]
    fn the_newest_file_wins_of_concurrent_reloads() {
        const THREADS: usize = 8;
        const RELOADS: usize = 25;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        fs::write(&file, ONE).expect("written");
        let (source, _) = PolicyFile::open(Some(&file), false, NOW).expect("a valid file");
        let installed = Mutex::new(Vec::new());
        let install = |policy: &Policy| {
            let id = policy.rules().iter().map(|rule| rule.id.to_string()).collect::<String>();
            // Without the lock, another thread could reload between reading and installing.
            std::thread::yield_now();
            installed.lock().push((policy.revision().number, id));
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (source, file, folder) = (&source, &file, &folder);
                scope.spawn(move || {
                    for round in 0..RELOADS {
                        let new = folder.path().join(format!("new-{thread}.yaml"));
                        let text = ONE.replace("one", &format!("rule-{thread}-{round}"));
                        fs::write(&new, text).expect("written");
                        fs::rename(&new, file).expect("replaced");
                        source.reload(NOW, install).expect("a valid file");
                    }
                });
            }
        });
        let installed = installed.into_inner();
        let revisions: Vec<u64> = installed.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u64> = (2..).take(THREADS * RELOADS).collect();
        assert_eq!(revisions, expected, "each reload has its own revision, in their order");
        let written = Source::parse(&fs::read_to_string(&file).expect("readable"));
        let (_, last) = installed.last().expect("a policy");
        assert_eq!(*last, written.document.rules[0].rule_id);
        assert_eq!(ids(&source), [last.as_str()]);
    }
}

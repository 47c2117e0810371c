//! Where the policy comes from: a file that may change, or what is built in. A policy that does not
//! compile never replaces one that does.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate::rules::{PolicyDocument, Source};
use tollgate::{Policy, Revision, Timestamp};

/// What holds until somebody says otherwise.
const DEFAULT_RULES: &str = include_str!("default_rules.yaml");

/// The policy in force, with the document it was made of.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) document: PolicyDocument,
    pub(crate) revision: Revision,
    pub(crate) at: Timestamp,
}

/// Keeps track of the policy file.
#[derive(Debug)]
pub(crate) struct PolicySource {
    file: Option<PathBuf>,
    pub(crate) loaded: ArcSwap<Loaded>,
    /// What the file looked like when it was read last, whether or not it was any good.
    seen: Mutex<Option<Traces>>,
    /// How often a change could not be put in force.
    pub(crate) errors: AtomicU64,
}

/// What tells one version of a file from the next without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traces {
    modified: Option<SystemTime>,
    length: u64,
    /// Two files can be written within one tick of the clock.
    inode: u64,
}

impl Traces {
    fn of(file: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(file)?;
        Ok(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

impl PolicySource {
    /// Reads the policy for the first time.
    pub(crate) fn open(file: Option<&Path>, now: Timestamp) -> Result<(Self, Policy), String> {
        // Before reading, so that a change in between is seen as one.
        let seen = file.and_then(|file| Traces::of(file).ok());
        let text = text_of(file)?;
        let revision = Revision { epoch: now.as_micros(), number: 1 };
        let (policy, loaded) = compile(file, &text, revision, now)?;
        let source = Self {
            file: file.map(Path::to_owned),
            loaded: ArcSwap::from_pointee(loaded),
            seen: Mutex::new(seen),
            errors: AtomicU64::new(0),
        };
        Ok((source, policy))
    }

    /// Whether the file has changed since it was read.
    pub(crate) fn has_changed(&self) -> bool {
        let Some(file) = &self.file else { return false };
        // A file that is away for a moment is being replaced.
        Traces::of(file).is_ok_and(|traces| *self.seen.lock() != Some(traces))
    }

    /// Reads the file again. The caller puts the policy in force.
    pub(crate) fn reload(&self, now: Timestamp) -> Result<Policy, String> {
        let file = self.file.as_deref();
        *self.seen.lock() = file.and_then(|file| Traces::of(file).ok());
        let Revision { epoch, number } = self.loaded.load().revision;
        let revision = Revision { epoch, number: number + 1 };
        let read = text_of(file).and_then(|text| compile(file, &text, revision, now));
        match read {
            Ok((policy, loaded)) => {
                self.loaded.store(loaded.into());
                Ok(policy)
            }
            Err(problems) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                Err(problems)
            }
        }
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

fn text_of(file: Option<&Path>) -> Result<String, String> {
    let Some(file) = file else { return Ok(DEFAULT_RULES.to_owned()) };
    let bytes = fs::read(file)
        .map_err(|error| format!("cannot read the rules file {}: {error}", file.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("the rules file {} is not UTF-8", file.display()))
}

fn compile(
    file: Option<&Path>,
    text: &str,
    revision: Revision,
    now: Timestamp,
) -> Result<(Policy, Loaded), String> {
    let source = Source::parse(text);
    let policy = Policy::compile(&source).map_err(|problems| {
        let name = file.map_or_else(String::new, |file| file.display().to_string());
        let mut report = format!("{name} has problems:");
        for problem in &problems {
            // Writing to a string cannot fail.
            let _ = write!(report, "\n{}", problem.render(&name, text));
        }
        report
    })?;
    let policy = policy.with_revision(revision);
    Ok((policy, Loaded { document: source.document, revision, at: now }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const NOW: Timestamp = Timestamp::from_secs(1);
    const ONE: &str = "rules: [{rule_id: one, limit: 1, window: 1s, identifier_type: ip}]";
    const TWO: &str = "rules: [{rule_id: two, limit: 22, window: 1s, identifier_type: ip}]";
    const BAD: &str = "rules: [{rule_id: bad, limit: -1, window: 1s, identifier_type: ip}]";

    fn ids(source: &PolicySource) -> Vec<String> {
        source.loaded.load().document.rules.iter().map(|rule| rule.rule_id.clone()).collect()
    }

    #[test]
    fn what_is_built_in_compiles_and_has_nothing_doubtful() {
        let (source, policy) = PolicySource::open(None, NOW).expect("sound defaults");
        assert!(!ids(&source).is_empty());
        assert!(!source.has_changed());
        let context = tollgate::rules::LintContext {
            trusted_proxies: Some(true),
            ..tollgate::rules::LintContext::default()
        };
        let doubts = tollgate::rules::lint(&Source::parse(DEFAULT_RULES), &policy, &context);
        assert!(doubts.is_empty(), "{doubts:?}");
    }

    #[test]
    fn a_bad_file_keeps_the_last_good_policy() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let write = |text: &str| {
            file.as_file().set_len(0).expect("writable");
            file.reopen().and_then(|mut file| file.write_all(text.as_bytes())).expect("writable");
        };
        write(ONE);
        let path = file.path().to_owned();
        let (source, _) = PolicySource::open(Some(&path), NOW).expect("a sound file");
        assert!(!source.has_changed());
        write(TWO);
        assert!(source.has_changed());
        let policy = source.reload(NOW).expect("a sound file");
        assert_eq!((ids(&source), policy.revision().number), (vec!["two".to_owned()], 2));
        assert!(!source.has_changed());
        write(BAD);
        let problems = source.reload(NOW).expect_err("a bad file");
        assert!(problems.contains("limit") && problems.contains(":1:"), "{problems}");
        assert_eq!(ids(&source), ["two"]);
        assert_eq!(source.errors.load(Ordering::Relaxed), 1);
        assert!(!source.has_changed(), "the same bad file is not read again and again");
        assert!(PolicySource::open(Some(&path), NOW).is_err());
        assert!(
            PolicySource::open(Some(Path::new("/nowhere/at/all")), NOW)
                .expect_err("no file")
                .contains("cannot read the rules file /nowhere/at/all")
        );
    }
}

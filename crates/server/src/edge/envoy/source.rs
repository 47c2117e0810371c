//! The files of envoyproxy/ratelimit in a directory that may change. An invalid set of files never
//! replaces a valid one.

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
use serde_json::json;
use tollgate::rules::Source;
use tollgate::{Policy, Revision, Timestamp};
use tollgate_import::envoy::{Allowance, EnvoyConfig, FileLimit};

use super::values::Values;

/// The rule under which limits that requests carry are counted. It cannot clash: ids of limits have
/// dots. Statistics show it only once it was used, since operators did not write it.
pub(crate) const CARRIED: &str = "carried-limit";

/// All files in force.
#[derive(Debug, Default)]
pub(crate) struct FileSet {
    pub(crate) config: EnvoyConfig,
    pub(crate) values: Arc<Values>,
}

impl FileSet {
    /// The name of a limit in responses to Envoy.
    pub(super) fn name_of(&self, limit: usize) -> &str {
        let limit = self.config.limits().get(limit);
        limit.map_or("", |limit| limit.name.as_deref().unwrap_or(&limit.id))
    }
}

/// Follows a directory.
#[derive(Debug)]
pub(crate) struct EnvoySource {
    directory: Option<PathBuf>,
    pub(crate) loaded: ArcSwap<FileSet>,
    /// Held from reading the files until they are in force.
    watch: Mutex<DirectoryWatch>,
    /// How often a change could not be put into force.
    pub(crate) errors: AtomicU64,
}

/// The states of the directory: when it was last read, and at the last check.
#[derive(Debug, Default)]
struct DirectoryWatch {
    read: Option<Vec<Trace>>,
    glimpsed: Option<Vec<Trace>>,
    revision: Revision,
}

/// Identifies a version of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trace {
    path: PathBuf,
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl EnvoySource {
    /// Reads the files for the first time. Without a directory there are none.
    pub(crate) fn open(directory: Option<&Path>, now: Timestamp) -> Result<(Self, Policy), String> {
        let traces = directory.and_then(|directory| traces(directory).ok());
        let config = directory.map_or_else(|| Ok(EnvoyConfig::default()), read)?;
        let revision = Revision { epoch: now.as_micros(), number: 1 };
        let policy = policy_of(&config)?.with_revision(revision);
        let source = Self {
            directory: directory.map(Path::to_owned),
            loaded: ArcSwap::from_pointee(FileSet { config, values: Arc::default() }),
            watch: Mutex::new(DirectoryWatch { read: traces, glimpsed: None, revision }),
            errors: AtomicU64::new(0),
        };
        Ok((source, policy))
    }

    /// Reloads the files and installs their limits. Returns how many limits there are; `None` if there
    /// is no directory.
    pub(crate) fn reload(&self, install: impl FnOnce(&Policy)) -> Option<Result<usize, String>> {
        let directory = self.directory.as_deref()?;
        Some(self.reload_watched(directory, &mut self.watch.lock(), install))
    }

    /// Reloads the files if they have changed and two consecutive checks have found them the same.
    pub(crate) fn reload_if_settled(
        &self,
        install: impl FnOnce(&Policy),
    ) -> Option<Result<usize, String>> {
        let directory = self.directory.as_deref()?;
        let mut watch = self.watch.lock();
        let found = traces(directory).ok().filter(|found| watch.read.as_ref() != Some(found));
        let before = mem::replace(&mut watch.glimpsed, found.clone());
        let is_settled = found.is_some() && found == before;
        is_settled.then(|| self.reload_watched(directory, &mut watch, install))
    }

    fn reload_watched(
        &self,
        directory: &Path,
        watch: &mut DirectoryWatch,
        install: impl FnOnce(&Policy),
    ) -> Result<usize, String> {
        let Revision { epoch, number } = watch.revision;
        let revision = Revision { epoch, number: number + 1 };
        *watch = DirectoryWatch { read: traces(directory).ok(), glimpsed: None, revision };
        let read = read(directory).and_then(|config| {
            let policy = policy_of(&config)?.with_revision(revision);
            Ok((config, policy))
        });
        match read {
            Ok((config, policy)) => {
                let limits = config.limits().len();
                let values = Arc::clone(&self.loaded.load().values);
                install(&policy);
                self.loaded.store(Arc::new(FileSet { config, values }));
                Ok(limits)
            }
            Err(problems) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                Err(problems)
            }
        }
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

/// The YAML files of a directory, in the order of their names. Hidden files are ignored.
fn traces(directory: &Path) -> io::Result<Vec<Trace>> {
    let mut traces = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_yaml = path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml");
        if is_hidden || !is_yaml {
            continue;
        }
        let metadata = fs::metadata(&path)?;
        if metadata.is_file() {
            let (modified, length, inode) =
                (metadata.modified().ok(), metadata.len(), metadata.ino());
            traces.push(Trace { path, modified, length, inode });
        }
    }
    traces.sort_unstable();
    Ok(traces)
}

fn read(directory: &Path) -> Result<EnvoyConfig, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot read {} (--envoy-config): {error}", path.display())
    };
    let found = traces(directory).map_err(|error| failed(directory, &error))?;
    if found.is_empty() {
        return Err(failed(directory, &"there is no .yaml or .yml file in it"));
    }
    let mut files = Vec::new();
    for Trace { path, .. } in found {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        files.push((path.display().to_string(), text));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    EnvoyConfig::parse(&files).map_err(|problems| {
        let mut report = format!("{} has problems:", directory.display());
        for problem in problems {
            // Writing to a string cannot fail.
            let _ = write!(report, "\n{problem}");
        }
        report
    })
}

/// The limits as rules, so that they are counted like other rules.
fn policy_of(config: &EnvoyConfig) -> Result<Policy, String> {
    let rule = |limit: &FileLimit| {
        let Allowance::Limited { quota, .. } = &limit.allowance else { return None };
        let mut rule = json!({
            "rule_id": &*limit.id,
            "algorithm": quota.algorithm.name(),
            "limit": quota.limit,
            "window_seconds": quota.window.as_secs_ceil(),
            "identifier_type": "attribute:counter",
            "action": if limit.shadow { "log_only" } else { "reject" },
        });
        if let (Some(burst), Some(fields)) = (quota.burst, rule.as_object_mut()) {
            fields.insert("burst".to_owned(), burst.into());
        }
        Some(rule)
    };
    let mut rules: Vec<_> = config.limits().iter().filter_map(rule).collect();
    rules.push(json!({
        "rule_id": CARRIED,
        "algorithm": "fixed_window",
        "limit": 1,
        "window_seconds": 1,
        "identifier_type": "attribute:counter",
    }));
    let document = json!({ "rules": rules }).to_string();
    Policy::compile(&Source::parse(&document)).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("the limits cannot be used: {}", told.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1);

    fn file(domain: &str, limit: u32) -> String {
        format!(
            "domain: {domain}\ndescriptors: \
             [{{key: user, rate_limit: {{unit: minute, requests_per_unit: {limit}}}}}]\n"
        )
    }

    fn limits(source: &EnvoySource) -> Vec<String> {
        source.loaded.load().config.limits().iter().map(|limit| limit.id.to_string()).collect()
    }

    #[test]
    fn a_directory_is_followed_and_an_invalid_file_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("shop.yaml"), file("shop", 5)).expect("written");
        fs::write(path(".hidden.yaml"), "nonsense: [").expect("written");
        fs::write(path("notes.txt"), "nonsense: [").expect("written");
        let (source, policy) = EnvoySource::open(Some(folder.path()), NOW).expect("valid files");
        assert_eq!(policy.rules().len(), 2, "the limit, and the one for limits of requests");
        let look = || source.reload_if_settled(|_| {});
        assert!(look().is_none());
        fs::write(path("bank.yml"), file("bank", 7)).expect("written");
        assert!(look().is_none(), "it may still be written");
        assert_eq!(look(), Some(Ok(2)));
        assert_eq!(limits(&source), ["bank.user", "shop.user"]);
        fs::write(path("bank.yml"), "domain: bank\ndescriptors: [{kye: user}]\n").expect("written");
        assert!(look().is_none());
        let problems = look().expect("a change").expect_err("a mistake");
        assert!(problems.contains("bank.yml: line 2, column"), "{problems}");
        assert_eq!((look(), limits(&source).len()), (None, 2), "it is read once");
        assert_eq!(source.errors.load(Ordering::Relaxed), 1);
        fs::remove_file(path("bank.yml")).expect("removed");
        assert!(look().is_none());
        assert_eq!(look(), Some(Ok(1)));
    }

    #[test]
    fn an_unreadable_directory_is_an_error() {
        let check = |directory: &Path, expected: &str| {
            let told = EnvoySource::open(Some(directory), NOW).expect_err(expected);
            assert!(told.contains(expected), "{told}");
        };
        let folder = tempfile::tempdir().expect("a folder");
        check(folder.path(), "there is no .yaml or .yml file in it");
        check(&folder.path().join("nowhere"), "cannot read");
        fs::write(folder.path().join("a.yaml"), file("shop", 1)).expect("written");
        fs::write(folder.path().join("b.yaml"), file("shop", 2)).expect("written");
        check(folder.path(), "the domain \"shop\" is in");
        let (source, policy) = EnvoySource::open(None, NOW).expect("nothing to read");
        assert_eq!((policy.rules().len(), source.reload(|_| {})), (1, None));
    }
}

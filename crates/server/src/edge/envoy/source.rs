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
use tollgate_import::envoy::{Allowance, EnvoyConfig, FileLimit, RepeatedDomain};

use super::file_set::FileSet;
use crate::policy::file_digest::digest_of_files;
use crate::policy::load_status::LoadStatus;

/// The rule under which limits that requests carry are counted. It cannot clash: ids of limits have
/// dots. Statistics show it only once it was used, since operators did not write it.
pub(crate) const CARRIED: &str = "carried-limit";

/// The ids under which limits of the files in a directory are counted, and that of limits that requests carry.
///
/// # Errors
/// Which files cannot be read, and what is wrong with them.
pub fn limit_ids(directory: &Path, repeated: RepeatedDomain) -> Result<Vec<String>, String> {
    let (config, _) = read(directory, repeated)?;
    let ids = config.limits().iter().map(|limit| (*limit.id).to_owned());
    Ok(ids.chain([CARRIED.to_owned()]).collect())
}

/// Follows a directory.
#[derive(Debug)]
pub(crate) struct EnvoySource {
    directory: Option<PathBuf>,
    repeated: RepeatedDomain,
    pub(crate) loaded: ArcSwap<FileSet>,
    /// Held from reading the files until they are in force.
    watch: Mutex<DirectoryWatch>,
    status: ArcSwap<LoadStatus>,
    /// The beginning of the digest of the files in force.
    digest: ArcSwap<String>,
    /// How often a change could not be put into force.
    pub(crate) errors: AtomicU64,
}

/// The states of the directory: when it was last read, and at the last check, if it differed then. A directory that is
/// gone is like one without files: an error of those who removed it.
#[derive(Debug, Default)]
struct DirectoryWatch {
    read: Vec<Trace>,
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
    pub(crate) fn open(
        directory: Option<&Path>,
        repeated: RepeatedDomain,
        now: Timestamp,
    ) -> Result<(Self, Policy), String> {
        let traces = directory.and_then(|directory| traces(directory).ok()).unwrap_or_default();
        let (config, digest) = directory
            .map_or_else(|| Ok(Default::default()), |directory| read(directory, repeated))?;
        let revision = Revision { epoch: now.as_micros(), number: 1 };
        let policy = policy_of(&config)?.with_revision(revision);
        let source = Self {
            directory: directory.map(Path::to_owned),
            repeated,
            loaded: ArcSwap::from_pointee(FileSet::new(config, Arc::default())),
            watch: Mutex::new(DirectoryWatch { read: traces, glimpsed: None, revision }),
            status: ArcSwap::from_pointee(LoadStatus::loaded(now)),
            digest: ArcSwap::from_pointee(digest),
            errors: AtomicU64::new(0),
        };
        Ok((source, policy))
    }

    /// Reloads the files and installs their limits. Returns how many limits there are; `None` if there
    /// is no directory.
    pub(crate) fn reload(
        &self,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Option<Result<usize, String>> {
        let directory = self.directory.as_deref()?;
        Some(self.reload_watched(directory, &mut self.watch.lock(), now, install))
    }

    /// Reloads the files if they have changed and two consecutive checks have found them the same.
    pub(crate) fn reload_if_settled(
        &self,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Option<Result<usize, String>> {
        let directory = self.directory.as_deref()?;
        let mut watch = self.watch.lock();
        let found = Some(traces(directory).unwrap_or_default()).filter(|it| *it != watch.read);
        let before = mem::replace(&mut watch.glimpsed, found.clone());
        let is_settled = found.is_some() && found == before;
        is_settled.then(|| self.reload_watched(directory, &mut watch, now, install))
    }

    fn reload_watched(
        &self,
        directory: &Path,
        watch: &mut DirectoryWatch,
        now: Timestamp,
        install: impl FnOnce(&Policy),
    ) -> Result<usize, String> {
        let Revision { epoch, number } = watch.revision;
        let revision = Revision { epoch, number: number + 1 };
        *watch = DirectoryWatch {
            read: traces(directory).unwrap_or_default(),
            glimpsed: None,
            revision,
        };
        let read = read(directory, self.repeated).and_then(|(config, digest)| {
            let policy = policy_of(&config)?.with_revision(revision);
            Ok((config, digest, policy))
        });
        match read {
            Ok((config, digest, policy)) => {
                let limits = config.limits().len();
                let values = Arc::clone(&self.loaded.load().values);
                install(&policy);
                self.loaded.store(Arc::new(FileSet::new(config, values)));
                self.digest.store(Arc::new(digest));
                self.status.store(Arc::new(LoadStatus::loaded(now)));
                Ok(limits)
            }
            Err(problems) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                self.status.store(Arc::new(self.status.load().failed(now, &problems)));
                Err(problems)
            }
        }
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The beginning of the digest of the files in force, by name and content; `None` if there is no directory.
    pub(crate) fn file_digest(&self) -> Option<String> {
        self.directory.as_ref().map(|_| (**self.digest.load()).clone())
    }

    /// The result of the last load; `None` if there is no directory.
    pub(crate) fn status(&self) -> Option<Arc<LoadStatus>> {
        self.directory.as_ref().map(|_| self.status.load_full())
    }
}

/// The files of a directory and of those below it, in the order of their names, whatever their names end
/// with. Hidden ones are ignored. A directory that is a symbolic link is not entered: it could lead back.
fn traces(directory: &Path) -> io::Result<Vec<Trace>> {
    let mut traces = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                directories.push(path);
                continue;
            }
            let metadata = fs::metadata(&path)?;
            if metadata.is_file() {
                let (modified, length, inode) =
                    (metadata.modified().ok(), metadata.len(), metadata.ino());
                traces.push(Trace { path, modified, length, inode });
            }
        }
    }
    traces.sort_unstable();
    Ok(traces)
}

/// The limits of the files, and the beginning of their digest.
fn read(directory: &Path, repeated: RepeatedDomain) -> Result<(EnvoyConfig, String), String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot read {} (--envoy-config): {error}", path.display())
    };
    let found = traces(directory).map_err(|error| failed(directory, &error))?;
    if found.is_empty() {
        return Err(failed(directory, &"there is no file in it"));
    }
    let mut files = Vec::new();
    for Trace { path, .. } in found {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        files.push((path.display().to_string(), text));
    }
    let digest = digest_of_files(directory, &files);
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let parsed = EnvoyConfig::parse_domains(&files, repeated);
    parsed.map(|config| (config, digest)).map_err(|problems| {
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
    const LATER: Timestamp = Timestamp::from_secs(2);

    fn file(domain: &str, limit: u32) -> String {
        format!(
            "domain: {domain}\ndescriptors: \
             [{{key: user, rate_limit: {{unit: minute, requests_per_unit: {limit}}}}}]\n"
        )
    }

    fn open(directory: &Path) -> Result<(EnvoySource, Policy), String> {
        EnvoySource::open(Some(directory), RepeatedDomain::Refused, NOW)
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
        let (source, policy) = open(folder.path()).expect("valid files");
        assert_eq!(policy.rules().len(), 2, "the limit, and the one for limits of requests");
        let look = || source.reload_if_settled(LATER, |_| {});
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
        let status = source.status().expect("a directory");
        assert_eq!((status.loaded_at, status.tried_at), (LATER, LATER));
        assert_eq!(status.error.as_deref(), Some(&*problems));
        fs::remove_file(path("bank.yml")).expect("removed");
        assert!(look().is_none());
        assert_eq!(look(), Some(Ok(1)));
        assert_eq!(source.status().expect("a directory").error, None);
    }

    /// It was followed no more, in silence.
    #[test]
    fn a_directory_that_vanishes_is_reported_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (here, away) = (folder.path().join("limits"), folder.path().join("away"));
        fs::create_dir(&here).expect("a directory");
        fs::write(here.join("shop.yaml"), file("shop", 5)).expect("written");
        let (source, _) = open(&here).expect("valid files");
        let look = || source.reload_if_settled(LATER, |_| {});
        fs::rename(&here, &away).expect("moved");
        assert!(look().is_none(), "it may be replaced at this moment");
        let problems = look().expect("a change").expect_err("no directory");
        assert!(problems.contains("cannot read"), "{problems}");
        assert_eq!((look(), limits(&source).len()), (None, 1), "its limits stay in force");
        fs::rename(&away, &here).expect("moved");
        assert!(look().is_none());
        assert_eq!(look(), Some(Ok(1)));
    }

    #[test]
    fn an_unreadable_directory_is_an_error() {
        let check = |directory: &Path, expected: &str| {
            let told = open(directory).expect_err(expected);
            assert!(told.contains(expected), "{told}");
        };
        let folder = tempfile::tempdir().expect("a folder");
        check(folder.path(), "there is no file in it");
        check(&folder.path().join("nowhere"), "cannot read");
        fs::write(folder.path().join("a.yaml"), file("shop", 1)).expect("written");
        fs::write(folder.path().join("b.yaml"), file("shop", 2)).expect("written");
        check(folder.path(), "the domain \"shop\" is in");
        let (source, policy) =
            EnvoySource::open(None, RepeatedDomain::Refused, NOW).expect("nothing to read");
        assert_eq!((policy.rules().len(), source.reload(NOW, |_| {})), (1, None));
    }

    /// Files in subfolders and those without `.yaml` used to be skipped in silence.
    #[test]
    fn files_of_any_name_and_in_subfolders_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("team/a")).expect("directories");
        fs::create_dir(path(".git")).expect("a directory");
        fs::write(path("team/a/limits"), file("a", 1)).expect("written");
        fs::write(path("team/b.conf"), file("b", 1)).expect("written");
        fs::write(path(".git/config"), "nonsense: [").expect("written");
        std::os::unix::fs::symlink(folder.path(), path("team/loop")).expect("a link");
        std::os::unix::fs::symlink(path("team/b.conf"), path(".b")).expect("a link");
        let (source, _) = open(folder.path()).expect("valid files");
        assert_eq!(limits(&source), ["a.user", "b.user"]);
        fs::write(path("notes.txt"), "no limits").expect("written");
        let problems = open(folder.path()).expect_err("not a file of limits");
        assert!(problems.contains("notes.txt: "), "{problems}");
    }

    #[test]
    fn a_domain_in_two_files_is_merged_if_the_settings_say_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.yaml"), file("shop", 1)).expect("written");
        fs::write(path("b.yaml"), file("shop", 2).replace("user", "tenant")).expect("written");
        let open =
            || EnvoySource::open(Some(folder.path()), RepeatedDomain::Merged, NOW).map(|it| it.0);
        assert_eq!(limits(&open().expect("valid files")), ["shop.user", "shop.tenant"]);
        fs::write(path("c.yaml"), file("shop", 3)).expect("written");
        let problems = open().expect_err("the same descriptor twice");
        assert!(problems.contains("c.yaml: line 2, column") && problems.contains("\"user\""));
    }
}

//! `tollgate rules lint` on files of envoyproxy/ratelimit: which files these are, and what is wrong with them.

use std::fs;
use std::path::Path;

use tollgate::Problem;
use tollgate_import::FileProblem;
use tollgate_import::envoy::{EnvoyConfig, FileKind, RepeatedDomain};

use super::file::below;
use crate::failure::Failure;
use crate::gitops::files_in;
use crate::policy_file::PolicyText;

/// How many files of a folder without policy files are tried: it may be any folder, by mistake.
const MAX_TRIED: usize = 100;

/// Files to check, by whose they are.
#[derive(Default)]
pub(crate) struct LintFiles {
    /// Policy files.
    pub(crate) policy: Vec<PolicyText>,
    /// Files of envoyproxy/ratelimit.
    pub(crate) envoy: Vec<PolicyText>,
    /// Those of them that are in a folder with policy files. No command takes such a folder: each reads all files of its
    /// folder as its own.
    misplaced: Vec<String>,
}

impl LintFiles {
    /// Reads files and folders; `-` is standard input. A folder that has a file of envoyproxy/ratelimit and no policy
    /// file is read as the server reads it: every file, and those of folders below.
    pub(crate) fn read(paths: &[String]) -> Result<Self, Failure> {
        let mut files = Self::default();
        for path in paths {
            if Path::new(path).is_dir() {
                files.add_folder(path)?;
            } else {
                files.add(PolicyText::read(path)?);
            }
        }
        Ok(files)
    }

    fn add(&mut self, file: PolicyText) {
        match FileKind::of(&file.text) {
            FileKind::Envoy => self.envoy.push(file),
            FileKind::Policy | FileKind::Unknown => self.policy.push(file),
        }
    }

    fn add_folder(&mut self, folder: &str) -> Result<(), Failure> {
        let found = files_in(folder);
        let texts = match &found {
            Ok(found) => found.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?,
            Err(_) => Vec::new(),
        };
        let has = |kind: FileKind| texts.iter().any(|file| FileKind::of(&file.text) == kind);
        if has(FileKind::Policy) {
            let of_envoy = texts.iter().filter(|file| FileKind::of(&file.text) == FileKind::Envoy);
            self.misplaced.extend(of_envoy.map(|file| file.name.clone()));
            texts.into_iter().for_each(|file| self.add(file));
            return Ok(());
        }
        let is_of_envoy = has(FileKind::Envoy) || has_envoy_file(folder);
        if !is_of_envoy {
            found.map(|_| self.policy.extend(texts))?;
            return Ok(());
        }
        let all = below(Path::new(folder))
            .map_err(|error| Failure::usage(format!("cannot read {folder}: {error}")))?;
        for file in &all {
            self.envoy.push(read(file)?);
        }
        Ok(())
    }

    /// Everything that is wrong or doubtful in the files of envoyproxy/ratelimit, with the number of the file.
    pub(crate) fn inspect_envoy(&self, repeated: RepeatedDomain) -> Vec<(usize, Problem)> {
        let texts: Vec<(&str, &str)> =
            self.envoy.iter().map(|file| (&*file.name, &*file.text)).collect();
        let problems = EnvoyConfig::parse_domains(&texts, repeated)
            .map_or_else(|problems| problems, |config| config.doubts());
        let numbered = problems.into_iter().filter_map(|FileProblem { file, problem }| {
            Some((self.envoy.iter().position(|known| known.name == file)?, problem))
        });
        let misplaced =
            self.envoy.iter().enumerate().filter(|(_, file)| self.misplaced.contains(&file.name));
        let mut problems: Vec<(usize, Problem)> =
            numbered.chain(misplaced.map(|(number, _)| (number, in_mixed_folder()))).collect();
        problems.sort_by_key(|(file, it)| (*file, it.position.is_none(), it.position));
        problems
    }
}

fn in_mixed_folder() -> Problem {
    let message =
        "policy files are in the same folder, and `serve --envoy-config` reads every file of it";
    let advice = "keep files of envoyproxy/ratelimit and policy files in different folders";
    Problem::new("", message).with_advice(advice)
}

fn read(path: &Path) -> Result<PolicyText, Failure> {
    PolicyText::read(&path.to_string_lossy())
}

/// Whether one of the first files of a folder, or of those below it, is one of envoyproxy/ratelimit.
fn has_envoy_file(folder: &str) -> bool {
    let files = below(Path::new(folder)).unwrap_or_default();
    let mut texts = files.iter().take(MAX_TRIED).filter_map(|file| fs::read_to_string(file).ok());
    texts.any(|text| FileKind::of(&text) == FileKind::Envoy)
}

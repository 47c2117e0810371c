//! The files that say what the rules should be. Several are one document, and what is wrong with it
//! is shown where it was written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tollgate::Problem;
use tollgate::rules::{Position, Source};
use tollgate_api::DocumentProblem;
use tollgate_catalog::{Entry, Kind};

use super::soundness;
use crate::failure::Failure;
use crate::policy_file::PolicyText;
use crate::remote::call_error::problem_line;
use crate::terminal::count;

/// Policy files that are one document.
pub(crate) struct PolicyFiles {
    pub(crate) files: Vec<PolicyText>,
    pub(super) items: Vec<FileEntry>,
}

/// An entry, and where it was written.
pub(super) struct FileEntry {
    /// Which of the files it is in.
    pub(super) file: usize,
    /// The list it is in.
    pub(super) list: &'static str,
    /// Its number in that list.
    pub(super) number: usize,
    pub(super) entry: Entry,
}

impl FileEntry {
    /// Its place within its file.
    pub(super) fn path(&self) -> String {
        format!("{}[{}]", self.list, self.number)
    }
}

impl PolicyFiles {
    /// Reads files, and all policy files of folders, that have to be valid; `-` is standard input.
    pub(super) fn read_valid(paths: &[String]) -> Result<Self, Failure> {
        let files = Self::read(paths)?;
        let problems = soundness::problems(&files);
        if problems.is_empty() { Ok(files) } else { Err(files.unusable(&problems)) }
    }

    /// Reads files, and all policy files of folders, whatever they say; `-` is standard input.
    fn read(paths: &[String]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for path in paths {
            if Path::new(path).is_dir() {
                for file in files_in(path)? {
                    files.push(PolicyText::read(&file.to_string_lossy())?);
                }
            } else {
                files.push(PolicyText::read(path)?);
            }
        }
        Ok(Self::of(files))
    }

    /// Files that were read already.
    pub(crate) fn of(files: Vec<PolicyText>) -> Self {
        let items = files.iter().enumerate().flat_map(|(file, it)| items_of(file, &it.source));
        let items = items.collect();
        Self { files, items }
    }

    /// All files as one document, as JSON.
    pub(super) fn to_json(&self) -> String {
        let entries = self.items.iter().map(|item| item.entry.clone());
        // Texts and numbers always serialise.
        serde_json::to_string(&soundness::document_of(entries)).unwrap_or_default()
    }

    /// The lists that any file has, even if there is nothing in them.
    pub(super) fn lists(&self) -> Vec<&'static str> {
        // What is not there is placed where the document is.
        let has = |source: &Source, list: &str| place(source, list) != place(source, "");
        let lists = Kind::ALL.into_iter().filter_map(list_of);
        lists.filter(|list| self.files.iter().any(|file| has(&file.source, list))).collect()
    }

    /// Whether a rule of that id is in the files.
    pub(super) fn has_rule(&self, rule_id: &str) -> bool {
        let mut items = self.items.iter();
        items.any(|it| matches!(&it.entry, Entry::Rule(rule) if rule.rule_id == rule_id))
    }

    /// The problems that a server found, above the lines they are in.
    pub(super) fn show(&self, problems: &[DocumentProblem]) -> String {
        let shown: Vec<String> = problems
            .iter()
            .map(|problem| match self.locate(problem) {
                Some((file, located)) => located.render(&file.name, &file.text),
                None => format!("error: {}\n", problem_line(problem)),
            })
            .collect();
        shown.join("\n")
    }

    fn locate(&self, found: &DocumentProblem) -> Option<(&PolicyText, Problem)> {
        let rule_id = found.rule_id.as_ref()?;
        let mut items = self.items.iter();
        let item =
            items.find(|it| matches!(&it.entry, Entry::Rule(it) if it.rule_id == *rule_id))?;
        // A path begins with the list, unless the server saw the rule alone.
        let field = found.field.strip_prefix("rules[").and_then(|rest| rest.split_once(']'));
        let field = field.map_or(found.field.as_str(), |(_, field)| field.trim_start_matches('.'));
        let separator = if field.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{field}", item.path());
        let file = &self.files[item.file];
        let problem = file.source.problem(&path, found.message.clone());
        Some((file, Problem { advice: found.advice.clone(), ..problem }))
    }

    fn unusable(&self, problems: &[(usize, Problem)]) -> Failure {
        let render = |(file, problem): &(usize, Problem)| {
            let PolicyText { name, text, .. } = &self.files[*file];
            problem.render(name, text)
        };
        let shown: Vec<String> = problems.iter().map(render).collect();
        let found = count(problems.len() as u64, "problem");
        Failure::usage(format!("the files cannot be used: {found}\n\n{}", shown.join("\n")))
    }
}

/// Where the field at that path was written, or what is around it.
pub(super) fn place(source: &Source, path: &str) -> Option<Position> {
    source.problem(path, "").position
}

fn items_of(file: usize, source: &Source) -> Vec<FileEntry> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let item = |entry: Entry| {
        let list = list_of(entry.kind())?;
        let count = counts.entry(list).or_default();
        *count += 1;
        Some(FileEntry { file, list, number: *count - 1, entry })
    };
    Entry::all_of(source.document.clone()).into_iter().filter_map(item).collect()
}

/// The list of a document that entries of a kind are in.
const fn list_of(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Rule => Some("rules"),
        Kind::Tier => Some("tiers"),
        Kind::Client => Some("clients"),
        Kind::Override => Some("overrides"),
        Kind::Whitelist => Some("whitelist"),
        Kind::Blacklist => Some("blacklist"),
        Kind::ApiKey | Kind::Token | Kind::Ban => None,
    }
}

/// The policy files of a folder by name, hidden ones left out.
pub(crate) fn files_in(folder: &str) -> Result<Vec<PathBuf>, Failure> {
    let found = find_in(Path::new(folder))
        .map_err(|error| Failure::usage(format!("cannot read {folder}: {error}")))?;
    if found.is_empty() {
        return Err(Failure::usage(format!("there is no .yaml, .yml or .json file in {folder}")));
    }
    Ok(found)
}

fn find_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_policy = matches!(ending, Some("yaml" | "yml" | "json"));
        if is_policy && !is_hidden && fs::metadata(&path)?.is_file() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

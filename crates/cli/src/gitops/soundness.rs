//! Problems of policy files that can be found without the server.

use std::collections::{HashMap, HashSet};

use tollgate::rules::{LintContext, PolicyDocument, Source, inspect as inspect_document};
use tollgate::{Policy, Problem};
use tollgate_catalog::Entry;

use super::files::{FileEntry, PolicyFiles, place};

/// Everything that is wrong, with the number of the file it is in. Texts that cannot be read are
/// reported first: they would cause problems elsewhere.
pub(super) fn problems(files: &PolicyFiles) -> Vec<(usize, Problem)> {
    let mut problems = unread(files);
    if problems.is_empty() {
        problems = repeated(files).into_iter().map(|(_, file, problem)| (file, problem)).collect();
    }
    if problems.is_empty() {
        problems = unsound(files);
    }
    problems
}

/// Everything that is wrong or doubtful in files that are a whole policy together, file by file from
/// top to bottom, with the number of the file. Entries that are wrong do not hide warnings on others.
pub(crate) fn inspect(files: &PolicyFiles, context: &LintContext) -> Vec<(usize, Problem)> {
    let mut problems = unread(files);
    // Without all the rules of a file, entries of other files would seem to refer to nothing.
    if files.files.iter().all(|file| file.source.is_readable()) {
        let repeated = repeated(files);
        let again: HashSet<usize> = repeated.iter().map(|(number, ..)| *number).collect();
        let kept = files.items.iter().enumerate().filter(|(number, _)| !again.contains(number));
        let kept: Vec<&FileEntry> = kept.map(|(_, item)| item).collect();
        let document = document_of(kept.iter().map(|item| item.entry.clone()));
        let source = Source::from_parts(document, files.files.iter().map(|file| &file.source));
        let found = inspect_document(&source, context);
        problems.extend(found.into_iter().map(|problem| located(files, &kept, problem)));
        problems.extend(repeated.into_iter().map(|(_, file, problem)| (file, problem)));
    }
    problems.sort_by_key(|(file, it)| (*file, it.position.is_none(), it.position, it.severity));
    problems
}

/// What could not be read.
fn unread(files: &PolicyFiles) -> Vec<(usize, Problem)> {
    let unread = files.files.iter().enumerate().flat_map(|(number, file)| {
        let problems = file.source.problems.iter().cloned();
        problems.map(move |problem| (number, problem))
    });
    unread.collect()
}

/// Entries that are in two files: the number of the later one, its file, and the problem.
fn repeated(files: &PolicyFiles) -> Vec<(usize, usize, Problem)> {
    let mut first: HashMap<_, &FileEntry> = HashMap::new();
    let mut problems = Vec::new();
    for (number, item) in files.items.iter().enumerate() {
        // An invalid name is reported when the document is compiled.
        let Ok(name) = item.entry.name() else { continue };
        let earlier = *first.entry((item.list, name)).or_insert(item);
        if earlier.file != item.file {
            let other = &files.files[earlier.file];
            let at = place(&other.source, &earlier.path());
            let at = at.map_or_else(String::new, |at| format!(":{}:{}", at.line, at.column));
            let message = format!("the same entry is at {}{at} too", other.name);
            let problem = files.files[item.file].source.problem(&item.path(), message);
            problems.push((number, item.file, problem.with_advice("keep one of the two")));
        }
    }
    problems
}

/// Problems of the document as a whole. References to entries that are not in the files are left to the server, which
/// may have them.
fn unsound(files: &PolicyFiles) -> Vec<(usize, Problem)> {
    let known = Known::of(&files.items);
    let kept: Vec<(&FileEntry, Entry)> = files
        .items
        .iter()
        .filter_map(|item| Some((item, known.within(item.entry.clone())?)))
        .collect();
    let document = document_of(kept.iter().map(|(_, entry)| entry.clone()));
    let kept: Vec<&FileEntry> = kept.into_iter().map(|(item, _)| item).collect();
    let Err(problems) = Policy::compile(&Source::from_document(document)) else {
        return Vec::new();
    };
    problems.into_iter().map(|problem| located(files, &kept, problem)).collect()
}

/// A problem of a document that was put together from these entries, where it was written.
fn located(files: &PolicyFiles, entries: &[&FileEntry], problem: Problem) -> (usize, Problem) {
    let found = problem.path.split_once('[').and_then(|(list, rest)| {
        let (number, field) = rest.split_once(']')?;
        let mut items = entries.iter().filter(|item| item.list == list);
        let item = items.nth(number.parse().ok()?)?;
        Some((item, format!("{}{field}", item.path())))
    });
    let Some((item, path)) = found else { return (0, problem) };
    let placed = files.files[item.file].source.problem(&path, problem.message);
    (item.file, Problem { severity: problem.severity, advice: problem.advice, ..placed })
}

/// The rules and tiers that files have.
struct Known<'a> {
    rules: HashSet<&'a str>,
    tiers: HashSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(items: &'a [FileEntry]) -> Self {
        let mut known = Self { rules: HashSet::new(), tiers: HashSet::new() };
        for item in items {
            match &item.entry {
                Entry::Rule(rule) => known.rules.insert(&rule.rule_id),
                Entry::Tier(tier) => known.tiers.insert(&tier.tier),
                _ => continue,
            };
        }
        known
    }

    fn has_tier(&self, tier: &str) -> bool {
        self.tiers.is_empty() || self.tiers.contains(tier)
    }

    /// An entry without what it says of others that the files do not have; none if that is all it
    /// says.
    fn within(&self, entry: Entry) -> Option<Entry> {
        match entry {
            Entry::Rule(mut rule) => {
                rule.replaces.retain(|id| self.rules.contains(id.as_str()));
                rule.applies_to.user_tiers.retain(|tier| self.has_tier(tier));
                Some(Entry::Rule(rule))
            }
            Entry::Client(client) if !self.has_tier(&client.tier) => None,
            Entry::Override(it) if !self.rules.contains(it.rule_id.as_str()) => None,
            other => Some(other),
        }
    }
}

/// A document of these entries, in their order.
pub(super) fn document_of(entries: impl Iterator<Item = Entry>) -> PolicyDocument {
    let mut document = PolicyDocument::default();
    for entry in entries {
        match entry {
            Entry::Rule(rule) => document.rules.push(*rule),
            Entry::Tier(tier) => document.tiers.push(tier),
            Entry::Client(client) => document.clients.push(client),
            Entry::Override(exception) => document.overrides.push(exception),
            Entry::Whitelist(listed) => document.whitelist.push(listed),
            Entry::Blacklist(listed) => document.blacklist.push(listed),
            // These are in no document.
            Entry::ApiKey(_) | Entry::Token(_) | Entry::Ban(_) => {}
        }
    }
    document
}

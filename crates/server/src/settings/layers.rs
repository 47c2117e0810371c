//! Flags over environment over file over defaults: finds each setting by its name, remembers where
//! it was found, and collects everything that is wrong.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tollgate::identity::Secret;

use super::document::{Node, Value};
use super::origin::{Origin, Place, Problem, Problems};
use super::spelling::closest;
use super::value::Setting;

/// The settings that can also be given by a flag or an environment variable. The others are for
/// the file alone.
pub const FLAGGED: [&str; 20] = [
    "http",
    "admin",
    "grpc",
    "upstream",
    "gateway.address",
    "rules",
    "catalog",
    "catalog_copy",
    "envoy_config",
    "store",
    "memory",
    "check_auth",
    "check_token_file",
    "admin_token_file",
    "log",
    "log_level",
    "otlp.endpoint",
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
];

const PREFIX: &str = "TOLLGATE_";
/// What stands for a secret wherever settings are shown.
pub(super) const HIDDEN: &str = "***";

/// The flag for a setting: `--tls-client-ca` for `tls.client_ca`, `--gateway` for `gateway.address`.
#[must_use]
pub fn flag(name: &str) -> String {
    format!("--{}", short(name).replace(['.', '_'], "-"))
}

/// The environment variable for a setting: `TOLLGATE_TLS_CLIENT_CA` for `tls.client_ca`.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", short(name).replace('.', "_").to_uppercase())
}

/// What has an address is named by it.
fn short(name: &str) -> &str {
    name.strip_suffix(".address").unwrap_or(name)
}

/// One setting as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, like `limits.header_timeout`.
    pub name: &'static str,
    /// Its value, as it could be written in the file; secrets are hidden.
    pub value: Json,
    /// Where the value came from.
    pub origin: Origin,
}

impl Entry {
    /// The value as people write it.
    #[must_use]
    pub fn text(&self) -> String {
        plain(&self.value)
    }
}

/// A secret is never a setting itself: an environment variable holds it, or a file of its own.
pub(super) struct SecretNames {
    /// What it is called where settings are shown.
    pub(super) name: &'static str,
    /// The setting that names the file.
    pub(super) file: &'static str,
    pub(super) variable: &'static str,
}

/// What was given, and what came of it so far.
pub(super) struct Layers<'a> {
    flags: &'a [(&'static str, String)],
    environment: &'a BTreeMap<String, String>,
    file_name: String,
    file: BTreeMap<String, Written>,
    known: Vec<&'static str>,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

/// A value of the file, with the places of its name and of itself.
struct Written {
    name: Place,
    node: Node,
}

impl<'a> Layers<'a> {
    pub(super) fn new(
        flags: &'a [(&'static str, String)],
        environment: &'a BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> Self {
        let mut layers = Self {
            flags,
            environment,
            file_name: file.map(|file| file.display().to_string()).unwrap_or_default(),
            file: BTreeMap::new(),
            known: Vec::new(),
            entries: Vec::new(),
            problems: Vec::new(),
        };
        if let Some(path) = file {
            layers.read_file(path);
        }
        layers
    }

    fn read_file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("cannot read the settings file {}: {error}", path.display());
                return self.problem("config", Origin::Default, message);
            }
        };
        match Node::parse(&text) {
            Ok(Node { value: Value::Nothing, .. }) => {}
            Ok(Node { value: Value::Map(entries), .. }) => self.flatten("", entries),
            Ok(Node { place, .. }) => {
                let message = "expected settings, one `name: value` a line";
                self.problem("", self.in_file(place), message);
            }
            // An empty file says nothing, and is no mistake.
            Err(_) if text.trim().is_empty() => {}
            Err(error) => self.problem("", self.in_file(error.place), error.message),
        }
    }

    /// Names of settings are paths: `limits: {body_bytes: 1MiB}` is `limits.body_bytes`.
    fn flatten(&mut self, group: &str, entries: Vec<(String, Place, Node)>) {
        for (key, place, node) in entries {
            let name = if group.is_empty() { key } else { format!("{group}.{key}") };
            if let Value::Map(entries) = node.value {
                self.flatten(&name, entries);
                continue;
            }
            let written = Written { name: place, node };
            if self.file.insert(name.clone(), written).is_some() {
                self.problem(&name, self.in_file(place), "this setting is there twice");
            }
        }
    }

    /// Takes over the setting of that name, if it was given and is right.
    pub(super) fn read<T: Setting>(&mut self, name: &'static str, setting: &mut T) {
        self.read_if(name, setting, |_| None);
    }

    /// The same for a value that must lie between two others.
    pub(super) fn read_within<T>(
        &mut self,
        name: &'static str,
        setting: &mut T,
        range: RangeInclusive<T>,
    ) where
        T: Setting + PartialOrd,
    {
        self.read_if(name, setting, |value| {
            let shown = |value: &T| plain(&value.show());
            (!range.contains(value)).then(|| {
                let (least, most) = (shown(range.start()), shown(range.end()));
                format!("{} is not between {least} and {most}", shown(value))
            })
        });
    }

    /// The same for a value that must pass a test, which says what is wrong with it.
    pub(super) fn read_if<T: Setting>(
        &mut self,
        name: &'static str,
        setting: &mut T,
        wrong: impl Fn(&T) -> Option<String>,
    ) {
        let found = self.find(name);
        let origin = found.as_ref().map_or(Origin::Default, |(_, origin)| origin.clone());
        if let Some((value, origin)) = found {
            match T::read(&value) {
                Ok(value) => match wrong(&value) {
                    None => *setting = value,
                    Some(message) => self.problem(name, origin, message),
                },
                Err(flaw) => {
                    let place = flaw.place.map(|place| self.in_file(place));
                    self.problem(name, place.unwrap_or(origin), flaw.message);
                }
            }
        }
        self.entries.push(Entry { name, value: setting.show(), origin });
    }

    /// Reads a secret, if it was given and passes a test, which says what is wrong with it.
    pub(super) fn read_secret(
        &mut self,
        names: &SecretNames,
        wrong: impl Fn(&str) -> Option<&'static str>,
    ) -> Option<Secret> {
        let &SecretNames { name, file, variable } = names;
        self.known.push(name);
        if let Some(written) = self.file.remove(name) {
            let message = format!(
                "a secret does not belong in the settings file; set the environment variable \
                 {variable}, or name a file that holds nothing else in {file}"
            );
            self.problem(name, self.in_file(written.name), message);
        }
        let mut path: Option<PathBuf> = None;
        self.read(file, &mut path);
        let in_environment = self.environment.get(variable).filter(|text| !text.is_empty());
        let (text, origin) = match (in_environment, path) {
            (Some(text), None) => (text.clone(), Origin::Environment(variable.to_owned())),
            (None, Some(path)) => match std::fs::read_to_string(&path) {
                Ok(text) => (text.trim_end_matches(['\r', '\n']).to_owned(), self.origin(file)),
                Err(error) => {
                    self.refuse(file, format!("cannot read {}: {error}", path.display()));
                    return None;
                }
            },
            (Some(_), Some(_)) => {
                self.refuse(file, format!("{variable} is set too; keep one of them"));
                return None;
            }
            (None, None) => {
                self.entries.push(Entry { name, value: Json::Null, origin: Origin::Default });
                return None;
            }
        };
        let empty = text.is_empty().then_some("the file is empty; expected a secret");
        if let Some(message) = empty.or_else(|| wrong(&text)) {
            self.problem(name, origin, message);
            return None;
        }
        self.entries.push(Entry { name, value: HIDDEN.into(), origin });
        Some(text.into())
    }

    fn find(&mut self, name: &'static str) -> Option<(Value, Origin)> {
        self.known.push(name);
        let written = self.file.remove(name);
        if FLAGGED.contains(&name) {
            if let Some((_, text)) = self.flags.iter().find(|(flag, _)| *flag == name) {
                return Some((Value::Text(text.clone()), Origin::Flag(flag(name))));
            }
            let variable = variable(name);
            // Empty means unset: that is how compose files and shells leave variables out.
            if let Some(text) = self.environment.get(&variable).filter(|text| !text.is_empty()) {
                return Some((Value::Text(text.clone()), Origin::Environment(variable)));
            }
        }
        let Written { node, .. } = written?;
        Some((node.value, self.in_file(node.place)))
    }

    /// Whether the file says anything about settings whose names begin like this.
    pub(super) fn mentions(&self, beginning: &str) -> bool {
        self.file.keys().any(|name| name.starts_with(beginning))
    }

    /// Whether the environment has a variable that is not empty.
    pub(super) fn is_set(&self, variable: &str) -> bool {
        self.environment.get(variable).is_some_and(|text| !text.is_empty())
    }

    /// Whether something is known to be wrong with settings whose names begin like this.
    pub(super) fn has_refused(&self, beginning: &str) -> bool {
        self.problems.iter().any(|problem| problem.setting.starts_with(beginning))
    }

    /// Where the setting of that name came from.
    pub(super) fn origin(&self, name: &str) -> Origin {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map_or(Origin::Default, |entry| entry.origin.clone())
    }

    /// Replaces what is shown for a setting whose value follows from others.
    pub(super) fn resolved(&mut self, name: &str, value: Json) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
            entry.value = value;
        }
    }

    pub(super) fn problem(&mut self, setting: &str, origin: Origin, message: impl Into<String>) {
        let (setting, message) = (setting.to_owned(), message.into());
        self.problems.push(Problem { setting, origin, message });
    }

    /// Something is wrong with a setting as it was given.
    pub(super) fn refuse(&mut self, name: &str, message: impl Display) {
        self.problem(name, self.origin(name), message.to_string());
    }

    fn in_file(&self, Place { line, column }: Place) -> Origin {
        Origin::File { name: self.file_name.clone(), line, column }
    }

    /// Every setting in force, or everything that is wrong. Whatever nobody asked for is unknown.
    pub(super) fn finish(mut self) -> Result<Vec<Entry>, Problems> {
        let file = std::mem::take(&mut self.file);
        for (name, written) in file {
            let is_group = self.known.iter().any(|known| known.starts_with(&format!("{name}.")));
            if is_group && matches!(written.node.value, Value::Nothing) {
                continue;
            }
            let message = if is_group {
                "this is a group of settings, not a setting".to_owned()
            } else {
                unknown("setting", closest(&name, &self.known))
            };
            self.problem(&name, self.in_file(written.name), message);
        }
        for variable in self.environment.keys() {
            let problem = misspelt(variable).or_else(|| only_in_file(variable, &self.known));
            self.problems.extend(problem);
        }
        if self.problems.is_empty() { Ok(self.entries) } else { Err(Problems(self.problems)) }
    }
}

/// A variable that is almost one of ours. Others with our prefix are none of our business: an
/// orchestrator sets `TOLLGATE_PORT` and the like for a service named tollgate.
fn misspelt(variable_name: &str) -> Option<Problem> {
    let written = variable_name.strip_prefix(PREFIX)?.to_lowercase();
    let secrets = ["check_token", "admin_token", "jwt_secret", "config"];
    let flagged = FLAGGED.map(|name| short(name).replace('.', "_"));
    let names: Vec<&str> = flagged.iter().map(String::as_str).chain(secrets).collect();
    let guess = closest(&written, &names).filter(|guess| *guess != written)?;
    Some(Problem {
        setting: variable_name.to_owned(),
        origin: Origin::Default,
        message: unknown("environment variable", Some(&variable(guess))),
    })
}

/// A variable named after a setting that has none: ignored, it would be missed for a long time.
fn only_in_file(variable_name: &str, known: &[&'static str]) -> Option<Problem> {
    let is_meant = |name: &&&str| !FLAGGED.contains(*name) && variable(name) == variable_name;
    let name = known.iter().find(is_meant)?;
    let secrets = ["check_token", "admin_token"];
    (!secrets.contains(name)).then(|| Problem {
        setting: variable_name.to_owned(),
        origin: Origin::Default,
        message: format!("there is no such environment variable; set {name} in the settings file"),
    })
}

fn unknown(kind: &str, guess: Option<&str>) -> String {
    match guess {
        Some(guess) => format!("there is no such {kind}; did you mean {guess}?"),
        None => format!("there is no such {kind}"),
    }
}

/// A value as people write it.
fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => "none".to_owned(),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

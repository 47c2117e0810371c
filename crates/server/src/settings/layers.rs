//! Layers of settings: flags over environment over file over defaults. Finds each setting by its name,
//! notes its origin, and collects all problems.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tollgate::identity::Secret;
use tollgate_document::{Format, MapKey, Node, Position, Problem, Value, read_as};

use super::origin::{Origin, RefusedSetting, RefusedSettings};
use super::schema::{Property, bounded, schema};
use super::unknown::{unknown_setting, unknown_variable};
use super::value::{Setting, plain};

/// The settings that can also be given by a flag or an environment variable. The others are only for the
/// file.
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

pub(super) const PREFIX: &str = "TOLLGATE_";
/// Shown in place of a secret.
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

/// A name without `.address`: a listener is named by its group.
pub(super) fn short(name: &str) -> &str {
    name.strip_suffix(".address").unwrap_or(name)
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Its name, like `limits.header_timeout`.
    pub name: &'static str,
    /// Its value, as it could be written in the file; secrets are hidden.
    pub value: Json,
    /// Where the value came from.
    pub origin: Origin,
}

impl EffectiveSetting {
    /// The value as it is written in a file.
    #[must_use]
    pub fn text(&self) -> String {
        plain(&self.value)
    }
}

/// The names of a secret. It is never a setting itself: it is in an environment variable, or alone in a
/// file.
pub(super) struct SecretNames {
    /// Its name where settings are shown.
    pub(super) name: &'static str,
    /// The setting that names the file.
    pub(super) file: &'static str,
    pub(super) variable: &'static str,
}

/// The given settings, and what was read of them so far.
pub(super) struct Layers<'a> {
    flags: &'a [(&'static str, String)],
    environment: &'a BTreeMap<String, String>,
    file_name: String,
    file: BTreeMap<String, Written>,
    known: Vec<&'static str>,
    entries: Vec<EffectiveSetting>,
    properties: Vec<Property>,
    refused: Vec<RefusedSetting>,
}

/// A value of the file, and where its name starts.
struct Written {
    name: Position,
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
            properties: Vec::new(),
            refused: Vec::new(),
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
        // JSON is read as YAML too: a message of the JSON parser could repeat a secret.
        match read_as(&text, Format::Yaml) {
            Ok(Node { value: Value::Null, .. }) => {}
            Ok(Node { value: Value::Map(entries), .. }) => self.flatten("", entries),
            Ok(Node { position, .. }) => {
                let message = "expected settings, one `name: value` a line";
                self.problem("", self.in_file(position), message);
            }
            Err(problem) => {
                let origin = self.in_file(problem.position.unwrap_or(Position::START));
                self.refused.push(RefusedSetting { origin, problem });
            }
        }
    }

    /// Names of settings are paths: `limits: {body_bytes: 1MiB}` is `limits.body_bytes`.
    fn flatten(&mut self, group: &str, entries: Vec<(MapKey, Node)>) {
        for (MapKey { text: key, position }, node) in entries {
            let name = if group.is_empty() { key } else { format!("{group}.{key}") };
            if let Value::Map(entries) = node.value {
                self.flatten(&name, entries);
                continue;
            }
            let written = Written { name: position, node };
            if self.file.insert(name.clone(), written).is_some() {
                self.problem(&name, self.in_file(position), "this setting is there twice");
            }
        }
    }

    /// Reads the setting of that name, if it is given and valid.
    pub(super) fn read<T: Setting>(&mut self, name: &'static str, setting: &mut T) {
        self.read_if(name, setting, |_| None);
    }

    /// Reads a setting whose value must be in a range.
    pub(super) fn read_within<T>(
        &mut self,
        name: &'static str,
        setting: &mut T,
        range: RangeInclusive<T>,
    ) where
        T: Setting + PartialOrd,
    {
        let (least, most) = (range.start().show(), range.end().show());
        let wrong = |value: &T| {
            (!range.contains(value)).then(|| {
                let (least, most) = (plain(&least), plain(&most));
                format!("{} is not between {least} and {most}", plain(&value.show()))
            })
        };
        self.take_over(name, setting, bounded(T::schema(), &least, &most), wrong);
    }

    /// Reads a setting whose value must pass a test, which returns what is wrong with it.
    pub(super) fn read_if<T: Setting>(
        &mut self,
        name: &'static str,
        setting: &mut T,
        wrong: impl Fn(&T) -> Option<String>,
    ) {
        self.take_over(name, setting, T::schema(), wrong);
    }

    fn take_over<T: Setting>(
        &mut self,
        name: &'static str,
        setting: &mut T,
        schema: Json,
        wrong: impl Fn(&T) -> Option<String>,
    ) {
        let default = setting.show();
        let found = self.declare(Property { name, schema, default, expected: T::expected() });
        let read = found.as_ref().map(|(value, _)| {
            let value = T::read(value)?;
            match wrong(&value) {
                None => *setting = value,
                Some(message) => return Err(Problem::new(name, message)),
            }
            Ok(())
        });
        let problem = read.and_then(Result::err);
        self.note(name, setting.show(), found.map(|(_, origin)| origin), problem);
    }

    /// Adds a setting to the schema, and finds it.
    fn declare(&mut self, property: Property) -> Option<(Value, Origin)> {
        let found = self.find(property.name);
        self.properties.push(property);
        found
    }

    /// Notes the value of a setting, and what is wrong with the one that was given.
    fn note(
        &mut self,
        name: &'static str,
        value: Json,
        origin: Option<Origin>,
        problem: Option<Problem>,
    ) {
        let origin = origin.unwrap_or(Origin::Default);
        if let Some(Problem { position, message, .. }) = problem {
            let place = position.map_or_else(|| origin.clone(), |position| self.in_file(position));
            self.problem(name, place, message);
        }
        self.entries.push(EffectiveSetting { name, value, origin });
    }

    /// Reads a secret, if it is given and passes a test, which returns what is wrong with it. The variable wins over a
    /// file that the settings file names, and a flag over the variable; two variables contradict each other.
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
        let file_origin = self.origin(file);
        let in_environment = self.environment.get(variable).filter(|text| !text.is_empty());
        let in_environment = in_environment.filter(|_| !matches!(file_origin, Origin::Flag(_)));
        let (text, origin) = match (in_environment, path) {
            (Some(_), Some(_)) if matches!(file_origin, Origin::Environment(_)) => {
                self.refuse(file, format!("{variable} is set too; keep one of them"));
                return None;
            }
            (Some(text), _) => (text.clone(), Origin::Environment(variable.to_owned())),
            (None, Some(path)) => match std::fs::read_to_string(&path) {
                Ok(text) => (text.trim_end_matches(['\r', '\n']).to_owned(), file_origin),
                Err(error) => {
                    self.refuse(file, format!("cannot read {}: {error}", path.display()));
                    return None;
                }
            },
            (None, None) => {
                self.entries.push(EffectiveSetting {
                    name,
                    value: Json::Null,
                    origin: Origin::Default,
                });
                return None;
            }
        };
        let empty = text.is_empty().then_some("the file is empty; expected a secret");
        if let Some(message) = empty.or_else(|| wrong(&text)) {
            self.problem(name, origin, message);
            return None;
        }
        self.entries.push(EffectiveSetting { name, value: HIDDEN.into(), origin });
        Some(text.into())
    }

    fn find(&mut self, name: &'static str) -> Option<(Value, Origin)> {
        self.known.push(name);
        let written = self.file.remove(name);
        if FLAGGED.contains(&name) {
            if let Some((_, text)) = self.flags.iter().find(|(flag, _)| *flag == name) {
                return Some((Value::String(text.clone()), Origin::Flag(flag(name))));
            }
            let variable = variable(name);
            // Empty means unset: that is how compose files and shells leave variables out.
            if let Some(text) = self.environment.get(&variable).filter(|text| !text.is_empty()) {
                return Some((Value::String(text.clone()), Origin::Environment(variable)));
            }
        }
        let Written { node, .. } = written?;
        Some((node.value, self.in_file(node.position)))
    }

    /// Whether the file has settings whose names begin like this.
    pub(super) fn mentions(&self, beginning: &str) -> bool {
        self.file.keys().any(|name| name.starts_with(beginning))
    }

    /// Whether the environment has a variable that is not empty.
    pub(super) fn is_set(&self, variable: &str) -> bool {
        self.environment.get(variable).is_some_and(|text| !text.is_empty())
    }

    /// Whether settings whose names begin like this have problems.
    pub(super) fn has_refused(&self, beginning: &str) -> bool {
        self.refused.iter().any(|refused| refused.problem.path.starts_with(beginning))
    }

    /// Where the setting of that name came from.
    pub(super) fn origin(&self, name: &str) -> Origin {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map_or(Origin::Default, |entry| entry.origin.clone())
    }

    /// Replaces the shown value of a setting that follows from others.
    pub(super) fn resolved(&mut self, name: &str, value: Json) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
            entry.value = value;
        }
    }

    pub(super) fn problem(&mut self, setting: &str, origin: Origin, message: impl Into<String>) {
        self.refused.push(RefusedSetting { origin, problem: Problem::new(setting, message) });
    }

    /// Adds a problem of a setting, with its origin.
    pub(super) fn refuse(&mut self, name: &str, message: impl Display) {
        self.problem(name, self.origin(name), message.to_string());
    }

    fn in_file(&self, position: Position) -> Origin {
        Origin::File { name: self.file_name.clone(), position }
    }

    /// The JSON schema of all settings that were read.
    pub(super) fn schema(self) -> Json {
        schema(self.properties)
    }

    /// All problems so far. Settings that were not read are ignored.
    pub(super) fn refused(self) -> Result<(), RefusedSettings> {
        if self.refused.is_empty() { Ok(()) } else { Err(RefusedSettings(self.refused)) }
    }

    /// All settings in force, or all problems. Settings that were not read are unknown.
    pub(super) fn finish(mut self) -> Result<Vec<EffectiveSetting>, RefusedSettings> {
        let file = std::mem::take(&mut self.file);
        for (name, written) in file {
            let is_group = self.known.iter().any(|known| known.starts_with(&format!("{name}.")));
            if is_group && matches!(written.node.value, Value::Null) {
                continue;
            }
            let problem = if is_group {
                Problem::new(&name, "this is a group of settings, not a setting")
            } else {
                unknown_setting(&name, &self.known)
            };
            self.refused.push(RefusedSetting { origin: self.in_file(written.name), problem });
        }
        for variable in self.environment.keys() {
            let problem = unknown_variable(variable, &self.known);
            let refused =
                problem.map(|problem| RefusedSetting { origin: Origin::Default, problem });
            self.refused.extend(refused);
        }
        let entries = std::mem::take(&mut self.entries);
        self.refused().map(|()| entries)
    }
}

//! The key of a zone: variables of nginx, and what rules count by instead.

use std::collections::HashMap;

use tollgate_rules::Identifier;
use tollgate_rules::syntax::MAX_IDENTIFIERS;

use crate::nginx::directive::Directive;
use crate::nginx::note::NginxLoss;
use crate::nginx::place::FilePosition;

/// How many variables may stand for each other in a row.
const MAX_STEPS: usize = 8;

/// A part of a text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text,
    /// By its name in lower case.
    Variable(String),
}

/// Takes a text apart into words and variables, `$name` or `${name}`.
///
/// # Errors
/// What is wrong with it, and what would be right.
fn pieces(text: &str) -> Result<Vec<Piece>, (&'static str, &'static str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = Vec::new();
    let mut parts = text.split('$');
    if parts.next().is_some_and(|before| !before.is_empty()) {
        pieces.push(Piece::Text);
    }
    for part in parts {
        let (name, after) = match part.strip_prefix('{') {
            Some(inside) => inside
                .split_once('}')
                .ok_or(("the brace of a variable is not closed", "write ${name}"))?,
            None => part.split_at(part.find(|c| !is_name(c)).unwrap_or(part.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(("there is a $ without the name of a variable", "write $name"));
        }
        pieces.push(Piece::Variable(name.to_ascii_lowercase()));
        if !after.is_empty() {
            pieces.push(Piece::Text);
        }
    }
    Ok(pieces)
}

/// What is wrong with the key of a zone, if anything is, and what would be right.
pub(super) fn flaw(text: &str) -> Option<(&'static str, &'static str)> {
    pieces(text).err()
}

/// A variable that the files define.
#[derive(Clone, Debug)]
struct Definition {
    /// The directive that does.
    by: String,
    place: FilePosition,
    /// Every text that it can stand for; none if that is not known.
    values: Option<Vec<String>>,
}

/// All variables that the files define.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions(HashMap<String, Definition>);

impl Definitions {
    /// Remembers the variable of a directive, if it defines one.
    pub(super) fn add(&mut self, directive: &Directive) {
        let name = directive.name.as_str();
        let at = match name {
            "map" | "split_clients" => 1,
            "geo" => directive.arguments.len().saturating_sub(1),
            "set" | "auth_request_set" | "js_set" | "perl_set" => 0,
            _ if name.starts_with("set_by_lua") => 0,
            _ => return,
        };
        let Some(variable) = directive.argument(at).and_then(|it| it.strip_prefix('$')) else {
            return;
        };
        let values = matches!(name, "map" | "geo" | "split_clients").then(|| values(directive));
        let place = directive.place.clone();
        let definition = Definition { by: name.to_owned(), place, values };
        // What can be set in two places can be anything.
        self.0
            .entry(variable.to_ascii_lowercase())
            .and_modify(|known| known.values = None)
            .or_insert(definition);
    }
}

/// The texts that a `map`, `geo` or `split_clients` can give. What it does not name is empty.
fn values(directive: &Directive) -> Vec<String> {
    let mut values = Vec::new();
    let mut has_default = false;
    for entry in directive.children() {
        has_default |= matches!(entry.name.as_str(), "default" | "*");
        if let [value] = &*entry.arguments
            && !matches!(entry.name.as_str(), "proxy" | "delete")
        {
            values.push(value.text.clone());
        }
    }
    if !has_default {
        values.push(String::new());
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// What a rule counts by in the place of a key.
#[derive(Clone, Debug, Default)]
pub(super) struct ZoneKey {
    /// As rules write them. None at all means one counter for everything.
    pub(super) identifiers: Vec<String>,
    /// Whether servers count apart, by their first name.
    pub(super) is_by_server: bool,
    /// Whether a request can lack one of the identifiers.
    pub(super) can_be_missing: bool,
    /// Whether there are words in it, so that it is never empty.
    has_text: bool,
    /// What is different all the same.
    pub(super) losses: Vec<NginxLoss>,
}

impl ZoneKey {
    /// What to count by instead of `text`.
    ///
    /// # Errors
    /// Why no rule can.
    pub(super) fn resolve(text: &str, definitions: &Definitions) -> Result<Self, NginxLoss> {
        let mut key = Self::default();
        key.add_text(text, definitions, 0)?;
        let is_empty = key.identifiers.is_empty() && !key.is_by_server && !key.has_text;
        if is_empty {
            return Err(NginxLoss::EmptyKey);
        }
        if key.identifiers.len() > MAX_IDENTIFIERS {
            return Err(NginxLoss::LongKey);
        }
        let is_composite = key.identifiers.len() > 1 || key.has_text || key.is_by_server;
        if key.can_be_missing && is_composite {
            key.losses.push(NginxLoss::MissingPart);
        }
        Ok(key)
    }

    /// Whether nothing is left of it for a server without a name.
    pub(super) fn is_empty_without_server(&self) -> bool {
        self.identifiers.is_empty() && !self.has_text
    }

    fn add_text(&mut self, text: &str, known: &Definitions, step: usize) -> Result<(), NginxLoss> {
        // Only the key itself is checked when it is read; a map can hold anything.
        let unknown = |_| NginxLoss::Variable(text.to_owned());
        for piece in pieces(text).map_err(unknown)? {
            match piece {
                Piece::Text => self.has_text = true,
                Piece::Variable(name) => self.add_variable(&name, known, step)?,
            }
        }
        Ok(())
    }

    fn add_variable(
        &mut self,
        name: &str,
        known: &Definitions,
        step: usize,
    ) -> Result<(), NginxLoss> {
        if let Some(definition) = known.0.get(name) {
            return self.add_defined(name, definition, known, step);
        }
        let header = name.strip_prefix("http_").filter(|rest| !rest.is_empty());
        let claim = name.strip_prefix("jwt_claim_").filter(|rest| !rest.is_empty());
        match (name, header, claim) {
            ("binary_remote_addr" | "remote_addr", ..) => self.add("ip", Some(NginxLoss::Network)),
            ("uri" | "document_uri", ..) => self.add("path", None),
            ("request_uri", ..) => self.add("path", Some(NginxLoss::Query)),
            ("remote_user", ..) => self.add("user_id", Some(NginxLoss::User)),
            ("server_name", ..) => self.is_by_server = true,
            ("host" | "http_host", ..) => self.add("header:host", Some(NginxLoss::Host)),
            ("http_x_api_key", ..) => self.add("api_key", Some(NginxLoss::ApiKey)),
            ("http_x_forwarded_for" | "http_x_real_ip", ..) => {
                self.add("ip", Some(NginxLoss::ForwardedAddress));
            }
            (_, Some(header), _) => {
                self.add_named(name, &format!("header:{}", header.replace('_', "-")))?;
            }
            (_, _, Some(claim)) => self.add_named(name, &format!("claim:{claim}"))?,
            _ => return Err(NginxLoss::Variable(format!("${name}"))),
        }
        Ok(())
    }

    /// A variable of the files' own. If it is either empty or one certain text, it exempts requests
    /// from being counted by that text; anything else cannot be followed.
    fn add_defined(
        &mut self,
        name: &str,
        definition: &Definition,
        known: &Definitions,
        step: usize,
    ) -> Result<(), NginxLoss> {
        let Definition { by, place, values } = definition;
        let computed = || NginxLoss::Computed {
            variable: format!("${name}"),
            by: by.clone(),
            place: place.clone(),
        };
        let values = values.as_deref().filter(|_| step < MAX_STEPS).ok_or_else(computed)?;
        let mut counted = values.iter().filter(|value| !value.is_empty());
        let (Some(value), None) = (counted.next(), counted.next()) else {
            return Err(if values.iter().all(String::is_empty) {
                NginxLoss::EmptyKey
            } else {
                computed()
            });
        };
        if values.len() > 1 {
            self.losses.push(NginxLoss::Exempt {
                variable: format!("${name}"),
                by: by.clone(),
                place: place.clone(),
            });
        }
        self.add_text(value, known, step + 1)
    }

    fn add(&mut self, identifier: &str, loss: Option<NginxLoss>) {
        self.can_be_missing |= !matches!(identifier, "ip" | "path");
        if !self.identifiers.iter().any(|known| known == identifier) {
            self.identifiers.push(identifier.to_owned());
        }
        self.losses.extend(loss.filter(|loss| !self.losses.contains(loss)));
    }

    /// Adds an identifier like `header:NAME`, whose name may be too long.
    fn add_named(&mut self, variable: &str, identifier: &str) -> Result<(), NginxLoss> {
        if identifier.parse::<Identifier>().is_err() {
            return Err(NginxLoss::Variable(format!("${variable}")));
        }
        self.add(identifier, None);
        Ok(())
    }
}

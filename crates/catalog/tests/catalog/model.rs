//! What a catalog promises, said a second time and more simply: everything in one map, checked as a
//! whole after each write.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};
use tollgate_catalog::Kind;

use crate::draw::{Action, Draft, DraftEdit, Expected, Item, object};

pub(crate) type Body = Map<String, Json>;
pub(crate) type Key = (Kind, String);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) body: Body,
    pub(crate) version: u64,
    pub(crate) created_at: u64,
    pub(crate) created_by: String,
    /// Its tenant, or the tenant before its rule was removed.
    pub(crate) owner: Option<String>,
    /// The tenant whose administrators wrote it last; none if operators did.
    pub(crate) author: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) number: u64,
    pub(crate) entries: BTreeMap<Key, Kept>,
}

/// Who writes, and when.
pub(crate) struct Stamp<'a> {
    pub(crate) actor: &'a str,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) at: u64,
}

/// What entries become, in the order of the edits; none if they go.
pub(crate) type Becoming = Vec<(Key, Option<Body>)>;

/// Fields that need not be said.
fn is_default(kind: Kind, field: &str, value: &Json) -> bool {
    let default = match (kind, field) {
        (Kind::Rule, "algorithm") => json!("sliding_window_counter"),
        (Kind::Rule, "enabled") => json!(true),
        (Kind::Rule, "replaces") => json!([]),
        (Kind::Tier, "default") => json!(false),
        _ => Json::Null,
    };
    value.is_null() || *value == default
}

impl Model {
    /// The changes that a write makes; or what is wrong with it, of which a catalog tells one thing.
    pub(crate) fn write(
        &mut self,
        draft: &Draft,
        by: &Stamp<'_>,
    ) -> Result<usize, BTreeSet<&'static str>> {
        let (mut wrong, mut becoming) = (BTreeSet::new(), Vec::new());
        match draft {
            Draft::Edits(edits) => {
                for edit in edits {
                    if matches!(edit.action, Action::Put) && self.is_bad_name(&key(&edit.item), by)
                    {
                        wrong.insert("not yours");
                    }
                    match self.resolve(edit, by) {
                        Ok(becomes) => becoming.push(becomes),
                        Err(reason) => drop(wrong.insert(reason)),
                    }
                }
            }
            Draft::Apply { items, prune } => {
                if items.iter().any(|item| self.is_bad_name(&key(item), by)) {
                    wrong.insert("not yours");
                }
                becoming.extend(self.pruned(items, prune, by.tenant));
                let puts = items.iter().map(|item| (key(item), Some(item.body.clone())));
                becoming.extend(puts);
            }
        }
        let names: BTreeSet<&Key> = becoming.iter().map(|(key, _)| key).collect();
        if names.len() < becoming.len() {
            wrong.insert("invalid");
        }
        let takes_over = by.tenant.is_none() && matches!(draft, Draft::Edits(_));
        becoming.retain(|(key, body)| {
            let was = self.seen(key, by);
            let is_tenants = was.is_some_and(|it| it.author.is_some());
            was.map(|it| &it.body) != body.as_ref() || (takes_over && is_tenants)
        });
        let count = self.lift_with_rules(&mut becoming);
        let next = self.after(&becoming, by, &mut wrong);
        match by.tenant {
            Some(tenant) => {
                for (key, body) in &becoming {
                    wrong.extend(self.trespass(&next, key, body.as_ref(), tenant));
                }
            }
            None if next.undermines(&becoming) => drop(wrong.insert("in use")),
            None => {}
        }
        if !becoming.is_empty() {
            wrong.extend(next.flaws(&becoming));
        }
        if wrong.is_empty() {
            *self = next;
            Ok(count)
        } else {
            Err(wrong)
        }
    }

    fn resolve(
        &self,
        edit: &DraftEdit,
        by: &Stamp<'_>,
    ) -> Result<(Key, Option<Body>), &'static str> {
        let key = key(&edit.item);
        let now = self.seen(&key, by);
        match (edit.expect, now) {
            (Expected::Absent, Some(_)) => return Err("exists"),
            (Expected::Present | Expected::ThisVersion | Expected::OtherVersion, None) => {
                return Err("missing");
            }
            (Expected::OtherVersion, Some(_)) => return Err("changed"),
            _ => {}
        }
        let body = match &edit.action {
            Action::Put => Some(edit.item.body.clone()),
            Action::Remove => None,
            Action::Patch(_) => {
                let mut body = now.ok_or("missing")?.body.clone();
                for (field, value) in patch(edit) {
                    body.remove(&field);
                    if !is_default(key.0, &field, &value) {
                        body.insert(field, value);
                    }
                }
                Some(body)
            }
        };
        Ok((key, body))
    }

    /// Bans go with their rule, all of them in one change. Says how many changes that makes.
    fn lift_with_rules(&self, becoming: &mut Becoming) -> usize {
        let gone = becoming.iter().filter(|(key, body)| key.0 == Kind::Rule && body.is_none());
        let gone: Vec<String> = gone.map(|(key, _)| key.1.clone()).collect();
        let mut saved = 0;
        for rule_id in gone {
            let prefix = format!("[\"{rule_id}\",");
            let is_ban = |key: &Key| key.0 == Kind::Ban && key.1.starts_with(&prefix);
            becoming.retain(|(key, body)| !is_ban(key) || body.is_none());
            let removed = becoming.iter().filter(|(key, _)| is_ban(key)).count();
            let all: Vec<Key> = self.entries.keys().filter(|key| is_ban(key)).cloned().collect();
            if all.len() > removed {
                becoming.retain(|(key, _)| !is_ban(key));
                saved += all.len() - 1;
                becoming.extend(all.into_iter().map(|key| (key, None)));
            }
        }
        becoming.len() - saved
    }

    fn pruned(&self, items: &[Item], prune: &[Kind], tenant: Option<&str>) -> Becoming {
        let goes = |(key, kept): &(&Key, &Kept)| {
            let is_own = tenant.is_none() || kept.author.as_deref() == tenant;
            let is_named = items.iter().any(|item| (item.kind, &item.name) == (key.0, &key.1));
            prune.contains(&key.0) && is_own && !is_named
        };
        self.entries.iter().filter(goes).map(|(key, _)| (key.clone(), None)).collect()
    }

    /// Everything as it would be. What goes makes room for what comes; two cannot have one secret even
    /// for a moment.
    fn after(
        &self,
        becoming: &Becoming,
        by: &Stamp<'_>,
        wrong: &mut BTreeSet<&'static str>,
    ) -> Self {
        let mut next = Self { number: self.number + 1, entries: self.entries.clone() };
        for (key, _) in becoming.iter().filter(|(_, body)| body.is_none()) {
            next.entries.remove(key);
        }
        for (key, body) in becoming {
            let Some(body) = body.clone() else { continue };
            let first = self.entries.get(key);
            let kept = Kept {
                body,
                version: next.number,
                created_at: first.map_or(by.at, |it| it.created_at),
                created_by: first.map_or_else(|| by.actor.to_owned(), |it| it.created_by.clone()),
                owner: None,
                author: by.tenant.filter(|_| has_author(key.0)).map(str::to_owned),
            };
            next.entries.insert(key.clone(), kept);
            if next.has_twins(key.0) {
                wrong.insert("invalid");
            }
        }
        for (key, _) in becoming {
            // A rule that goes in the same write still says whose its bans are.
            let owner = next.entries.get(key).and_then(|it| self.owner_of(key.0, &it.body));
            if let Some(kept) = next.entries.get_mut(key) {
                kept.owner = owner;
            }
        }
        next.hand_over();
        next
    }

    /// What belongs to rules that are there belongs to their tenants.
    fn hand_over(&mut self) {
        let is_lost = |kind: Kind, body: &Body| {
            let rule = text(body, "rule_id").and_then(|id| self.rule(id));
            kind == Kind::Ban && rule.is_none()
        };
        let owned = self.entries.iter().filter(|(key, kept)| !is_lost(key.0, &kept.body));
        let owners: Vec<(Key, Option<String>)> =
            owned.map(|(key, kept)| (key.clone(), self.owner_of(key.0, &kept.body))).collect();
        for (key, owner) in owners {
            if let Some(kept) = self.entries.get_mut(&key) {
                kept.owner = owner;
            }
        }
        // Exceptions from rules of operators are the operators'.
        let authors = self.entries.iter().filter(|(key, _)| key.0 == Kind::Override);
        let taken: Vec<Key> = authors
            .filter(|(_, kept)| self.author_of_rule(text(&kept.body, "rule_id")).is_none())
            .map(|(key, _)| key.clone())
            .collect();
        for key in taken {
            if let Some(kept) = self.entries.get_mut(&key) {
                kept.author = None;
            }
        }
    }

    /// Whether two keys or two tokens have the same secret.
    fn has_twins(&self, kind: Kind) -> bool {
        let digests: Vec<&Json> = self.of(kind).filter_map(|body| body.get("digest")).collect();
        let mut seen = BTreeSet::new();
        digests.iter().any(|digest| !seen.insert(digest.as_str()))
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Body> {
        self.entries.iter().filter(move |(key, _)| key.0 == kind).map(|(_, kept)| &kept.body)
    }

    fn rule(&self, id: &str) -> Option<&Body> {
        self.entries.get(&(Kind::Rule, id.to_owned())).map(|kept| &kept.body)
    }

    /// Whose an entry is, given the rules that are here.
    pub(crate) fn owner_of(&self, kind: Kind, body: &Body) -> Option<String> {
        match kind {
            Kind::Tier | Kind::Client => None,
            Kind::Override | Kind::Ban => {
                text(self.rule(text(body, "rule_id")?)?, "tenant").map(str::to_owned)
            }
            Kind::Whitelist | Kind::Blacklist => {
                let (types, values) = (body.get("identifier_type")?, body.get("identifier")?);
                let at = types.as_array()?.iter().position(|it| it == "tenant")?;
                values.get(at)?.as_str().map(str::to_owned)
            }
            Kind::Rule | Kind::ApiKey | Kind::Token => text(body, "tenant").map(str::to_owned),
        }
    }

    /// What is wrong with everything as it is, after these changes.
    fn flaws(&self, becoming: &Becoming) -> BTreeSet<&'static str> {
        let mut wrong = BTreeSet::new();
        let tiers: Vec<&str> = self.of(Kind::Tier).filter_map(|body| text(body, "tier")).collect();
        let is_removed = |tier: &str| becoming.contains(&((Kind::Tier, tier.to_owned()), None));
        let is_tier = |tier: &str| (tiers.is_empty() && !is_removed(tier)) || tiers.contains(&tier);
        let defaults = self.of(Kind::Tier).filter(|tier| tier.contains_key("default")).count();
        if defaults > 1 {
            wrong.insert("invalid");
        }
        for rule in self.of(Kind::Rule) {
            let own_tier = rule.get("applies_to").and_then(|it| it["user_tiers"][0].as_str());
            let is_lost = |id: &String| self.rule(id).is_none();
            if own_tier.is_some_and(|tier| !is_tier(tier)) {
                wrong.extend(["invalid", "in use"]);
            }
            if replaced(rule).iter().any(is_lost) {
                wrong.insert("invalid");
            }
        }
        if self.of(Kind::Rule).any(|rule| self.leads_back(rule)) {
            wrong.insert("invalid");
        }
        for exception in self.of(Kind::Override) {
            match text(exception, "rule_id").and_then(|id| self.rule(id)) {
                // Removing the rule fails because it is in use; writing the override, because there
                // is no rule.
                None => wrong.extend(["invalid", "in use"]),
                Some(rule) => {
                    let is_bucket = text(rule, "algorithm") == Some("token_bucket");
                    let (limit, burst) = (exception.get("limit"), exception.get("burst"));
                    let never_applies = text(exception, "identifier_type") != Some("user_id");
                    if (burst.is_some() && !is_bucket)
                        || (limit.is_none() && burst.is_none())
                        || never_applies
                    {
                        wrong.insert("invalid");
                    }
                }
            }
        }
        for body in self.of(Kind::Client).chain(self.of(Kind::ApiKey)) {
            if text(body, "tier").is_some_and(|tier| !is_tier(tier)) {
                wrong.extend(["invalid", "in use"]);
            }
        }
        for token in self.of(Kind::Token) {
            if (text(token, "role") == Some("tenant-admin")) != token.contains_key("tenant") {
                wrong.insert("invalid");
            }
        }
        wrong
    }

    /// Whether a rule takes its own place, by way of others maybe.
    fn leads_back(&self, rule: &Body) -> bool {
        let (mut seen, mut ahead) = (BTreeSet::new(), replaced(rule));
        while let Some(id) = ahead.pop() {
            if seen.insert(id.clone()) {
                ahead.extend(self.rule(&id).map(replaced).unwrap_or_default());
            }
        }
        text(rule, "rule_id").is_some_and(|id| seen.contains(id))
    }

    /// The names of a tenant's entries.
    pub(crate) fn names_of(&self, kind: Kind, tenant: &str) -> Vec<&str> {
        let is_own = |kept: &Kept| kept.owner.as_deref() == Some(tenant);
        let own = self.entries.iter().filter(|(key, kept)| key.0 == kind && is_own(kept));
        own.map(|(key, _)| key.1.as_str()).collect()
    }

    /// Whether the rule of a ban is there, by the name of the ban.
    pub(crate) fn has_rule_of(&self, ban: &str) -> bool {
        let parts: Vec<String> = serde_json::from_str(ban).unwrap_or_default();
        parts.first().is_some_and(|rule_id| self.rule(rule_id).is_some())
    }

    /// The same as a document of a policy.
    pub(crate) fn document(&self) -> String {
        let list = |kind: Kind| self.of(kind).cloned().map(Json::Object).collect::<Vec<_>>();
        json!({
            "rules": list(Kind::Rule),
            "tiers": list(Kind::Tier),
            "clients": list(Kind::Client),
            "overrides": list(Kind::Override),
            "whitelist": list(Kind::Whitelist),
            "blacklist": list(Kind::Blacklist),
        })
        .to_string()
    }
}

/// The field that a patch sets, or takes away.
pub(crate) fn patch(edit: &DraftEdit) -> Body {
    let Action::Patch(at) = edit.action else { return Body::new() };
    let free = edit.item.free;
    let field = free[at % free.len()];
    object(&json!({field: edit.item.body.get(field)}))
}

/// Whether administrators of a tenant can write entries of this kind.
fn has_author(kind: Kind) -> bool {
    matches!(kind, Kind::Rule | Kind::Override | Kind::Blacklist)
}

fn key(item: &Item) -> Key {
    (item.kind, item.name.clone())
}

pub(crate) fn text<'a>(body: &'a Body, field: &str) -> Option<&'a str> {
    body.get(field)?.as_str()
}

pub(crate) fn replaced(rule: &Body) -> Vec<String> {
    let replaces = rule.get("replaces").and_then(Json::as_array).into_iter().flatten();
    replaces.filter_map(Json::as_str).map(str::to_owned).collect()
}

//! What a tenant's administrator sees and may do, said a second time and more simply.

use std::collections::BTreeSet;

use tollgate_catalog::Kind;

use crate::model::{Becoming, Body, Kept, Key, Model, Stamp, replaced, text};

impl Model {
    /// The entry, unless it is hidden from the author.
    pub(crate) fn seen(&self, key: &Key, by: &Stamp<'_>) -> Option<&Kept> {
        let is_seen = |it: &&Kept| by.tenant.is_none() || it.owner.as_deref() == by.tenant;
        self.entries.get(key).filter(is_seen)
    }

    /// Whether a rule would be a new one, under a name that is not for its author.
    pub(crate) fn is_bad_name(&self, key: &Key, by: &Stamp<'_>) -> bool {
        let Some(tenant) = by.tenant else { return false };
        let is_new = key.0 == Kind::Rule && self.seen(key, by).is_none();
        let is_own = key.1.starts_with(&format!("{tenant}.")) && !self.entries.contains_key(key);
        is_new && !is_own
    }

    pub(crate) fn author_of_rule(&self, id: Option<&str>) -> Option<&str> {
        self.entries.get(&(Kind::Rule, id?.to_owned()))?.author.as_deref()
    }

    /// Why a tenant may not do this.
    pub(crate) fn trespass(
        &self,
        next: &Self,
        key: &Key,
        becomes: Option<&Body>,
        tenant: &str,
    ) -> BTreeSet<&'static str> {
        let mut wrong = BTreeSet::new();
        let is_tight = matches!(key.0, Kind::Rule | Kind::Override | Kind::Blacklist | Kind::Ban);
        let is = becomes.map(|body| next.owner_of(key.0, body));
        if !is_tight || is.is_some_and(|owner| owner.as_deref() != Some(tenant)) {
            wrong.insert("not yours");
        }
        if let Some(was) = self.entries.get(key).filter(|it| it.owner.as_deref() == Some(tenant)) {
            let author = match key.0 {
                Kind::Ban => self.author_of_rule(text(&was.body, "rule_id")),
                _ => was.author.as_deref(),
            };
            if author != Some(tenant) {
                wrong.insert("read only");
            }
        }
        let loosened = match (key.0, becomes) {
            (Kind::Rule, Some(body)) => replaced(body),
            (Kind::Override | Kind::Ban, Some(body)) => {
                text(body, "rule_id").into_iter().map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        for id in loosened {
            let key = (Kind::Rule, id);
            let rule = next.entries.get(&key).or_else(|| self.entries.get(&key));
            let owner = rule.and_then(|rule| text(&rule.body, "tenant"));
            if owner != Some(tenant) {
                wrong.insert("not yours");
            } else if rule.and_then(|rule| rule.author.as_deref()) != Some(tenant) {
                wrong.insert("read only");
            }
        }
        wrong
    }

    /// Whether rules that operators have just written are replaced by rules of tenants.
    pub(crate) fn undermines(&self, becoming: &Becoming) -> bool {
        let written = |id: &String| {
            becoming.iter().any(|(key, body)| *key == (Kind::Rule, id.clone()) && body.is_some())
        };
        let rules = self.entries.iter().filter(|(key, _)| key.0 == Kind::Rule);
        let of_tenants = rules.filter(|(_, kept)| kept.author.is_some());
        of_tenants.into_iter().any(|(_, kept)| replaced(&kept.body).iter().any(written))
    }
}

//! The bans of one limiter, by client and by when they end. The caller bounds their number.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_rules::Subject;

use super::Ban;

type Client = (Arc<str>, Subject);

#[derive(Debug, Default)]
pub(super) struct OwnBans {
    ends: HashMap<Client, Timestamp>,
    by_end: BTreeSet<(Timestamp, Client)>,
    /// Bans that cannot be written to a catalog.
    only_here: HashSet<Client>,
}

impl OwnBans {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All bans, those first that end first.
    pub(super) fn all(&self) -> impl Iterator<Item = Ban> {
        self.by_end.iter().map(|(until, client)| ban(client, *until))
    }

    /// Bans that have to be written to a catalog, those first that end first.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = Ban> {
        let unwritten = self.by_end.iter().filter(|(_, client)| !self.only_here.contains(client));
        unwritten.map(|(until, client)| ban(client, *until))
    }

    /// Keeps a ban on this limiter: it is not written to a catalog.
    pub(super) fn keep_here(&mut self, rule_id: &str, subject: &Subject) {
        let client = (Arc::from(rule_id), subject.clone());
        if self.ends.contains_key(&client) {
            self.only_here.insert(client);
        }
    }

    /// Inserts a ban, which replaces an earlier one of the same client.
    pub(super) fn insert(&mut self, Ban { rule_id, subject, until }: Ban) {
        self.forget_one(&rule_id, &subject);
        let client = (rule_id, subject);
        self.ends.insert(client.clone(), until);
        self.by_end.insert((until, client));
    }

    /// Removes a ban; returns whether there was one.
    pub(super) fn forget_one(&mut self, rule_id: &str, subject: &Subject) -> bool {
        let client = (Arc::from(rule_id), subject.clone());
        let Some(until) = self.ends.remove(&client) else { return false };
        self.only_here.remove(&client);
        self.by_end.remove(&(until, client));
        true
    }

    pub(super) fn forget(&mut self, mut is_forgotten: impl FnMut(&Ban) -> bool) {
        let Self { ends, by_end, only_here } = self;
        by_end.retain(|(until, client)| {
            let is_kept = !is_forgotten(&ban(client, *until));
            if !is_kept {
                ends.remove(client);
                only_here.remove(client);
            }
            is_kept
        });
    }

    /// Removes and returns bans that have ended.
    pub(super) fn end(&mut self, now: Timestamp) -> Vec<Ban> {
        let mut ended = Vec::new();
        while let Some((until, _)) = self.by_end.first()
            && *until <= now
            && let Some((until, client)) = self.by_end.pop_first()
        {
            self.ends.remove(&client);
            self.only_here.remove(&client);
            ended.push(ban(&client, until));
        }
        ended
    }
}

fn ban((rule_id, subject): &Client, until: Timestamp) -> Ban {
    Ban { rule_id: Arc::clone(rule_id), subject: subject.clone(), until }
}

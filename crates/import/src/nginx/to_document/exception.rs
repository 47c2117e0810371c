//! Where a rule would apply that should not: a narrower one replaces it, or it costs nothing there,
//! or it is noted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::nginx::note::NginxLoss;
use crate::nginx::site::Site;
use crate::nginx::to_document::draft::{RuleDraft, wider_patterns};
use crate::nginx::to_document::extent::Extents;

/// Adds to the drafts what keeps them from applying where their limits are not in force.
pub(super) fn except(site: &Site, extents: &Extents, drafts: &mut [RuleDraft<'_>]) {
    let mut in_force = vec![Vec::new(); site.regions.len()];
    for (at, draft) in drafts.iter().enumerate() {
        for region in &draft.regions {
            if let Some(all) = in_force.get_mut(*region) {
                all.push(at);
            }
        }
    }
    let own = drafts.iter().map(|draft| draft.regions.iter().copied().collect());
    let mut exceptions = Exceptions { site, extents, own: own.collect(), known: HashMap::new() };
    for at in 0..drafts.len() {
        let Some(applied) = extents.regions(at) else { continue };
        let mut excess = applied.iter().copied().collect::<Vec<_>>();
        excess.retain(|region| exceptions.own.get(at).is_some_and(|own| !own.contains(region)));
        excess.sort_unstable();
        for region in excess {
            let rivals = in_force.get(region).map(Vec::as_slice).unwrap_or_default();
            exceptions.add(at, region, rivals, drafts);
        }
        exceptions.charge_below(at, drafts);
    }
}

struct Exceptions<'a> {
    site: &'a Site,
    extents: &'a Extents,
    /// For each draft the regions where it is in force.
    own: Vec<HashSet<usize>>,
    /// Whether one draft never applies where the other is in force.
    known: HashMap<(usize, usize), bool>,
}

impl Exceptions<'_> {
    /// Keeps a draft away from a region where other drafts, its rivals, are in force.
    fn add(&mut self, at: usize, region: usize, rivals: &[usize], drafts: &mut [RuleDraft<'_>]) {
        let is_replaced = |it: &usize| drafts.get(*it).is_some_and(|it| it.replaces.contains(&at));
        if rivals.iter().any(is_replaced) {
            return;
        }
        // What is limited there by something that became no rule is better limited by another.
        let is_lost = self.is_limited(region) && rivals.is_empty();
        let mut rivals = rivals.to_vec();
        rivals.retain(|rival| self.is_apart(*rival, at) && !reaches(drafts, at, *rival));
        let is_sure = |it: &&usize| drafts.get(**it).is_some_and(|it| !it.key.can_be_missing);
        if let Some(rival) = rivals.iter().find(is_sure).and_then(|it| drafts.get_mut(*it)) {
            rival.replaces.push(at);
            return;
        }
        let Some(region) = self.site.regions.get(region) else { return };
        let pattern = region.pattern.as_ref().map(ToString::to_string);
        let free = pattern.filter(|pattern| !is_lost && self.can_be_free(at, pattern, drafts));
        let id = drafts.get(at).map(|draft| Arc::clone(&draft.id)).unwrap_or_default();
        if let Some(pattern) = free {
            if let Some(draft) = drafts.get_mut(at) {
                draft.costs.insert(pattern, 0);
            }
        } else if let Some(rival) = rivals.first().and_then(|rival| drafts.get_mut(*rival)) {
            rival.replaces.push(at);
            rival.note(NginxLoss::Fallback(id));
        } else if let Some(draft) = drafts.get_mut(at) {
            draft.excess.push(region.place.clone());
        }
    }

    /// Whether nginx limits requests there.
    fn is_limited(&self, region: usize) -> bool {
        self.site.regions.get(region).is_some_and(|it| !it.level.limits.list.is_empty())
    }

    /// Whether the rival never applies where the draft is in force, so that it may replace it.
    fn is_apart(&mut self, rival: usize, at: usize) -> bool {
        let (extents, own) = (self.extents, &self.own);
        *self.known.entry((rival, at)).or_insert_with(|| {
            match (extents.regions(rival), own.get(at)) {
                (Some(applied), Some(own)) => applied.is_disjoint(own),
                _ => false,
            }
        })
    }

    /// Whether the draft is nowhere in force for requests that match the pattern, and for no host
    /// that is not known.
    fn can_be_free(&self, at: usize, pattern: &str, drafts: &[RuleDraft<'_>]) -> bool {
        let Some((draft, own)) = drafts.get(at).zip(self.own.get(at)) else { return false };
        let takes_all = self.site.servers.iter().any(|server| server.names.hosts.is_empty());
        (!draft.is_at_root || takes_all)
            && self.extents.deciding(at, pattern).all(|region| !own.contains(&region))
    }

    /// What is free below a pattern ends where a narrower one of the draft's own begins.
    fn charge_below(&self, at: usize, drafts: &mut [RuleDraft<'_>]) {
        let Some((draft, own)) = drafts.get_mut(at).zip(self.own.get(at)) else { return };
        let regions = draft.regions.iter().filter_map(|at| self.site.regions.get(*at));
        let patterns = regions.filter_map(|region| region.pattern.as_ref());
        let charged = patterns.filter(|pattern| {
            wider_patterns(pattern).any(|wider| draft.costs.contains_key(&wider))
        });
        let charged = charged.map(ToString::to_string).collect::<Vec<_>>();
        for pattern in charged {
            let others = self.extents.deciding(at, &pattern).filter(|it| !own.contains(it));
            let others = others.filter_map(|it| self.site.regions.get(it));
            draft.excess.extend(others.map(|region| region.place.clone()));
            draft.costs.insert(pattern, 1);
        }
    }
}

/// Whether one draft replaces the other, at once or by way of those it replaces.
fn reaches(drafts: &[RuleDraft<'_>], from: usize, to: usize) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(drafts.get(at).into_iter().flat_map(|draft| &draft.replaces));
        }
    }
    false
}

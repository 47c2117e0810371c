//! Which rules apply to which regions, as rules are matched.

use std::collections::{HashMap, HashSet};

use tollgate_rules::syntax;

use crate::nginx::site::{LocationForm, Region, Site};
use crate::nginx::to_document::draft::{RuleDraft, wider_patterns};
use crate::nginx::to_document::effort::Effort;

/// The regions that rules apply to, whether they should or not.
pub(super) struct Extents {
    /// For each draft its regions.
    regions: Vec<HashSet<usize>>,
    /// For each draft the servers whose hosts it is for.
    servers: Vec<Vec<usize>>,
    by_pattern: ByPattern,
}

/// The regions of each server by the text of their pattern, which is empty for every path.
type ByPattern = HashMap<(usize, String), usize>;

impl Extents {
    /// Compares all drafts with all regions; none, if that is too much. Where a draft is for a part of
    /// a region only, that part becomes a separate region, so that each rule applies to all of a
    /// region or to nothing of it.
    pub(super) fn measure(
        site: &mut Site,
        drafts: &mut [RuleDraft<'_>],
        effort: &mut Effort,
    ) -> Option<Self> {
        let servers = servers(site, drafts, effort)?;
        let mut by_pattern = ByPattern::new();
        for (at, region) in site.regions.iter().enumerate() {
            by_pattern.insert((region.server, text(region).to_owned()), at);
        }
        split(site, drafts, &servers, &mut by_pattern, effort)?;
        let mut regions = vec![HashSet::new(); drafts.len()];
        let mut by_endpoint = HashMap::<(usize, &str), Vec<usize>>::new();
        for (at, (draft, servers)) in drafts.iter().zip(&servers).enumerate() {
            let everything = draft.endpoints.is_empty().then_some("");
            for endpoint in draft.endpoints.iter().map(String::as_str).chain(everything) {
                effort.spend(servers.len())?;
                for server in servers {
                    by_endpoint.entry((*server, endpoint)).or_default().push(at);
                }
            }
        }
        for (at, region) in site.regions.iter().enumerate() {
            let own = text(region);
            for pattern in [own.to_owned()].into_iter().chain(wider_patterns(own)) {
                let found = by_endpoint.get(&(region.server, &*pattern)).map(Vec::as_slice);
                let found = found.unwrap_or_default();
                effort.spend(1 + found.len())?;
                for draft in found {
                    regions.get_mut(*draft)?.insert(at);
                }
            }
        }
        Some(Self { regions, servers, by_pattern })
    }

    /// The regions that a rule applies to.
    pub(super) fn regions(&self, draft: usize) -> Option<&HashSet<usize>> {
        self.regions.get(draft)
    }

    /// For each server that a rule is for the region that has this pattern's requests.
    pub(super) fn deciding<'a>(
        &'a self,
        draft: usize,
        pattern: &'a str,
    ) -> impl Iterator<Item = usize> + 'a {
        let servers = self.servers.get(draft).into_iter().flatten();
        servers.filter_map(move |server| deciding(&self.by_pattern, *server, pattern))
    }
}

/// The region of a server that has this pattern's requests.
fn deciding(by_pattern: &ByPattern, server: usize, pattern: &str) -> Option<usize> {
    let mut all = [pattern.to_owned()].into_iter().chain(wider_patterns(pattern));
    all.find_map(|text| by_pattern.get(&(server, text)).copied())
}

/// The pattern of a region.
fn text(region: &Region) -> &str {
    region.pattern.as_ref().map_or("", |pattern| pattern)
}

/// For each draft the servers whose names its hosts are or cover.
fn servers(site: &Site, drafts: &[RuleDraft<'_>], effort: &mut Effort) -> Option<Vec<Vec<usize>>> {
    let mut named = HashMap::<&str, Vec<usize>>::new();
    let mut below = HashMap::<&str, Vec<usize>>::new();
    for (at, server) in site.servers.iter().enumerate() {
        for name in &server.names.hosts {
            named.entry(name).or_default().push(at);
            let domain = name.strip_prefix("*.").unwrap_or(name);
            let dots = domain.match_indices('.').filter(|(at, _)| *at > 0);
            for suffix in dots.map(|(at, _)| &domain[at + 1..]) {
                effort.spend(1)?;
                below.entry(suffix).or_default().push(at);
            }
        }
    }
    let mut all = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let mut servers = Vec::new();
        if draft.hosts.is_empty() {
            effort.spend(site.servers.len())?;
            servers.extend(0..site.servers.len());
        }
        for host in &draft.hosts {
            let exact = named.get(host.as_str());
            let covered = host.strip_prefix("*.").and_then(|domain| below.get(domain));
            for found in [exact, covered].into_iter().flatten() {
                effort.spend(found.len())?;
                servers.extend(found);
            }
        }
        servers.sort_unstable();
        servers.dedup();
        all.push(servers);
    }
    Some(all)
}

/// Makes a region of each part of one that some draft is for.
fn split(
    site: &mut Site,
    drafts: &mut [RuleDraft<'_>],
    servers: &[Vec<usize>],
    by_pattern: &mut ByPattern,
    effort: &mut Effort,
) -> Option<()> {
    let mut in_force = vec![Vec::new(); site.regions.len()];
    for (at, draft) in drafts.iter().enumerate() {
        effort.spend(draft.regions.len())?;
        for region in &draft.regions {
            in_force.get_mut(*region)?.push(at);
        }
    }
    // Parts come from whole regions, and not from parts of them.
    let whole = by_pattern.clone();
    let mut parts = Vec::new();
    for (draft, servers) in drafts.iter().zip(servers) {
        for endpoint in &draft.endpoints {
            effort.spend(servers.len())?;
            for server in servers {
                let key = (*server, endpoint.clone());
                if by_pattern.contains_key(&key) {
                    continue;
                }
                let around = deciding(&whole, *server, endpoint)?;
                let Region { place, level, .. } = site.regions.get(around)?;
                let (place, level) = (place.clone(), level.clone());
                let pattern = Some(syntax::endpoint(endpoint)?);
                let form = LocationForm::default();
                by_pattern.insert(key, site.regions.len());
                parts.push((around, site.regions.len()));
                site.regions.push(Region { place, server: *server, pattern, level, form });
            }
        }
    }
    for (around, part) in parts {
        for draft in in_force.get(around)? {
            effort.spend(1)?;
            drafts.get_mut(*draft)?.regions.push(part);
        }
    }
    Some(())
}

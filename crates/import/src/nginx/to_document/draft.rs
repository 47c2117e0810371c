//! Rules before they are compared with each other: a limit, and the hosts and paths where it is in
//! force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::nginx::key::ZoneKey;
use crate::nginx::level::BlockLevel;
use crate::nginx::limit::{MAX_DELAY_MS, RequestLimit, Zone};
use crate::nginx::note::NginxLoss;
use crate::nginx::place::FilePosition;
use crate::nginx::reader::Findings;
use crate::nginx::site::{Region, Site};
use crate::nginx::to_document::CountedZone;
use crate::nginx::to_document::effort::Effort;

/// What becomes a rule.
pub(super) struct RuleDraft<'a> {
    pub(super) id: Arc<str>,
    pub(super) limit: RequestLimit,
    pub(super) is_dry_run: bool,
    pub(super) zone: &'a Zone,
    pub(super) key: &'a ZoneKey,
    /// What tells its counters from those of the same zone elsewhere: the name of a server, where
    /// that is part of the key.
    pub(super) part: String,
    /// Whether it is in force wherever nothing else is said.
    pub(super) is_at_root: bool,
    /// Every host, if there is none.
    pub(super) hosts: Vec<String>,
    /// The patterns of endpoints; every path, if there is none.
    pub(super) endpoints: Vec<String>,
    /// The regions where it is in force.
    pub(super) regions: Vec<usize>,
    /// The patterns where it costs nothing, and those below them where it does.
    pub(super) costs: BTreeMap<String, u64>,
    /// The indices of other drafts.
    pub(super) replaces: Vec<usize>,
    pub(super) losses: Vec<NginxLoss>,
    /// Where it applies although it should not.
    pub(super) excess: Vec<FilePosition>,
}

impl RuleDraft<'_> {
    pub(super) fn note(&mut self, loss: NginxLoss) {
        if !self.losses.contains(&loss) {
            self.losses.push(loss);
        }
    }
}

/// What makes a limit another one: what it says, and whether it only watches.
type Use = (RequestLimit, bool);

/// Where a limit is in force.
#[derive(Default)]
struct LimitPlaces {
    is_at_root: bool,
    regions: Vec<usize>,
}

/// The drafts of all limits whose zones are known, in the order of the files; none, if there are too
/// many.
pub(super) fn drafts<'a>(
    site: &Site,
    zones: &'a HashMap<Arc<str>, CountedZone<'a>>,
    findings: &mut Findings,
    effort: &mut Effort,
) -> Option<Vec<RuleDraft<'a>>> {
    let mut order = Vec::<Use>::new();
    let mut places = HashMap::<Use, LimitPlaces>::new();
    let root = site.root.iter().map(|level| (None, level));
    let regions = site.regions.iter().enumerate();
    for (at, level) in root.chain(regions.map(|(at, region)| (Some(at), &region.level))) {
        effort.spend(level.limits.list.len())?;
        for limit in level.limits.list.iter().filter(|limit| zones.contains_key(&limit.zone)) {
            let limit = (limit.clone(), level.is_dry_run);
            let found = places.entry(limit.clone()).or_insert_with(|| {
                order.push(limit);
                LimitPlaces::default()
            });
            found.is_at_root |= at.is_none();
            found.regions.extend(at);
        }
    }
    let mut drafts = Vec::new();
    for found in order {
        let LimitPlaces { is_at_root, regions } = places.remove(&found).unwrap_or_default();
        let Some(CountedZone { zone, key }) = zones.get(&found.0.zone) else { continue };
        let names = regions.iter().filter_map(|at| site.regions.get(*at));
        let names = names.filter_map(|region| site.servers.get(region.server));
        effort.spend(names.map(|server| server.names.hosts.len()).sum())?;
        let plan = LimitPlan { site, found, zone, key };
        match (key.is_by_server, is_at_root) {
            (false, true) => drafts.push(plan.draft(String::new(), true, Vec::new(), regions)),
            (false, false) => plan.by_endpoints("", regions, &mut drafts),
            (true, _) => plan.by_server(regions, findings, &mut drafts),
        }
    }
    Some(drafts)
}

/// One limit on its way to drafts.
struct LimitPlan<'a, 's> {
    site: &'s Site,
    found: Use,
    zone: &'a Zone,
    key: &'a ZoneKey,
}

impl<'a> LimitPlan<'a, '_> {
    /// Servers whose first names differ count apart.
    fn by_server(
        &self,
        regions: Vec<usize>,
        findings: &mut Findings,
        drafts: &mut Vec<RuleDraft<'a>>,
    ) {
        if self.site.servers.is_empty() {
            findings.note(&self.zone.place, NginxLoss::Variable("$server_name".to_owned()));
        }
        let mut by_name = BTreeMap::<&str, Vec<usize>>::new();
        for at in regions {
            let server = self.site.regions.get(at).and_then(|it| self.site.servers.get(it.server));
            let Some(server) = server else { continue };
            by_name.entry(&server.names.first).or_default().push(at);
        }
        for (name, regions) in by_name {
            if name.is_empty() && self.key.is_empty_without_server() {
                let place = regions.first().and_then(|at| self.site.regions.get(*at));
                if let Some(region) = place {
                    findings.note(&region.place, NginxLoss::EmptyKey);
                }
                continue;
            }
            self.by_endpoints(name, regions, drafts);
        }
    }

    /// Servers that have the same endpoints fit into one rule.
    fn by_endpoints(&self, part: &str, regions: Vec<usize>, drafts: &mut Vec<RuleDraft<'a>>) {
        let mut by_server = BTreeMap::<usize, Vec<usize>>::new();
        for at in regions {
            let Some(region) = self.site.regions.get(at) else { continue };
            by_server.entry(region.server).or_default().push(at);
        }
        let mut groups = Vec::<(Vec<String>, Vec<usize>)>::new();
        let mut known = HashMap::<Vec<String>, usize>::new();
        for regions in by_server.into_values() {
            let endpoints = self.endpoints(&regions);
            let at = *known.entry(endpoints.clone()).or_insert_with(|| {
                groups.push((endpoints, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, all)) = groups.get_mut(at) {
                all.extend(regions);
            }
        }
        for (endpoints, regions) in groups {
            drafts.push(self.draft(part.to_owned(), false, endpoints, regions));
        }
    }

    /// The widest of the patterns of regions of one server.
    fn endpoints(&self, regions: &[usize]) -> Vec<String> {
        let regions = || regions.iter().filter_map(|at| self.site.regions.get(*at));
        if regions().any(|region| region.pattern.is_none()) {
            return Vec::new();
        }
        let texts = regions().filter_map(|region| region.pattern.as_ref());
        let mut texts = texts.map(ToString::to_string).collect::<Vec<_>>();
        texts.sort_unstable();
        let wider = texts.iter().cloned().collect::<HashSet<_>>();
        texts.retain(|text| !wider_patterns(text).any(|it| wider.contains(&it)));
        texts
    }

    fn draft(
        &self,
        part: String,
        is_at_root: bool,
        endpoints: Vec<String>,
        regions: Vec<usize>,
    ) -> RuleDraft<'a> {
        let (limit, is_dry_run) = self.found.clone();
        let mut draft = RuleDraft {
            id: Arc::default(),
            limit,
            is_dry_run,
            zone: self.zone,
            key: self.key,
            part,
            is_at_root,
            hosts: Vec::new(),
            endpoints,
            regions,
            costs: BTreeMap::new(),
            replaces: Vec::new(),
            losses: self.key.losses.clone(),
            excess: Vec::new(),
        };
        self.add_hosts(&mut draft);
        self.note_regions(&mut draft);
        draft
    }

    /// The hosts of all its servers.
    fn add_hosts(&self, draft: &mut RuleDraft<'_>) {
        if draft.is_at_root {
            return;
        }
        let regions = draft.regions.iter().filter_map(|at| self.site.regions.get(*at));
        let mut servers = regions.map(|region| region.server).collect::<Vec<_>>();
        servers.dedup();
        let servers = servers.into_iter().filter_map(|at| self.site.servers.get(at));
        let servers = servers.collect::<Vec<_>>();
        let is_everywhere = servers.iter().any(|server| server.names.hosts.is_empty());
        let mut hosts = servers.iter().flat_map(|server| &server.names.hosts).collect::<Vec<_>>();
        hosts.sort_unstable();
        hosts.dedup();
        draft.hosts = hosts.into_iter().filter(|_| !is_everywhere).cloned().collect();
        for server in servers {
            if server.names.hosts.is_empty() && !server.names.unmatched.is_empty() {
                draft.note(NginxLoss::EveryHost(server.place.clone()));
            } else if !is_everywhere {
                for name in &server.names.unmatched {
                    draft.note(NginxLoss::ServerName(name.clone()));
                }
                if server.is_default {
                    draft.note(NginxLoss::DefaultServer(server.place.clone()));
                }
            }
        }
    }

    fn note_regions(&self, draft: &mut RuleDraft<'_>) {
        let regions = draft.regions.iter().filter_map(|at| self.site.regions.get(*at));
        let regions = regions.collect::<Vec<&Region>>();
        for region in &regions {
            let is_endpoint = region.pattern.as_ref().is_some_and(|pattern| {
                draft.endpoints.binary_search_by(|it| (**it).cmp(&**pattern)).is_ok()
            });
            if let Some(path) = region.form.loose_prefix.as_ref().filter(|_| is_endpoint) {
                draft.note(NginxLoss::Segments(path.clone()));
            }
        }
        let root = self.site.root.iter().filter(|_| draft.is_at_root);
        let levels = root.chain(regions.iter().map(|region| &region.level));
        let mut statuses = levels.map(|level: &BlockLevel| level.status).collect::<Vec<_>>();
        statuses.sort_unstable();
        statuses.dedup();
        if draft.is_dry_run {
            return;
        }
        for status in statuses.into_iter().filter(|status| *status != 429) {
            draft.note(NginxLoss::Status(status));
        }
        if draft.limit.at_once < draft.limit.burst {
            draft.note(NginxLoss::Held);
            let held = draft.limit.burst - draft.limit.at_once;
            if draft.limit.at_once > 0 && draft.zone.rate.delay_ms(held) > MAX_DELAY_MS {
                draft.note(NginxLoss::LongDelay);
            }
        }
    }
}

/// The patterns that cover this one, the narrowest first: `/a/b/*` covers `/a/b`, and so does
/// `/a/*`. The last is the empty one, for every path, which nothing else covers.
pub(super) fn wider_patterns(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_exact = !text.ends_with("/*");
    let path = text.strip_suffix("/*").unwrap_or(text);
    // An exact path is covered by its own tail; a tail is not wider than itself.
    let own = Some(path.len()).filter(|length| is_exact && *length > 1);
    let slashes = path.rmatch_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    let tails = own.into_iter().chain(slashes).map(move |end| format!("{}/*", &path[..end]));
    tails.chain((!text.is_empty()).then(String::new))
}

//! The way through servers and locations, which finds out where which limits are in force.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use tollgate_document::quote;

use crate::nginx::directive::Directive;
use crate::nginx::host::{Default as DefaultFor, ServerNames, defaults};
use crate::nginx::level::{BlockLevel, level};
use crate::nginx::location::{LocationMatch, endpoint, parse};
use crate::nginx::note::NginxLoss;
use crate::nginx::place::FilePosition;
use crate::nginx::reader::Findings;
use crate::nginx::site::{LocationForm, Region, Server, Site};

/// How many servers and locations there may be.
const MAX_REGIONS: usize = 10_000;

/// Finds all regions. What stands outside of `http` is taken as if it were in it, since most files
/// are parts that are included there.
pub(super) fn walk(directives: &[Directive], findings: &mut Findings) -> Site {
    let (http, loose): (Vec<_>, Vec<_>) = directives.iter().partition(|it| it.name == "http");
    // Else there may be other servers than these.
    let is_whole = !http.is_empty();
    let all = loose.into_iter().chain(http.into_iter().flat_map(Directive::children));
    let all = all.collect::<Vec<_>>();
    let root = level(all.iter().copied(), &BlockLevel::default(), findings);
    let mut walk =
        Walk { site: Site::default(), findings, met: HashSet::new(), by_pattern: HashMap::new() };
    walk.servers(&all, &root, is_whole);
    walk.note_unmet(&root, &BlockLevel::default());
    let mut levels = walk.site.regions.iter().map(|region| &region.level);
    let is_inherited = levels.any(|level| {
        level.limits.place == root.limits.place && level.is_dry_run == root.is_dry_run
    });
    if !root.limits.list.is_empty() && (walk.site.servers.is_empty() || is_inherited) {
        walk.site.root = Some(root);
    }
    walk.site
}

/// Whether there are limits here or below.
fn has_limits(directive: &Directive) -> bool {
    directive.name == "limit_req" || directive.children().iter().any(has_limits)
}

struct Walk<'a> {
    site: Site,
    findings: &'a mut Findings,
    /// The lists of limits that some request meets, by where they stand: a level that inherits a list
    /// has the same place.
    met: HashSet<FilePosition>,
    /// The regions of the server at hand by the text of their pattern, and the length of the path
    /// that they have in nginx.
    by_pattern: HashMap<String, (usize, usize)>,
}

/// A level of locations, and all those around it.
struct Around<'a> {
    level: &'a BlockLevel,
    /// The location that they are in, if they are in one.
    location: Option<&'a LocationMatch>,
    /// The prefixes of all locations beside those that they are in, which are longer.
    rivals: Vec<&'a str>,
}

impl Walk<'_> {
    fn servers(&mut self, http: &[&Directive], root: &BlockLevel, is_whole: bool) {
        let servers = http.iter().copied().filter(|it| it.name == "server" && it.block.is_some());
        let servers = servers.collect::<Vec<_>>();
        let defaults = defaults(&servers);
        let counted = |server: &&Directive| !answers_at_once(server.children());
        let is_alone = is_whole && servers.iter().copied().filter(|it| counted(it)).count() == 1;
        for (server, default) in servers.iter().zip(defaults) {
            if !counted(server) {
                self.note_returns(server.children(), true);
                continue;
            }
            if self.is_full(&server.place) {
                return;
            }
            let mut names = ServerNames::read(server.children());
            // No other server takes requests for other hosts.
            if is_alone && default == DefaultFor::Everywhere {
                names.hosts.clear();
                names.unmatched.clear();
            }
            let is_default = is_whole && default != DefaultFor::Nowhere;
            let children = server.children().iter().collect::<Vec<_>>();
            self.server(&server.place, names, is_default, &children, root);
        }
        // A part of a file that is included in a server.
        let loose = http.iter().copied().filter(|it| it.name == "location").collect::<Vec<_>>();
        if let Some(first) = loose.first() {
            self.server(&first.place, ServerNames::default(), false, &loose, root);
        }
    }

    fn server(
        &mut self,
        place: &FilePosition,
        names: ServerNames,
        is_default: bool,
        children: &[&Directive],
        root: &BlockLevel,
    ) {
        let level = level(children.iter().copied(), root, self.findings);
        self.note_conditions(children, &level);
        self.by_pattern.clear();
        self.site.servers.push(Server { place: place.clone(), names, is_default });
        let everything = self.site.regions.len();
        self.add_region(place, None, &level, LocationForm::default());
        let around = Around { level: &level, location: None, rivals: Vec::new() };
        self.locations(children, &around, everything);
        // A location for every path leaves nothing to the server itself, which it has replaced.
        for region in self.site.regions.get(everything..).unwrap_or_default() {
            self.met.extend(region.level.limits.place.clone());
        }
        self.note_unmet(&level, root);
    }

    fn locations(&mut self, directives: &[&Directive], around: &Around<'_>, everything: usize) {
        let locations = directives.iter().copied().filter(|it| it.name == "location");
        let locations =
            locations.filter_map(|it| Some((it, parse(it, self.findings)?))).collect::<Vec<_>>();
        let prefixes = locations.iter().filter_map(|(_, what)| match what {
            LocationMatch::Prefix { path, .. } => Some(path.as_str()),
            _ => None,
        });
        let prefixes = prefixes.collect::<Vec<_>>();
        let first = self.site.regions.len();
        let mut without_path = Vec::new();
        for (directive, what) in &locations {
            if self.is_full(&directive.place) {
                return;
            }
            let children = directive.children().iter().collect::<Vec<_>>();
            let mut level = level(children.iter().copied(), around.level, self.findings);
            if answers_at_once(directive.children()) {
                level = level.unlimited();
                self.note_returns(directive.children(), false);
            }
            self.note_conditions(&children, &level);
            let (LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. }) = what else {
                without_path.push((*directive, what, level));
                continue;
            };
            self.check_nesting(directive, path, around.location);
            if around.rivals.iter().any(|rival| path.starts_with(rival)) {
                self.note_unmet(&level, around.level);
                continue;
            }
            self.location(directive, what, &level, everything);
            let is_longer = |it: &&&str| it.len() > path.len() && it.starts_with(path.as_str());
            let longer = prefixes.iter().filter(is_longer);
            let rivals = around.rivals.iter().chain(longer).copied().collect();
            let inside = Around { level: &level, location: Some(what), rivals };
            self.locations(&children, &inside, everything);
        }
        for (directive, what, level) in without_path {
            self.note_without_path(directive, what, &level, around, first);
        }
    }

    /// A location with a path.
    fn location(
        &mut self,
        directive: &Directive,
        what: &LocationMatch,
        level: &BlockLevel,
        everything: usize,
    ) {
        let (path, is_exact, is_firm) = match what {
            LocationMatch::Exact(path) => (path, true, true),
            LocationMatch::Prefix { path, is_firm } => (path, false, *is_firm),
            LocationMatch::Regex(_) | LocationMatch::Named(_) => return,
        };
        let pattern = match endpoint(path, is_exact) {
            Ok(Some(pattern)) => pattern,
            Ok(None) => {
                if let Some(region) = self.site.regions.get_mut(everything) {
                    region.place = directive.place.clone();
                    region.level = level.clone();
                }
                return;
            }
            Err(loss) => {
                self.met.extend(level.limits.place.clone());
                if !level.limits.list.is_empty() {
                    self.findings.note(&directive.place, loss);
                }
                return;
            }
        };
        let loose_prefix = (!is_exact && !path.ends_with('/')).then(|| path.clone());
        let form = LocationForm { is_firm, loose_prefix };
        let text = pattern.to_string();
        let known = self.by_pattern.get(&text).copied();
        match known.and_then(|(at, length)| Some((self.site.regions.get_mut(at)?, length))) {
            None => {
                self.by_pattern.insert(text, (self.site.regions.len(), path.len()));
                self.add_region(&directive.place, Some(pattern), level, form);
            }
            // The longer of the two is the one with a slash at its end, which is most of the paths.
            Some((region, length)) => {
                let is_same = region.level.is_like(level);
                let mut lost = directive.place.clone();
                if path.len() > length {
                    mem::swap(&mut region.place, &mut lost);
                    region.level = level.clone();
                    region.form = form;
                }
                if !is_same {
                    self.findings.note(&lost, NginxLoss::SamePaths(text));
                }
            }
        }
    }

    fn add_region(
        &mut self,
        place: &FilePosition,
        pattern: Option<Arc<str>>,
        level: &BlockLevel,
        form: LocationForm,
    ) {
        let server = self.site.servers.len().saturating_sub(1);
        let (place, level) = (place.clone(), level.clone());
        self.site.regions.push(Region { place, server, pattern, level, form });
    }

    /// Whether there is no room for what stands there.
    fn is_full(&mut self, place: &FilePosition) -> bool {
        let is_full = self.site.regions.len() >= MAX_REGIONS;
        if is_full {
            let message = format!("there are more than {MAX_REGIONS} servers and locations");
            self.findings.problem(place, &message, "import fewer files at a time");
        }
        is_full
    }

    /// nginx refuses locations that could never match.
    fn check_nesting(&mut self, directive: &Directive, path: &str, outer: Option<&LocationMatch>) {
        let message = match outer {
            Some(LocationMatch::Prefix { path: outer, .. })
                if !path.starts_with(outer.as_str()) =>
            {
                format!("location {} is outside of location {}", quote(path), quote(outer))
            }
            Some(LocationMatch::Exact(outer)) => {
                format!("there is nothing inside of the one path {}", quote(outer))
            }
            _ => return,
        };
        self.findings.problem(&directive.place, &message, "put it beside the location around it");
    }

    /// A location that rules cannot match. It matters if it limits in another way than what rules
    /// take its requests for: the level around it, and the prefixes there that give way to it.
    fn note_without_path(
        &mut self,
        directive: &Directive,
        what: &LocationMatch,
        level: &BlockLevel,
        around: &Around<'_>,
        first: usize,
    ) {
        self.met.extend(level.limits.place.clone());
        let is_limited = |level: &BlockLevel| !level.limits.list.is_empty();
        let loss = match what {
            LocationMatch::Named(name) if is_limited(level) => {
                NginxLoss::NamedLocation(name.clone())
            }
            LocationMatch::Regex(text) => {
                let beside = self.site.regions.get(first..).unwrap_or_default();
                let mut beside = beside.iter().filter(|region| !region.form.is_firm);
                let is_other = !level.is_like(around.level)
                    || beside.any(|region| !level.is_like(&region.level));
                let mut inside = directive.children().iter().filter(|it| it.name == "location");
                let is_other = is_other || inside.any(has_limits);
                if !is_other {
                    return;
                }
                NginxLoss::RegexLocation(text.clone())
            }
            _ => return,
        };
        self.findings.note(&directive.place, loss);
    }

    fn note_conditions(&mut self, children: &[&Directive], level: &BlockLevel) {
        let conditions = children.iter().filter(|it| it.name == "if");
        for condition in conditions.filter(|_| !level.limits.list.is_empty()) {
            self.findings.note(&condition.place, NginxLoss::If);
        }
    }

    /// Tells of limits beside a `return`; in a server, also of those in its locations.
    fn note_returns(&mut self, directives: &[Directive], is_deep: bool) {
        for directive in directives {
            if directive.name == "limit_req" {
                self.findings.note(&directive.place, NginxLoss::Returns);
            } else if is_deep {
                self.note_returns(directive.children(), true);
            }
        }
    }

    /// Tells of limits that no request meets, unless they are those of the level around.
    fn note_unmet(&mut self, level: &BlockLevel, around: &BlockLevel) {
        if let Some(place) = &level.limits.place
            && !self.site.servers.is_empty()
            && !self.met.contains(place)
            && around.limits.place.as_ref() != Some(place)
        {
            self.findings.note(place, NginxLoss::NeverMet);
        }
    }
}

/// Whether requests are answered before they could be limited.
fn answers_at_once(directives: &[Directive]) -> bool {
    directives.iter().any(|it| it.name == "return")
}

//! What counts wherever it stands: zones, variables, and everything that no rule can say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_document::quote;

use crate::nginx::directive::Directive;
use crate::nginx::key::Definitions;
use crate::nginx::limit::{Zone, zone};
use crate::nginx::note::NginxLoss;
use crate::nginx::place::FilePosition;
use crate::nginx::reader::Findings;

/// What a first look at the files has found.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// In the order of the files.
    pub(super) zones: Vec<Zone>,
    pub(super) definitions: Definitions,
    /// Each `limit_req`: the zone that it names, and where it stands.
    pub(super) uses: Vec<(String, FilePosition)>,
}

impl Survey {
    pub(super) fn read(directives: &[Directive], findings: &mut Findings) -> Self {
        let mut survey = Self::default();
        survey.scan(directives, "", findings);
        survey.refuse_repeated_zones(findings);
        let known = survey.zones.iter().map(|zone| &*zone.name).collect::<HashSet<_>>();
        for (zone, place) in survey.uses.iter().filter(|(zone, _)| !known.contains(&**zone)) {
            findings.note(place, NginxLoss::UnknownZone(zone.clone()));
        }
        let used = survey.uses.iter().map(|(zone, _)| &**zone).collect::<HashSet<_>>();
        for zone in survey.zones.iter().filter(|zone| !used.contains(&*zone.name)) {
            findings.note(&zone.place, NginxLoss::UnusedZone(zone.name.to_string()));
        }
        survey
    }

    fn scan(&mut self, directives: &[Directive], parent: &str, findings: &mut Findings) {
        for directive in directives {
            self.definitions.add(directive);
            match directive.name.as_str() {
                // What stands in these are values, not directives.
                "map" | "geo" | "split_clients" | "types" | "charset_map" => {}
                name => {
                    self.look_at(directive, parent, findings);
                    self.scan(directive.children(), name, findings);
                }
            }
        }
    }

    fn look_at(&mut self, directive: &Directive, parent: &str, findings: &mut Findings) {
        let Directive { name, place, .. } = directive;
        match name.as_str() {
            "limit_req_zone" if matches!(parent, "" | "http") => {
                self.zones.extend(zone(directive, findings));
            }
            "limit_req_zone" => {
                let message = format!("limit_req_zone is not allowed in {}", quote(parent));
                findings.problem(place, &message, "put it into http");
            }
            "limit_req" | "limit_req_status" if matches!(parent, "if" | "limit_except") => {
                let message = format!("{name} is not allowed in {parent}");
                findings.problem(place, &message, "put it into http, a server or a location");
            }
            "limit_req" => {
                let words = directive.arguments.iter().map(|word| &*word.text);
                let zone = words.filter_map(|word| word.strip_prefix("zone=")).next_back();
                self.uses.extend(zone.map(|zone| (zone.to_owned(), place.clone())));
            }
            "limit_req_log_level" => findings.note(place, NginxLoss::LogLevel),
            "limit_rate" | "limit_rate_after" => {
                findings.note(place, NginxLoss::Directive(name.clone()));
            }
            _ if name.starts_with("limit_conn") => {
                findings.note(place, NginxLoss::Directive(name.clone()));
            }
            _ if is_program(name) => findings.note(place, NginxLoss::Program(name.clone())),
            _ => {}
        }
    }

    fn refuse_repeated_zones(&mut self, findings: &mut Findings) {
        let mut known = HashMap::<Arc<str>, FilePosition>::new();
        self.zones.retain(|zone| {
            let first = known.get(&zone.name);
            if let Some(first) = first {
                let message = format!("the zone {} is at {first} already", quote(&zone.name));
                findings.problem(&zone.place, &message, "give every zone a different name");
                return false;
            }
            known.insert(Arc::clone(&zone.name), zone.place.clone());
            true
        });
    }
}

/// Whether the directive runs Lua for each request, before it is answered.
fn is_program(name: &str) -> bool {
    ["rewrite_by_lua", "access_by_lua", "content_by_lua"].iter().any(|it| name.contains(it))
}

//! Limits and where they are in force as rules of a policy.
//!
//! Each limit becomes one rule, or several, if its places cannot be said in one. The rules are then
//! compared with the regions: where one applies that should not, another one replaces it, or it
//! costs nothing there, or it is noted.

mod draft;
mod effort;
mod exception;
mod extent;
mod rule;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_rules::PolicyDocument;

use crate::nginx::key::ZoneKey;
use crate::nginx::limit::Zone;
use crate::nginx::note::{NginxLoss, NginxNote, NoteSubject};
use crate::nginx::reader::Findings;
use crate::nginx::site::Site;
use crate::nginx::survey::Survey;
use crate::nginx::to_document::draft::{RuleDraft, drafts};
use crate::nginx::to_document::effort::Effort;
use crate::nginx::to_document::exception::except;
use crate::nginx::to_document::extent::Extents;
use crate::nginx::to_document::rule::{NginxRuleIds, rule};

/// A zone, and what rules count by in its place.
pub(super) struct CountedZone<'a> {
    zone: &'a Zone,
    key: ZoneKey,
}

/// Makes the policy, with notes on what it cannot say.
pub(super) fn to_document(
    survey: &Survey,
    mut site: Site,
    findings: &mut Findings,
) -> PolicyDocument {
    let mut zones = HashMap::new();
    let used = survey.uses.iter().map(|(zone, _)| &**zone).collect::<HashSet<_>>();
    for zone in survey.zones.iter().filter(|zone| used.contains(&*zone.name)) {
        match ZoneKey::resolve(&zone.key, &survey.definitions) {
            Ok(key) => drop(zones.insert(Arc::clone(&zone.name), CountedZone { zone, key })),
            Err(loss) => findings.note(&zone.place, loss),
        }
    }
    let Some((extents, mut drafts)) = compared(&mut site, &zones, findings) else {
        if let Some(first) = survey.zones.first() {
            let message = "there are too many places, names and limits to compare them all";
            findings.problem(&first.place, message, "import fewer files at a time");
        }
        return PolicyDocument::default();
    };
    except(&site, &extents, &mut drafts);
    note_excess(&mut drafts);
    note_what_counts_apart(&mut drafts);
    for draft in &drafts {
        let subject = || NoteSubject::Rule(Arc::clone(&draft.id));
        let losses = draft.losses.iter().cloned();
        findings.notes.extend(losses.map(|loss| NginxNote { subject: subject(), loss }));
    }
    PolicyDocument {
        rules: drafts.iter().map(|draft| rule(draft, &drafts)).collect(),
        ..PolicyDocument::default()
    }
}

/// The drafts, and how far each of them reaches; none, if that takes too many steps.
fn compared<'a>(
    site: &mut Site,
    zones: &'a HashMap<Arc<str>, CountedZone<'a>>,
    findings: &mut Findings,
) -> Option<(Extents, Vec<RuleDraft<'a>>)> {
    let mut effort = Effort::default();
    let mut drafts = drafts(site, zones, findings, &mut effort)?;
    let mut ids = NginxRuleIds::default();
    for draft in &mut drafts {
        draft.id = ids.give(&draft.limit.zone);
    }
    Some((Extents::measure(site, &mut drafts, &mut effort)?, drafts))
}

/// Where rules apply although they should not.
fn note_excess(drafts: &mut [RuleDraft<'_>]) {
    for draft in drafts {
        let mut known = HashSet::new();
        draft.excess.retain(|place| known.insert(place.clone()));
        if let [place, others @ ..] = &*draft.excess {
            let (place, others) = (place.clone(), others.len());
            draft.note(NginxLoss::AlsoApplies { place, others });
        }
    }
}

/// Limits that use the same counters in nginx.
fn note_what_counts_apart(drafts: &mut [RuleDraft<'_>]) {
    let mut together = HashMap::<_, usize>::new();
    let counters = |draft: &RuleDraft<'_>| (Arc::clone(&draft.limit.zone), draft.part.clone());
    for draft in &*drafts {
        *together.entry(counters(draft)).or_default() += 1;
    }
    for draft in drafts {
        let rules = together.get(&counters(draft)).copied().unwrap_or_default();
        if rules > 1 {
            draft.losses.push(NginxLoss::Apart { zone: Arc::clone(&draft.limit.zone), rules });
        }
    }
}

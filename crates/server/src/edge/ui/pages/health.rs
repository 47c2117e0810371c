//! What works and what does not: stores, catalog, clocks, memory, nodes.

use std::collections::BTreeMap;

use tollgate::Micros;
use tollgate::rules::document::{Consistency, OnStoreFailure, RuleDocument};
use tollgate_dashboard::model::{
    CatalogHealth, FallbackGroup, FallbackMode, FileHealth, Health, HealthFact, HotKey, Section,
};

use super::overview::{memory_of, node_row, store_server};
use crate::admin::auth::Right;
use crate::edge::ui::convert::{identifier, time};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::observe::metrics::MetricsSnapshot;
use crate::observe::recent_traffic::hot::HotCounter;
use crate::policy::load_status::LoadStatus;
use crate::policy::source::PolicySource;

/// How many rules of a group are named.
const NAMED: usize = 5;
/// How long the catalog may be silent and still counts as reachable, in seconds.
const MAX_SILENCE: f64 = 15.0;

/// How many hot counters are listed.
const MAX_HOT: usize = 10;

/// What the page shows.
pub(super) fn gather(visit: &Visit) -> Result<Health, PageProblem> {
    visit.require(Right::Viewer)?;
    let (app, about) = (&visit.ui.app, &visit.ui.about);
    let reading = app.reading();
    let rules_file = match &app.policy_source {
        PolicySource::File(source) => {
            source.file().map_or_else(String::new, |file| file.display().to_string())
        }
        PolicySource::Catalog(_) => String::new(),
    };
    let files = [
        ("rules", rules_file, reading.rules_load.as_deref()),
        ("limits of Envoy", about.envoy_folder.clone(), reading.envoy_load.as_deref()),
    ];
    let file = |(what, path, load): (&str, String, Option<&LoadStatus>)| {
        let load = load?;
        let error = load.error.as_deref().map(str::to_owned);
        let loaded_at = Some(time(load.loaded_at));
        Some(FileHealth { what: what.to_owned(), path, loaded_at, error })
    };
    Ok(Health {
        store: about.store.clone(),
        drift_warning_seconds: about.drift_warning_seconds,
        fallbacks: fallbacks(&visit.visible_rules(), &reading),
        store_latency: visit.node_figures().store_latency(),
        catalog: catalog(visit, &reading),
        files: files.into_iter().filter_map(file).collect(),
        hot_keys: app.hot_counters().into_iter().take(MAX_HOT).map(hot_key).collect(),
        memory: memory_of(visit),
        facts: facts(&reading),
        nodes: Section::Ready(app.nodes().into_iter().map(node_row).collect()),
        cut_off_since: app.unreachable_since().map(time),
        stores: reading.servers.into_iter().map(store_server).collect(),
    })
}

fn hot_key(counter: HotCounter) -> HotKey {
    let identifiers = counter.identifiers.iter();
    HotKey {
        rule_id: counter.rule_id,
        identifiers: identifiers.map(|(kind, value)| identifier(kind, value)).collect(),
        name: counter.name,
        per_second: counter.load.per_second,
        share: counter.load.share,
    }
}

fn catalog(visit: &Visit, reading: &MetricsSnapshot) -> Option<CatalogHealth> {
    let PolicySource::Catalog(catalog_sync) = &visit.ui.app.policy_source else { return None };
    let silence = reading.catalog_silence_seconds;
    let error = catalog_sync.last_error().map(|error| error.to_string());
    let synced_at =
        silence.map(|seconds| time(visit.now().minus(Micros::new((seconds * 1e6) as u64))));
    Some(CatalogHealth {
        location: catalog_sync.catalog.url().to_string(),
        synced_at,
        is_reachable: error.is_none() && silence.is_some_and(|seconds| seconds < MAX_SILENCE),
        error,
        revision: reading.policy_revision,
        copy: (!catalog_sync.was_reached())
            .then(|| "a copy of the policy, because the catalog was away at the start".to_owned()),
    })
}

/// What rules do without the store, in groups.
fn fallbacks(rules: &[RuleDocument], reading: &MetricsSnapshot) -> Vec<FallbackGroup> {
    let counted = reading.rules.iter().map(|(rule_id, counts)| (&**rule_id, counts.degraded));
    let counted: BTreeMap<&str, u64> = counted.collect();
    let mut groups: BTreeMap<(u8, u32), FallbackGroup> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.enabled) {
        let (place, mode, factor) = match (rule.consistency, rule.on_store_failure) {
            (Consistency::Local, _) => (3, FallbackMode::NotShared, 0),
            (_, OnStoreFailure::Closed) => (0, FallbackMode::Closed, 0),
            (_, OnStoreFailure::Open) => (1, FallbackMode::Open, 0),
            (_, OnStoreFailure::Local) => (2, FallbackMode::Local, rule.fallback_factor),
        };
        let group = groups.entry((place, factor)).or_insert_with(|| FallbackGroup {
            mode,
            allowance: match mode {
                FallbackMode::Local => format!("{factor}x the limit on each node"),
                _ => String::new(),
            },
            ..FallbackGroup::default()
        });
        group.rules += 1;
        group.requests += counted.get(rule.rule_id.as_str()).copied().unwrap_or(0);
        if group.rule_ids.len() < NAMED {
            group.rule_ids.push(rule.rule_id.clone());
        }
    }
    groups.into_values().collect()
}

/// Figures that are good or bad.
fn facts(reading: &MetricsSnapshot) -> Vec<HealthFact> {
    let of = |outcomes: &[(&str, u64)], name: &str| {
        outcomes.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    };
    let lost = of(&reading.audit, "lost") + of(&reading.audit, "failed");
    let counts = [
        (
            "Decisions lost for the log",
            lost,
            "Raise audit.rows_per_second, or look at the catalog's disk.",
        ),
        (
            "Counters evicted before they expired",
            reading.evictions,
            "Memory was full: raise the setting memory, or shorten windows.",
        ),
        ("Bans not made", reading.bans.not_made, "The table of bans was full."),
        ("Bans that hold on this node only", reading.bans_not_kept, "The catalog was away."),
        (
            "Refusals not counted towards a ban",
            reading.lost_refusals,
            "There were more at once than the queue holds.",
        ),
        (
            "Configurations that could not be loaded",
            reading.config_errors,
            "The last valid one stays in force; the log says why.",
        ),
        (
            "Copies of the policy in Redis that were refused",
            reading.policy_copy.refused,
            "They were forged, cut, or sealed with another secret.",
        ),
    ];
    let fact = |(name, value, hint): (&str, u64, &str)| HealthFact {
        name: name.to_owned(),
        value: value.to_string(),
        is_bad: value > 0,
        hint: hint.to_owned(),
    };
    counts.into_iter().map(fact).collect()
}

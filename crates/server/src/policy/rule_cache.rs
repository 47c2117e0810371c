//! Rules that nodes publish in the Redis that counts for them: to notify each other of changes, and for
//! a node that starts while the catalog is unavailable.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tollgate::Problem;
use tollgate::store::{PublishedRules, RedisRuleCache};
use tollgate_catalog::{Change, Entry, Kind, Update, Version, View};

/// The rules that a fleet shares in Redis; `None` if it does not count there.
#[derive(Debug, Default)]
pub(crate) struct RuleCache(Option<RedisRuleCache>);

impl RuleCache {
    pub(crate) const fn new(rule_cache: Option<RedisRuleCache>) -> Self {
        Self(rule_cache)
    }

    /// Publishes the rules in force to other nodes. This is best effort: a failure is only logged.
    pub(crate) async fn publish(&self, view: Arc<View>) {
        let Some(rule_cache) = &self.0 else { return };
        // There may be many rules: they are serialised on a thread that no request waits for.
        let published = spawn_blocking(move || published_rules(&view)).await;
        let Ok(Some(published)) = published else { return };
        if let Err(error) = rule_cache.publish(&published).await {
            tracing::debug!("rules were not announced in Redis: {error}");
        }
    }

    /// The last rules that were published in Redis, without clients.
    pub(crate) async fn last_good(&self) -> Option<View> {
        let published = match self.0.as_ref()?.read().await {
            Ok(published) => published?,
            Err(error) => {
                tracing::error!("the rules that were announced in Redis cannot be read: {error}");
                return None;
            }
        };
        match view_of(&published) {
            Ok(view) => Some(view),
            Err(problems) => {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                let told = told.join("; ");
                tracing::error!("the rules that were announced in Redis cannot be used: {told}");
                None
            }
        }
    }

    /// Notifies `woken` whenever a node has published rules. Never ends, unless there is no cache.
    pub(crate) async fn listen(&self, woken: &Notify) {
        let Some(rule_cache) = &self.0 else { return };
        let mut changes = rule_cache.changes();
        while changes.changed().await.is_ok() {
            woken.notify_one();
        }
    }
}

fn published_rules(view: &View) -> Option<PublishedRules> {
    let revision = view.version().revision;
    let rules = view.rules().iter();
    let rules = rules.filter_map(|(id, rule)| Some((id.clone(), json(rule)?))).collect();
    let tiers: Vec<_> = view.tiers().values().collect();
    let (epoch, number, tiers) = (revision.epoch, revision.number, json(&tiers)?);
    Some(PublishedRules { epoch, number, rules, tiers })
}

/// A view of the rules with a version that no catalog has, so that the whole catalog is read once it is
/// available.
fn view_of(published: &PublishedRules) -> Result<View, Vec<Problem>> {
    let unreadable = |_| vec![Problem::new("tiers", "this is not a list of tiers")];
    let tiers: Vec<serde_json::Value> =
        serde_json::from_str(&published.tiers).map_err(unreadable)?;
    let tiers = tiers.iter().map(|tier| created(Kind::Tier, &tier.to_string()));
    let rules = published.rules.iter().map(|(_, rule)| created(Kind::Rule, rule));
    let changes = tiers.chain(rules).collect::<Result<_, _>>()?;
    View::default().apply(&Update::new(Version::default(), changes))
}

fn created(kind: Kind, body: &str) -> Result<Change, Vec<Problem>> {
    Change::created(Entry::parse(kind, body)?).map_err(|problem| vec![problem])
}

fn json(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

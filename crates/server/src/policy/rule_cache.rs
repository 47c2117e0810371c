//! Rules that nodes publish in the Redis that counts for them, to notify each other of changes. Nodes of earlier
//! versions start from them while the catalog is unavailable; others use the copy of the whole policy.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tollgate::store::{PublishedRules, RedisRuleCache};
use tollgate_catalog::View;

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

fn json(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

//! What nodes tell each other through the Redis that they count in: that rules have changed, and which
//! hold, for a node that starts while the catalog is away.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tollgate::Problem;
use tollgate::store::{PublishedRules, RedisRuleCache};
use tollgate_catalog::{Change, Entry, Kind, Update, Version, View};

/// The board of a fleet; none if it does not count in Redis.
#[derive(Debug, Default)]
pub(crate) struct Board(Option<RedisRuleCache>);

impl Board {
    pub(crate) const fn new(board: Option<RedisRuleCache>) -> Self {
        Self(board)
    }

    /// Tells the others which rules hold. That they can be told is no condition for anything.
    pub(crate) async fn publish(&self, view: Arc<View>) {
        let Some(board) = &self.0 else { return };
        // There may be many rules: requests do not wait until all of them are written.
        let announcement = spawn_blocking(move || announcement_of(&view)).await;
        let Ok(Some(announcement)) = announcement else { return };
        if let Err(error) = board.publish(&announcement).await {
            tracing::debug!("rules were not announced in Redis: {error}");
        }
    }

    /// The rules that hold, as far as Redis knows. Clients are not among them.
    pub(crate) async fn last_good(&self) -> Option<View> {
        let announcement = match self.0.as_ref()?.read().await {
            Ok(announcement) => announcement?,
            Err(error) => {
                tracing::error!("the rules that were announced in Redis cannot be read: {error}");
                return None;
            }
        };
        match view_of(&announcement) {
            Ok(view) => Some(view),
            Err(problems) => {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                let told = told.join("; ");
                tracing::error!("the rules that were announced in Redis cannot be used: {told}");
                None
            }
        }
    }

    /// Wakes `woken` whenever a node has announced rules. Never ends, unless there is no board.
    pub(crate) async fn listen(&self, woken: &Notify) {
        let Some(board) = &self.0 else { return };
        let mut changes = board.changes();
        while changes.changed().await.is_ok() {
            woken.notify_one();
        }
    }
}

fn announcement_of(view: &View) -> Option<PublishedRules> {
    let revision = view.version().revision;
    let rules = view.rules().iter();
    let rules = rules.filter_map(|(id, rule)| Some((id.clone(), json(rule)?))).collect();
    let tiers: Vec<_> = view.tiers().values().collect();
    let (epoch, number, tiers) = (revision.epoch, revision.number, json(&tiers)?);
    Some(PublishedRules { epoch, number, rules, tiers })
}

/// A state that no catalog is in, so that all of it is read once it can be.
fn view_of(announcement: &PublishedRules) -> Result<View, Vec<Problem>> {
    let unreadable = |_| vec![Problem::new("tiers", "this is not a list of tiers")];
    let tiers: Vec<serde_json::Value> =
        serde_json::from_str(&announcement.tiers).map_err(unreadable)?;
    let tiers = tiers.iter().map(|tier| created(Kind::Tier, &tier.to_string()));
    let rules = announcement.rules.iter().map(|(_, rule)| created(Kind::Rule, rule));
    let changes = tiers.chain(rules).collect::<Result<_, _>>()?;
    View::default().apply(&Update::new(Version::default(), changes))
}

fn created(kind: Kind, body: &str) -> Result<Change, Vec<Problem>> {
    Change::created(Entry::parse(kind, body)?).map_err(|problem| vec![problem])
}

fn json(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

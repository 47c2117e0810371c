//! Counters in Redis: one server, a master that sentinels choose, or a cluster.
//!
//! All counters of a request are charged in one call of one script, together with whatever other
//! requests wait at that moment. In a cluster that holds for counters of one slot, which are those of
//! one subject; a request that spans slots is charged slot by slot and given back where another slot
//! refused. It never lets too many pass, but what it holds in between may refuse somebody else, and if
//! this process dies in between, the charge stays.

mod address;
mod board;
mod calls;
mod link;
mod node;
mod router;
mod script;
mod slot;
mod spread;
mod spread_once;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Sleep, sleep};
use tollgate_core::{Charge, Key, Timestamp};

pub use self::board::{Announcement, BoardError, RedisBoard};

use self::address::RedisUrl;
use self::router::Router;
use self::spread::{Charges, Part};
use crate::remote::{
    Answer, CounterName, Memo, OwnedCharge, OwnedOnce, OwnedRefund, RemoteSettings, RemoteStatus,
    Request, only_settled,
};
use crate::{Once, Refund, Settled, Settlement, Store, StoreError, StoreErrorKind};

/// Counters in Redis. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct RedisStore {
    router: Arc<Router>,
}

impl RedisStore {
    /// The largest limit, burst or grace included, that can be counted here: numbers of scripts are
    /// doubles.
    pub const LARGEST_LIMIT: u64 = script::LARGEST;

    /// Says what is wrong with a URL, without its password.
    ///
    /// # Errors
    /// That.
    pub fn check_url(url: &str) -> Result<(), String> {
        RedisUrl::parse(url).map(drop)
    }

    /// Counters in the Redis of that URL, which need not be there yet. Has to be called within a tokio
    /// runtime.
    ///
    /// `redis://`, `redis+sentinel://` or `redis+cluster://`; `rediss` instead of `redis` for TLS.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn connect(url: &str, settings: RemoteSettings) -> Result<Self, String> {
        Self::connect_with_script(url, settings, script::SOURCE)
    }

    /// The same with another script, for tests that break it.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    #[doc(hidden)]
    pub fn connect_with_script(
        url: &str,
        settings: RemoteSettings,
        script: &str,
    ) -> Result<Self, String> {
        let router = Router::start(RedisUrl::parse(url)?, settings, script)?;
        Ok(Self { router })
    }

    /// Waits until sentinels or a cluster have said which servers count, but only so long. Says whether
    /// they have; before that, counters are away.
    pub async fn found(&self, patience: Duration) -> bool {
        self.router.found(patience).await
    }

    /// How each server is doing.
    #[must_use]
    pub fn status(&self) -> Vec<RemoteStatus> {
        let routes = self.router.routes.load();
        routes.ways().iter().map(|way| way.node.breaker.status()).collect()
    }

    /// The text of a counter's state, for tests.
    #[doc(hidden)]
    pub async fn state_text(&self, key: &Key<'_>) -> Option<String> {
        let name = CounterName::of(key);
        let way = self.router.routes.load().way(slot::slot(&name)).cloned()?;
        let key = script::key(&self.router.url.prefix, &name);
        let ask = |command: redis::Cmd| {
            let (router, node) = (Arc::clone(&self.router), Arc::clone(&way.node));
            async move { router.run(node, |_| command.clone()).await.ok() }
        };
        let mut get = redis::cmd("GET");
        get.arg(&key);
        if let Some(redis::Value::BulkString(text)) = ask(get).await {
            return String::from_utf8(text).ok();
        }
        let mut range = redis::cmd("LRANGE");
        range.arg(&key).arg(0).arg(-1);
        let list: Vec<String> = redis::from_redis_value(ask(range).await?).ok()?;
        script::log_text(&list)
    }

    fn deadline(&self) -> Duration {
        self.router.settings.deadline
    }

    /// Charges that can travel.
    fn owned(charges: &[Charge<'_>]) -> Result<Charges, StoreError> {
        if let Some(charge) = charges.iter().find(|charge| !script::holds(charge.limit)) {
            let why = format!("the limit of {:?} is too large for Redis", charge.key);
            return Err(StoreError::new(StoreErrorKind::Refused, why));
        }
        Ok(charges.iter().map(OwnedCharge::new).collect())
    }

    /// The slot of charges, if all have the same.
    fn slot_of_all(&self, charges: &[OwnedCharge]) -> Option<u16> {
        let mut slots = charges.iter().map(|charge| self.slot(&charge.name));
        let first = slots.next()?;
        slots.all(|slot| slot == first).then_some(first)
    }

    /// Sends charges on their way.
    fn begin(&self, charges: &[Charge<'_>], now: Timestamp) -> Result<Begun, StoreError> {
        let charges = Self::owned(charges)?;
        if charges.is_empty() {
            return Ok(Begun::Nothing);
        }
        let Some(slot) = self.slot_of_all(&charges) else {
            let spread = spread::settle(Arc::clone(&self.router), charges, now);
            return Ok(Begun::Spread(tokio::spawn(spread)));
        };
        Ok(Begun::Together(Part::send(&self.router, slot, Request::Settle(charges), now)?))
    }

    async fn ask(&self, slot: u16, request: Request, now: Timestamp) -> Answer {
        let part = Part::send(&self.router, slot, request, now)?;
        part.answer(&mut std::pin::pin!(sleep(self.deadline()))).await
    }

    /// Asks about several counters, slot by slot.
    async fn ask_each<T>(
        &self,
        items: impl Iterator<Item = (u16, T)>,
        request: impl Fn(SmallVec<[T; 4]>) -> Request,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut by_slot: SmallVec<[(u16, SmallVec<[T; 4]>); 1]> = SmallVec::new();
        for (slot, item) in items {
            match by_slot.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, items)) => items.push(item),
                None => by_slot.push((slot, SmallVec::from_iter([item]))),
            }
        }
        let mut outcome = Ok(());
        for (slot, items) in by_slot {
            let answer = self.ask(slot, request(items), now).await;
            outcome = outcome.and(answer.map(drop));
        }
        outcome
    }

    /// The slot of a counter; without a cluster all are one.
    fn slot(&self, name: &CounterName) -> u16 {
        if self.router.is_cluster() { slot::slot(name) } else { 0 }
    }
}

/// Charges that are on their way.
enum Begun {
    Nothing,
    Together(Part),
    Spread(tokio::task::JoinHandle<Answer>),
}

impl Begun {
    async fn finish(self, now: Timestamp, expiry: &mut std::pin::Pin<&mut Sleep>) -> Answer {
        match self {
            Self::Nothing => Ok(nothing_settled(now)),
            Self::Together(part) => part.answer(expiry).await,
            // It has deadlines of its own, and gives back what it must even if nobody waits.
            Self::Spread(task) => {
                task.await.unwrap_or_else(|_| Err(StoreErrorKind::Unavailable.into()))
            }
        }
    }
}

fn nothing_settled(now: Timestamp) -> Settled {
    Settled::First(Settlement { now, passed: true, ..Settlement::default() })
}

impl Store for RedisStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Result<Settlement, StoreError> {
        let begun = self.begin(charges, now)?;
        only_settled(begun.finish(now, &mut std::pin::pin!(sleep(self.deadline()))).await)
    }

    async fn settle_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        once: &Once<'_>,
    ) -> Result<Settled, StoreError> {
        let charges = Self::owned(charges)?;
        let Some(first) = charges.first() else { return Ok(nothing_settled(now)) };
        // In a cluster, whatever one call reads and writes has to lie in one slot.
        let once = OwnedOnce::new(once, self.router.is_cluster().then_some(&first.name));
        let router = Arc::clone(&self.router);
        let Some(slot) = self.slot_of_all(&charges) else {
            let spread = tokio::spawn(spread_once::settle(router, charges, now, once));
            return spread.await.unwrap_or_else(|_| Err(StoreErrorKind::Unavailable.into()));
        };
        let mut expiry = std::pin::pin!(sleep(self.deadline()));
        let request = Request::SettleOnce(charges, Box::new(once));
        let mut settled = spread_once::ask(&router, slot, request, now, &mut expiry).await;
        if let Ok(Settled::Again { note, .. }) = &mut settled {
            *note = note.parse().map(|memo: Memo| memo.note).unwrap_or_default();
        }
        settled
    }

    async fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> Vec<Result<Settlement, StoreError>> {
        let begun: Vec<Result<Begun, StoreError>> =
            requests.iter().map(|charges| self.begin(charges, now)).collect();
        let mut expiry = std::pin::pin!(sleep(self.deadline()));
        let mut answers = Vec::with_capacity(requests.len());
        for begun in begun {
            answers.push(match begun {
                Ok(begun) => only_settled(begun.finish(now, &mut expiry).await),
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn refund(&self, refunds: &[Refund<'_>], now: Timestamp) -> Result<(), StoreError> {
        let refunds = refunds.iter().filter(|refund| script::holds(refund.limit));
        let refunds: SmallVec<[OwnedRefund; 4]> = refunds.map(OwnedRefund::new).collect();
        let refunds = refunds.into_iter().map(|refund| (self.slot(&refund.name), refund));
        self.ask_each(refunds, Request::Refund, now).await
    }

    async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        let names: SmallVec<[CounterName; 4]> = keys.iter().map(CounterName::of).collect();
        let names = names.into_iter().map(|name| (self.slot(&name), name));
        self.ask_each(names, Request::Reset, calls::NO_MOMENT).await
    }
}

//! Counters in Redis: one server, a master elected by sentinels, or a cluster.
//!
//! All counters of a request are charged in one call of one script, together with other requests that wait. In a
//! cluster that is true for counters of one slot, which are those of one subject; a request that spans slots is
//! charged slot by slot, and refunded if another slot refused. It never admits too much, but until the refund other
//! requests may be refused, and if this process dies before it, the charge stays.

mod address;
mod calls;
mod connection;
mod cross_slot;
mod cross_slot_idempotent;
mod fleet_mark;
mod listener;
#[cfg(feature = "postgres")]
mod mailbox;
mod node;
mod old_counters;
mod pending_call;
mod policy_copy;
mod probe;
mod record;
mod record_name;
mod refund_once;
mod router;
mod rule_cache;
mod script;
mod show;
mod slot;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};
use tollgate_core::{Charge, Key, Timestamp};

#[cfg(feature = "postgres")]
pub(crate) use self::mailbox::{RedisMailbox, RedisSubscriptions};
pub use self::policy_copy::{
    PolicyCopyError, PolicyCopyHead, PolicyPublication, RedisPolicyCopy, SealedPolicy,
};
pub use self::rule_cache::{PublishedRules, RedisRuleCache, RuleCacheError};
pub use self::show::{KeyContent, StoredCounter};

use self::address::RedisUrl;
use self::old_counters::MAX_LOOKUPS;
use self::pending_call::PendingCall;
use self::record::Record;
use self::record_name::RecordNames;
use self::router::Router;
use crate::remote::{
    CounterName, IdempotencyRecord, OpResult, OwnedCharge, OwnedCharges, OwnedIdempotencyKey,
    OwnedOp, OwnedRecordRef, OwnedRefund, RemoteSettings, RemoteStatus,
};
use crate::{
    Op, OpOutcome, Outcomes, RecordRef, Refund, SettleRequest, Settlement, Store, StoreError,
    StoreErrorKind,
};

/// Counters in Redis. Clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    router: Arc<Router>,
}

impl RedisStore {
    /// The largest limit, including burst or grace, that can be counted here: numbers of scripts are doubles.
    pub const MAX_LIMIT: u64 = script::MAX_SCRIPT_LIMIT;

    /// Checks a URL.
    ///
    /// # Errors
    /// What is wrong with it, without its password.
    pub fn check_url(url: &str) -> Result<(), String> {
        RedisUrl::parse(url).map(drop)
    }

    /// Counters in the Redis at a URL, which is connected to in the background. Has to be called within a tokio
    /// runtime.
    ///
    /// `redis://`, `redis+sentinel://` or `redis+cluster://`; `rediss` instead of `redis` for TLS.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn connect(url: &str, settings: RemoteSettings) -> Result<Self, String> {
        Self::connect_with_script(url, settings, script::SOURCE)
    }

    /// Connects with another script, for tests that break it.
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

    /// Waits until sentinels or a cluster have named the servers, at most for `max_wait`. Returns whether they have;
    /// before that, the store is unavailable.
    pub async fn found(&self, max_wait: Duration) -> bool {
        self.router.found(max_wait).await
    }

    /// The status of each server.
    #[must_use]
    pub fn status(&self) -> Vec<RemoteStatus> {
        let slot_table = self.router.slot_table.load();
        slot_table.routes().iter().map(|route| route.node.breaker.status()).collect()
    }

    /// The script, for tests that break it.
    #[doc(hidden)]
    pub const SCRIPT: &str = script::SOURCE;

    /// The keys of a counter: its record, and its log if it is one.
    #[doc(hidden)]
    #[must_use]
    pub fn keys_of(&self, key: &Key<'_>) -> [String; 2] {
        let (name, prefix) = (self.names().counter(key), &self.router.url.prefix);
        [format!("{prefix}{}", record_name::split(&name).0), script::key(prefix, &name)]
    }

    /// The text of a counter's state, for tests.
    #[doc(hidden)]
    pub async fn state_text(&self, key: &Key<'_>) -> Option<String> {
        let name = self.names().counter(key);
        let route = self.router.slot_table.load().route(self.slot(&name)).cloned()?;
        let (record, tag) = record_name::split(&name);
        let prefix = &self.router.url.prefix;
        let ask = |command: redis::Cmd| {
            let (router, node) = (Arc::clone(&self.router), Arc::clone(&route.node));
            async move { router.run(node, |_| command.clone()).await.ok() }
        };
        let mut get = redis::cmd("GET");
        get.arg(format!("{prefix}{record}"));
        let Some(redis::Value::BulkString(bytes)) = ask(get).await else { return None };
        let entry = Record::read(&bytes)?.entry(tag)?;
        if let Some(state) = entry.state() {
            return Some(state.to_string());
        }
        let mut range = redis::cmd("LRANGE");
        range.arg(script::key(prefix, &name)).arg(0).arg(-1);
        let list: Vec<String> = redis::from_redis_value(ask(range).await?).ok()?;
        script::log_text(&list)
    }

    /// Sends refunds.
    fn send_refunds(&self, refunds: &[Refund<'_>], now: Timestamp) -> Begun {
        let names = self.names();
        let refunds = refunds.iter().filter(|refund| script::holds(refund.limit));
        let refunds = refunds.map(|refund| OwnedRefund::new(refund, names.counter(&refund.key)));
        let mut refunds: SmallVec<[(u16, OwnedRefund); 4]> =
            refunds.map(|refund| (self.slot(&refund.name), refund)).collect();
        let first = refunds.first().map(|(slot, _)| *slot);
        if refunds.iter().any(|(slot, _)| Some(*slot) != first) {
            refunds.iter_mut().for_each(|(_, refund)| refund.slack_ms = cross_slot::SLACK_MS);
        }
        self.send_each(refunds.into_iter(), OwnedOp::Refund, now)
    }

    /// Sends resets.
    fn send_resets(&self, keys: &[Key<'_>], now: Timestamp) -> Begun {
        let names = self.names();
        let counters = keys.iter().map(|key| names.counter(key));
        let counters = counters.map(|name| (self.slot(&name), name));
        self.send_each(counters, OwnedOp::Reset, now)
    }

    /// What looks for the record of an idempotency key, and may forget it.
    fn find_record(&self, record: &RecordRef<'_>, is_forgotten: bool) -> Begun {
        let names = self.names();
        let beside = names.is_cluster.then(|| names.counter(&record.beside));
        let record = OwnedRecordRef::new(record, beside.as_ref(), is_forgotten);
        let slot = self.slot(&record.record_name);
        Begun::Idempotent { slot, op: Box::new(OwnedOp::Record(Box::new(record))) }
    }

    /// Sends a request that charges.
    fn send_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        let SettleRequest { charges, idempotency, is_dry_run } = *request;
        if let Some(charge) = charges.iter().find(|charge| !script::holds(charge.limit)) {
            let why = format!("the limit of {:?} is too large for Redis", charge.key);
            return Err(StoreError::new(StoreErrorKind::Refused, why));
        }
        let names = self.names();
        let owned = |charge| OwnedCharge::new(charge, names.counter(&charge.key));
        let counters = charges;
        let charges: OwnedCharges = charges.iter().map(owned).collect();
        if let Some((one, other)) = same_counter(&charges) {
            let [one, other] = [one, other].map(|place| counters.get(place).map(|it| it.key.rule));
            let why = format!(
                "the ids {} and {} have the same hash, so that Redis would count both rules as one: change one of them",
                one.unwrap_or_default(),
                other.unwrap_or_default()
            );
            return Err(StoreError::new(StoreErrorKind::Refused, why));
        }
        let Some(first) = charges.first() else { return Ok(Begun::Nothing) };
        // In a cluster, everything that one call reads and writes has to be in one slot.
        let beside = self.router.is_cluster().then_some(&first.name);
        let idempotency = idempotency.map(|key| Box::new(OwnedIdempotencyKey::new(key, beside)));
        let mut slots = charges.iter().map(|charge| self.slot(&charge.name));
        let slot = slots.next().filter(|first| slots.all(|slot| slot == *first));
        let router = Arc::clone(&self.router);
        Ok(match (slot, idempotency) {
            (Some(slot), None) => {
                let op = OwnedOp::Settle { charges, idempotency: None, is_dry_run };
                Begun::Calls(smallvec![PendingCall::send(&router, slot, op, now)])
            }
            (Some(slot), idempotency) => {
                let op = OwnedOp::Settle { charges, idempotency, is_dry_run };
                Begun::Idempotent { slot, op: Box::new(op) }
            }
            // These have timeouts and refund what they must even if the caller stops waiting.
            (None, None) => {
                let settling = cross_slot::settle(router, charges, is_dry_run, now);
                Begun::CrossSlot(tokio::spawn(settling))
            }
            (None, Some(key)) => {
                let settling =
                    cross_slot_idempotent::settle(router, charges, *key, is_dry_run, now);
                Begun::CrossSlot(tokio::spawn(settling))
            }
        })
    }

    /// Sends several items to the servers that have their slots.
    fn send_each<T>(
        &self,
        items: impl Iterator<Item = (u16, T)>,
        op: impl Fn(SmallVec<[T; 4]>) -> OwnedOp,
        now: Timestamp,
    ) -> Begun {
        let mut by_slot: SmallVec<[(u16, SmallVec<[T; 4]>); 1]> = SmallVec::new();
        for (slot, item) in items {
            match by_slot.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, items)) => items.push(item),
                None => by_slot.push((slot, SmallVec::from_iter([item]))),
            }
        }
        let send = |(slot, items)| PendingCall::send(&self.router, slot, op(items), now);
        Begun::Calls(by_slot.into_iter().map(send).collect())
    }

    async fn finish(&self, begun: Begun, now: Timestamp, expiry: &mut Pin<&mut Sleep>) -> OpResult {
        match begun {
            Begun::Nothing => {
                Ok(OpOutcome::Settled(Settlement { now, passed: true, ..Settlement::default() }))
            }
            Begun::Calls(calls) => {
                let mut result = Ok(OpOutcome::Done);
                for call in calls {
                    let one = match call {
                        Ok(call) => call.result(expiry).await,
                        Err(error) => Err(error),
                    };
                    result = result.and(one);
                }
                result
            }
            Begun::Idempotent { slot, op } => {
                let mut result =
                    PendingCall::run_idempotent(&self.router, slot, *op, now, expiry).await;
                if let Ok(OpOutcome::Replayed { note, .. }) = &mut result {
                    let record = note.parse().map(|record: IdempotencyRecord| record.note);
                    *note = record.unwrap_or_default();
                }
                result
            }
            // Boxed, so that the futures of checks stay small.
            Begun::RefundOnce(parts) => Box::pin(self.finish_refund(parts, now, expiry)).await,
            Begun::CrossSlot(task) => {
                task.await.unwrap_or_else(|_| Err(StoreErrorKind::Unavailable.into()))
            }
        }
    }

    /// The names of counters, under the key that the fleet has now.
    fn names(&self) -> RecordNames {
        let key = self.router.settings.gate.counter_key();
        RecordNames { key, is_cluster: self.router.is_cluster() }
    }

    /// The slot of a counter; without a cluster all are one.
    fn slot(&self, name: &CounterName) -> u16 {
        if self.router.is_cluster() { slot::slot(name) } else { 0 }
    }
}

/// Two charges of a request that have one counter: their rules have one tag. Policies with such rules are refused where they
/// are loaded, but callers of the library can do without.
fn same_counter(charges: &[OwnedCharge]) -> Option<(usize, usize)> {
    charges.iter().enumerate().find_map(|(place, charge)| {
        let earlier = charges.get(..place)?.iter();
        Some((earlier.enumerate().find(|(_, it)| it.name == charge.name)?.0, place))
    })
}

/// An operation that was sent.
enum Begun {
    /// A request without charges.
    Nothing,
    /// One call for each slot.
    Calls(SmallVec<[Result<PendingCall, StoreError>; 1]>),
    /// One call, which may have to be repeated.
    Idempotent { slot: u16, op: Box<OwnedOp> },
    /// One call for each slot, which may have to be repeated.
    RefundOnce(Vec<(u16, OwnedOp)>),
    /// A task that makes the calls for a request of several slots.
    CrossSlot(JoinHandle<OpResult>),
}

impl Store for RedisStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn naming(&self) -> u64 {
        self.router.settings.gate.counter_key().map_or(0, |key| key.id())
    }

    fn record_key(&self, key: &Key<'_>) -> Option<String> {
        let [record, _] = self.keys_of(key);
        Some(record)
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        let send = |op: &Op<'_>| match op {
            Op::Settle(request) => self.send_settle(request, now),
            Op::Refund(refunds) => Ok(self.send_refunds(refunds, now)),
            Op::RefundOnce(once) => self.refund_once(once).map(Begun::RefundOnce),
            Op::Reset(keys) => Ok(self.send_resets(keys, now)),
            Op::FindRecord(record) => Ok(self.find_record(record, false)),
            Op::ForgetRecord(record) => Ok(self.find_record(record, true)),
        };
        let mut expiry = pin!(sleep(self.router.settings.deadline));
        let charges = ops.iter().flat_map(|op| match op {
            Op::Settle(request) => request.charges,
            _ => &[],
        });
        let old = charges.filter(|charge| self.may_be_old(charge, now)).take(MAX_LOOKUPS);
        let old: SmallVec<[Charge<'_>; 0]> = old.copied().collect();
        if !old.is_empty() {
            // Boxed, so that the futures of checks stay small.
            Box::pin(self.carry_over(&old, now, &mut expiry)).await;
        }
        let begun: SmallVec<[Result<Begun, StoreError>; 1]> = ops.iter().map(send).collect();
        let mut outcomes = Outcomes::with_capacity(ops.len());
        for begun in begun {
            outcomes.push(match begun {
                Ok(begun) => self.finish(begun, now, &mut expiry).await,
                Err(error) => Err(error),
            });
        }
        outcomes
    }
}

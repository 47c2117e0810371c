//! Counters as they were before records: each was a text under its own key. The first check of a client carries over
//! what such a counter says was used: it is read, and debited once, whichever node does it. From then on nodes of each
//! form count for themselves, and neither can misread the other: their keys differ.
//!
//! The keys of old counters are not keyed with the fleet's secret: all who can write to Redis could block a client by one. So
//! they matter for a limited time after the upgrade.

use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::{Cmd, Value, cmd};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, State, Timestamp};

use super::slot::slot_of_key;
use super::{Begun, RedisStore, script};
use crate::{IdempotencyKey, SettleRequest, StoreError, StoreErrorKind};

const FIRST_MET_SCRIPT: &str = include_str!("first_met.lua");
/// The key that says when nodes of this version first met the store, without its prefix.
const FIRST_MET_NAME: &str = "records";
const DIGEST_BYTES: usize = 16;
/// How many counters a node remembers to have carried over, or found to have nothing. A forgotten one is looked for
/// again, and not debited again.
const REMEMBERED_CAPACITY: usize = 1 << 16;
/// How many old counters are looked for at once. Others are left for the next check of their clients, so that no batch
/// waits long.
pub(super) const MAX_LOOKUPS: usize = 64;
/// Not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Whether counters of earlier versions may be in the store, and which of them were dealt with.
pub(super) struct OldCounters {
    /// When nodes of this version first met the store, in microseconds; 0 if there are no old counters.
    first_met: AtomicU64,
    /// Fingerprints, each in the place of its lowest bits. Most stores never had old counters.
    done: OnceLock<Box<[AtomicU64]>>,
}

impl Default for OldCounters {
    fn default() -> Self {
        Self { first_met: AtomicU64::new(UNKNOWN), done: OnceLock::new() }
    }
}

impl fmt::Debug for OldCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldCounters").field("first_met", &self.first_met).finish_non_exhaustive()
    }
}

impl OldCounters {
    /// Whether what an old counter of this limit says may still matter. A first meeting that is as far in the future was
    /// forged, to prolong that time.
    fn matter(&self, limit: &Limit, now: Timestamp, max_time: Duration) -> bool {
        let met = self.first_met.load(Relaxed);
        let max_time = u64::try_from(max_time.as_micros()).unwrap_or(u64::MAX);
        let lasts = limit.window().get().saturating_mul(2).min(max_time);
        met != 0 && met != UNKNOWN && now.as_micros().abs_diff(met) < lasts
    }

    fn place(&self, key: &Key<'_>) -> Option<&AtomicU64> {
        let empty = || (0..REMEMBERED_CAPACITY).map(|_| AtomicU64::new(0)).collect();
        self.done.get_or_init(empty).get(key.fingerprint as usize % REMEMBERED_CAPACITY)
    }

    fn is_done(&self, key: &Key<'_>) -> bool {
        self.place(key).is_some_and(|place| place.load(Relaxed) == key.fingerprint)
    }

    fn set_done(&self, key: &Key<'_>) {
        if let Some(place) = self.place(key) {
            place.store(key.fingerprint, Relaxed);
        }
    }
}

impl RedisStore {
    /// Asks the store once whether it may have counters of earlier versions.
    pub(super) async fn note_first_met(&self) -> Result<(), StoreError> {
        let old = &self.router.old_counters;
        if old.first_met.load(Relaxed) != UNKNOWN {
            return Ok(());
        }
        let key = format!("{}{FIRST_MET_NAME}", self.router.url.prefix);
        let mut ask = cmd("EVAL");
        ask.arg(FIRST_MET_SCRIPT).arg(1).arg(&key);
        let met: String = redis::from_redis_value(self.ask(&key, ask).await?)
            .map_err(|_| StoreErrorKind::Corrupt)?;
        old.first_met.store(met.parse().map_err(|_| StoreErrorKind::Corrupt)?, Relaxed);
        Ok(())
    }

    /// Whether a charge may have an old counter that was not dealt with yet.
    pub(super) fn may_be_old(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        let old = &self.router.old_counters;
        let max_time = self.router.settings.carry_over;
        old.matter(charge.limit, now, max_time)
            && !old.is_done(&charge.key)
            && script::holds(charge.limit)
    }

    /// Carries over what was used in the old counters of these charges. What cannot be read in time is left for the next
    /// check.
    pub(super) async fn carry_over(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        expiry: &mut Pin<&mut Sleep>,
    ) {
        let mut lookups = JoinSet::new();
        for (place, charge) in charges.iter().enumerate() {
            let (store, name, limit) = (self.clone(), old_name(&charge.key), *charge.limit);
            lookups.spawn(async move { (place, store.old_state(&name, &limit).await) });
        }
        let mut debits = Vec::new();
        loop {
            let found = tokio::select! {
                biased;
                found = lookups.join_next() => found,
                () = expiry.as_mut() => return,
            };
            let Some(found) = found else { break };
            let Ok((place, Ok(state))) = found else { continue };
            let Some(charge) = charges.get(place) else { continue };
            match self.debit(charge, state.as_ref(), now) {
                None => self.router.old_counters.set_done(&charge.key),
                Some(Ok(begun)) => debits.push((charge.key, begun)),
                Some(Err(_)) => {}
            }
        }
        for (key, begun) in debits {
            if self.finish(begun, now, expiry).await.is_ok() {
                self.router.old_counters.set_done(&key);
            }
        }
    }

    /// Sends a debit of what an old counter says was used; `None` if nothing was. It is made once, whichever node sends it.
    fn debit(
        &self,
        charge: &Charge<'_>,
        old: Option<&State>,
        now: Timestamp,
    ) -> Option<Result<Begun, StoreError>> {
        let Charge { key, limit, .. } = charge;
        let used = limit.capacity().saturating_sub(limit.report(old, now, 0, true).remaining);
        if used == 0 {
            return None;
        }
        let id = digest_of(&[b"old counter ", old_name(key).as_bytes()]);
        let once = IdempotencyKey {
            call: id,
            body: id,
            note: "",
            lifetime: Micros::new(limit.window().get().saturating_mul(2)),
        };
        let debit = [Charge { key: *key, limit, cost: used, mode: Mode::Debit }];
        let request =
            SettleRequest { charges: &debit, idempotency: Some(&once), is_dry_run: false };
        Some(self.send_settle(&request, now))
    }

    async fn old_state(&self, name: &str, limit: &Limit) -> Result<Option<State>, StoreError> {
        let key = format!("{}{name}", self.router.url.prefix);
        let slot = if self.router.is_cluster() { slot_of_key(&key) } else { 0 };
        let slot_table = self.router.slot_table.load();
        if !slot_table.route(slot).is_some_and(|route| route.node.breaker.is_closed()) {
            return Err(StoreErrorKind::Unavailable.into());
        }
        drop(slot_table);
        let is_log = limit.algorithm() == Algorithm::SlidingWindowLog;
        let mut read: Cmd;
        if is_log {
            read = cmd("LRANGE");
            read.arg(&key).arg(0).arg(-1);
        } else {
            read = cmd("GETRANGE");
            read.arg(&key).arg(0).arg(128);
        }
        let found = match self.ask(&key, read).await {
            Ok(found) => found,
            // The rule has another algorithm than it had: what was counted by that one does not count.
            Err(error) if error.kind() == StoreErrorKind::Refused => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = match found {
            Value::BulkString(text) => String::from_utf8(text).ok(),
            Value::Array(_) => redis::from_redis_value::<Vec<String>>(found)
                .ok()
                .and_then(|list| script::log_text(&list)),
            _ => None,
        };
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

/// The name of a counter in earlier versions: `{digest of the subject}:rule`, and if the rule counts by more than the
/// subject, `:digest of the rest`.
fn old_name(key: &Key<'_>) -> String {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(digest_of(&[bytes]));
    let mut name = format!("{{{}}}:{}", text(key.subject), key.rule);
    if !key.rest.is_empty() {
        name.push(':');
        name.push_str(&text(key.rest));
    }
    name
}

fn digest_of(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let digest = digest(&SHA256, &parts.concat());
    let mut bytes = [0; DIGEST_BYTES];
    bytes.copy_from_slice(digest.as_ref().get(..DIGEST_BYTES).unwrap_or(&[0; DIGEST_BYTES]));
    bytes
}

//! Any of the stores, chosen by a URL when a program starts.

use std::fmt;

use tollgate_core::{Key, Timestamp};

use crate::mailbox::{MailCarrier, Mailbox, StoreSubscriptions};
use crate::postgres::{PostgresMailbox, PostgresStore};
use crate::redis::{RedisMailbox, RedisStore, RedisSubscriptions};
use crate::remote::{FleetMark, StoreMark, StoreNumber};
use crate::{
    DenyCache, KeyContent, MemoryStore, Op, Outcomes, RedisPolicyCopy, RemoteSettings,
    RemoteStatus, SettleRequest, Settlement, Store, StoreError,
};

const HELP: &str = "write memory:, redis://host:port, redis+sentinel://hosts/name-of-the-master, \
                    redis+cluster://hosts or postgres://user@host/database";

/// Where counters live, as a URL. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Counters in this process.
    pub const MEMORY: &str = "memory:";

    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, without its password.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':').map_or(text, |(scheme, _)| scheme) {
            "memory" if text == Self::MEMORY || text == "memory" => {
                return Ok(Self(Self::MEMORY.to_owned()));
            }
            scheme if scheme.starts_with("redis") => RedisStore::check_url(text)?,
            "postgres" | "postgresql" => PostgresStore::check_url(text)?,
            _ => return Err(HELP.to_owned()),
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it is Redis, which has a largest limit.
    #[must_use]
    pub fn is_redis(&self) -> bool {
        self.0.starts_with("redis")
    }

    /// The copy of the policy in the Redis at this URL; `None` for other stores.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn policy_copy(
        &self,
        settings: &RemoteSettings,
    ) -> Result<Option<RedisPolicyCopy>, String> {
        self.is_redis().then(|| RedisPolicyCopy::connect(&self.0, settings)).transpose()
    }

    /// Whether other processes share the counters.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0 != Self::MEMORY
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self(Self::MEMORY.to_owned())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rest, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        match rest.split_once("://").map(|(scheme, rest)| (scheme, rest.rsplit_once('@'))) {
            Some((scheme, Some((who, place)))) => {
                let user = who.split_once(':').map_or(who, |(user, _)| user);
                let secret = if who.contains(':') { ":***" } else { "" };
                write!(f, "{scheme}://{user}{secret}@{place}")?;
            }
            _ => f.write_str(rest)?,
        }
        for (number, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = if name.contains("password") { "***" } else { value };
            write!(f, "{}{name}={value}", if number == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One of the stores. Those across a network have a deny cache.
#[derive(Debug)]
pub enum AnyStore {
    /// Counters in this process.
    Memory(MemoryStore),
    /// Counters in Redis.
    Redis(Box<DenyCache<RedisStore>>),
    /// Counters in PostgreSQL.
    Postgres(Box<DenyCache<PostgresStore>>),
}

impl AnyStore {
    /// Opens the store at a URL. Counters in memory take at most `bytes`; the others need a tokio runtime, but
    /// connect in the background.
    ///
    /// # Errors
    /// Why the store cannot be opened.
    pub fn open(url: &StoreUrl, bytes: usize, settings: &RemoteSettings) -> Result<Self, String> {
        if !url.is_shared() {
            return Ok(Self::Memory(MemoryStore::with_bytes(bytes)));
        }
        Ok(if url.is_redis() {
            let store = RedisStore::connect(&url.0, settings.clone())?;
            Self::Redis(Box::new(DenyCache::lasting(store, settings.deny_cache)))
        } else {
            let store = PostgresStore::connect(&url.0, settings.clone())?;
            Self::Postgres(Box::new(DenyCache::lasting(store, settings.deny_cache)))
        })
    }

    /// The store in memory, if it is one.
    #[must_use]
    pub const fn memory(&self) -> Option<&MemoryStore> {
        match self {
            Self::Memory(store) => Some(store),
            Self::Redis(_) | Self::Postgres(_) => None,
        }
    }

    /// What nodes that share this store tell each other through it: messages to the node of this name, and rules if
    /// `has_rules` and the store is Redis. `url` is that of this store. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn subscribe(
        &self,
        url: &StoreUrl,
        node: &str,
        has_rules: bool,
        settings: &RemoteSettings,
    ) -> Result<StoreSubscriptions, String> {
        Ok(match self {
            Self::Memory(_) => StoreSubscriptions::default(),
            Self::Redis(_) => {
                let RedisSubscriptions { mailbox, inbox, rule_cache } =
                    RedisMailbox::connect(&url.0, node, has_rules, settings)?;
                let mailbox = Some((Mailbox(MailCarrier::Redis(mailbox)), inbox));
                StoreSubscriptions { mailbox, rule_cache }
            }
            Self::Postgres(store) => {
                let (mailbox, inbox) = PostgresMailbox::connect(store.inner(), node);
                let mailbox = Some((Mailbox(MailCarrier::Postgres(mailbox)), inbox));
                StoreSubscriptions { mailbox, rule_cache: None }
            }
        })
    }

    /// What is at a key of Redis; nothing, if the store is another.
    ///
    /// # Errors
    /// Redis cannot be reached, or refuses.
    pub async fn content_at(&self, key: &str) -> Result<KeyContent, StoreError> {
        match self {
            Self::Redis(store) => store.inner().content_at(key).await,
            Self::Memory(_) | Self::Postgres(_) => Ok(KeyContent::Nothing),
        }
    }

    /// The status of each server; empty for counters in memory.
    #[must_use]
    pub fn status(&self) -> Vec<RemoteStatus> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(store) => store.inner().status(),
            Self::Postgres(store) => store.inner().status(),
        }
    }

    /// Probes each server that had no call since this was last called, or whose circuit breaker is open, so that
    /// [`AnyStore::status`] is not old. Returns whether some of them fail, but not often enough yet to open their circuit
    /// breakers: then they should be probed again soon.
    pub async fn probe_idle(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Redis(store) => store.inner().probe_idle().await,
            Self::Postgres(store) => store.inner().probe_idle().await,
        }
    }

    /// Leaves the mark of a fleet in a shared store if it has none and `may_claim`; returns whose mark is there, and the
    /// number of the store. Nodes without a secret leave one that lasts as long as they ask. The mark of the `previous` secret lasts
    /// as long as nodes ask that have it as theirs. Counters in memory are always ours, and have no number.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn claim(
        &self,
        ours: Option<&str>,
        previous: Option<&str>,
        may_claim: bool,
    ) -> Result<(StoreMark, Option<StoreNumber>), StoreError> {
        let mark = FleetMark::new(ours, previous, may_claim);
        let (found, number) = match self {
            Self::Memory(_) => return Ok((StoreMark::Ours, None)),
            Self::Redis(store) => store.inner().fleet_mark(&mark).await?,
            Self::Postgres(store) => store.inner().fleet_mark(&mark).await?,
        };
        Ok((mark.owner_of(&found), Some(number)))
    }

    /// How many requests were refused without a call to a server.
    #[must_use]
    pub fn deny_cache_hits(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(store) => store.hits(),
            Self::Postgres(store) => store.hits(),
        }
    }
}

impl Store for AnyStore {
    #[inline]
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    fn naming(&self) -> u64 {
        match self {
            Self::Memory(store) => store.naming(),
            Self::Redis(store) => store.naming(),
            Self::Postgres(store) => store.naming(),
        }
    }

    fn record_key(&self, key: &Key<'_>) -> Option<String> {
        match self {
            Self::Memory(store) => store.record_key(key),
            Self::Redis(store) => store.record_key(key),
            Self::Postgres(store) => store.record_key(key),
        }
    }

    #[inline]
    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        match self {
            Self::Memory(store) => store.try_settle(request, now, settlement),
            Self::Redis(store) => store.try_settle(request, now, settlement),
            Self::Postgres(store) => store.try_settle(request, now, settlement),
        }
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        if let Self::Memory(store) = self {
            store.prefetch(fingerprint);
        }
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        match self {
            Self::Memory(store) => store.submit_now(ops, now),
            Self::Redis(store) => store.submit(ops, now).await,
            Self::Postgres(store) => store.submit(ops, now).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_their_secrets() {
        let check = |text: &str, expected: &str| {
            let url = StoreUrl::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            assert_eq!((url.to_string(), format!("{url:?}")), (expected.into(), expected.into()));
        };
        check("memory", "memory:");
        check("redis://localhost:1/2", "redis://localhost:1/2");
        check("redis://:secret@h", "redis://:***@h");
        check("rediss://me:secret@h?prefix=x", "rediss://me:***@h?prefix=x");
        let sentinels = "redis+sentinel://a,b/m?prefix=x&sentinel_password=";
        check(&format!("{sentinels}secret"), &format!("{sentinels}***"));
        check("postgres://me@h/d", "postgres://me@h/d");
        check("postgres://me:p@h/d?password=secret", "postgres://me:***@h/d?password=***");
    }

    #[test]
    fn invalid_store_urls_are_errors() {
        for wrong in ["", "memory:x", "mysql://h", "localhost"] {
            let problem = StoreUrl::parse(wrong).expect_err(wrong);
            assert!(problem.contains("write memory:"), "{wrong}: {problem}");
        }
        assert!(StoreUrl::parse("redis://").is_err() && StoreUrl::parse("postgres:").is_err());
    }
}

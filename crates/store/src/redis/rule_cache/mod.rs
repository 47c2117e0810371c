//! The rule cache: the rules in force, in Redis, for nodes that start while the catalog is unreachable, and a channel
//! that announces changes.
//!
//! The rules are a hash, `ratelimit:rules:active`: a field for each rule, `#tiers`, and `#revision`, which is an
//! epoch and a number as in `1-27`. It is replaced as a whole and only by a newer revision, and then the revision is
//! published on the channel `ratelimit:rules:changed`. If the URL has a prefix, both names begin with it.

mod place;
mod published_rules;

use std::fmt;
use std::sync::Arc;

use redis::{Cmd, Value, cmd};
use tokio::sync::watch;

pub(super) use self::place::RuleServer;
pub use self::published_rules::PublishedRules;
pub(super) use self::published_rules::read_revision;
use super::address::{DEFAULT_PREFIX, RedisUrl};
use super::listener::{Heard, Listener, ListenerTask, Topic};
use super::node::CallFailure;
use crate::StoreError;
use crate::remote::RemoteSettings;
use crate::remote::clock::wall_clock;

const RULES_KEY: &str = "ratelimit:rules:active";
pub(super) const CHANNEL: &str = "ratelimit:rules:changed";
/// Replaces the rules.
const PUBLISH: &str = include_str!("publish.lua");

/// The rules in Redis, on connections that counters do not share.
#[derive(Debug)]
pub struct RedisRuleCache {
    place: Arc<RuleServer>,
    key: String,
    channel: String,
    changes: watch::Receiver<u64>,
    _listener: ListenerTask,
}

/// Why the rule cache could not be used.
#[derive(Debug)]
pub enum RuleCacheError {
    /// Redis is unreachable, too slow, or refused the call. Only a refusal means that nothing was published.
    Redis(StoreError),
    /// The key holds something else: the key, and why. It is not overwritten.
    Unreadable(String),
    /// The revision there is implausible: the key, and why. The next node that publishes rules replaces it.
    Implausible(String),
    /// The rules cannot be published, and why.
    Invalid(String),
}

impl RedisRuleCache {
    /// The rule cache in the Redis at a URL, which is connected to in the background. Has to be called within a tokio
    /// runtime. URLs are those of [`RedisStore`](super::RedisStore).
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn connect(url: &str, settings: &RemoteSettings) -> Result<Self, String> {
        Self::start(RedisUrl::parse(url)?, settings, Vec::new()).map(|(rule_cache, _)| rule_cache)
    }

    /// Connects, and listens to other channels on the same connection. Returns the server too.
    pub(super) fn start(
        url: RedisUrl,
        settings: &RemoteSettings,
        others: Vec<Topic>,
    ) -> Result<(Self, Arc<RuleServer>), String> {
        let prefix = if url.prefix == DEFAULT_PREFIX { "" } else { &url.prefix };
        let (key, channel) = (format!("{prefix}{RULES_KEY}"), format!("{prefix}{CHANNEL}"));
        let place = Arc::new(RuleServer::new(url, &key, settings)?);
        let (sender, changes) = watch::channel(0);
        // The rules may have changed before the subscription too.
        let hear = move |_: Heard<'_>| sender.send_modify(|count| *count += 1);
        let topic = Topic::new(channel.clone(), "rule changes", hear);
        let mut probe = cmd("EXISTS");
        probe.arg(&key);
        let topics = [topic].into_iter().chain(others).collect();
        let _listener = Listener::start(Arc::clone(&place), probe, topics);
        Ok((Self { place: Arc::clone(&place), key, channel, changes, _listener }, place))
    }

    /// Publishes rules and announces them, unless those in Redis are as new or newer. A revision from the future is
    /// replaced. Takes at most two seconds.
    ///
    /// # Errors
    /// Redis does not respond, the key holds something else, or the rules are invalid.
    pub async fn publish(&self, published_rules: &PublishedRules) -> Result<(), RuleCacheError> {
        published_rules.check().map_err(RuleCacheError::Invalid)?;
        let mut command = cmd("EVAL");
        command.arg(PUBLISH).arg(1).arg(&self.key);
        let (max_epoch, max_number) = PublishedRules::max_revision(wall_clock());
        command.arg(published_rules.epoch).arg(published_rules.number).arg(&self.channel);
        command.arg(max_epoch).arg(max_number);
        published_rules.fields().for_each(|text| {
            command.arg(text);
        });
        match self.call(&command).await? {
            Value::Int(0 | 1) => Ok(()),
            _ => Err(self.unreadable("the field #revision is missing or broken")),
        }
    }

    /// The rules in Redis; `None` if there are none. Takes at most two seconds.
    ///
    /// # Errors
    /// Redis does not respond, the key holds something else, or its revision is implausible.
    pub async fn read(&self) -> Result<Option<PublishedRules>, RuleCacheError> {
        let mut command = cmd("HGETALL");
        command.arg(&self.key);
        let fields = redis::from_redis_value(self.call(&command).await?);
        let fields = fields.map_err(|_| self.unreadable("a field or value is not text"))?;
        let published_rules = PublishedRules::read(fields).map_err(|why| self.unreadable(&why))?;
        match published_rules {
            Some(found) if !found.is_plausible(wall_clock()) => {
                let PublishedRules { epoch, number, .. } = found;
                let why = format!("{}: #revision is {epoch}-{number}", self.key);
                Err(RuleCacheError::Implausible(why))
            }
            found => Ok(found),
        }
    }

    /// Changes whenever the rules in Redis may have changed: with every message, and whenever messages may have been
    /// missed. The rules may also be older: after a failover or a restart a server may lack the last ones. A node
    /// with newer rules publishes them again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn call(&self, command: &Cmd) -> Result<Value, RuleCacheError> {
        self.place.call(command).await.map_err(|failure| match failure {
            CallFailure::Said(error) if error.code() == Some("WRONGTYPE") => {
                self.unreadable("it is not a hash")
            }
            failure => RuleCacheError::Redis(failure.into()),
        })
    }

    fn unreadable(&self, why: &str) -> RuleCacheError {
        RuleCacheError::Unreadable(format!("{}: {why}", self.key))
    }
}

impl fmt::Display for RuleCacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(error) => error.fmt(f),
            Self::Unreadable(why) => {
                write!(f, "a Redis key holds something else and must be deleted: {why}")
            }
            Self::Implausible(why) => {
                write!(f, "the rules in Redis have a revision from the future: {why}")
            }
            Self::Invalid(why) => write!(f, "these rules cannot be published: {why}"),
        }
    }
}

impl std::error::Error for RuleCacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Redis(error) => error.source(),
            Self::Unreadable(_) | Self::Implausible(_) | Self::Invalid(_) => None,
        }
    }
}

//! The rule cache: the rules in force, in Redis, for nodes that start while the catalog is unreachable, and a channel
//! that announces changes.
//!
//! The rules are a hash, `ratelimit:rules:active`: a field for each rule, `#tiers`, and `#revision`, which is an
//! epoch and a number as in `1-27`. It is replaced as a whole and only by a newer revision, and then the revision is
//! published on the channel `ratelimit:rules:changed`. If the URL has a prefix, both names begin with it.

mod announcement;
mod listener;
mod place;

use std::fmt;
use std::sync::Arc;

use redis::{Cmd, Value, cmd};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::announcement::Announcement;
use self::listener::Listener;
use self::place::Place;
use super::address::{DEFAULT_PREFIX, RedisUrl};
use super::node::Failure;
use crate::StoreError;
use crate::remote::RemoteSettings;
use crate::remote::clock::wall_clock;

const BOARD: &str = "ratelimit:rules:active";
const CHANNEL: &str = "ratelimit:rules:changed";
/// Replaces the rules.
const PUBLISH: &str = include_str!("publish.lua");

/// The rules in Redis, on connections that counters do not share.
#[derive(Debug)]
pub struct RedisBoard {
    place: Arc<Place>,
    board: String,
    channel: String,
    changes: watch::Receiver<u64>,
    listener: JoinHandle<()>,
}

/// Why the rule cache could not be used.
#[derive(Debug)]
pub enum BoardError {
    /// Redis is unreachable, too slow, or refused the call. Only a refusal means that nothing was published.
    Redis(StoreError),
    /// The key holds something else: the key, and why. It is not overwritten.
    Unreadable(String),
    /// The revision there is implausible: the key, and why. The next node that publishes rules replaces it.
    Implausible(String),
    /// The rules cannot be published, and why.
    Invalid(String),
}

impl RedisBoard {
    /// The rule cache in the Redis at a URL, which is connected to in the background. Has to be called within a tokio
    /// runtime. URLs are those of [`RedisStore`](super::RedisStore).
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn connect(url: &str, settings: &RemoteSettings) -> Result<Self, String> {
        let url = RedisUrl::parse(url)?;
        let prefix = if url.prefix == DEFAULT_PREFIX { "" } else { &url.prefix };
        let (board, channel) = (format!("{prefix}{BOARD}"), format!("{prefix}{CHANNEL}"));
        let place = Arc::new(Place::new(url, &board, settings)?);
        let (sender, changes) = watch::channel(0);
        let listener = Listener {
            place: Arc::clone(&place),
            channel: channel.clone(),
            board: board.clone(),
            changes: Arc::new(sender),
        };
        let listener = tokio::spawn(listener.listen());
        Ok(Self { place, board, channel, changes, listener })
    }

    /// Publishes rules and announces them, unless those in Redis are as new or newer. A revision from the future is
    /// replaced. Takes at most two seconds.
    ///
    /// # Errors
    /// Redis does not respond, the key holds something else, or the rules are invalid.
    pub async fn publish(&self, announcement: &Announcement) -> Result<(), BoardError> {
        announcement.check().map_err(BoardError::Invalid)?;
        let mut command = cmd("EVAL");
        command.arg(PUBLISH).arg(1).arg(&self.board);
        let (max_epoch, max_number) = Announcement::max_revision(wall_clock());
        command.arg(announcement.epoch).arg(announcement.number).arg(&self.channel);
        command.arg(max_epoch).arg(max_number);
        announcement.fields().for_each(|text| {
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
    pub async fn read(&self) -> Result<Option<Announcement>, BoardError> {
        let mut command = cmd("HGETALL");
        command.arg(&self.board);
        let fields = redis::from_redis_value(self.call(&command).await?);
        let fields = fields.map_err(|_| self.unreadable("a field or value is not text"))?;
        let announcement = Announcement::read(fields).map_err(|why| self.unreadable(&why))?;
        match announcement {
            Some(found) if !found.is_plausible(wall_clock()) => {
                let Announcement { epoch, number, .. } = found;
                let why = format!("{}: #revision is {epoch}-{number}", self.board);
                Err(BoardError::Implausible(why))
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

    async fn call(&self, command: &Cmd) -> Result<Value, BoardError> {
        self.place.call(command).await.map_err(|failure| match failure {
            Failure::Said(error) if error.code() == Some("WRONGTYPE") => {
                self.unreadable("it is not a hash")
            }
            failure => BoardError::Redis(failure.into()),
        })
    }

    fn unreadable(&self, why: &str) -> BoardError {
        BoardError::Unreadable(format!("{}: {why}", self.board))
    }
}

impl Drop for RedisBoard {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl fmt::Display for BoardError {
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

impl std::error::Error for BoardError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Redis(error) => error.source(),
            Self::Unreadable(_) | Self::Implausible(_) | Self::Invalid(_) => None,
        }
    }
}

//! Records for people to read: they are binary in Redis.

use redis::{Value, cmd};
use tollgate_core::{RuleTag, State, Timestamp};

use super::record::Record;
use super::script::log_text;
use super::{RedisStore, script};
use crate::{StoreError, StoreErrorKind};

/// What is at a key of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// No such key.
    Nothing,
    /// Something that is no record of counters.
    Other,
    /// A record.
    Counters(Vec<StoredCounter>),
}

/// A counter of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCounter {
    /// Which rule counts.
    pub tag: RuleTag,
    /// Until when the counter is kept.
    pub kept_until: Timestamp,
    /// What was used; `None` if that was forgotten, or cannot be read.
    pub state: Option<State>,
    /// Units that are held, beside those that were used.
    pub held: u64,
}

impl RedisStore {
    /// What is at a key.
    ///
    /// # Errors
    /// Redis cannot be reached, or refuses.
    pub async fn content_at(&self, key: &str) -> Result<KeyContent, StoreError> {
        let mut kind = cmd("TYPE");
        match self.ask(key, kind.arg(key).clone()).await? {
            Value::SimpleString(kind) if kind == "none" => return Ok(KeyContent::Nothing),
            Value::SimpleString(kind) if kind == "string" => {}
            _ => return Ok(KeyContent::Other),
        }
        let mut get = cmd("GET");
        let Value::BulkString(bytes) = self.ask(key, get.arg(key).clone()).await? else {
            return Ok(KeyContent::Nothing);
        };
        let Some(record) = Record::read(&bytes) else { return Ok(KeyContent::Other) };
        let mut counters = Vec::new();
        for entry in record {
            let state = match entry.state() {
                None if entry.is_log() => self.stored_log(key, entry.tag).await?,
                state => state,
            };
            counters.push(StoredCounter {
                tag: entry.tag,
                kept_until: Timestamp::from_secs(entry.kept_until.into()),
                state,
                held: entry.held().map_or(0, |held| held.units),
            });
        }
        Ok(KeyContent::Counters(counters))
    }

    /// The log beside a record.
    async fn stored_log(&self, record: &str, tag: RuleTag) -> Result<Option<State>, StoreError> {
        let mut range = cmd("LRANGE");
        range.arg(script::log_key(record, tag)).arg(0).arg(-1);
        let list = self.ask(record, range).await?;
        let list: Vec<String> =
            redis::from_redis_value(list).map_err(|_| StoreErrorKind::Corrupt)?;
        Ok(log_text(&list).and_then(|text| text.parse().ok()))
    }
}

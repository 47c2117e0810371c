//! The mark of a fleet in Redis. It takes commands that counting needs too, so users with few permissions have them.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use super::RedisStore;
use super::slot::slot_of_key;
use crate::remote::{MARK_NAME, MAX_MARK_BYTES, NO_SECRET, NO_SECRET_TTL};
use crate::{StoreError, StoreErrorKind};

impl RedisStore {
    /// Leaves the mark of a fleet in the store unless it has one, and returns the mark that it has then. That of
    /// nodes without a secret expires.
    pub(crate) async fn fleet_mark(&self, ours: &str) -> Result<String, StoreError> {
        let key = format!("{}{MARK_NAME}", self.router.url.prefix);
        self.leave_mark(&key, ours, "NX").await?;
        let found = self.read_mark(&key).await?;
        if found == NO_SECRET && ours == NO_SECRET {
            self.leave_mark(&key, ours, "XX").await?;
        }
        Ok(found)
    }

    /// Sets the mark if there is none (`NX`), or if there is one (`XX`).
    async fn leave_mark(&self, key: &str, mark: &str, condition: &str) -> Result<(), StoreError> {
        let mut set = cmd("SET");
        set.arg(key).arg(mark).arg(condition);
        if mark == NO_SECRET {
            set.arg("EX").arg(NO_SECRET_TTL.as_secs());
        }
        self.ask(key, set).await.map(drop)
    }

    async fn read_mark(&self, key: &str) -> Result<String, StoreError> {
        let mut read = cmd("GETRANGE");
        read.arg(key).arg(0).arg(MAX_MARK_BYTES);
        match self.ask(key, read).await? {
            Value::BulkString(mark) => Ok(String::from_utf8_lossy(&mark).into_owned()),
            _ => Err(StoreErrorKind::Corrupt.into()),
        }
    }

    /// Calls the server that has the key, whether or not its circuit breaker is open.
    async fn ask(&self, key: &str, command: Cmd) -> Result<Value, StoreError> {
        let slot = if self.router.is_cluster() { slot_of_key(key) } else { 0 };
        let route = self.router.slot_table.load().route(slot).cloned();
        let Some(route) = route else {
            self.router.poll_soon();
            return Err(StoreErrorKind::Unavailable.into());
        };
        self.router.run(Arc::clone(&route.node), |_| command.clone()).await
    }
}

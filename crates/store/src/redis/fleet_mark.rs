//! The mark of a fleet in Redis. It takes commands that counting needs too, so users with few permissions have them.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use super::RedisStore;
use super::slot::slot_of_key;
use crate::remote::{MARK_NAME, MAX_MARK_BYTES};
use crate::{StoreError, StoreErrorKind};

impl RedisStore {
    /// Leaves the mark of a fleet in the store unless it has one, and returns the mark that it has then. Without a
    /// mark it only reads.
    pub(crate) async fn fleet_mark(&self, ours: Option<&str>) -> Result<String, StoreError> {
        let key = format!("{}{MARK_NAME}", self.router.url.prefix);
        if let Some(ours) = ours {
            let mut set = cmd("SET");
            set.arg(&key).arg(ours).arg("NX");
            self.ask(&key, set).await?;
        }
        let mut read = cmd("GETRANGE");
        read.arg(&key).arg(0).arg(MAX_MARK_BYTES);
        match self.ask(&key, read).await? {
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

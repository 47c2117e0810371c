//! The mark of a fleet in Redis. It takes commands that counting needs too, so users with few permissions have them.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use super::RedisStore;
use super::slot::slot_of_key;
use crate::remote::{FleetMark, MARK_NAME};
use crate::{StoreError, StoreErrorKind};

const SCRIPT: &str = include_str!("fleet_mark.lua");

impl RedisStore {
    /// Leaves the mark of a fleet in the store unless it has one, and returns the mark that it has then.
    pub(crate) async fn fleet_mark(&self, mark: &FleetMark<'_>) -> Result<String, StoreError> {
        let key = format!("{}{MARK_NAME}", self.router.url.prefix);
        let millis = |time: std::time::Duration| time.as_millis().to_string();
        let mut leave = cmd("EVAL");
        leave.arg(SCRIPT).arg(1).arg(&key).arg(mark.ours);
        leave.arg(millis(mark.lasts().unwrap_or_default()));
        leave.arg(mark.previous.unwrap_or_default()).arg(millis(FleetMark::TTL));
        match self.ask(&key, leave).await? {
            Value::BulkString(found) => Ok(String::from_utf8_lossy(&found).into_owned()),
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

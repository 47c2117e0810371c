//! The mark of a fleet in Redis, and the number of the store. They take commands that counting needs too, so users with
//! few permissions have them.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use super::RedisStore;
use super::slot::slot_of_key;
use crate::remote::{FleetMark, MARK_NAME, NUMBER_NAME, StoreNumber};
use crate::{StoreError, StoreErrorKind};

const MARK_SCRIPT: &str = include_str!("fleet_mark.lua");
const NUMBER_SCRIPT: &str = include_str!("store_number.lua");

impl RedisStore {
    /// Leaves the mark of a fleet in the store if it may and the store has none, and returns the mark that it has then,
    /// empty if it has none, and the number of the store.
    pub(crate) async fn fleet_mark(
        &self,
        mark: &FleetMark<'_>,
    ) -> Result<(String, StoreNumber), StoreError> {
        // Before anything is written here.
        self.note_first_met().await?;
        let key = format!("{}{MARK_NAME}", self.router.url.prefix);
        let millis = |time: std::time::Duration| time.as_millis().to_string();
        let mut leave = cmd("EVAL");
        leave.arg(MARK_SCRIPT).arg(1).arg(&key).arg(mark.ours);
        leave.arg(millis(mark.lasts().unwrap_or_default()));
        leave.arg(mark.previous.unwrap_or_default()).arg(millis(FleetMark::TTL));
        leave.arg(u8::from(mark.may_claim));
        let found = text(self.ask(&key, leave).await?)?;
        Ok((found, self.store_number().await?))
    }

    /// The number of the store, made now if it has none. In a cluster one server keeps it for all.
    async fn store_number(&self) -> Result<StoreNumber, StoreError> {
        let key = format!("{}{NUMBER_NAME}", self.router.url.prefix);
        let mut number = cmd("EVAL");
        number.arg(NUMBER_SCRIPT).arg(1).arg(&key).arg(StoreNumber::random()?.to_string());
        let number = text(self.ask(&key, number).await?)?;
        number.parse().map_err(|()| StoreErrorKind::Corrupt.into())
    }

    /// Calls the server that has the key, whether or not its circuit breaker is open.
    pub(super) async fn ask(&self, key: &str, command: Cmd) -> Result<Value, StoreError> {
        let slot = if self.router.is_cluster() { slot_of_key(key) } else { 0 };
        let route = self.router.slot_table.load().route(slot).cloned();
        let Some(route) = route else {
            self.router.poll_soon();
            return Err(StoreErrorKind::Unavailable.into());
        };
        self.router.run(Arc::clone(&route.node), |_| command.clone()).await
    }
}

fn text(value: Value) -> Result<String, StoreError> {
    match value {
        Value::BulkString(found) => Ok(String::from_utf8_lossy(&found).into_owned()),
        _ => Err(StoreErrorKind::Corrupt.into()),
    }
}

//! An operation that was sent to one server.

use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Sleep;
use tollgate_core::Timestamp;

use super::router::Router;
use crate::remote::breaker::{Admitted, Breaker, Proof};
use crate::remote::{OpResult, OwnedOp, PendingResult, may_be_unknown};
use crate::{StoreError, StoreErrorKind};

/// An operation that was sent to one server.
#[derive(Debug)]
pub(super) struct PendingCall {
    admitted: Admitted<Arc<Breaker>>,
    is_charge: bool,
    pending: PendingResult,
}

impl PendingCall {
    /// Sends an operation to the server that has the slot.
    pub(super) fn send(
        router: &Router,
        slot: u16,
        op: OwnedOp,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let slot_table = router.slot_table.load();
        let Some(route) = slot_table.route(slot) else {
            router.poll_soon();
            return Err(StoreErrorKind::Unavailable.into());
        };
        // An unreachable server may have been replaced.
        let admitted =
            Admitted::new(Arc::clone(&route.node.breaker)).inspect_err(|_| router.poll_soon())?;
        let is_charge = op.is_charge();
        Ok(Self { admitted, is_charge, pending: route.queue.send(op, now)? })
    }

    /// Waits for the result until `expiry`.
    pub(super) async fn result(mut self, expiry: &mut Pin<&mut Sleep>) -> OpResult {
        // Operations that are submitted together share a deadline: the first that misses it is a failure of the server,
        // those behind it are not one more each, or a single batch would open the circuit breaker.
        let is_late = expiry.is_elapsed();
        let result = tokio::select! {
            biased;
            result = self.pending.result() => result,
            () = expiry.as_mut() => Err(StoreErrorKind::Timeout.into()),
        };
        let is_timeout = |error: &StoreError| error.kind() == StoreErrorKind::Timeout;
        if !(is_late && result.as_ref().is_err_and(is_timeout)) {
            self.admitted.record(&result, Proof::of(self.is_charge, &result));
        }
        result
    }

    /// Sends an operation with an idempotency key and waits for its result; retries once if the result was lost,
    /// since it is charged once.
    pub(super) async fn run_idempotent(
        router: &Router,
        slot: u16,
        op: OwnedOp,
        now: Timestamp,
        expiry: &mut Pin<&mut Sleep>,
    ) -> OpResult {
        let retry = op.clone();
        let result = match Self::send(router, slot, op, now) {
            Ok(call) => call.result(expiry).await,
            Err(error) => Err(error),
        };
        match result {
            Err(error) if may_be_unknown(&error) && !expiry.is_elapsed() => {
                Self::send(router, slot, retry, now)?.result(expiry).await
            }
            result => result,
        }
    }
}

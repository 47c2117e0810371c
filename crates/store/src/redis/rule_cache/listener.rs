//! Subscribes to changes of the rules, and again whenever the connection ends or its server stops responding.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::place::RuleServer;
use crate::redis::address::Address;
use crate::redis::connection::CONNECT_TIMEOUT;
use crate::{StoreError, StoreErrorKind};

/// The first backoff; it doubles with each attempt.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How often the server is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Subscribes until it is dropped.
pub(super) struct RuleListener {
    pub(super) place: Arc<RuleServer>,
    pub(super) channel: String,
    /// The key of the hash.
    pub(super) key: String,
    /// Increases whenever the rules may have changed.
    pub(super) changes: Arc<watch::Sender<u64>>,
}

/// A connection that messages arrive on.
struct Subscription {
    connection: MultiplexedConnection,
    server: Address,
    ended: Arc<Notify>,
}

impl RuleListener {
    pub(super) async fn listen(self) {
        let mut pause = MIN_BACKOFF;
        let mut is_reported = false;
        loop {
            match self.subscribe().await {
                Ok(subscription) => {
                    let server = subscription.server.to_string();
                    tracing::info!(server, "subscribed to rule changes");
                    // Messages from before the subscription were missed.
                    count_up(&self.changes);
                    is_reported = false;
                    // A subscription that ends at once does not reset the backoff.
                    if self.stay(subscription).await {
                        pause = MIN_BACKOFF;
                    }
                    tracing::warn!(server, "subscription to rule changes lost");
                }
                Err(error) if !is_reported => {
                    is_reported = true;
                    let source = std::error::Error::source(&error).map(ToString::to_string);
                    let why = source.unwrap_or_default();
                    tracing::warn!(%error, why, "cannot subscribe to rule changes");
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_BACKOFF);
        }
    }

    /// Subscribes at the server that has the hash: it publishes first.
    async fn subscribe(&self) -> Result<Subscription, StoreError> {
        let server = self.place.find().await?.address.clone();
        let ended = Arc::new(Notify::new());
        let (changes, end) = (Arc::clone(&self.changes), Arc::clone(&ended));
        let hear = move |push: PushInfo| {
            match push.kind {
                PushKind::Message => count_up(&changes),
                PushKind::Disconnection => end.notify_one(),
                _ => {}
            }
            Ok::<_, Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(PING_TIMEOUT))
            .set_push_sender(hear);
        let client = self.place.listening_client(&server)?;
        let away = |error| StoreError::new(StoreErrorKind::Unavailable, error);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(away)?;
        connection.subscribe(&self.channel).await.map_err(away)?;
        Ok(Subscription { connection, server, ended })
    }

    /// Stays subscribed while the server responds and has the hash. Returns whether that was for a while.
    async fn stay(&self, mut subscription: Subscription) -> bool {
        let mut question = cmd("EXISTS");
        question.arg(&self.key);
        let mut is_steady = false;
        loop {
            tokio::select! {
                () = subscription.ended.notified() => return is_steady,
                () = sleep(PING_INTERVAL) => {}
            }
            if !self.is_right(&mut subscription, &question).await {
                return is_steady;
            }
            is_steady = true;
        }
    }

    /// Whether the server responds and has the hash. A cluster node that lost its slot redirects; a master that was
    /// replaced may not know, but sentinels do.
    async fn is_right(&self, subscription: &mut Subscription, question: &Cmd) -> bool {
        let answer = subscription.connection.send_packed_command(question).await;
        if answer.and_then(redis::Value::extract_error).is_err() {
            return false;
        }
        if !self.place.is_elected() {
            return true;
        }
        // Without sentinels there is no election.
        self.place.find().await.map_or(true, |holder| holder.address == subscription.server)
    }
}

fn count_up(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count += 1);
}

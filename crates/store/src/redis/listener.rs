//! The subscription of a process to channels of Redis. It subscribes again whenever the connection ends or its server
//! stops responding. All that a process listens to shares one connection.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::address::Address;
use super::connection::CONNECT_TIMEOUT;
use super::rule_cache::RuleServer;
use crate::{StoreError, StoreErrorKind};

/// The first backoff; it doubles with each attempt.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How often the server is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// What arrives on a channel.
pub(super) enum Heard<'m> {
    /// A message.
    Message(&'m [u8]),
    /// The subscription began: messages from before it were missed.
    Subscribed,
}

/// A channel, and what is done with its messages.
pub(super) struct Topic {
    pub(super) channel: String,
    /// What its messages are, for the log.
    pub(super) about: &'static str,
    pub(super) hear: Box<dyn Fn(Heard<'_>) + Send + Sync>,
    /// Whether the log says that the server does not permit it.
    is_reported: AtomicBool,
}

impl Topic {
    pub(super) fn new(
        channel: String,
        about: &'static str,
        hear: impl Fn(Heard<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self { channel, about, hear: Box::new(hear), is_reported: AtomicBool::new(false) }
    }
}

/// Subscribes until it is dropped.
pub(super) struct Listener {
    place: Arc<RuleServer>,
    /// Succeeds at the server that is the right one, and only there.
    probe: Cmd,
    topics: Arc<[Topic]>,
}

/// A listener that runs in the background and ends when it is dropped.
#[derive(Debug)]
pub(super) struct ListenerTask(JoinHandle<()>);

impl Drop for ListenerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that messages arrive on.
struct Subscription {
    connection: MultiplexedConnection,
    server: Address,
    ended: Arc<Notify>,
}

impl Listener {
    /// Starts to listen at the server that `place` finds. Has to be called within a tokio runtime.
    pub(super) fn start(place: Arc<RuleServer>, probe: Cmd, topics: Vec<Topic>) -> ListenerTask {
        let listener = Self { place, probe, topics: topics.into() };
        ListenerTask(tokio::spawn(listener.listen()))
    }

    async fn listen(self) {
        let about = About(&self.topics);
        let mut pause = MIN_BACKOFF;
        let mut is_reported = false;
        loop {
            match self.subscribe().await {
                Ok(subscription) => {
                    let server = subscription.server.to_string();
                    tracing::debug!(server, "subscribed to {about}");
                    is_reported = false;
                    // A subscription that ends at once does not reset the backoff.
                    if self.stay(subscription).await {
                        pause = MIN_BACKOFF;
                    }
                    tracing::debug!(server, "subscription to {about} lost");
                }
                // A server that cannot be reached is reported by its circuit breaker.
                Err(error) if !is_reported && error.kind() != StoreErrorKind::Unavailable => {
                    is_reported = true;
                    let source = std::error::Error::source(&error).map(ToString::to_string);
                    let why = source.unwrap_or_default();
                    tracing::warn!(%error, why, "cannot subscribe to {about}");
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_BACKOFF);
        }
    }

    /// Subscribes at the server that publishes first.
    async fn subscribe(&self) -> Result<Subscription, StoreError> {
        let server = self.place.find().await?.address.clone();
        let ended = Arc::new(Notify::new());
        let (topics, end) = (Arc::clone(&self.topics), Arc::clone(&ended));
        let hear = move |push: PushInfo| {
            match push.kind {
                PushKind::Message => hand_over(&topics, &push.data),
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
        let (mut subscribed, mut denied) = (0_usize, None);
        for topic in self.topics.iter() {
            match connection.subscribe(&topic.channel).await {
                Ok(()) => {
                    subscribed += 1;
                    (topic.hear)(Heard::Subscribed);
                }
                // The others are still of use.
                Err(error) if error.code() == Some("NOPERM") => {
                    if self.topics.len() > 1 && !topic.is_reported.swap(true, Relaxed) {
                        let Topic { channel, about, .. } = topic;
                        tracing::warn!(channel, %error, "cannot subscribe to {about}");
                    }
                    denied = Some(error);
                }
                Err(error) => return Err(away(error)),
            }
        }
        match denied {
            Some(error) if subscribed == 0 => Err(StoreError::new(StoreErrorKind::Refused, error)),
            _ => Ok(Subscription { connection, server, ended }),
        }
    }

    /// Stays subscribed while the server responds and is the right one. Returns whether that was for a while.
    async fn stay(&self, mut subscription: Subscription) -> bool {
        let mut is_steady = false;
        loop {
            tokio::select! {
                () = subscription.ended.notified() => return is_steady,
                () = sleep(PING_INTERVAL) => {}
            }
            if !self.is_right(&mut subscription).await {
                return is_steady;
            }
            is_steady = true;
        }
    }

    /// Whether the server responds and is the right one. A cluster node that lost its slot redirects; a master that was
    /// replaced may not know, but sentinels do.
    async fn is_right(&self, subscription: &mut Subscription) -> bool {
        let answer = subscription.connection.send_packed_command(&self.probe).await;
        if answer.and_then(Value::extract_error).is_err() {
            return false;
        }
        if !self.place.is_elected() {
            return true;
        }
        // Without sentinels there is no election.
        self.place.find().await.map_or(true, |holder| holder.address == subscription.server)
    }
}

/// What a listener listens to, for the log.
struct About<'t>(&'t [Topic]);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, topic) in self.0.iter().enumerate() {
            let before = if place == 0 { "" } else { " and " };
            write!(f, "{before}{}", topic.about)?;
        }
        Ok(())
    }
}

/// Hands a message to its topic.
fn hand_over(topics: &[Topic], data: &[Value]) {
    if let [Value::BulkString(channel), Value::BulkString(message)] = data
        && let Some(topic) = topics.iter().find(|topic| topic.channel.as_bytes() == channel)
    {
        (topic.hear)(Heard::Message(message));
    }
}

//! Server-sent events for a bounded number of subscribers.
//!
//! All subscribers read from one ring buffer. A subscriber that reads too slowly misses events that are
//! overwritten, and gets an event with their number.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::sleep;

use super::channel_body::{BodySender, pieces};
use crate::edge::http::problem::Problem;
use crate::edge::listen::{Shutdown, ShutdownTrigger};

/// How many subscribers there may be.
const MAX_SUBSCRIBERS: usize = 64;
/// How many subscribers may use the same token.
const MAX_SUBSCRIBERS_PER_TOKEN: usize = 16;
/// How many events a subscriber may lag behind.
const EVENTS_CAPACITY: usize = 1_024;
/// How often an idle stream sends a comment, to keep its connection open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Publishes events to subscribers.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<PublishedEvent>,
    places: Arc<Semaphore>,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    heartbeat: Duration,
    end: ShutdownTrigger,
    ending: Shutdown,
}

impl Events {
    /// Connections on which nothing happens are closed after `idle_timeout`.
    pub(crate) fn new(idle_timeout: Duration) -> Self {
        let (end, ending) = Shutdown::new();
        Self {
            sender: broadcast::Sender::new(EVENTS_CAPACITY),
            places: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            by_token: Arc::default(),
            heartbeat: HEARTBEAT_INTERVAL.min(idle_timeout / 2),
            end,
            ending,
        }
    }

    /// Publishes an event to all subscribers, if there are any: to those of a tenant only if it is about that tenant, with
    /// what `content` makes for them.
    pub(crate) fn publish<T: Serialize>(
        &self,
        name: &str,
        tenant: Option<&str>,
        content: impl Fn(Option<&str>) -> T,
    ) {
        if self.sender.receiver_count() > 0 {
            let text = event(name, &content(None));
            let of_tenant = tenant.map(|own| (own.into(), event(name, &content(tenant))));
            // All subscribers may have disconnected meanwhile.
            let _ = self.sender.send(PublishedEvent { text, of_tenant });
        }
    }

    /// Ends all subscriptions, and takes no more.
    pub(crate) fn close(&self) {
        self.places.close();
        self.end.request();
    }

    /// Waits until all subscriptions have to end.
    pub(crate) fn ending(&self) -> Shutdown {
        self.ending.clone()
    }

    /// A body with all events from now on, for the holder of a token, until that is `revoked`. The holder of a token of
    /// a tenant gets those about the tenant.
    pub(crate) fn subscribe(
        &self,
        token: &str,
        tenant: Option<String>,
        revoked: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Body, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| self.no_place())?;
        let share = SubscriberPlace::take(&self.by_token, token).ok_or_else(no_share)?;
        let (pieces, body) = pieces();
        let subscription = EventSubscription {
            events: self.sender.subscribe(),
            tenant,
            pieces,
            heartbeat: self.heartbeat,
            _place: place,
            _share: share,
        };
        let ending = self.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = subscription.forward() => {}
                () = ending.requested() => {}
                () = revoked => {}
            }
        });
        Ok(body)
    }

    fn no_place(&self) -> Problem {
        let (code, detail) = if self.places.is_closed() {
            ("draining", "the server shuts down".to_owned())
        } else {
            let detail =
                format!("{MAX_SUBSCRIBERS} event streams are open already, which is the most");
            ("too_many_subscribers", detail)
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
    }
}

fn no_share() -> Problem {
    let detail =
        format!("{MAX_SUBSCRIBERS_PER_TOKEN} event streams are open with this token already");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_subscribers_of_token", detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
}

/// The place of one subscriber among those with the same token.
struct SubscriberPlace {
    token: String,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
}

impl SubscriberPlace {
    fn take(by_token: &Arc<Mutex<HashMap<String, usize>>>, token: &str) -> Option<Self> {
        let mut counts = by_token.lock();
        let count = counts.entry(token.to_owned()).or_default();
        if *count >= MAX_SUBSCRIBERS_PER_TOKEN {
            return None;
        }
        *count += 1;
        Some(Self { token: token.to_owned(), by_token: Arc::clone(by_token) })
    }
}

impl Drop for SubscriberPlace {
    fn drop(&mut self) {
        let mut counts = self.by_token.lock();
        if let Some(count) = counts.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.token);
            }
        }
    }
}

/// An event as it is sent.
#[derive(Clone, Debug)]
struct PublishedEvent {
    text: Bytes,
    /// The tenant that it is about, and the event for its administrators.
    of_tenant: Option<(Arc<str>, Bytes)>,
}

impl PublishedEvent {
    /// The event for subscribers of a tenant, or of none; `None` if it is about others.
    fn text_for(self, subscriber: Option<&str>) -> Option<Bytes> {
        let Some(subscriber) = subscriber else { return Some(self.text) };
        self.of_tenant.filter(|(tenant, _)| **tenant == *subscriber).map(|(_, text)| text)
    }
}

struct EventSubscription {
    events: broadcast::Receiver<PublishedEvent>,
    /// The only tenant whose events are wanted.
    tenant: Option<String>,
    pieces: BodySender,
    heartbeat: Duration,
    _place: OwnedSemaphorePermit,
    _share: SubscriberPlace,
}

impl EventSubscription {
    /// Sends events until the subscriber disconnects.
    async fn forward(mut self) {
        // Some clients do not see the head of a response before the first bytes of its body.
        let mut piece = Bytes::from_static(b": listening\n\n");
        while self.pieces.send(Ok(piece)).await.is_ok() {
            let Some(next) = self.next().await else { return };
            piece = next;
        }
    }

    /// The next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        let Self { events, tenant, pieces, heartbeat, .. } = self;
        // Also when all that happens is about others.
        let mut heartbeat = pin!(sleep(*heartbeat));
        loop {
            return tokio::select! {
                told = events.recv() => match told {
                    Ok(event) => match event.text_for(tenant.as_deref()) {
                        Some(text) => Some(text),
                        None => continue,
                    },
                    Err(RecvError::Lagged(count)) => Some(event("lost", &json!({"events": count}))),
                    Err(RecvError::Closed) => None,
                },
                () = &mut heartbeat => Some(Bytes::from_static(b":\n\n")),
                () = pieces.closed() => None,
            };
        }
    }
}

fn event(name: &str, content: &impl Serialize) -> Bytes {
    // Text and numbers always serialise, and compact JSON has no line breaks.
    let content = serde_json::to_string(content).unwrap_or_default();
    format!("event: {name}\ndata: {content}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::BodyExt as _;

    fn listen(events: &Events, token: &str) -> Result<Body, Problem> {
        events.subscribe(token, None, std::future::pending())
    }

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.expect("a piece").into_data().expect("data");
        Some(String::from_utf8_lossy(&frame).into_owned())
    }

    #[tokio::test]
    async fn subscribers_get_events_and_the_number_they_missed() {
        let events = Events::new(Duration::from_secs(75));
        events.publish("early", None, |_| json!({}));
        let mut body = listen(&events, "a").expect("a place");
        assert_eq!(next(&mut body).await.as_deref(), Some(": listening\n\n"));
        events.publish("decision", Some("acme"), |_| json!({"client": "a\nb"}));
        let told = "event: decision\ndata: {\"client\":\"a\\nb\"}\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
        // The forwarding task runs only when this one waits.
        for number in 0..EVENTS_CAPACITY + 10 {
            events.publish("decision", None, |_| number);
        }
        let told = "event: lost\ndata: {\"events\":10}\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
        let told = "event: decision\ndata: 10\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
    }

    #[tokio::test]
    async fn subscribers_are_bounded_and_free_their_place() {
        let events = Events::new(Duration::from_secs(75));
        let mut bodies: Vec<Body> = (0..MAX_SUBSCRIBERS)
            .map(|at| listen(&events, &format!("t{}", at % 4)).expect("a place"))
            .collect();
        assert_eq!(listen(&events, "x").expect_err("no place").code(), "too_many_subscribers");
        bodies.pop();
        while listen(&events, "x").is_err() {
            tokio::task::yield_now().await;
        }
        events.close();
        assert_eq!(listen(&events, "x").expect_err("the end").code(), "draining");
        for body in bodies {
            body.collect().await.expect("an end");
        }
    }

    #[tokio::test]
    async fn one_token_does_not_take_all_places() {
        let events = Events::new(Duration::from_secs(75));
        let mut bodies: Vec<Body> = (0..MAX_SUBSCRIBERS_PER_TOKEN)
            .map(|_| listen(&events, "a").expect("a place"))
            .collect();
        let refused = listen(&events, "a").expect_err("no share");
        assert_eq!(refused.code(), "too_many_subscribers_of_token");
        bodies.push(listen(&events, "b").expect("a place for others"));
        drop(bodies);
        while listen(&events, "a").is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn subscribers_of_a_tenant_get_its_events_only() {
        let events = Events::new(Duration::from_secs(75));
        let own = Some("acme".to_owned());
        let mut body = events.subscribe("a", own, std::future::pending()).expect("a place");
        assert_eq!(next(&mut body).await.as_deref(), Some(": listening\n\n"));
        for (tenant, number) in [(None, 1), (Some("globex"), 2), (Some("acme"), 3)] {
            events.publish("decision", tenant, |seen_by| json!([number, seen_by]));
        }
        let told = "event: decision\ndata: [3,\"acme\"]\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
    }

    #[tokio::test]
    async fn a_revoked_token_gets_no_more_events() {
        let events = Events::new(Duration::from_secs(75));
        let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
        let mut body = events.subscribe("a", None, async { drop(revoked.await) }).expect("a place");
        assert_eq!(next(&mut body).await.as_deref(), Some(": listening\n\n"));
        revoke.send(()).expect("a subscriber");
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test]
    async fn an_idle_stream_has_heartbeats() {
        let events = Events::new(Duration::from_millis(20));
        let mut body = listen(&events, "a").expect("a place");
        for expected in [": listening\n\n", ":\n\n", ":\n\n"] {
            assert_eq!(next(&mut body).await.as_deref(), Some(expected));
        }
    }
}

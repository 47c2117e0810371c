//! What happens, told as it happens: server-sent events for a bounded number of subscribers.
//!
//! All subscribers read from one ring. Whoever reads too slowly finds that its place was overwritten,
//! and is told how much it has missed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::sleep;

use super::pieces::{Pieces, pieces};
use crate::listen::{Shutdown, ShutdownTrigger};
use crate::problem::Problem;

/// How many can listen at once.
const SUBSCRIBERS: usize = 64;
/// How many events a subscriber may be behind.
const BEHIND: usize = 1_024;
/// How often a connection shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Tells subscribers what happens.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Bytes>,
    places: Arc<Semaphore>,
    heartbeat: Duration,
    end: ShutdownTrigger,
    ending: Shutdown,
}

impl Events {
    /// Connections on which nothing happens are closed after `idle_timeout`.
    pub(crate) fn new(idle_timeout: Duration) -> Self {
        let (end, ending) = Shutdown::new();
        Self {
            sender: broadcast::Sender::new(BEHIND),
            places: Arc::new(Semaphore::new(SUBSCRIBERS)),
            heartbeat: HEARTBEAT.min(idle_timeout / 2),
            end,
            ending,
        }
    }

    /// Tells all subscribers, if there are any.
    pub(crate) fn publish<T: Serialize>(&self, name: &str, content: impl FnOnce() -> T) {
        if self.sender.receiver_count() > 0 {
            // They may all have left meanwhile.
            let _ = self.sender.send(event(name, &content()));
        }
    }

    /// Ends all subscriptions, and takes no more.
    pub(crate) fn close(&self) {
        self.places.close();
        self.end.request();
    }

    /// A body with all events from now on.
    pub(crate) fn subscribe(&self) -> Result<Body, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| self.no_place())?;
        let (pieces, body) = pieces();
        let subscription = Subscription {
            events: self.sender.subscribe(),
            pieces,
            heartbeat: self.heartbeat,
            _place: place,
        };
        let ending = self.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = subscription.forward() => {}
                () = ending.requested() => {}
            }
        });
        Ok(body)
    }

    fn no_place(&self) -> Problem {
        let (code, detail) = if self.places.is_closed() {
            ("draining", "the server shuts down".to_owned())
        } else {
            let detail = format!("{SUBSCRIBERS} others listen already, and more cannot");
            ("too_many_subscribers", detail)
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
    }
}

struct Subscription {
    events: broadcast::Receiver<Bytes>,
    pieces: Pieces,
    heartbeat: Duration,
    _place: OwnedSemaphorePermit,
}

impl Subscription {
    /// Sends what happens until the subscriber leaves.
    async fn forward(mut self) {
        // An answer whose head comes with nothing behind it looks like none to some clients.
        let mut piece = Bytes::from_static(b": listening\n\n");
        while self.pieces.send(Ok(piece)).await.is_ok() {
            piece = tokio::select! {
                told = self.events.recv() => match told {
                    Ok(event) => event,
                    Err(RecvError::Lagged(count)) => event("lost", &json!({"events": count})),
                    Err(RecvError::Closed) => return,
                },
                () = sleep(self.heartbeat) => Bytes::from_static(b":\n\n"),
                () = self.pieces.closed() => return,
            };
        }
    }
}

fn event(name: &str, content: &impl Serialize) -> Bytes {
    // Texts and numbers always serialise, and JSON has no line breaks of its own.
    let content = serde_json::to_string(content).unwrap_or_default();
    format!("event: {name}\ndata: {content}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::BodyExt as _;

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.expect("a piece").into_data().expect("data");
        Some(String::from_utf8_lossy(&frame).into_owned())
    }

    #[tokio::test]
    async fn subscribers_hear_what_happens_and_what_they_missed() {
        let events = Events::new(Duration::from_secs(75));
        events.publish("early", || json!({}));
        let mut body = events.subscribe().expect("a place");
        assert_eq!(next(&mut body).await.as_deref(), Some(": listening\n\n"));
        events.publish("decision", || json!({"client": "a\nb"}));
        let told = "event: decision\ndata: {\"client\":\"a\\nb\"}\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
        // The task in between runs only when this one waits.
        for number in 0..BEHIND + 10 {
            events.publish("decision", || number);
        }
        let told = "event: lost\ndata: {\"events\":10}\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
        let told = "event: decision\ndata: 10\n\n";
        assert_eq!(next(&mut body).await.as_deref(), Some(told));
    }

    #[tokio::test]
    async fn places_are_bounded_and_given_back() {
        let events = Events::new(Duration::from_secs(75));
        let mut bodies: Vec<Body> =
            (0..SUBSCRIBERS).map(|_| events.subscribe().expect("a place")).collect();
        assert_eq!(events.subscribe().expect_err("no place").code(), "too_many_subscribers");
        bodies.pop();
        while events.subscribe().is_err() {
            tokio::task::yield_now().await;
        }
        events.close();
        assert_eq!(events.subscribe().expect_err("the end").code(), "draining");
        for body in bodies {
            body.collect().await.expect("an end");
        }
    }

    #[tokio::test]
    async fn silence_is_interrupted() {
        let events = Events::new(Duration::from_millis(20));
        let mut body = events.subscribe().expect("a place");
        for expected in [": listening\n\n", ":\n\n", ":\n\n"] {
            assert_eq!(next(&mut body).await.as_deref(), Some(expected));
        }
    }
}

//! How many pages follow what happens, and how much work that may be: a bounded number of streams, and a small share of
//! one processor for all of them together, however many there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::edge::http::problem::Problem;

/// How many streams there may be.
const MAX_STREAMS: usize = 256;
/// How many streams may use the same token.
const MAX_STREAMS_PER_TOKEN: usize = 128;
/// How often a page is rendered again, at most.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How often a stream sends something, at least.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// For each moment that rendering takes, it pauses this many: 2 % of one processor is the most.
const PAUSE_FACTOR: u32 = 49;
/// The longest pause, after a render that had to wait for something else.
const MAX_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Streams {
    places: Arc<Semaphore>,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    /// The turn to render.
    turn: Arc<Semaphore>,
    pub(super) heartbeat: Duration,
}

/// The place of one stream.
#[derive(Debug)]
pub(super) struct StreamPlace {
    token: String,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    _place: OwnedSemaphorePermit,
}

/// The turn to render: the next one comes after a pause.
#[derive(Debug)]
pub(super) struct RenderTurn {
    _permit: OwnedSemaphorePermit,
}

impl Streams {
    /// Connections on which nothing happens are closed after `idle_timeout`.
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_STREAMS)),
            by_token: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
            heartbeat: HEARTBEAT_INTERVAL.min(idle_timeout / 2),
        }
    }

    /// Takes a place for a stream with that token.
    pub(super) fn enter(&self, token: &str) -> Result<StreamPlace, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let detail = format!("{MAX_STREAMS} pages follow what happens, which is the most");
            too_many(StatusCode::SERVICE_UNAVAILABLE, detail)
        })?;
        let mut counts = self.by_token.lock();
        let count = counts.entry(token.to_owned()).or_default();
        if *count >= MAX_STREAMS_PER_TOKEN {
            let detail = format!("{MAX_STREAMS_PER_TOKEN} pages are open with this token already");
            return Err(too_many(StatusCode::TOO_MANY_REQUESTS, detail));
        }
        *count += 1;
        let by_token = Arc::clone(&self.by_token);
        Ok(StreamPlace { token: token.to_owned(), by_token, _place: place })
    }

    /// Waits for the turn to render; `None` if there is none any more.
    pub(super) async fn turn(&self) -> Option<RenderTurn> {
        Arc::clone(&self.turn).acquire_owned().await.ok().map(|_permit| RenderTurn { _permit })
    }
}

impl RenderTurn {
    /// Ends the turn, after a pause that is longer the longer it took.
    pub(super) fn end(self, took: Duration) {
        let pause = (took * PAUSE_FACTOR).min(MAX_PAUSE);
        tokio::spawn(async move {
            sleep(pause).await;
            drop(self);
        });
    }
}

impl Drop for StreamPlace {
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

fn too_many(status: StatusCode, detail: String) -> Problem {
    Problem::new(status, "too_many_subscribers", detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_in_all_and_per_token() {
        let streams = Streams::new(Duration::from_secs(75));
        let enter = |token: &str| streams.enter(token).map_err(|it| it.status().as_u16());
        let mut held: Vec<_> =
            (0..MAX_STREAMS_PER_TOKEN).map(|_| enter("a").expect("a place")).collect();
        assert_eq!(enter("a").err(), Some(429));
        held.extend((held.len()..MAX_STREAMS).map(|_| enter("b").expect("a place")));
        assert_eq!(enter("c").err(), Some(503));
        drop(held);
        assert!(enter("a").is_ok());
        assert!(streams.by_token.lock().is_empty(), "tokens are forgotten");
    }

    #[tokio::test]
    async fn rendering_pauses_longer_than_it_works() {
        let streams = Streams::new(Duration::from_secs(75));
        let watch = tollgate::Stopwatch::start();
        for _ in 0..5 {
            let turn = streams.turn().await.expect("a turn");
            turn.end(Duration::from_micros(100));
        }
        let _last = streams.turn().await;
        assert!(watch.elapsed() >= Duration::from_micros(100) * PAUSE_FACTOR * 5);
    }
}

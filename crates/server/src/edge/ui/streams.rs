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
/// How many of them may be those of administrators of tenants, so that operators find a place.
const MAX_TENANT_STREAMS: usize = MAX_STREAMS / 2;
/// How many streams may use the same token.
const MAX_STREAMS_PER_TOKEN: usize = 128;
/// How often a page is rendered again, at most.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How often a stream sends something, at least.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// For each moment that rendering takes, it pauses this many, for operators and for tenants apart: 2 % of one processor
/// is the most.
const PAUSE_FACTOR: u32 = 99;
/// The longest pause, after a render that had to wait for something else. A page has to take more than a tenth of a second
/// of a processor to exceed its share.
const MAX_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Streams {
    places: Arc<Semaphore>,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    of_tenants: Arc<Semaphore>,
    /// The turns to render: however many pages tenants have open, those of operators move.
    operators_turn: Arc<Semaphore>,
    tenants_turn: Arc<Semaphore>,
    pub(super) heartbeat: Duration,
}

/// The place of one stream.
#[derive(Debug)]
pub(super) struct StreamPlace {
    token: String,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    _place: OwnedSemaphorePermit,
    _of_tenants: Option<OwnedSemaphorePermit>,
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
            of_tenants: Arc::new(Semaphore::new(MAX_TENANT_STREAMS)),
            by_token: Arc::default(),
            operators_turn: Arc::new(Semaphore::new(1)),
            tenants_turn: Arc::new(Semaphore::new(1)),
            heartbeat: HEARTBEAT_INTERVAL.min(idle_timeout / 2),
        }
    }

    /// Takes a place for a stream with that token.
    pub(super) fn enter(&self, token: &str, is_tenant: bool) -> Result<StreamPlace, Problem> {
        let take = |places: &Arc<Semaphore>, max: usize| {
            Arc::clone(places).try_acquire_owned().map_err(|_| {
                let detail = format!("{max} pages follow what happens, which is the most");
                too_many(StatusCode::SERVICE_UNAVAILABLE, detail)
            })
        };
        let of_tenants =
            is_tenant.then(|| take(&self.of_tenants, MAX_TENANT_STREAMS)).transpose()?;
        let place = take(&self.places, MAX_STREAMS)?;
        let mut counts = self.by_token.lock();
        let count = counts.entry(token.to_owned()).or_default();
        if *count >= MAX_STREAMS_PER_TOKEN {
            let detail = format!("{MAX_STREAMS_PER_TOKEN} pages are open with this token already");
            return Err(too_many(StatusCode::TOO_MANY_REQUESTS, detail));
        }
        *count += 1;
        let by_token = Arc::clone(&self.by_token);
        let token = token.to_owned();
        Ok(StreamPlace { token, by_token, _place: place, _of_tenants: of_tenants })
    }

    /// Waits for the turn to render; `None` if there is none any more.
    pub(super) async fn turn(&self, is_tenant: bool) -> Option<RenderTurn> {
        let turn = if is_tenant { &self.tenants_turn } else { &self.operators_turn };
        Arc::clone(turn).acquire_owned().await.ok().map(|_permit| RenderTurn { _permit })
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
        let enter = |token: &str| streams.enter(token, false).map_err(|it| it.status().as_u16());
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
    async fn tenants_take_neither_all_places_nor_the_turn_of_operators() {
        let streams = Streams::new(Duration::from_secs(75));
        let tenants = ["acme", "globex"].into_iter().cycle();
        let held: Vec<_> = tenants.map_while(|it| streams.enter(it, true).ok()).collect();
        assert_eq!(held.len(), MAX_TENANT_STREAMS);
        assert!(streams.enter("operator", false).is_ok());
        let _held = streams.turn(true).await;
        assert!(streams.turn(false).await.is_some(), "the turn of operators is free");
    }

    #[tokio::test]
    async fn rendering_pauses_longer_than_it_works() {
        let streams = Streams::new(Duration::from_secs(75));
        let watch = tollgate::Stopwatch::start();
        for _ in 0..5 {
            let turn = streams.turn(false).await.expect("a turn");
            turn.end(Duration::from_micros(100));
        }
        let _last = streams.turn(false).await;
        assert!(watch.elapsed() >= Duration::from_micros(100) * PAUSE_FACTOR * 5);
    }
}

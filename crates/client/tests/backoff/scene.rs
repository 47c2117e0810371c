//! A service with scripted responses, which remembers its requests and their times.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate_client::backoff::{Backoff, BackoffError, BackoffLayer};
use tollgate_testbed::tokio_now;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

pub(crate) type Service = BoxCloneSyncService<Request<String>, Response<String>, Infallible>;
pub(crate) type Called = Result<Response<String>, BackoffError<Infallible>>;

/// A response with these header fields.
pub(crate) fn answer(status: u16, fields: &[(&str, &str)]) -> Response<String> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(String::new()).expect("an answer")
}

/// How long a response takes.
#[derive(Clone, Copy)]
struct Delay(Duration);

/// The same response, sent after a delay.
pub(crate) fn delayed(delay: Duration, mut response: Response<String>) -> Response<String> {
    response.extensions_mut().insert(Delay(delay));
    response
}

/// What the service was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) at: Duration,
    pub(crate) request: Request<String>,
}

/// A service, and what is known about it.
#[derive(Clone)]
pub(crate) struct Scene {
    started: Instant,
    script: Arc<Mutex<VecDeque<Response<String>>>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Scene {
    /// A service that gives these responses, and then only successes.
    pub(crate) fn new(script: impl IntoIterator<Item = Response<String>>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { started: tokio_now(), script, sent: Arc::default() }
    }

    pub(crate) fn service(&self) -> Service {
        let scene = self.clone();
        BoxCloneSyncService::new(service_fn(move |request| {
            let scene = scene.clone();
            async move {
                let response = scene.take(request);
                if let Some(Delay(delay)) = response.extensions().get().copied() {
                    tokio::time::sleep(delay).await;
                }
                Ok(response)
            }
        }))
    }

    fn take(&self, request: Request<String>) -> Response<String> {
        self.sent.lock().expect("no panic").push(Sent { at: self.elapsed(), request });
        let next = self.script.lock().expect("no panic").pop_front();
        next.unwrap_or_else(|| Response::new("content".to_owned()))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        tokio_now().duration_since(self.started)
    }

    /// All requests since the last call.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().expect("no panic"))
    }

    /// The times of all requests since the last call.
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.sent().into_iter().map(|sent| sent.at).collect()
    }

    /// The service with a caller who backs off.
    pub(crate) fn with<C: Clone>(&self, layer: &BackoffLayer<C>) -> Backoff<Service, C> {
        layer.layer(self.service())
    }
}

pub(crate) fn request(method: &str, uri: &str) -> Request<String> {
    Request::builder().method(method).uri(uri).body("body".to_owned()).expect("a request")
}

pub(crate) async fn get(
    client: &Backoff<Service, tollgate_client::backoff::CloneBody>,
    uri: &str,
) -> Called {
    let mut client = client.clone();
    client.ready().await?.call(request("GET", uri)).await
}

pub(crate) fn status(called: &Called) -> StatusCode {
    called.as_ref().expect("an answer").status()
}

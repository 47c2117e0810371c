//! Calls to a service during its cooldown are not sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tollgate_client::backoff::{BackoffError, BackoffLayer, DuringCooldown};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::scene::{Called, Scene, answer, delayed, get, request, status};

const A: &str = "http://a.example.com/orders";
const B: &str = "http://b.example.com/orders";
const CHANCE: Duration = Duration::from_millis(102);

fn cooling_down(called: Called) -> (String, Duration) {
    match called {
        Err(BackoffError::CoolingDown { authority, wait }) => (authority, wait),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_once_nothing_is_left() {
    let forms: [&[(&str, &str)]; 3] = [
        &[("ratelimit", "\"a\";r=0;t=5")],
        &[("ratelimit-remaining", "0"), ("ratelimit-reset", "5")],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")],
    ];
    for form in forms {
        let scene = Scene::new([answer(200, form)]);
        let client = scene.with(&BackoffLayer::new());
        for uri in [A, B, A, A] {
            assert_eq!(status(&get(&client, uri).await), StatusCode::OK);
        }
        let [first, other, held, free] = &*scene.times() else { panic!("{form:?}") };
        assert_eq!((*first, *other), (Duration::ZERO, Duration::ZERO), "{form:?}");
        let asked = Duration::from_secs(5);
        assert!((asked..=asked + CHANCE).contains(held), "{form:?} {held:?}");
        assert_eq!(held, free, "{form:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_back_all_calls_also_those_that_are_not_repeated() {
    let scene = Scene::new([answer(429, &[("retry-after", "5")])]);
    let mut client = scene.with(&BackoffLayer::new());
    for expected in [StatusCode::TOO_MANY_REQUESTS, StatusCode::OK] {
        let called = client.ready().await.expect("ready").call(request("POST", A)).await;
        assert_eq!(status(&called), expected);
    }
    let times = scene.times();
    assert!(times[1] >= Duration::from_secs(5), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_wait_fail_at_once() {
    let exhausted = || answer(200, &[("ratelimit", "\"a\";r=0;t=60")]);
    let impatient = BackoffLayer::new().during_cooldown(DuringCooldown::Fail);
    // A call that would have to wait for too long fails too.
    let patient = BackoffLayer::new().total(Duration::from_secs(30));
    for layer in [impatient, patient] {
        let scene = Scene::new([exhausted()]);
        let client = scene.with(&layer);
        assert_eq!(
            status(&get(&client, "http://me:hush@A.example.com:81/x").await),
            StatusCode::OK
        );
        tokio::time::advance(Duration::from_secs(20)).await;
        let held = cooling_down(get(&client, "http://a.example.com:81/y").await);
        assert_eq!(held, ("a.example.com:81".to_owned(), Duration::from_secs(40)));
        assert_eq!(scene.elapsed(), Duration::from_secs(20));
        // Another port is another service.
        assert_eq!(status(&get(&client, A).await), StatusCode::OK);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(status(&get(&client, "http://a.example.com:81/y").await), StatusCode::OK);
        assert_eq!(scene.times().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_without_an_authority_is_known_by_its_host() {
    let scene = Scene::new([answer(200, &[("ratelimit", "\"a\";r=0;t=60")])]);
    let mut client = scene.with(&BackoffLayer::new().during_cooldown(DuringCooldown::Fail));
    let mut call = async |host: &str| {
        let request = Request::get("/orders").header("host", host).body(String::new());
        client.ready().await?.call(request.expect("a request")).await
    };
    assert_eq!(status(&call("a").await), StatusCode::OK);
    assert_eq!(status(&call("b").await), StatusCode::OK);
    assert_eq!(cooling_down(call("a").await).0, "a");
}

#[tokio::test(start_paused = true)]
async fn no_service_is_lost_for_ever() {
    // A service that means milliseconds.
    let far = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794723713000")];
    let scene = Scene::new([
        answer(200, &far),
        answer(200, &[("ratelimit", "\"a\";r=0;t=99999999999999")]),
    ]);
    let layer = BackoffLayer::new().during_cooldown(DuringCooldown::Fail);
    let client = scene.with(&layer.max_cooldown(Duration::from_secs(3_600)));
    for _ in 0..2 {
        assert_eq!(status(&get(&client, A).await), StatusCode::OK);
        assert_eq!(cooling_down(get(&client, A).await).1, Duration::from_secs(3_600));
        tokio::time::advance(Duration::from_secs(3_600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn authorities_are_bounded_in_number() {
    let exhausted = (0..50).map(|_| answer(200, &[("ratelimit", "\"a\";r=0;t=60")]));
    let scene = Scene::new(exhausted);
    let layer = BackoffLayer::new().during_cooldown(DuringCooldown::Fail).authorities(10);
    let client = scene.with(&layer);
    let uri = |number: usize| format!("http://{number}.example.com/");
    for number in 0..50 {
        assert_eq!(status(&get(&client, &uri(number)).await), StatusCode::OK);
    }
    let mut held = 0;
    for number in 0..50 {
        held += usize::from(get(&client, &uri(number)).await.is_err());
    }
    assert_eq!(held, 10);
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_do_not_hold_capacity() {
    let scene = Scene::new([answer(200, &[("ratelimit", "\"a\";r=0;t=5")])]);
    let narrow = ConcurrencyLimitLayer::new(1).layer(scene.service());
    let client = BackoffLayer::new().layer(narrow);
    let call = |uri: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.oneshot(request("GET", uri)).await.is_ok() })
    };
    assert!(call(A).await.expect("no panic"));
    let (held, other) = (call(A), call(B));
    assert!(other.await.expect("no panic"));
    assert_eq!(scene.elapsed(), Duration::ZERO);
    assert!(held.await.expect("no panic"));
    assert!(scene.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_lost_when_another_call_lengthens_the_hold() {
    // One layer does not wait during a cooldown, the other would wait for too long.
    let impatient = BackoffLayer::new().during_cooldown(DuringCooldown::Fail);
    let patient = BackoffLayer::new().total(Duration::from_secs(30));
    for layer in [impatient, patient] {
        let nothing_left = answer(200, &[("ratelimit", "\"a\";r=0;t=60")]);
        let scene = Scene::new([
            delayed(Duration::from_millis(500), nothing_left),
            answer(429, &[("retry-after", "1")]),
            answer(503, &[]),
        ]);
        let client = scene.with(&layer.budget(0, 1));
        let (slow, refused) = tokio::join!(get(&client, A), get(&client, A));
        assert_eq!(status(&slow), StatusCode::OK);
        assert_eq!(status(&refused), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.expect("an answer").headers()["retry-after"], "1");
        assert_eq!(scene.times().len(), 2);
        // A retry that was not sent is not charged to the budget.
        assert_eq!(status(&get(&client, B).await), StatusCode::OK);
        assert_eq!(scene.times().len(), 2);
    }
}

/// A service with a capacity of one, which is taken until the response is dropped.
struct OnePlace {
    scene: Scene,
    free: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Clone for OnePlace {
    fn clone(&self) -> Self {
        Self { scene: self.scene.clone(), free: Arc::clone(&self.free), taken: None }
    }
}

impl tower::Service<Request<String>> for OnePlace {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.taken = self.taken.take().or_else(|| Arc::clone(&self.free).try_acquire_owned().ok());
        if self.taken.is_some() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let (service, place) = (self.scene.service(), self.taken.take().expect("it was ready"));
        Box::pin(async move {
            let mut response = service.oneshot(request).await?;
            response.extensions_mut().insert(Arc::new(place));
            Ok(response)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_kept_does_not_block_its_own_repetition() {
    let scene = Scene::new([answer(429, &[("retry-after", "1")])]);
    let narrow = OnePlace { scene, free: Arc::new(Semaphore::new(1)), taken: None };
    let call = BackoffLayer::new().layer(narrow).oneshot(request("GET", A));
    let answered = timeout(Duration::from_secs(60), call).await.expect("no deadlock");
    assert_eq!(status(&answered), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_not_sent_do_not_fill_the_budget() {
    let scene = Scene::new([
        answer(503, &[]),
        answer(200, &[]),
        answer(200, &[("ratelimit", "\"a\";r=0;t=60")]),
        answer(503, &[]),
    ]);
    let layer = BackoffLayer::new().during_cooldown(DuringCooldown::Fail).budget(10, 1);
    let client = scene.with(&layer);
    // The repetition that there is, and a call that leaves nothing.
    for _ in 0..2 {
        assert_eq!(status(&get(&client, A).await), StatusCode::OK);
    }
    for _ in 0..20 {
        cooling_down(get(&client, A).await);
    }
    assert_eq!(status(&get(&client, B).await), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_service_is_a_host_and_the_port_it_is_asked_at() {
    async fn check(first: &str, second: &str, is_same: bool) {
        let scene = Scene::new([answer(200, &[("ratelimit", "\"a\";r=0;t=60")])]);
        let client = scene.with(&BackoffLayer::new().during_cooldown(DuringCooldown::Fail));
        assert_eq!(status(&get(&client, first).await), StatusCode::OK);
        let is_cooling_down = get(&client, second).await.is_err();
        assert_eq!(is_cooling_down, is_same, "{first} {second}");
    }
    check("http://h/", "http://h:80/", true).await;
    check("https://h:443/", "https://H/", true).await;
    check("http://h/", "https://h/", false).await;
    check("http://h:443/", "https://h/", true).await;
    check("http://h:81/", "http://h/", false).await;
    check("http://[::1]/", "http://[::1]:80/", true).await;
    check("http://me:hush@h/", "http://h/", true).await;
}

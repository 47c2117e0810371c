//! When a refusal is passed on: what may not be repeated, too many attempts, no time, no budget.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tollgate_client::backoff::{BackoffError, BackoffLayer, CopyBody};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::scene::{Scene, answer, get, request, status};

const URI: &str = "http://api.example.com/orders";

/// Sends a request to a service that refuses once, and says how often it was sent.
async fn times_sent<C>(layer: &BackoffLayer<C>, code: u16, method: &str) -> usize
where
    C: CopyBody<String> + Send + Sync + 'static,
{
    let scene = Scene::new([answer(code, &[("retry-after", "1")])]);
    let mut client = scene.with(layer);
    let called = client.ready().await.expect("ready").call(request(method, URI)).await;
    let sent = scene.times().len();
    let expected = if sent == 2 { StatusCode::OK.as_u16() } else { code };
    assert_eq!(status(&called).as_u16(), expected, "{method} {code}");
    sent
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_repeated_is() {
    let careful = BackoffLayer::new();
    let told = BackoffLayer::new().any_method();
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        assert_eq!(times_sent(&careful, 429, method).await, 2, "{method}");
        assert_eq!(times_sent(&careful, 503, method).await, 2, "{method}");
    }
    for method in ["POST", "PATCH", "CONNECT", "BREW"] {
        assert_eq!(times_sent(&careful, 429, method).await, 1, "{method}");
        assert_eq!(times_sent(&told, 429, method).await, 2, "{method}");
    }
    for code in [200, 204, 301, 400, 401, 404, 408, 425, 500, 502, 504] {
        assert_eq!(times_sent(&told, code, "GET").await, 1, "{code}");
    }
    let once = BackoffLayer::new().copy_body(|_: &String| None);
    assert_eq!(times_sent(&once, 429, "GET").await, 1);
    let made = BackoffLayer::new().copy_body(|body: &String| Some(body.clone()));
    assert_eq!(times_sent(&made, 429, "GET").await, 2);
    assert_eq!(times_sent(&BackoffLayer::new().attempts(1), 429, "GET").await, 1);
    assert_eq!(times_sent(&BackoffLayer::new().attempts(0), 429, "GET").await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_second_request_is_like_the_first() {
    let scene = Scene::new([answer(503, &[])]);
    let mut client = scene.with(&BackoffLayer::new());
    let mut asked = request("PUT", URI);
    asked.headers_mut().insert("x-mark", "yes".parse().expect("a value"));
    asked.extensions_mut().insert(7_u8);
    *asked.version_mut() = http::Version::HTTP_10;
    let called = client.ready().await.expect("ready").call(asked).await;
    assert_eq!(called.expect("an answer").body(), "content");
    let described: Vec<String> = scene
        .sent()
        .iter()
        .map(|sent| format!("{:?} {:?}", sent.request, sent.request.extensions().get::<u8>()))
        .collect();
    let [first, second] = &*described else { panic!("{described:?}") };
    assert_eq!(first, second);
    assert!(first.contains("x-mark") && first.contains("Some(7)"), "{first}");
}

#[tokio::test(start_paused = true)]
async fn after_the_last_attempt_the_refusal_is_the_answer() {
    for attempts in 1..6 {
        let scene = Scene::new((0..10).map(|_| answer(429, &[("retry-after", "1")])));
        let client = scene.with(&BackoffLayer::new().attempts(attempts));
        assert_eq!(status(&get(&client, URI).await), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(scene.times().len(), attempts as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_time_to_wait_gets_the_refusal_at_once() {
    let scene =
        Scene::new([answer(429, &[("retry-after", "8")]), answer(429, &[("retry-after", "8")])]);
    let client = scene.with(&BackoffLayer::new().total(Duration::from_secs(10)));
    assert_eq!(status(&get(&client, URI).await), StatusCode::TOO_MANY_REQUESTS);
    // It waited eight seconds; another eight would exceed the total.
    assert_eq!(scene.times().len(), 2);
    assert!(scene.elapsed() < Duration::from_secs(9), "{:?}", scene.elapsed());
    for endless in ["31536000", "18446744073709551615"] {
        let scene = Scene::new([answer(429, &[("retry-after", endless)])]);
        let client = scene.with(&BackoffLayer::new().total(Duration::MAX).attempts(1));
        assert_eq!(status(&get(&client, URI).await), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(scene.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_in_trouble_gets_little_more_than_its_calls() {
    let scene = Scene::new((0..2_000).map(|_| answer(503, &[])));
    let client = scene.with(&BackoffLayer::new().budget(10, 5));
    for _ in 0..500 {
        assert_eq!(status(&get(&client, URI).await), StatusCode::SERVICE_UNAVAILABLE);
    }
    // Five at once, and one of ten.
    let repeated = scene.times().len() - 500;
    assert!((50..=55).contains(&repeated), "{repeated} were repeated");
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_service_are_passed_on() {
    let broken = service_fn(async |_: Request<String>| Err::<Response<String>, _>("broken"));
    let mut client = BackoffLayer::new().layer(broken);
    let called = client.ready().await.expect("ready").call(request("GET", URI)).await;
    assert_eq!(called.expect_err("an error"), BackoffError::Inner("broken"));
    let inner: BackoffError<Infallible> =
        BackoffError::CoolingDown { authority: "a:80".to_owned(), wait: Duration::from_secs(2) };
    assert_eq!(inner.to_string(), "not sent: a:80 asked not to be called for another 2s");
}

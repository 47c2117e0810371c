//! A limiter in front of real services: axum and tonic over sockets, and services made for one test
//! where the result cannot be seen from outside.

mod corrections;
mod fields;
mod fleet;
mod grpc;
mod held;
mod identity;
mod leaving;
mod paths;
mod prices;
mod refusals;
mod service;
mod site;
mod watched;

use crate::faulty;
use crate::scene;

use scene::MIDNIGHT;
use site::{Site, layer, limiter};

/// Sends requests to a site one after the other and compares the responses.
///
/// A request is what [`Site::ask`] reads. An expectation is a status and fields, such as
/// `429 retry-after=60`; a field that must not be there is `x-ratelimit-limit=-`.
async fn check(site: &Site, steps: &[(&str, &str)]) {
    for (number, (asked, expected)) in steps.iter().enumerate() {
        let answer = site.ask(asked).await;
        assert_eq!(answer.looked_at(expected), *expected, "step {number}, `{asked}`: {answer:?}");
    }
}

//! A request that is composed in a browser, explained and charged.

use serde_json::json;

use crate::script::run;
use crate::shop;

#[test]
fn a_request_is_composed_explained_and_charged() {
    let server = shop::open();
    shop::busy(&server);
    run("try_request.py", &server, &json!({}));
}

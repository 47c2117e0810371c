//! Figures that move: what an open page shows is what `/metrics` says, and charts can be read by keyboard.

use serde_json::json;

use crate::script::run;
use crate::shop;

#[test]
fn an_open_page_shows_what_the_metrics_say() {
    let server = shop::open();
    // The last ones are uploads beyond what is admitted at once.
    let mut rounds: Vec<_> = (0..4).map(shop::round).collect();
    rounds.push((0..8).flat_map(|_| shop::round(3)).collect());
    run("figures.py", &server, &json!({"rounds": rounds}));
}

#[test]
fn pages_are_used_by_keyboard() {
    let server = shop::open();
    shop::busy(&server);
    run("keyboard.py", &server, &json!({}));
}

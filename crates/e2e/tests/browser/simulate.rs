//! The page that replays an access log, in a browser: a file is chosen, rules are edited, and texts of the log do not run.

use serde_json::json;
use tollgate_e2e::server::{Server, Setup};

use crate::script::run;
use crate::shop;

#[test]
fn a_log_is_replayed_and_its_texts_do_not_run() {
    let server = Server::start(&Setup { settings: shop::OFTEN, ..Setup::default() });
    let rules = json!({"rules": [{"rule_id": "per_ip", "limit": 10, "window": "1m", "identifier_type": "ip"}]});
    shop::write(&server, "PUT", "/api/v1/policy?prune=rules", &rules);
    run("simulate.py", &server, &json!({}));
}

//! A rule in the browser: edited, checked, tried on a known history, saved, restored.

use serde_json::{Value, json};
use tollgate_e2e::server::{Server, Setup};

use crate::script::run;
use crate::shop;

/// A rule with a very long window, by user.
fn few() -> Value {
    json!({"rule_id": "few", "limit": 5, "window": "300d", "identifier_type": "user_id"})
}

#[test]
fn a_rule_is_edited_linted_previewed_saved_and_rolled_back() {
    let server = Server::start(&Setup { settings: shop::OFTEN, ..Setup::default() });
    shop::write(&server, "PUT", "/api/v1/policy?prune=rules", &json!({"rules": [few()]}));
    // Beyond 5 requests each there are 15 of ann and 2 of bob.
    let checks: Vec<Value> = [("ann", 20), ("bob", 7), ("eve", 1)]
        .into_iter()
        .flat_map(|(user, count)| vec![json!({"identifiers": {"user_id": user}}); count])
        .collect();
    shop::check_all(&server, &checks);
    run("editing.py", &server, &json!({}));
}

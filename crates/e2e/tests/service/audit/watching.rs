//! A rule with `action: log_only` names the clients that it would have refused.

use serde_json::json;

use super::{DECISIONS, brief, check, outcomes, read, records, start};
use tollgate_e2e::until;

#[test]
fn log_only_names_the_clients_it_would_have_refused() {
    let rule = json!({
        "rule_id": "idea", "limit": 1, "window": "300d", "identifier_type": "user_id",
        "action": "log_only",
    });
    let server = start("{sample_allowed: 0}", &json!({"rules": [rule]}));
    check(&server, "ann", 3);
    check(&server, "bob", 2);
    check(&server, "eve", 1);
    until("three records", || (outcomes(&server)[0] >= 3).then_some(()));
    let found = records(&server, &format!("{DECISIONS}?action=would_refuse"));
    let fields = ["client", "action", "rule_id", "limit", "remaining", "endpoint"];
    assert_eq!(
        brief(&found, &fields),
        [
            "bob would_refuse idea 1 0 /orders",
            "ann would_refuse idea 1 0 /orders",
            "ann would_refuse idea 1 0 /orders"
        ]
    );
    assert_eq!(records(&server, &format!("{DECISIONS}?action=refused")), [json!(null); 0]);
    let top = read(&server, "/api/v1/top?by=client");
    let names = |list: &str| {
        let top = top[list]["top"].as_array().expect("a list");
        brief(top, &["name", "count"])
    };
    assert_eq!(names("would_refuse"), ["ann 2", "bob 1"]);
    assert_eq!(names("refused"), [""; 0]);
    let rules = read(&server, "/api/v1/top?by=rule");
    assert_eq!(rules["would_refuse"]["top"][0]["name"], "idea");
}

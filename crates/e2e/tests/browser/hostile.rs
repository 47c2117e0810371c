//! Texts that clients and operators choose, in a browser that would run them if a page let it.

use serde_json::json;
use tollgate_e2e::until;

use crate::script::run;
use crate::shop::{self, check_all, write};

/// Markup that calls a function of the test if it runs, quotes, marks of direction, and a word without an end.
pub(crate) const HOSTILE: &str = "\"'><script>pwned()</script><img src=x onerror=pwned()><svg onload=pwned()>\u{202e}\u{200b}\u{2066}&lt;</textarea></title></script>`${pwned()}`javascript:pwned()//xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

#[test]
fn texts_of_others_never_run() {
    let server = shop::open();
    let rule = |rule_id: &str, tenant: Option<&str>| {
        let mut rule = json!({"rule_id": rule_id, "name": HOSTILE, "description": HOSTILE, "limit": 1,
            "window": "1h", "identifier_type": "user_id"});
        if let Some(tenant) = tenant {
            rule["tenant"] = tenant.into();
        }
        rule
    };
    write(&server, "POST", "/api/v1/rules", &rule("r", None));
    write(&server, "POST", "/api/v1/rules", &rule("s", Some(HOSTILE)));
    let named = json!({"identifier_type": "user_id", "identifier": HOSTILE});
    let with = |fields: serde_json::Value| {
        let mut body = named.clone();
        body.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
        body
    };
    let tiers =
        json!({"tiers": [{"tier": "free", "default": true}, {"tier": "pro"}, {"tier": HOSTILE}]});
    write(&server, "PUT", "/api/v1/tiers", &tiers);
    write(&server, "PUT", "/api/v1/clients", &with(json!({"tier": HOSTILE})));
    write(&server, "PUT", "/api/v1/overrides", &with(json!({"rule_id": "per_user", "limit": 2})));
    let other = json!({"identifier_type": "user_id", "identifier": format!("2{HOSTILE}"), "reason": HOSTILE});
    write(&server, "POST", "/api/v1/blacklist", &other);
    write(&server, "POST", "/api/v1/whitelist", &other);
    write(&server, "POST", "/api/v1/tokens", &json!({"role": "viewer", "name": HOSTILE}));
    let key = json!({"name": HOSTILE, "owner": HOSTILE, "tier": HOSTILE, "tenant": HOSTILE});
    write(&server, "POST", "/api/v1/api-keys", &key);
    let check = json!({
        "identifiers": {"user_id": HOSTILE, "tenant": HOSTILE}, "endpoint": format!("/{HOSTILE}"), "method": HOSTILE,
        "attributes": {"header:user-agent": HOSTILE},
    });
    check_all(&server, &vec![check.clone(); 5]);
    let decision = until("the refusal in the log", || {
        let log = server.get_as_admin("/api/v1/audit/decisions").json();
        let id = log["records"].as_array()?.iter().find_map(|it| it["decision_id"].as_str());
        id.map(str::to_owned)
    });
    run("hostile.py", &server, &json!({"text": HOSTILE, "decision": decision, "check": check}));
}

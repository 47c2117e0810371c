//! The top lists of clients, rules and endpoints.

use serde_json::{Value, json};

use super::{read, start};

/// Checks of users at endpoints, so many of each, in one call.
fn batch(checks: &[(&str, &str, usize)]) -> String {
    let check = |(user, endpoint, count): &(&str, &str, usize)| {
        vec![json!({"identifiers": {"user_id": user}, "endpoint": endpoint}); *count]
    };
    json!({"checks": checks.iter().flat_map(check).collect::<Vec<Value>>()}).to_string()
}

fn names(list: &Value) -> Vec<String> {
    super::brief(list["top"].as_array().expect("a list"), &["name", "count"])
}

#[test]
fn the_most_refused_clients_come_first() {
    let by_user = json!({"rule_id": "users", "limit": 0, "window": "1h", "identifier_type": "user_id", "key_pattern": "u*"});
    let others = json!({"rule_id": "others", "limit": 1, "window": "1h", "identifier_type": "user_id", "key_pattern": "o*"});
    let server = start("{sample_allowed: 1}", &json!({"rules": [by_user, others]}));
    let body = batch(&[("u1", "/a", 30), ("u2", "/b", 20), ("u3", "/a", 10), ("other", "/c", 6)]);
    assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    let ranked = |query: &str| read(&server, &format!("/api/v1/top?{query}"));
    assert_eq!(names(&ranked("by=rule")["busiest"]), ["users 60", "others 6"]);
    let check = |query: &str, refused: &[&str], busiest: &[&str]| {
        let top = ranked(query);
        assert_eq!(names(&top["refused"]), refused, "{query}");
        assert_eq!(names(&top["busiest"]), busiest, "{query}");
        assert_eq!(
            (&top["refused"]["exact"], &top["refused"]["may_lack"]),
            (&json!(true), &json!(0))
        );
    };
    check("", &["u1 30", "u2 20", "u3 10", "other 5"], &["u1 30", "u2 20", "u3 10", "other 6"]);
    check("by=client&limit=1&window=300", &["u1 30"], &["u1 30"]);
    check("by=endpoint", &["/a 40", "/b 20", "/c 5"], &["/a 40", "/b 20", "/c 6"]);
    check("by=rule&limit=5", &["users 60", "others 5"], &["users 60", "others 6"]);
    for query in [
        "by=user",
        "limit=0",
        "limit=101",
        "window=0",
        "window=301",
        "window=x",
        "of=all",
        "scope=all",
    ] {
        let answer = server.get_as_admin(&format!("/api/v1/top?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{query}");
    }
    // A heavy client stands out among thousands of others, and the ranking states its error.
    for thousand in 0..4 {
        let names: Vec<String> = (0..600).map(|number| format!("u {thousand} {number}")).collect();
        let mut crowd: Vec<_> = names.iter().map(|name| (name.as_str(), "/d", 1)).collect();
        crowd.push(("u heavy", "/d", 200));
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &batch(&crowd)).status, 200);
    }
    let top = ranked("limit=1");
    let refused = &top["refused"];
    assert_eq!(refused["top"][0]["name"], "u heavy", "{refused}");
    let count = refused["top"][0]["count"].as_u64().expect("a count");
    let may_lack = refused["may_lack"].as_u64().expect("a count");
    assert!(count <= 800 && count + may_lack >= 800, "{refused}");
    assert_eq!(refused["exact"], false, "{refused}");
}

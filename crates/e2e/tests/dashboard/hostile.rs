//! Texts that clients and operators choose: full of markup, quotes, marks of direction and terminal escapes.

use tollgate_e2e::server::{CHECK, JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

use crate::browser::{Browser, encoded, put_rule};

const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\u{200b}\u{1b}[31m&amp;</textarea></title>";

/// Markup that must not be on a page as it is.
const MARKUP: [&str; 3] = ["<script>alert", "<img src=x", "</textarea></title>"];
/// Characters that must not be on a page as they are, except in fields of forms, which are sent as they were typed.
const INVISIBLE: [char; 3] = ['\u{202e}', '\u{200b}', '\u{1b}'];

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[test]
fn hostile_texts_are_shown_as_text_on_every_page() {
    let server = Server::start(&Setup::default());
    let text = json(HOSTILE);
    put_rule(
        &server,
        &format!(
            r#"{{"rule_id":"r","name":{text},"description":{text},"limit":1,"window":"1h","identifier_type":"user_id",
                "tenant":{text},"applies_to":{{"attributes":{{"header:user-agent":["*"]}}}}}}"#
        ),
    );
    put_rule(
        &server,
        &format!(
            r#"{{"rule_id":"s","name":{text},"limit":1,"window":"1h","identifier_type":"user_id","description":{text}}}"#
        ),
    );
    put_rule(&server, r#"{"rule_id":"t","limit":1,"window":"1h","identifier_type":"user_id"}"#);
    let write = |method: &str, path: &str, body: &str| {
        let made = server.ask(method, path, &[JSON, bearer_admin()], body);
        assert!(matches!(made.status, 200 | 201), "{path}: {made:?}");
    };
    let listed = format!(r#"{{"identifier_type":"user_id","identifier":{text},"reason":{text}}}"#);
    write("POST", "/api/v1/whitelist", &listed);
    write("PUT", "/api/v1/tiers", &format!(r#"{{"tiers":[{{"tier":{text}}}]}}"#));
    let tier = format!(r#"{{"identifier_type":"user_id","identifier":{text},"tier":{text}}}"#);
    write("PUT", "/api/v1/clients", &tier);
    let exception =
        format!(r#"{{"identifier_type":"user_id","identifier":{text},"rule_id":"t","limit":1}}"#);
    write("PUT", "/api/v1/overrides", &exception);
    write("POST", "/api/v1/tokens", &format!(r#"{{"role":"viewer","name":{text}}}"#));
    let key = format!(r#"{{"name":{text},"owner":{text},"tier":{text},"tenant":{text}}}"#);
    write("POST", "/api/v1/api-keys", &key);
    let removed = server.ask(
        "DELETE",
        &format!(
            "/api/v1/whitelist?{}",
            encoded(&[("identifier_type", "user_id"), ("identifier", HOSTILE)])
        ),
        &[bearer_admin()],
        "",
    );
    assert_eq!(removed.status, 204, "{removed:?}");
    let body = format!(
        r#"{{"identifiers":{{"user_id":{text},"tenant":{text}}},"endpoint":{},"method":{text},"attributes":{{"header:user-agent":{text}}}}}"#,
        json(&format!("/{HOSTILE}"))
    );
    let mut id = String::new();
    for _ in 0..3 {
        let answer = server.ask("POST", CHECK, &[JSON], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        id = answer.json()["decision_id"].as_str().unwrap_or_default().to_owned();
    }
    let mut browser = Browser::admin(&server);
    until("the refusal in the log", || {
        let log = server.get_as_admin("/api/v1/audit/decisions").json();
        log["records"].as_array().filter(|records| records.len() > 1).map(drop)
    });
    let q = encoded(&[("q", HOSTILE)]);
    let client = encoded(&[
        ("type", "user_id"),
        ("value", HOSTILE),
        ("type", HOSTILE),
        ("value", HOSTILE),
        ("endpoint", HOSTILE),
        ("method", HOSTILE),
    ]);
    let one = encoded(&[("type", "user_id"), ("value", HOSTILE)]);
    let tried = encoded(&[
        ("method", HOSTILE),
        ("endpoint", HOSTILE),
        ("host", HOSTILE),
        ("user_id", HOSTILE),
        ("ip", HOSTILE),
        ("tenant", HOSTILE),
        ("tier", HOSTILE),
        ("attributes", &format!("header:user-agent={HOSTILE}")),
    ]);
    let filter = encoded(&[
        ("actor", HOSTILE),
        ("entry", HOSTILE),
        ("tenant", HOSTILE),
        ("since", HOSTILE),
        ("client", HOSTILE),
        ("rule_id", HOSTILE),
    ]);
    let name = encoded(&[("", HOSTILE)]).replacen('=', "", 1);
    let pages = [
        "/".to_owned(),
        "/?range=%22%3E%3Cscript%3Ealert".to_owned(),
        "/?notice=%3Cscript%3Ealert(1)&of=%3Cscript%3Ealert".to_owned(),
        "/ui/rules".to_owned(),
        format!("/ui/rules?{q}&state=x&order=x&after=x"),
        "/ui/rules/r".to_owned(),
        "/ui/rules/r?edit=yaml".to_owned(),
        "/ui/rules/s".to_owned(),
        "/ui/rules/s?edit=yaml".to_owned(),
        format!("/ui/rules/{name}"),
        "/ui/clients".to_owned(),
        format!("/ui/clients?{q}&type=user_id"),
        format!("/ui/client?{client}"),
        format!("/ui/client?{one}"),
        "/ui/live".to_owned(),
        format!("/ui/live?{filter}"),
        format!("/ui/try?{tried}"),
        "/ui/audit".to_owned(),
        format!("/ui/audit?{filter}"),
        "/ui/audit?log=decisions".to_owned(),
        format!("/ui/audit?log=decisions&{filter}"),
        "/ui/lists".to_owned(),
        "/ui/lists?list=whitelist".to_owned(),
        "/ui/lists?list=overrides".to_owned(),
        format!("/ui/lists?list=blacklist&{q}"),
        "/ui/keys".to_owned(),
        "/ui/health".to_owned(),
        format!("/ui/decisions/{id}"),
        format!("/ui/decisions/{name}"),
        format!("/ui/{name}"),
        format!("/ui/sign-in?next={name}"),
    ];
    for path in &pages {
        let page = browser.get(path);
        assert!(page.status < 500, "{path}: {page:?}");
        assert_clean(path, &page.text());
    }
    for path in [&pages[0], "/ui/rules/r", "/ui/live", &format!("/ui/client?{one}")] {
        let mut stream = browser.stream(path);
        let event = stream.read_until(b"event: fragment");
        assert_clean(path, &event);
    }
    for (path, fields) in [
        ("/ui/sign-in", vec![("token", HOSTILE), ("next", HOSTILE)]),
        (
            "/ui/rules/r",
            vec![("do", "preview"), ("mode", "yaml"), ("yaml", HOSTILE), ("version", HOSTILE)],
        ),
        (
            "/ui/rules/r",
            vec![
                ("do", "save"),
                ("mode", "form"),
                ("name", HOSTILE),
                ("limit", HOSTILE),
                ("window", HOSTILE),
            ],
        ),
        ("/ui/rules/r/state", vec![("state", HOSTILE)]),
        (
            "/ui/client/override",
            vec![("type", HOSTILE), ("value", HOSTILE), ("rule_id", HOSTILE), ("limit", HOSTILE)],
        ),
        (
            "/ui/client/ban",
            vec![("type", HOSTILE), ("value", HOSTILE), ("reason", HOSTILE), ("minutes", HOSTILE)],
        ),
        ("/ui/tokens/create", vec![("role", HOSTILE), ("name", HOSTILE), ("days", HOSTILE)]),
        ("/ui/keys/create", vec![("tier", HOSTILE)]),
        ("/ui/refund", vec![("decision_id", HOSTILE)]),
        ("/ui/try", vec![("ip", HOSTILE), ("cost", HOSTILE)]),
    ] {
        let page = browser.post(path, &fields);
        assert!(page.status < 500, "{path}: {page:?}");
        assert_clean(path, &page.text());
    }
}

fn assert_clean(path: &str, text: &str) {
    for markup in MARKUP {
        assert!(!text.contains(markup), "{path} has {markup:?}: {text}");
    }
    let shown = without_fields(text);
    let found =
        shown.find(INVISIBLE).map(|at| shown[..at].chars().rev().take(300).collect::<String>());
    let before = found.map(|before| before.chars().rev().collect::<String>());
    assert_eq!(before, None, "{path} has an invisible character after this");
}

/// A page without what is in the fields of its forms.
fn without_fields(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    let fields = [(" value=\"", '"'), ("<textarea", '<')];
    while let Some((at, start, end)) =
        fields.iter().filter_map(|(start, end)| Some((rest.find(start)?, *start, *end))).min()
    {
        shown.push_str(&rest[..at]);
        let inside = &rest[at + start.len()..];
        rest = &inside[inside.find(end).map_or(inside.len(), |end| end + 1)..];
    }
    shown + rest
}

#[test]
fn fields_are_left_out_of_what_is_shown() {
    let page = "a<input value=\"b\">c<textarea name=x>d</textarea>e<option value=\"f\">g";
    assert_eq!(without_fields(page), "a<input>c/textarea>e<option>g");
}

//! A rule from its first form to its rollback, as plain form posts.

use serde_json::Value;
use tollgate_e2e::server::{Server, Setup};

use crate::browser::{Browser, put_rule, token};

const LOGIN: &str = r#"{"rule_id":"login","limit":5,"window":"1m","identifier_type":"ip",
    "applies_to":{"methods":["POST"],"endpoints":["/login"]},"costs":{"POST /login":2}}"#;

fn rule(server: &Server) -> Value {
    server.get_as_admin("/api/v1/rules/login?detail=true").json()
}

/// The fields of the form with another limit.
fn fields<'a>(limit: &'a str, version: &'a str, yaml: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("mode", "form"),
        ("yaml", yaml),
        ("version", version),
        ("rule_id", "login"),
        ("limit", limit),
        ("window", "1m"),
        ("algorithm", "sliding_window_counter"),
        ("identifier_type", "ip"),
        ("methods", "POST"),
        ("endpoints", "/login"),
        ("cost", "1"),
        ("enabled", "on"),
    ]
}

#[test]
fn a_rule_is_edited_linted_compared_saved_and_restored() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/rules/login");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text().contains("POST /login"), "{page:?}");
    let yaml = browser.get("/ui/rules/login?edit=yaml").text();
    assert!(yaml.contains("limit: 5"), "{yaml}");
    let version = rule(&server)["version"].to_string();
    let base = "rule_id: login\nlimit: 5\nwindow: 1m\nidentifier_type: ip\n\
                applies_to:\n  endpoints: [/login]\n  methods: [POST]\ncosts:\n  POST /login: 2\n";
    // A mistake gets advice, beside what was typed.
    let preview = |limit| [&[("do", "preview")][..], &fields(limit, &version, base)].concat();
    let wrong = browser.post("/ui/rules/login", &preview("many"));
    assert_eq!(wrong.status, 200, "{wrong:?}");
    assert!(wrong.text().contains("expected a whole number"), "{wrong:?}");
    assert!(wrong.text().contains("value=\"many\""), "what was typed stays: {wrong:?}");
    // The difference before it is saved; nothing is changed.
    let shown = browser.post("/ui/rules/login", &preview("10"));
    let text = shown.text();
    assert!(text.contains("limit: 5") && text.contains("limit: 10"), "{text}");
    assert_eq!(rule(&server)["limit"], 5);
    // A rule with errors is not saved.
    let save = |limit, version| [&[("do", "save")][..], &fields(limit, version, base)].concat();
    let refused = browser.post("/ui/rules/login", &save("many", &version));
    assert_eq!(refused.status, 422, "{refused:?}");
    let saved = browser.post("/ui/rules/login", &save("10", &version));
    assert_eq!(saved.status, 303, "{saved:?}");
    let location = saved.header("location").expect("a location").to_owned();
    assert!(location.starts_with("/ui/rules/login?notice=saved&of="), "{location}");
    assert!(browser.get(&location).text().contains("Saved as revision"), "{location}");
    let now = rule(&server);
    assert_eq!((&now["limit"], &now["costs"]["POST /login"]), (&10.into(), &2.into()), "{now}");
    // What another person changed meanwhile is not overwritten.
    let stale = browser.post("/ui/rules/login", &save("20", &version));
    assert_eq!(stale.status, 412, "{stale:?}");
    assert_eq!(rule(&server)["limit"], 10);
    // Back to the first revision.
    let history = server.get_as_admin("/api/v1/audit?kind=rule&entry=login").json();
    let first = history["records"][1]["revision"].to_string();
    let restored = browser.post("/ui/rules/login/rollback", &[("revision", &first)]);
    assert_eq!(restored.status, 303, "{restored:?}");
    assert_eq!(rule(&server)["limit"], 5);
    let page = browser.get("/ui/rules/login").text();
    assert!(page.contains("limit 10 \u{2192} 5"), "{page}");
    let unknown = browser.post("/ui/rules/login/rollback", &[("revision", "1")]);
    assert_eq!(unknown.status, 404, "there was no such rule yet: {unknown:?}");
}

/// A rule whose other fields only the text shows, as the form posts it.
const BASE: &str = "rule_id: login\nlimit: 5\nwindow: 1m\nidentifier_type: ip\n\
                    applies_to:\n  endpoints: [/login]\n  methods: [POST]\ncosts:\n  POST /login: 2\n";

#[test]
fn a_mistake_in_a_form_is_marked_at_its_field_and_loses_nothing() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    let version = rule(&server)["version"].to_string();
    let wrong = [&[("do", "preview")][..], &fields("many", &version, BASE)].concat();
    let page = browser.post("/ui/rules/login", &wrong).text();
    let field = page.split("name=\"limit\"").nth(1).expect("a field").split("</label>").next();
    let field = field.expect("its end");
    assert!(field.contains("aria-invalid=\"true\""), "{field}");
    assert!(field.contains("id=\"problem-limit\"") && field.contains("whole number"), "{field}");
    assert_eq!(page.matches("aria-invalid").count(), 1, "{page}");
    let findings = page.split("id=\"findings\"").nth(1).expect("findings");
    let findings = findings.split("</div>").next().expect("their end");
    assert!(!findings.contains(" line "), "a form has no lines: {findings}");
    let difference = page.split("id=\"difference\"").nth(1).expect("a place");
    assert!(difference.starts_with("></div>"), "{page}");
    assert!(!page.contains("cost: 1"), "{page}");
    // The text that fields are put into stays: what the form does not show is not lost.
    let base = page.split("name=\"yaml\" value=\"").nth(1).expect("the text");
    let base = base.split('"').next().expect("its end");
    assert_eq!(base, BASE);
    // As text, a mistake has its line.
    let text = [("do", "preview"), ("mode", "yaml"), ("yaml", "rule_id: login\nlimit: many\n")];
    assert!(browser.post("/ui/rules/login", &text).text().contains(" line 2"));
}

#[test]
fn an_edit_conflict_shows_what_the_other_changed_and_asks_before_it_is_overwritten() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    let began = rule(&server)["version"].to_string();
    put_rule(&server, &LOGIN.replace("\"limit\":5", "\"limit\":7"));
    let now = rule(&server)["version"].to_string();
    let form = |word, version| [&[("do", word)][..], &fields("20", version, BASE)].concat();
    for word in ["save", "preview", "save"] {
        let page = browser.post("/ui/rules/login", &form(word, &began));
        assert_eq!(page.status, if word == "save" { 412 } else { 200 }, "{page:?}");
        let text = page.text();
        let conflict = text.split("id=\"conflict\"").nth(1).expect("a conflict");
        let conflict = conflict.split("</section>").next().expect("its end");
        assert!(conflict.contains("<del>- limit: 5"), "{conflict}");
        assert!(conflict.contains("<ins>+ limit: 7"), "{conflict}");
        let button = format!("Save mine over version {now}");
        assert!(text.contains(&button) && !text.contains("Save as revision"), "{text}");
        // The form stays based on what it began with, so a plain save goes on failing.
        assert!(text.contains(&format!("name=\"version\" value=\"{began}\"")), "{text}");
        assert!(text.contains(&format!("name=\"over\" value=\"{now}\"")), "{text}");
        assert_eq!(rule(&server)["limit"], 7);
    }
    let over = |version| [&form("overwrite", &began)[..], &[("over", version)]].concat();
    let stale = browser.post("/ui/rules/login", &over(&began));
    assert_eq!(stale.status, 412, "only the version that was shown is replaced: {stale:?}");
    let saved = browser.post("/ui/rules/login", &over(&now));
    assert_eq!(saved.status, 303, "{saved:?}");
    assert_eq!(rule(&server)["limit"], 20);
}

#[test]
fn what_acts_on_a_rule_asks_first() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    put_rule(&server, &LOGIN.replace("\"limit\":5", "\"limit\":7"));
    let page = Browser::admin(&server).get("/ui/rules/login").text();
    for action in ["/state", "/rollback", "/delete"] {
        let forms = page.split(&format!("action=\"/ui/rules/login{action}\"")).collect::<Vec<_>>();
        assert!(forms.len() > 1, "{action}: {page}");
        for before in forms.iter().take(forms.len() - 1) {
            let panel = before.rfind("<div class=\"panel\"").expect("a menu");
            assert!(!before[panel..].contains("</details>"), "{action} is in a menu");
        }
    }
}

#[test]
fn a_rule_is_edited_as_text() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    let version = rule(&server)["version"].to_string();
    let text = "rule_id: login\nlimit: 7\nwindow: 1m\nidentifier_type: ip\n";
    let post = |browser: &mut Browser<'_>, what: &str, yaml: &str| {
        let fields = [("mode", "yaml"), ("do", what), ("yaml", yaml), ("version", &version)];
        browser.post("/ui/rules/login", &fields)
    };
    let broken = post(&mut browser, "preview", "rule_id: login\nlimit: 7\nwindw: 1m\n");
    assert!(broken.text().contains("windw"), "{broken:?}");
    let as_form = post(&mut browser, "as_form", text);
    assert!(as_form.text().contains("name=\"limit\""), "{as_form:?}");
    let broken = post(&mut browser, "as_form", "rule_id: [");
    assert!(broken.text().contains("The text has errors"), "{broken:?}");
    let renamed =
        post(&mut browser, "save", "rule_id: other\nlimit: 7\nwindow: 1m\nidentifier_type: ip\n");
    assert_eq!(renamed.status, 422, "{renamed:?}");
    assert_eq!(post(&mut browser, "save", text).status, 303);
    assert_eq!(rule(&server)["limit"], 7);
}

#[test]
fn a_rule_is_made_shadowed_disabled_enforced_and_deleted() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    assert_eq!(browser.get("/ui/new-rule").status, 200);
    let made =
        browser.post("/ui/new-rule", &[&[("do", "save")][..], &fields("5", "", "")].concat());
    assert_eq!(made.status, 303, "{made:?}");
    assert_eq!(rule(&server)["limit"], 5);
    let again =
        browser.post("/ui/new-rule", &[&[("do", "save")][..], &fields("9", "", "")].concat());
    assert_eq!(again.status, 412, "there is one already: {again:?}");
    for (state, enabled, action) in [
        ("shadow", Value::Null, Value::from("log_only")),
        ("disabled", Value::Bool(false), Value::from("log_only")),
        ("enforced", Value::Null, Value::Null),
    ] {
        let done = browser.post("/ui/rules/login/state", &[("state", state)]);
        assert_eq!(done.status, 303, "{done:?}");
        let now = rule(&server);
        let is_default = |value: &Value, default: &str| value == &Value::from(default);
        assert!(now["enabled"] == enabled || now["enabled"] == Value::Bool(true), "{state} {now}");
        assert!(now["action"] == action || is_default(&now["action"], "reject"), "{state} {now}");
        let listed = browser.get(&format!("/ui/rules?state={state}")).text();
        assert!(listed.contains("/ui/rules/login"), "{state}");
    }
    assert_eq!(browser.post("/ui/rules/login/state", &[("state", "odd")]).status, 422);
    let stale = browser.post("/ui/rules/login/delete", &[("version", "1")]);
    assert_eq!(stale.status, 412, "{stale:?}");
    assert_eq!(browser.post("/ui/rules/login/delete", &[]).status, 303);
    assert_eq!(server.get_as_admin("/api/v1/rules/login").status, 404);
    assert_eq!(browser.get("/ui/rules/login").status, 404);
}

#[test]
fn a_deleted_rule_has_a_page_from_which_it_is_restored() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    assert_eq!(browser.post("/ui/rules/login/state", &[("state", "shadow")]).status, 303);
    let shadowed = server.get_as_admin("/api/v1/audit?kind=rule&entry=login").json();
    let shadowed = shadowed["records"][0]["revision"].as_u64().expect("a revision");
    let deleted = browser.post("/ui/rules/login/delete", &[]);
    assert_eq!(deleted.status, 303, "{deleted:?}");
    let list = browser.get(deleted.header("location").expect("a location")).text();
    let link = "<a href=\"/ui/rules/login\">What it was, and the way back</a>";
    assert!(list.contains(link), "the notice leads to it: {list}");
    let audit = browser.get("/ui/audit").text();
    assert!(audit.contains("href=\"/ui/rules/login\""), "so does the audit log: {audit}");
    let page = browser.get("/ui/rules/login");
    assert_eq!(page.status, 404, "{page:?}");
    let text = page.text();
    for part in
        ["This rule was deleted", "action: log_only", "Restore login", "Roll back to revision"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let yaml = "rule_id: login\nlimit: 5\nwindow: 1m\n";
    assert!(text.contains(yaml), "as people write it, line by line: {text}");
    let before = format!("name=\"revision\" value=\"{shadowed}\"");
    assert!(text.contains(&before), "the last state comes back: {text}");
    // A viewer sees what it was, and no button; a rule that never was has no such page.
    let (_, secret) = token(&server, r#"{"role":"viewer"}"#);
    let seen = Browser::signed_in(&server, &secret).get("/ui/rules/login").text();
    assert!(seen.contains("This rule was deleted") && !seen.contains("Restore login"), "{seen}");
    assert!(!browser.get("/ui/rules/none").text().contains("was deleted"));
    let revision = shadowed.to_string();
    let restored = browser.post("/ui/rules/login/rollback", &[("revision", &revision)]);
    assert_eq!(restored.status, 303, "{restored:?}");
    let now = rule(&server);
    assert_eq!((&now["limit"], &now["action"]), (&5.into(), &"log_only".into()), "{now}");
    assert_eq!(browser.get("/ui/rules/login").status, 200);
}

#[test]
fn changes_are_in_the_audit_log_with_their_author() {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    let mut browser = Browser::admin(&server);
    let done = browser.post("/ui/rules/login/state", &[("state", "disabled")]);
    assert_eq!(done.status, 303, "{done:?}");
    let log = server.get_as_admin("/api/v1/audit?kind=rule&entry=login").json();
    let last = &log["records"][0];
    assert_eq!((&last["actor"], &last["role"]), (&"admin".into(), &"admin".into()), "{last}");
    assert_eq!(last["address"], "127.0.0.1", "{last}");
    let page = browser.get("/ui/audit?kind=rule").text();
    assert!(page.contains("enabled false"), "{page}");
}

#[test]
fn rules_of_a_file_are_shown_and_cannot_be_changed() {
    let server =
        Server::with_rules("rules: [{rule_id: login, limit: 5, window: 1m, identifier_type: ip}]");
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/rules/login");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text().contains("policy.yaml"), "it says where to change them: {page:?}");
    let text = page.text();
    assert!(!text.contains("Change something to see its effect"), "{text}");
    assert!(!text.contains("<h2>Edit "), "{text}");
    let selects = text.split("class=\"card editor\"").nth(1).expect("an editor");
    let selects: Vec<&str> = selects.split("<select").skip(1).collect();
    let is_disabled =
        |select: &&str| select.split('>').next().is_some_and(|it| it.contains("disabled"));
    assert!(!selects.is_empty() && selects.iter().all(is_disabled), "{text}");
    let refused = browser.post("/ui/rules/login/delete", &[]);
    assert_eq!(refused.status, 405, "{refused:?}");
    for path in ["/", "/ui/rules", "/ui/live", "/ui/audit", "/ui/lists", "/ui/keys", "/ui/health"] {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{path} {page:?}");
    }
}

/// A node with files for Envoy alone said that every request passes.
#[test]
fn limits_of_envoy_are_named_where_there_are_no_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 9}}\n";
    std::fs::write(folder.path().join("shop.yaml"), limits).expect("written");
    let folder = folder.path().display().to_string();
    let arguments = ["--envoy-config", folder.as_str()];
    let server = Server::start(&Setup { arguments: &arguments, ..Setup::default() });
    let mut browser = Browser::admin(&server);
    for path in ["/", "/ui/rules"] {
        let page = browser.get(path).text();
        assert!(page.contains("counted by 1 limit of its files"), "{path}: {page}");
        assert!(!page.contains("Every request passes"), "{path}: {page}");
    }
}

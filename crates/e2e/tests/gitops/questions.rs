//! At a terminal, `apply` asks and shows colours; changes by others meanwhile are noticed.

use crate::command::TestServer;
use crate::terminal::Terminal;
use tollgate_e2e::server::{JSON, bearer_admin};

const BEGIN: &str = "rules: [{rule_id: a, limit: 5, window: 1m, identifier_type: user_id}]";
const WANTED: &str = "\
rules:
  - {rule_id: a, limit: 7, window: 1m, identifier_type: user_id}
  - {rule_id: b, limit: 1, window: 1m, identifier_type: user_id}
";

fn desk() -> TestServer {
    let desk = TestServer::with(BEGIN);
    desk.file("policy.yaml", WANTED);
    desk
}

#[test]
fn only_yes_applies_the_plan() {
    let desk = desk();
    let before = desk.policy();
    let check = |answer: &str, code: i32, expected: &str| {
        let mut terminal = Terminal::run(&desk.command("rules apply -f policy.yaml"));
        terminal.await_text("Apply? [y/N] ");
        assert_eq!(desk.policy(), before, "nothing is changed before the answer");
        terminal.type_line(answer);
        let (ended, screen) = terminal.end();
        assert_eq!(ended, code, "{screen}");
        assert!(screen.contains(expected), "{screen}");
    };
    for no in ["n", "", "yep", "N"] {
        check(no, 1, "tollgate: nothing was changed");
        assert_eq!(desk.policy(), before, "{no:?}");
    }
    check("Y", 0, "revision 3: 1 created, 1 updated, 0 deleted");
    assert_ne!(desk.policy(), before);
}

#[test]
fn colours_are_shown_at_a_terminal_without_no_color() {
    let desk = desk();
    let see = |no_color: Option<&str>| {
        let mut command = desk.command("rules diff -f policy.yaml");
        command.env_remove("NO_COLOR");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let (code, screen) = Terminal::run(&command).end();
        assert_eq!(code, 1, "{screen}");
        screen
    };
    for value in [None, Some("")] {
        let screen = see(value);
        assert!(screen.contains("\u{1b}[1;32m+\u{1b}[0m rule b\n"), "{screen:?}");
        let limit = "limit: \u{1b}[1;31m5\u{1b}[0m -> \u{1b}[1;32m7\u{1b}[0m\n";
        assert!(screen.contains(limit), "{screen:?}");
    }
    let plain = see(Some("1"));
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert_eq!(plain, desk.tollgate("rules diff -f policy.yaml").stdout);
}

/// Shows the plan, writes a rule over the API meanwhile, and confirms.
fn apply_beside(desk: &TestServer, rule: &str) -> (i32, String) {
    let mut terminal = Terminal::run(&desk.command("rules apply -f policy.yaml"));
    terminal.await_text("Apply? [y/N] ");
    let written = desk.server.ask("POST", "/api/v1/rules", &[JSON, bearer_admin()], rule);
    assert!(matches!(written.status, 200 | 201), "{written:?}");
    terminal.type_line("y");
    terminal.end()
}

#[test]
fn an_outdated_plan_is_not_applied() {
    let desk = desk();
    let rule = r#"{"rule_id": "a", "limit": 6, "window": "1m", "identifier_type": "user_id"}"#;
    let (code, screen) = apply_beside(&desk, rule);
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("the plan is another one now; nothing was applied"), "{screen}");
    assert_eq!(desk.rules(), ["a"]);
    assert_eq!(desk.policy()["rules"][0]["limit"], 6);
    desk.tollgate("rules diff -f policy.yaml").expect(1, &["~ limit: 6 -> 7"]);
}

#[test]
fn unrelated_changes_do_not_stop_a_plan() {
    let desk = desk();
    let rule = r#"{"rule_id": "other", "limit": 6, "window": "1m", "identifier_type": "user_id"}"#;
    let (code, screen) = apply_beside(&desk, rule);
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("revision 4: 1 created, 1 updated, 0 deleted"), "{screen}");
    assert_eq!(desk.rules(), ["a", "b", "other"]);
}

#[test]
fn apply_can_require_the_revision_of_a_dry_run() {
    let desk = desk();
    let body = r#"{"rules": []}"#;
    let put = |query: &str, condition: &[(&str, &str)]| {
        let headers = [&[JSON, bearer_admin()], condition].concat();
        desk.server.ask("PUT", &format!("/api/v1/policy?prune=rules{query}"), &headers, body)
    };
    let looked = put("&dry_run=true", &[]);
    assert_eq!(looked.header("etag"), Some("\"2\""));
    let check = |condition: (&str, &str), query: &str, expected: u16| {
        let answer = put(query, &[condition]);
        assert_eq!(answer.status, expected, "{condition:?}: {answer:?}");
    };
    for query in ["", "&dry_run=true"] {
        check(("If-Match", "\"1\""), query, 412);
        check(("If-Match", "\"banana\""), query, 412);
        check(("If-None-Match", "*"), query, 400);
    }
    assert_eq!(desk.rules(), ["a"]);
    check(("If-Match", "\"2\""), "", 200);
    assert_eq!(desk.rules(), [""; 0]);
    check(("If-Match", "\"2\""), "", 412);
    check(("If-Match", "*"), "", 200);
}

/// Reading used to show bytes without their sum, though files have sizes.
#[test]
fn reading_a_log_shows_how_much_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = r#"192.0.2.1 - - [15/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#;
    let log = format!("{line}\n").repeat(20_000);
    std::fs::write(folder.path().join("access.log"), &log).expect("written");
    std::fs::write(folder.path().join("policy.yaml"), BEGIN).expect("written");
    let mut command = tollgate_e2e::server::tollgate();
    command.current_dir(folder.path()).args("simulate --rules policy.yaml access.log".split(' '));
    let (code, screen) = Terminal::run(command.env("TERM", "xterm")).end();
    assert_eq!(code, 0, "{screen}");
    let total = format!("/{:.2} MiB", log.len() as f64 / f64::from(1 << 20));
    assert!(screen.contains("reading ") && screen.contains(&total), "no {total} in {screen:?}");
}

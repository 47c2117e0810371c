//! Single rules, shown and removed.

use crate::command::TestServer;
use crate::terminal::Terminal;

const BEGIN: &str = "\
rules:
  - {rule_id: a, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: b, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: c, limit: 5, window: 1m, identifier_type: user_id, replaces: [b]}
";

#[test]
fn rules_are_removed_after_confirmation() {
    let desk = TestServer::with(BEGIN);
    desk.tollgate("rules get a").expect(0, &[" rule_id          a\n", " limit            5\n"]);
    desk.tollgate("rules delete a").expect(2, &["not a terminal; say --yes"]);
    desk.tollgate("rules delete a --json").expect(2, &["--json asks no questions"]);
    desk.tollgate("rules delete").expect(2, &["<RULE_ID>"]);
    // All have to exist before one is removed.
    desk.tollgate("rules delete a nope --yes")
        .expect(2, &["there is no rule `nope` (unknown_rule)"]);
    // A rule that is still referenced stays.
    desk.tollgate("rules delete b --yes").expect(1, &["b"]);
    assert_eq!(desk.rules(), ["a", "b", "c"]);
    let mut terminal = Terminal::run(&desk.command("rules delete a c"));
    terminal.await_text("Delete 2 rules (a, c)? [y/N] ");
    terminal.type_line("no");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(desk.rules(), ["a", "b", "c"]);
    let mut terminal = Terminal::run(&desk.command("rules delete c"));
    terminal.await_text("Delete 1 rule (c)? [y/N] ");
    terminal.type_line("yes");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("deleted c\n"), "{screen}");
    let ran = desk.tollgate("rules delete a b --yes --json").expect(0, &[]);
    assert_eq!(ran.json(), serde_json::json!({"deleted": ["a", "b"]}));
    assert_eq!(desk.rules(), [""; 0]);
}

#[test]
fn a_list_is_shown_to_its_end() {
    let rule =
        |at: u32| format!("  - {{rule_id: r{at}, limit: 5, window: 1m, identifier_type: ip}}\n");
    let desk = TestServer::with(&format!("rules:\n{}", (0..1_050).map(rule).collect::<String>()));
    desk.tollgate("rules list").expect(0, &[" r0 ", " r1049 ", "\n1,050 rules\n"]);
    let list = desk.tollgate("rules list --json").expect(0, &[]).json();
    assert_eq!(list["rules"].as_array().expect("rules").len(), 1_050);
}

//! `tollgate rules history`, `show`, `diff A B` and `rollback`.

use crate::command::TestServer;

const POLICY: &str = "
rules:
  - {rule_id: search, limit: 10, window: 1m, identifier_type: user_id}
";

/// A server whose rule was raised from 10 to 20 in its last revision, and the revision before that.
fn raised() -> (TestServer, u64) {
    let server = TestServer::with(POLICY);
    let first = server.tollgate("rules history --limit 1 --json").expect(0, &[]).json();
    let first = first["revisions"][0]["revision"].as_u64().expect("a revision");
    server.file("raised.yaml", &POLICY.replace("10", "20"));
    server.tollgate("rules apply -f raised.yaml --yes").expect(0, &["1 updated"]);
    (server, first)
}

#[test]
fn a_rollback_undoes_what_history_lists() {
    let (server, first) = raised();
    let raised = first + 1;
    server.tollgate("rules history").expect(0, &["rule search updated (limit 10 -> 20)", "admin"]);
    let one = server.tollgate("rules history --limit 1").expect(0, &["1 revision\n"]);
    assert!(!one.stdout.contains("created"), "{one:?}");
    let shown = server.tollgate(&format!("rules show {first}")).expect(0, &["limit: 10"]);
    server.file("before.yaml", &shown.stdout);
    server.tollgate(&format!("rules show {first} --format json -o before.json")).expect(0, &[]);
    for file in ["before.yaml", "before.json"] {
        server.tollgate(&format!("rules lint {file}")).expect(0, &["1 file: 0 errors"]);
    }
    server
        .tollgate(&format!("rules diff {first} {raised}"))
        .expect(1, &["~ limit: 10 -> 20", "1 updated"]);
    server.tollgate(&format!("rules diff {raised} {first}")).expect(1, &["~ limit: 20 -> 10"]);
    server.tollgate(&format!("rules diff {first}")).expect(1, &["~ limit: 10 -> 20"]);
    server.tollgate(&format!("rules diff {raised}")).expect(0, &["do not differ"]);
    server
        .tollgate(&format!("rules rollback {first} --dry-run"))
        .expect(0, &["~ limit: 20 -> 10", "1 to update"]);
    // Without a terminal it cannot be confirmed.
    server.tollgate(&format!("rules rollback {first}")).expect(2, &["--yes"]);
    server.tollgate(&format!("rules rollback {first} --json")).expect(2, &["--yes or --dry-run"]);
    server.tollgate("rules get search").expect(0, &["20"]);
    server.tollgate(&format!("rules rollback {first} --yes")).expect(0, &["1 updated"]);
    server.tollgate("rules get search").expect(0, &["10"]);
    server.tollgate("rules diff -f before.yaml --prune").expect(0, &["nothing to change"]);
    server.tollgate(&format!("rules rollback {first} --yes")).expect(0, &["nothing to change"]);
    let newest = server.tollgate("rules history --limit 1");
    newest.expect(
        0,
        &[&format!("rollback to revision {first}: rule search updated (limit 20 -> 10)")],
    );
}

/// Tokens were shown by their ids alone.
#[test]
fn a_token_is_shown_by_its_name() {
    let server = TestServer::with(POLICY);
    let made =
        server.tollgate("tokens create --role operator --name deploy-bot").expect(0, &["tg_"]);
    let token = made.stdout.trim();
    let id = token.split('_').nth(1).expect("an id");
    server.file("raised.yaml", &POLICY.replace("10", "20"));
    server.tollgate_as(token, "rules apply -f raised.yaml --yes").expect(0, &["1 updated"]);
    server.tollgate("rules history --limit 1").expect(0, &[&format!(" deploy-bot ({id}) ")]);
    server.tollgate(&format!("tokens revoke {id}")).expect(0, &["revoked "]);
    server.tollgate("rules history --limit 1").expect(0, &[&format!(" deploy-bot ({id}) ")]);
    let log = server.server.get_as_admin("/api/v1/audit?kind=rule&limit=1").json();
    assert_eq!(
        (&log["records"][0]["actor"], &log["records"][0]["actor_name"]),
        (&id.into(), &"deploy-bot".into())
    );
}

#[test]
fn a_revision_that_is_not_known_ends_with_2() {
    let (server, first) = raised();
    for words in ["show 99", "diff 99", &format!("diff {first} 99"), "rollback 99 --yes"] {
        server
            .tollgate(&format!("rules {words}"))
            .expect(2, &["there is no revision 99: there are 1 to"]);
    }
    server.tollgate("rules show x").expect(2, &["invalid value"]);
    server.tollgate("rules diff").expect(2, &["--file"]);
    server.tollgate("rules diff 1 -f raised.yaml").expect(2, &["cannot be used with"]);
    server.tollgate("rules history --limit 0").expect(2, &["1..=1000"]);
}

/// B18: `rules get`, `rules delete` and `check --rule` end alike if there is no such rule.
#[test]
fn an_unknown_rule_ends_with_2() {
    let (server, _) = raised();
    server.tollgate("rules get nope").expect(2, &["nope"]);
    server.tollgate("rules delete nope --yes").expect(2, &["nope"]);
    server.tollgate("check --rule nope alice").expect(2, &["nope"]);
}

/// A rollback also took back overrides and entries of lists that were added later, and did not say so.
#[test]
fn a_rollback_of_rules_leaves_overrides_and_lists() {
    let (server, first) = raised();
    server.tollgate("lists add blacklist user_id=mallory").expect(0, &[]);
    server.tollgate("users set-override alice --rule search --limit 99").expect(0, &[]);
    server
        .tollgate(&format!("rules rollback {first} --dry-run"))
        .expect(0, &["- blacklist user_id mallory", "- override search user_id alice"]);
    let planned = server.tollgate(&format!("rules rollback {first} --only rules --dry-run"));
    planned.expect(0, &["~ limit: 20 -> 10", "0 to create, 1 to update, 0 to delete"]);
    server
        .tollgate(&format!("rules rollback {first} --only rules --yes"))
        .expect(0, &["1 updated, 0 deleted"]);
    server.tollgate("rules get search").expect(0, &["10"]);
    server.tollgate("lists show deny user_id=mallory").expect(0, &["mallory"]);
    server
        .tollgate("rules history --limit 1")
        .expect(0, &[&format!("rollback of rules to revision {first}: rule search updated")]);
    server.tollgate(&format!("rules rollback {first} --only lists")).expect(2, &["rules"]);
    let path = format!("/api/v1/policy/revisions/{first}/rollback?only=lists");
    let refused = server.server.post_as_admin(&path, "");
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_query"), "{refused:?}");
}

/// `--prune` said that an override is in the way, and not whose.
#[test]
fn an_override_in_the_way_of_a_removal_is_named() {
    let (server, _) = raised();
    server.tollgate("users set-override alice --rule search --limit 99").expect(0, &[]);
    server.tollgate("rules delete search --yes").expect(
        1,
        &["an override is an exception from the rule search, for user_id alice: remove it first"],
    );
    server.tollgate("users set-override bob --rule search --limit 99").expect(0, &[]);
    server.tollgate("rules delete search --yes").expect(
        1,
        &["2 overrides are exceptions from the rule search, the first for user_id alice"],
    );
}

#[test]
fn files_are_previewed_on_recent_requests() {
    let (server, _) = raised();
    let ask = r#"{"identifiers": {"user_id": "alice"}, "endpoint": "/x"}"#;
    for _ in 0..5 {
        server.server.check(ask);
    }
    server.file("few.yaml", &POLICY.replace("10", "2").replace("search", "few"));
    let shown = server.tollgate("rules preview -f few.yaml");
    let shown = shown.expect(0, &["5 requests of this server", "refused", "alice"]);
    let figures = server.tollgate("rules preview -f few.yaml --json").expect(0, &[]).json();
    assert_eq!((&figures["now"]["refused"], &figures["then"]["refused"]), (&0.into(), &3.into()));
    assert!(!shown.stdout.contains("shadow"), "there is none: {shown:?}");
    // The effect of a candidate was in no line.
    let tried = "limit: 10, candidate: {limit: 1}";
    server.file("tried.yaml", &POLICY.replace("limit: 10", tried));
    let shown = server.tollgate("rules preview -f tried.yaml");
    let row = shown.stdout.lines().find(|line| line.contains("shadow rules and candidates"));
    let row = row.unwrap_or_else(|| panic!("no row: {shown:?}"));
    assert!(row.split_whitespace().any(|cell| cell == "4"), "{row}");
    // Alone, as `apply --prune` would leave it.
    server.file("none.yaml", &POLICY.replace("10", "100").replace("search", "other"));
    server.tollgate("rules apply -f few.yaml --yes").expect(0, &["1 created"]);
    let beside = server.tollgate("rules preview -f none.yaml --json").expect(0, &[]).json();
    let alone = server.tollgate("rules preview -f none.yaml --prune --json").expect(0, &[]).json();
    assert_eq!((&beside["then"]["refused"], &alone["then"]["refused"]), (&3.into(), &0.into()));
    assert!(server.tollgate("rules get other").code != 0, "a preview changes nothing");
}

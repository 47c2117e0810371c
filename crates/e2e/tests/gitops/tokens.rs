//! Tokens, from the first to the last, with a server and without one.

use std::fs;

use tollgate::rules::parse_time;
use tollgate::{Clock as _, SystemClock};
use tollgate_catalog::{AuditFilter, Catalog, PolicyBounds};
use tollgate_testbed::Postgres;

use crate::command::{Ran, TestServer, line, run};
use tollgate_e2e::server::{Server, Setup};

/// The id within a token.
fn id(token: &str) -> &str {
    token.split('_').nth(1).expect("an id")
}

#[test]
fn a_token_is_shown_once_and_ends_when_it_is_revoked() {
    let desk = TestServer::new();
    let made = desk.tollgate("tokens create --role viewer --name dashboard --expires-in 30d");
    let made = made.expect(0, &["keep it: it is shown this once"]);
    let token = made.stdout.trim();
    // Nothing else, so that scripts can take it as it is.
    assert!(token.starts_with("tg_") && !token.contains(char::is_whitespace), "{}", made.stdout);
    assert!(!made.stderr.contains(token), "{}", made.stderr);
    desk.tollgate_as(token, "rules list").expect(0, &["default_login"]);
    let list =
        desk.tollgate("tokens list").expect(0, &[id(token), " viewer ", " dashboard ", "token"]);
    assert!(!list.stdout.contains(token), "{}", list.stdout);
    let list = desk.tollgate("tokens list --json").expect(0, &[]).json();
    let tokens = list["tokens"].as_array().expect("tokens").iter();
    let own = tokens.clone().find(|it| it["token_id"] == id(token)).expect("the token");
    let end = parse_time(own["expires_at"].as_str().expect("an end")).expect("a time");
    let lasting = end.since(SystemClock.now());
    assert!((29 * 86_400..=30 * 86_400).contains(&(lasting.get() / 1_000_000)), "{own}");
    assert!(
        tokens.clone().all(|it| it.get("digest").is_none() && it.get("token").is_none()),
        "{list}"
    );
    desk.tollgate(&format!("tokens revoke {}", id(token))).expect(0, &["revoked "]);
    desk.tollgate_as(token, "rules list").expect(2, &["(wrong_token)"]);
    desk.tollgate(&format!("tokens revoke {}", id(token))).expect(1, &["(unknown_token)"]);
    let other = desk.token("operator");
    let ran = desk.tollgate(&format!("tokens revoke {} --json", id(&other))).expect(0, &[]);
    assert_eq!(ran.json()["revoked"], id(&other));
}

#[test]
fn a_token_has_the_requested_role_tenant_and_expiry() {
    let desk = TestServer::new();
    let check = |arguments: &str, expected: &[(&str, &str)]| {
        let made =
            desk.tollgate(&format!("tokens create --json {arguments}")).expect(0, &[]).json();
        for (name, value) in expected {
            assert_eq!(made[name], *value, "{arguments}: {made}");
        }
        let token = made["token"].as_str().expect("the token");
        assert_eq!(id(token), made["token_id"]);
    };
    for role in ["admin", "operator", "viewer", "caller"] {
        check(&format!("--role {role}"), &[("role", role)]);
    }
    check("--role tenant-admin --tenant acme", &[("role", "tenant-admin"), ("tenant", "acme")]);
    let end = "2099-12-01T00:00:00Z";
    check(
        &format!("--role viewer --name x --expires-at {end}"),
        &[("name", "x"), ("expires_at", end)],
    );
    let other_zone = "2099-12-01T02:00:00+02:00";
    check(&format!("--role viewer --expires-at {other_zone}"), &[("expires_at", end)]);
}

#[test]
fn invalid_tokens_are_not_created() {
    let desk = TestServer::new();
    let check = |arguments: &str, expected: &str| {
        let ran = desk.tollgate(&format!("tokens create {arguments}")).expect(2, &[expected]);
        assert_eq!(ran.stdout, "", "{arguments}");
    };
    check("", "--role <ROLE>");
    check("--role king", "there are the roles admin, operator, viewer, caller, tenant-admin");
    check("--role tenant-admin", "needs --tenant");
    check("--role viewer --tenant acme", "only a tenant-admin has a --tenant, not the role viewer");
    check("--role viewer --expires-at soon", "write it like 2030-12-01T00:00:00Z");
    check("--role viewer --expires-at 2001-01-01T00:00:00Z", "--expires-at is in the past");
    check("--role viewer --expires-in 400d", "366d at most");
    check("--role viewer --expires-in 1d --expires-at 2099-01-01T00:00:00Z", "cannot be used with");
    check("--role viewer --catalog sqlite:none.db", "there is no catalog sqlite:none.db");
    check("--role viewer --catalog mysql://me:hunter2@db", "--catalog: write sqlite:FILE");
    assert!(!desk.folder().join("none.db").exists(), "a look makes no file");
}

fn create(catalog: &str) -> Ran {
    run(&mut line(&format!("tokens create --role admin --name lost --catalog {catalog}")))
}

/// The author of the last change in the catalog.
fn last_author(url: &str) -> String {
    let catalog = Catalog::new(url.parse().expect("a URL"), PolicyBounds::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let everything = AuditFilter::default();
    let audit = catalog.audit(&everything, None, 1);
    let mut records = runtime.expect("a runtime").block_on(audit).expect("an answer");
    records.remove(0).actor
}

#[test]
fn a_token_can_be_created_in_the_catalog_without_a_server() {
    let postgres = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("rules.db").display());
    for catalog in [file, postgres.url()] {
        // An empty catalog takes no token.
        run(&mut line(&format!("migrate --catalog {catalog}"))).expect(0, &["at schema"]);
        create(&catalog).expect(1, &["is empty"]);
        let setup = Setup { arguments: &["--catalog", &catalog], ..Setup::default() };
        drop(Server::start(&setup));
        // No server runs now.
        let made = create(&catalog).expect(0, &["for the role admin"]);
        let desk = TestServer { server: Server::start(&setup) };
        desk.tollgate_as(made.stdout.trim(), "tokens list")
            .expect(0, &[" lost ", id(&made.stdout)]);
        // A running server notices the token.
        let made = create(&catalog).expect(0, &[]);
        let token = made.stdout.trim();
        tollgate_e2e::until("a token that is known", || {
            (desk.tollgate_as(token, "tokens list").code == 0).then_some(())
        });
        assert_eq!(last_author(&catalog), "command line");
    }
}

#[test]
fn an_older_catalog_is_migrated_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    crate::migrate::make_older(&url, 1);
    create(&url)
        .expect(1, &["has schema 1, and this program needs ", "run `tollgate migrate` first"]);
    assert!(fs::exists(folder.path().join("rules.db")).expect("a look"));
}

//! API keys, tiers and exceptions from the command line.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::command::{TestServer, run};
use crate::terminal::Terminal;

const POLICY: &str = "\
rules:
  - {rule_id: search, limit: 2, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: per_tenant, limit: 2, window: 300d, identifier_type: tenant, algorithm: fixed_window}
  - {rule_id: acme.own, tenant: acme, limit: 9, window: 1m, identifier_type: user_id}
  - {rule_id: globex.own, tenant: globex, limit: 9, window: 1m, identifier_type: user_id}
tiers: [{tier: free, default: true}, {tier: pro}]
";

/// What a program needs of a list.
fn items(server: &TestServer, words: &str, list: &str) -> Vec<Value> {
    let shown = server.tollgate(&format!("{words} --json")).expect(0, &[]).json();
    shown[list].as_array().unwrap_or_else(|| panic!("no {list} in {shown}")).clone()
}

/// The limits of a request with that API key, by forward-auth's identification.
fn client_of(server: &TestServer, key: &str) -> String {
    let path = "/api/v1/rate-limits/status";
    let answer = server.server.ask("GET", path, &[("X-API-Key", key)], "");
    answer.json()["client_id"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_api_key_is_shown_once_and_identifies_until_it_is_deleted() {
    let server = TestServer::with(POLICY);
    server.tollgate("keys list").expect(0, &["0 API keys\n"]);
    let create = "keys create --owner alice --tier pro --tenant acme --name import";
    server.tollgate(&format!("{create} --dry-run")).expect(0, &["+ api_key ", "1 to create"]);
    server.tollgate("keys list").expect(0, &["0 API keys\n"]);
    let made = server.tollgate(create).expect(0, &["keep it: it is shown this once"]);
    let key = made.stdout.trim();
    // Nothing else, so that scripts can take it as it is.
    assert!(key.len() > 20 && !key.contains(char::is_whitespace), "{made:?}");
    assert!(!made.stderr.contains(key) && made.stderr.contains(" of alice\n"), "{made:?}");
    assert_eq!(client_of(&server, key), "alice");

    let keys = items(&server, "keys list", "api_keys");
    let id = keys[0]["key_id"].as_str().expect("an id");
    let listed = server.tollgate("keys list").expect(0, &["1 API key\n"]);
    let row = format!(" {id}  import  alice  pro   acme    2");
    assert!(listed.stdout.lines().any(|line| line.starts_with(&row)), "{listed:?}");
    assert!(!format!("{listed:?}{keys:?}").contains(key), "{listed:?}");
    server.tollgate("keys list --tier free").expect(0, &["0 API keys\n"]);
    server.tollgate("keys list --tier pro --tenant acme").expect(0, &[id]);

    // Without a terminal there is no question, and nothing is deleted.
    let delete = format!("keys delete {id}");
    server.tollgate(&delete).expect(2, &["say --yes to go ahead"]);
    server.tollgate(&format!("{delete} --json")).expect(2, &["say --yes or --dry-run with it"]);
    server.tollgate(&format!("{delete} --dry-run")).expect(0, &["- api_key ", "1 to delete"]);
    let mut terminal = Terminal::run(&server.command(&delete));
    terminal.await_text(&format!("Delete the API key {id}? [y/N] "));
    terminal.type_line("n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(client_of(&server, key), "alice");
    server.tollgate(&format!("{delete} --yes")).expect(0, &[&format!("deleted {id}\n")]);
    assert_ne!(client_of(&server, key), "alice");
    server.tollgate(&format!("{delete} --yes")).expect(1, &["(unknown_api_key)"]);
    let printed = server.tollgate("keys create --json").expect(0, &[]).json();
    let id = printed["key_id"].as_str().expect("an id");
    let removed = server.tollgate(&format!("keys delete {id} --yes --json")).expect(0, &[]).json();
    assert_eq!(removed, json!({"removed": true}));
    server.tollgate("keys create --tier gold").expect(1, &["there is no tier `gold`"]);
}

#[test]
fn a_known_api_key_is_registered_and_never_shown() {
    const KEY: &str = "sk_live_of_alice_1";
    let server = TestServer::with(POLICY);
    server.file("known.key", &format!("{KEY}\n"));
    let create = "keys create --owner alice --key-file known.key";
    let mut all = vec![server.tollgate(&format!("{create} --dry-run")).expect(0, &["+ api_key "])];
    all.push(server.tollgate(create).expect(0, &["API key ", " was registered\n"]));
    assert_eq!(client_of(&server, KEY), "alice");
    all.push(server.tollgate(create).expect(1, &["(known_api_key)"]));
    all.push(server.tollgate("keys list --json").expect(0, &["alice"]));
    all.push(server.tollgate("audit --kind api_key --json").expect(0, &["api_key"]));
    assert!(!format!("{all:?}").contains(KEY), "{all:?}");

    let mut piped = server.command("keys create --owner bob --key-file -");
    let piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the command runs");
    child.stdin.take().expect("a pipe").write_all(b"sk_live_of_bob_2\n").expect("written");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(client_of(&server, "sk_live_of_bob_2"), "bob");

    let long = format!("sk_{}", "x".repeat(2_000));
    server.file("long.key", &long);
    let refused =
        server.tollgate("keys create --key-file long.key").expect(1, &["1 to 1024 bytes"]);
    assert!(!format!("{refused:?}").contains("sk_x"), "{refused:?}");
    server.file("empty.key", "\n");
    server.tollgate("keys create --key-file empty.key").expect(2, &["it is empty"]);
    server
        .tollgate("keys create --key-file none.key")
        .expect(2, &["cannot use --key-file none.key"]);
}

/// The first declared tier makes all other names unknown; the error named the client in the way, and not why.
#[test]
fn the_first_tier_is_declared_with_those_in_use() {
    let server = TestServer::with("rules: []\n");
    server.tollgate("clients add user_id=ann --tier pro").expect(0, &[]);
    let why = "1 client is in the tier pro, which has to be declared too";
    server.tollgate("tiers add gold").expect(1, &[why, "user_id ann", "(still_in_use)"]);
    server.tollgate("tiers add pro").expect(0, &[]);
    server.tollgate("tiers add gold").expect(0, &[]);
    let end = "overrides set user_id=ann --rule default_per_user --limit 5 --expires-at 2h";
    server.tollgate(end).expect(2, &["write --expires-in 2h"]);
}

#[test]
fn tiers_are_added_replaced_and_removed() {
    let server = TestServer::with(POLICY);
    let listed = server.tollgate("tiers list").expect(0, &["2 tiers\n"]);
    let lines: Vec<&str> = listed.stdout.lines().map(str::trim).collect();
    assert_eq!(lines, ["tier", "free  the default", "pro", "", "2 tiers"]);
    server.tollgate("tiers add gold --dry-run").expect(0, &["+ tier gold\n", "1 to create"]);
    server.tollgate("tiers add gold").expect(0, &["gold is a tier\n"]);
    server.tollgate("tiers add gold").expect(0, &["gold is a tier\n"]);
    // There is one default: the other one is it no more.
    server.tollgate("tiers add pro --default").expect(0, &["pro is a tier, the default\n"]);
    let tiers = items(&server, "tiers list", "tiers");
    assert!(tiers.contains(&json!({"tier": "pro", "default": true})), "{tiers:?}");
    assert!(tiers.contains(&json!({"tier": "free"})) && tiers.len() == 3, "{tiers:?}");

    server.tollgate("tiers remove silver").expect(1, &["there is no tier `silver`"]);
    server.tollgate("clients add user_id=ann --tier gold").expect(0, &[]);
    server.tollgate("tiers remove gold").expect(1, &["(still_in_use)"]);
    server.tollgate("clients remove user_id=ann").expect(0, &[]);
    server.tollgate("tiers remove gold --dry-run").expect(0, &["- tier gold\n"]);
    let removed = server.tollgate("tiers remove gold --json").expect(0, &[]).json();
    assert_eq!(removed["changes"][0]["action"], "delete");

    // A tier that is not named would go: that is a question.
    let set = "tiers set free team --default free";
    server.tollgate(set).expect(2, &["- tier pro\n", "say --yes to go ahead"]);
    server.tollgate(&format!("{set} --json")).expect(2, &["tiers would be removed"]);
    server.tollgate(&format!("{set} --dry-run")).expect(0, &["+ tier team\n", "- tier pro\n"]);
    assert_eq!(items(&server, "tiers list", "tiers").len(), 2);
    let mut terminal = Terminal::run(&server.command(set));
    terminal.await_text("Apply? [y/N] ");
    terminal.type_line("y");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("the tiers are free, team; free is the default"), "{screen}");
    // One that removes nothing is none.
    server.tollgate("tiers set free team pro --default pro").expect(0, &["pro is the default\n"]);
    server.tollgate("tiers set free --yes").expect(0, &["the tiers are free\n"]);
    server.tollgate("tiers set free --default pro").expect(2, &["is not among the tiers"]);
    server.tollgate("tiers set").expect(2, &["<TIER>"]);
    assert_eq!(items(&server, "tiers list", "tiers"), [json!({"tier": "free"})]);
}

/// Several operators add tiers at once: neither removes that of the other, as a list that is read and written back would.
#[test]
fn tiers_that_are_added_at_once_are_all_there() {
    let server = TestServer::with(POLICY);
    // A caller may have four changes of the policy in progress.
    let names: Vec<String> = (0..4).map(|at| format!("t{at}")).collect();
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = server.command(&format!("tiers add {name}"));
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
        })
        .collect();
    let added: Vec<&String> = names
        .iter()
        .zip(children)
        .filter_map(|(name, child)| {
            let output = child.wait_with_output().expect("an end");
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            // One that comes too late too often says so.
            assert!(output.status.success() || errors.contains("nothing was changed"), "{errors}");
            output.status.success().then_some(name)
        })
        .collect();
    let tiers = items(&server, "tiers list", "tiers");
    assert!(!added.is_empty());
    for name in added {
        assert!(tiers.iter().any(|tier| tier["tier"] == **name), "no {name} in {tiers:?}");
    }
}

#[test]
fn clients_of_any_kind_get_exceptions() {
    let server = TestServer::with(POLICY);
    let check = |times: usize| {
        let body = json!({"identifiers": {"tenant": "umbrella"}, "endpoint": "/", "method": "GET"});
        let answers = (0..times).map(|_| server.server.check(&body.to_string()));
        answers.filter(|answer| answer["allowed"] == true).count()
    };
    server.tollgate("overrides list").expect(0, &["0 exceptions\n"]);
    let set = "overrides set tenant=umbrella --rule per_tenant --limit 5 --window 30d --expires-at 2090-01-01T00:00:00Z";
    server
        .tollgate(&format!("{set} --dry-run"))
        .expect(0, &["+ override per_tenant tenant umbrella\n"]);
    assert_eq!(check(3), 2);
    server.tollgate(set).expect(
        0,
        &["tenant umbrella has an exception from per_tenant until 2090-01-01T00:00:00Z\n"],
    );
    assert_eq!(check(6), 5);
    server
        .tollgate("overrides set user_id=ann --rule search --multiplier 2.5 --json")
        .expect(0, &["\"multiplier\":2.5"]);
    let listed = server.tollgate("overrides list").expect(0, &["2 exceptions\n"]);
    let lines: Vec<Vec<&str>> =
        listed.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["rule", "client", "limit", "begins", "ends"]);
    let long = ["per_tenant", "tenant", "umbrella", "5", "/", "30", "d", "2090-01-01T00:00:00Z"];
    assert!(lines.contains(&long.to_vec()), "{listed:?}");
    assert!(
        lines.contains(&vec!["search", "user_id", "ann", "times", "2.5", "never"]),
        "{listed:?}"
    );
    for (filter, expected) in [
        ("--rule search", "ann"),
        ("--identifier-type tenant", "umbrella"),
        ("tenant=umbrella", "umbrella"),
    ] {
        server
            .tollgate(&format!("overrides list {filter}"))
            .expect(0, &["1 exception\n", expected]);
    }
    server.tollgate("overrides list --tenant acme").expect(0, &["0 exceptions\n"]);
    server
        .tollgate("overrides show tenant=umbrella --rule per_tenant")
        .expect(0, &["expires_at", "2090", "created_by", "admin"]);
    server
        .tollgate("overrides show tenant=umbrella --rule search")
        .expect(1, &["tenant umbrella has no exception from search"]);
    let remove = "overrides remove tenant=umbrella --rule per_tenant";
    server
        .tollgate(&format!("{remove} --dry-run"))
        .expect(0, &["- override per_tenant tenant umbrella\n"]);
    server
        .tollgate(remove)
        .expect(0, &["the exception of tenant umbrella from per_tenant was removed\n"]);
    server.tollgate(remove).expect(1, &["(unknown_entry)"]);
    server
        .tollgate("overrides remove user_id=ann --rule search --json")
        .expect(0, &["{\"removed\":true}"]);
    server
        .tollgate("overrides set tenant=umbrella --rule none --limit 1")
        .expect(1, &["there is no rule `none`"]);
    server.tollgate("overrides set tenant=umbrella --rule search").expect(2, &["--limit"]);
    server
        .tollgate("overrides set umbrella --rule search --limit 1")
        .expect(2, &["write it like user_id=alice"]);
    // A secret is not repeated.
    server.file(
        "keyed.yaml",
        "rules: [{rule_id: keyed, limit: 1, window: 1m, identifier_type: api_key}]",
    );
    server.tollgate("rules apply -f keyed.yaml --yes").expect(0, &[]);
    let secret = server.tollgate("overrides set api_key=sk_live_9 --rule keyed --limit 5");
    let secret = secret.expect(0, &["api_key *** has an exception from keyed\n"]);
    let listed = server.tollgate("overrides list").expect(0, &["api_key sha256:"]);
    assert!(!format!("{secret:?}{listed:?}").contains("sk_live_9"), "{secret:?}");
}

#[test]
fn roles_and_tenants_are_those_of_the_api() {
    let server = TestServer::with(POLICY);
    for (tenant, user) in [("acme", "wile"), ("globex", "hank")] {
        let set = format!("overrides set user_id={user} --rule {tenant}.own --limit 5");
        server.tollgate(&set).expect(0, &[]);
    }
    let viewer = server.token("viewer");
    for words in ["keys list", "tiers list", "overrides list"] {
        server.tollgate_as(&viewer, words).expect(0, &[]);
        server.tollgate_as("hush", words).expect(1, &["(wrong_token) (--token or TOLLGATE_TOKEN)"]);
    }
    for words in [
        "keys create",
        "keys delete x --yes",
        "tiers set free --yes",
        "tiers add gold",
        "tiers remove pro",
        "overrides set user_id=x --rule search --limit 1",
        "overrides remove user_id=wile --rule acme.own",
    ] {
        server.tollgate_as(&viewer, words).expect(1, &["needs the role `operator`"]);
    }
    let acme = server.token("tenant-admin --tenant acme");
    let own =
        server.tollgate_as(&acme, "overrides list").expect(0, &["1 exception\n", "user_id wile"]);
    assert!(!own.stdout.contains("hank"), "{own:?}");
    let other = server.tollgate_as(&acme, "overrides list user_id=hank --json").expect(0, &[]);
    assert_eq!(other.json()["overrides"], json!([]));
    for words in ["keys list", "keys create", "tiers list", "tiers set free --yes"] {
        server.tollgate_as(&acme, words).expect(1, &["the token is one of role `tenant-admin`"]);
    }
    // What operators wrote for the tenant stays, and so does what is of others.
    for words in [
        "overrides set user_id=x --rule acme.own --limit 99",
        "overrides remove user_id=wile --rule acme.own",
    ] {
        server.tollgate_as(&acme, words).expect(1, &["(read_only)"]);
    }
    let removed = server.tollgate_as(&acme, "overrides remove user_id=hank --rule globex.own");
    assert_eq!(removed.code, 1, "{removed:?}");
    let tiers = server.tollgate_as(&acme, "tiers add gold");
    assert_eq!(tiers.code, 1, "{tiers:?}");
    server.file("own.yaml", "rules: [{rule_id: acme.new, tenant: acme, limit: 5, window: 1m, identifier_type: user_id}]");
    run(&mut server.command_as(&acme, "rules apply -f own.yaml --yes")).expect(0, &[]);
    server
        .tollgate_as(&acme, "overrides set user_id=x --rule acme.new --limit 9")
        .expect(0, &["user_id x has an exception from acme.new\n"]);
    assert_eq!(items(&server, "overrides list", "overrides").len(), 3);
    assert_eq!(items(&server, "tiers list", "tiers").len(), 2);
}

#[test]
fn names_do_nothing_to_the_terminal() {
    const HOSTILE: &str = "a\u{1b}[2J\u{202e}\u{7}\nb";
    let server = TestServer::with(POLICY);
    let shown = "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}b";
    let client = format!("user_id={HOSTILE}");
    let with =
        |words: &str, more: &[&str]| run(server.command(words).args(more)).expect(0, &[shown]);
    let ran = [
        with("overrides set --rule search --limit 5", &[&client]),
        with("overrides show --rule search", &[&client]),
        with("overrides list", &[]),
        with("keys create --name", &[HOSTILE, "--owner", HOSTILE]),
        with("keys list", &[]),
        with("overrides remove --rule search", &[&client]),
    ];
    let is_safe = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
    for ran in ran {
        assert!(format!("{}{}", ran.stdout, ran.stderr).chars().all(is_safe), "{ran:?}");
    }
    // Names of tiers and ids of keys that a server refuses or does not know.
    for words in ["tiers add", "tiers remove", "tiers set free --yes", "keys delete --yes"] {
        let ran = run(server.command(words).arg(HOSTILE));
        assert!(ran.stderr.chars().all(is_safe) && ran.stdout.chars().all(is_safe), "{ran:?}");
    }
}

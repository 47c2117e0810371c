//! Catalogs of an older schema are brought up to date, wherever they are.

use tollgate::{Clock as _, SystemClock};
use tollgate_catalog::{Catalog, NEWEST_SCHEMA, PolicyBounds};
use tollgate_testbed::Postgres;

use crate::command::{Ran, line, run};
use tollgate_e2e::server::{Server, Setup};

fn migrate(arguments: &str) -> Ran {
    run(&mut line(&format!("migrate {arguments}")))
}

/// A catalog as an older version of this program left it.
pub(crate) fn make_older(url: &str, schema: u64) {
    let catalog = Catalog::new(url.parse().expect("a URL"), PolicyBounds::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let migrated =
        runtime.expect("a runtime").block_on(catalog.migrate_to(schema, SystemClock.now()));
    assert_eq!(migrated.expect("a catalog"), 0);
}

#[test]
fn an_older_schema_is_brought_up_to_date() {
    let postgres = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("old.db").display());
    for url in [file, postgres.url()] {
        make_older(&url, 1);
        let check = |arguments: &str, code: i32, expected: &str| {
            migrate(&format!("--catalog {url} {arguments}")).expect(code, &[expected]);
        };
        let newest = NEWEST_SCHEMA;
        check(
            "--check",
            1,
            &format!("is at schema 1, and this program needs {newest}: run `tollgate migrate`"),
        );
        let json = migrate(&format!("--catalog {url} --check --json")).expect(1, &[]).json();
        assert_eq!(
            (&json["was"], &json["is"], &json["newest"]),
            (&1.into(), &1.into(), &newest.into())
        );
        check("", 0, &format!("was at schema 1 and is at {newest} now"));
        check("", 0, &format!("is up to date, at schema {newest}"));
        check("--check", 0, &format!("is up to date, at schema {newest}"));
        let json = migrate(&format!("--catalog {url} --json")).expect(0, &[]).json();
        assert_eq!((&json["was"], &json["is"]), (&newest.into(), &newest.into()));
        let setup = Setup { arguments: &["--catalog", &url], ..Setup::default() };
        drop(Server::start(&setup));
    }
}

#[test]
fn a_catalog_that_is_not_there_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("new.db");
    let url = format!("sqlite:{}", file.display());
    migrate(&format!("--catalog {url} --check")).expect(1, &["there is no schema in the catalog"]);
    assert!(!file.exists(), "a check makes no file");
    migrate(&format!("--catalog {url}")).expect(0, &["is new, at schema"]);
    assert!(file.exists());
}

#[test]
fn the_catalog_is_the_one_that_would_be_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("tollgate.yaml");
    std::fs::write(&settings, "catalog: sqlite:from-file.db\n").expect("written");
    let check = |arguments: &str, variable: Option<&str>, code: i32, expected: &str| {
        let mut command = line(&format!("migrate --check {arguments}"));
        command.current_dir(folder.path()).envs(variable.map(|url| ("TOLLGATE_CATALOG", url)));
        run(&mut command).expect(code, &[expected]);
    };
    let config = format!("--config {}", settings.display());
    check("", None, 1, "sqlite:tollgate.db");
    check(&config, None, 1, "sqlite:from-file.db");
    check(&config, Some("sqlite:from-variable.db"), 1, "sqlite:from-variable.db");
    check(
        &format!("{config} --catalog sqlite:from-flag.db"),
        Some("sqlite:from-variable.db"),
        1,
        "sqlite:from-flag.db",
    );
    check("--catalog banana://me:hunter2@x", None, 2, "write sqlite:FILE");
    std::fs::write(&settings, "rules: policy.yaml\n").expect("written");
    check(&config, None, 2, "the rules are in policy.yaml; there is no catalog to migrate");
}

#[test]
fn failed_migrations_say_why() {
    let away = format!("postgres://me:hunter2@127.0.0.1:{}/rules", tollgate_testbed::free_port());
    let ran = migrate(&format!("--catalog {away}")).expect(2, &["cannot be asked"]);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    // A newer version has migrated the catalog.
    let postgres = Postgres::start();
    migrate(&format!("--catalog {}", postgres.url())).expect(0, &["is new"]);
    postgres.query("INSERT INTO tollgate_migrations (version, applied_at) VALUES (1000, 0)");
    for flag in ["", "--check"] {
        migrate(&format!("--catalog {} {flag}", postgres.url()))
            .expect(1, &["has schema 1000, and this program knows", "use a newer one"]);
    }
}

//! States of the policy: a catalog that is unavailable, files that are invalid.

use std::fs;

use tollgate_testbed::Postgres;

use crate::timeline::Timeline;
use crate::{USUAL_CHECKS, check, clients};
use tollgate_e2e::clock::SettableClock;
use tollgate_e2e::server::{Server, Setup, command};
use tollgate_e2e::until;

const RULES: &str =
    "rules: [{rule_id: per_user, limit: 1000, window: 300d, identifier_type: user_id}]";
const LIMITS: &str =
    "{domain: test, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9}}]}";

fn usual(server: &Server) {
    check(server, "user_id", clients("user", USUAL_CHECKS));
}

#[test]
fn the_catalog_is_unavailable() {
    let (clock, postgres) = (SettableClock::new(), Postgres::start());
    let url = postgres.url();
    let arguments = ["--catalog", url.as_str()];
    let setup =
        Setup { arguments: &arguments, environment: &clock.environment(), ..Setup::default() };
    let server = Server::start(&setup);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    postgres.kill();
    clock.set_ahead();
    until("an old policy", || {
        (server.figure("tollgate_catalog_last_sync_age_seconds") > 60.0).then_some(())
    });
    timeline.lasts(9, || usual(&server));
    timeline.fires(&["TollgatePolicyStale"]);
}

#[test]
fn a_node_starts_without_its_catalog() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let arguments = ["--catalog", url.as_str(), "--catalog-copy", "copy.db"];
    let setup = Setup { arguments: &arguments, ..Setup::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.db");
    let server = Server::run(&mut command(&setup, folder.path()));
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.fires(&[]);
    until("a copy of the policy", || copy.exists().then_some(()));
    server.stop();
    postgres.kill();
    let server = Server::run(&mut command(&setup, folder.path()));
    let mut timeline = Timeline::of(&server);
    // The alert waits for two minutes.
    timeline.lasts(1, || usual(&server));
    timeline.lasts(9, || usual(&server));
    timeline.fires(&["TollgatePolicyStale"]);
}

#[test]
fn the_rules_file_is_invalid() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    fs::write(server.rules_file(), "rules: [{}]").expect("written");
    server.process.signal("HUP");
    until("a load that failed", || {
        (server.figure("tollgate_rules_file_last_reload_successful") < 0.5).then_some(())
    });
    timeline.lasts(9, || usual(&server));
    timeline.fires(&["TollgateFileInvalid"]);
}

#[test]
fn a_file_for_envoy_is_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = folder.path().join("ratelimit");
    fs::create_dir(&limits).expect("a directory");
    fs::write(limits.join("test.yaml"), LIMITS).expect("written");
    let arguments = ["--envoy-config", limits.to_str().expect("a readable path")];
    let setup = Setup { rules: Some(RULES), arguments: &arguments, ..Setup::default() };
    let server = Server::run(&mut command(&setup, folder.path()));
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    fs::write(limits.join("test.yaml"), "domain: [").expect("written");
    server.process.signal("HUP");
    until("a load that failed", || {
        (server.figure("tollgate_envoy_config_last_reload_successful") < 0.5).then_some(())
    });
    timeline.lasts(9, || usual(&server));
    timeline.fires(&["TollgateFileInvalid"]);
}

//! An unavailable catalog: checks go on, and their decisions are written when it is back.

use serde_json::json;
use tollgate_testbed::Postgres;

use super::{DECISIONS, OFTEN, brief, check, outcomes, put_policy, records, rule};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

#[test]
fn decisions_wait_for_a_catalog_that_comes_back() {
    let database = Postgres::start();
    let url = database.url();
    let settings = format!("{OFTEN}\naudit: {{sample_allowed: 0}}");
    let arguments = ["--catalog", url.as_str()];
    let setup = Setup { settings: &settings, arguments: &arguments, ..Setup::default() };
    let mut server = Server::start(&setup);
    put_policy(&server, &json!({"rules": [rule("r", 0)]}));
    check(&server, "before", 3);
    until("the first decisions", || (outcomes(&server) == [3, 0, 0]).then_some(()));
    database.kill();
    check(&server, "meanwhile", 5);
    server.process.until("word that they cannot be written", |process| {
        process.errors().contains("decisions cannot be written to the log").then_some(())
    });
    let unread = server.get_as_admin(DECISIONS);
    assert_eq!((unread.status, unread.code().as_str()), (503, "catalog_unavailable"));
    database.restart();
    until("all decisions", || (outcomes(&server) == [8, 0, 0]).then_some(()));
    let kept = brief(&records(&server, DECISIONS), &["client"]);
    assert_eq!(kept, [["meanwhile"; 5].as_slice(), &["before"; 3]].concat());
    let line = "decisions are written to the log again";
    until("a line", || server.process.errors().contains(line).then_some(()));
}

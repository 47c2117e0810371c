//! States of the traffic: refusals, one client that sends most, callers that stop, a server that ends, decisions that
//! are lost for the log.

use std::iter;
use std::net::TcpStream;

use serde_json::json;

use crate::timeline::Timeline;
use crate::{USUAL_CHECKS, check, clients};
use tollgate_e2e::server::{CHECK, Server, Setup};
use tollgate_e2e::until;

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1000, window: 300d, identifier_type: user_id}
  - {rule_id: none, limit: 0, window: 300d, identifier_type: tenant}
";
const BATCH: &str = "/api/v1/rate-limit/check/batch";

fn usual(server: &Server) {
    check(server, "user_id", clients("user", USUAL_CHECKS));
}

#[test]
fn a_server_that_responds_needs_no_alert() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    // One in eleven is refused.
    timeline.lasts(20, || {
        usual(&server);
        check(&server, "tenant", clients("tenant", 1));
    });
    timeline.fires(&[]);
}

#[test]
fn many_clients_are_refused() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.lasts(9, || {
        usual(&server);
        check(&server, "tenant", clients("tenant", 2 * USUAL_CHECKS));
    });
    timeline.fires(&["TollgateRefusalSpike"]);
}

/// What is refused every day is no spike.
#[test]
fn as_many_clients_are_refused_as_before() {
    let server = Server::with_rules(RULES);
    let refuse = || {
        usual(&server);
        check(&server, "tenant", clients("tenant", 2 * USUAL_CHECKS));
    };
    let mut timeline = Timeline::of(&server);
    timeline.lasts(2, refuse);
    timeline.lasts(20, refuse);
    timeline.fires(&[]);
}

#[test]
fn one_client_is_refused_again_and_again() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.lasts_with(9, 60, || {
        usual(&server);
        let one = json!({"identifiers": {"tenant": "acme"}});
        let checks = json!({"checks": vec![one; 400]}).to_string();
        assert_eq!(server.post(BATCH, &checks).status, 200);
        until("refusals that are ranked", || {
            (server.figure("tollgate_top_client_refused") > 399.0).then_some(())
        });
    });
    timeline.fires(&["TollgateOneClientRefused", "TollgateRefusalSpike"]);
}

#[test]
fn requests_that_are_invalid() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.lasts(9, || {
        usual(&server);
        assert_eq!(server.post(CHECK, "{").status, 400);
    });
    timeline.fires(&["TollgateRequestsNotChecked"]);
}

#[test]
fn callers_stop() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(60, || (0..3).for_each(|_| usual(&server)));
    timeline.lasts(13, || usual(&server));
    timeline.fires(&[]);
    timeline.lasts(13, || check(&server, "user_id", clients("user", 1)));
    timeline.fires(&["TollgateTrafficDrop"]);
}

#[test]
fn a_server_ends() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    server.process.signal("KILL");
    until("its end", || TcpStream::connect(server.address).is_err().then_some(()));
    timeline.lasts(9, || {});
    timeline.fires(&["TollgateDown"]);
}

#[test]
fn no_server_is_a_target() {
    let server = Server::with_rules(RULES);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.is_no_target(9);
    timeline.fires(&["TollgateTargetsMissing"]);
}

/// A client may write one row a second here, and checks more often.
#[test]
fn decisions_are_lost_for_the_log() {
    let settings = "audit: {sample_allowed: 1, rows_per_second: 1}";
    let server = Server::start(&Setup { settings, ..Setup::default() });
    let lost = || server.figure("tollgate_audit_decisions_total{outcome=\"lost\"}");
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || usual(&server));
    timeline.lasts(9, || {
        usual(&server);
        until("decisions that are lost", || {
            check(&server, "user_id", iter::once("busy".to_owned()));
            (lost() >= 20.0).then_some(())
        });
    });
    timeline.fires(&["TollgateDecisionsNotLogged"]);
}

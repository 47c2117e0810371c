//! A fuzzer with a token of each role gets only responses that are described. The admin has a separate
//! test.

use super::desk::TestServer;
use crate::openapi::fuzz;

#[test]
fn every_role_gets_described_responses() {
    let desk = TestServer::open();
    for role in ["operator", "viewer", "caller", "tenant-admin"] {
        let token = desk.token(role, (role == "tenant-admin").then_some("acme"));
        fuzz(&desk.server, &token, &["--phases", "fuzzing", "--max-examples", "4"]);
    }
}

//! A fuzzer with a token of each role gets no answer that is not described. The one with all rights has
//! a test of its own.

use super::desk::Desk;
use crate::openapi::fuzz;

#[test]
fn every_role_gets_answers_that_are_described() {
    let desk = Desk::open();
    for role in ["operator", "viewer", "caller", "tenant-admin"] {
        let token = desk.token(role, (role == "tenant-admin").then_some("acme"));
        fuzz(&desk.server, &token, &["--phases", "fuzzing", "--max-examples", "4"]);
    }
}

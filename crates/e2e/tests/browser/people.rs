//! People: signing in and out, what each role sees, and a tenant that sees nothing of another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate_e2e::beside;

use crate::script::run;
use crate::shop;

/// Between requests, so that other tests can run.
const REST: Duration = Duration::from_millis(50);

#[test]
fn people_sign_in_see_what_their_role_may_see_and_sign_out() {
    let server = shop::open();
    shop::busy(&server);
    let caller = shop::token(&server, &json!({"role": "caller"}));
    let viewer = shop::token(&server, &json!({"role": "viewer", "name": "a viewer"}));
    let operator = shop::token(&server, &json!({"role": "operator", "name": "an operator"}));
    let facts = json!({"caller": caller, "viewer": viewer, "operator": operator});
    run("people.py", &server, &facts);
}

#[test]
fn a_tenant_sees_nothing_of_another_while_both_send_requests() {
    let server = shop::open();
    shop::busy(&server);
    let token = shop::token(&server, &json!({"role": "tenant-admin", "tenant": "acme"}));
    let send = |is_over: &AtomicBool| {
        let mut turn = 0;
        while !is_over.load(Ordering::Relaxed) {
            shop::check_all(&server, &shop::round(turn));
            turn += 1;
            thread::sleep(REST);
        }
    };
    beside(1, send, || run("tenant.py", &server, &json!({"tenant": token})));
}

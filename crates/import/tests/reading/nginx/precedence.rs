//! What is inherited, what takes the place of what, and where nothing is limited.

use crate::nginx::support::{K, Y, Z, check};

#[test]
fn a_level_with_limits_replaces_those_around_it() {
    // A server in http, a location in a server, a location in a location.
    check(
        &format!(
            "{Z}{Y}limit_req zone=z;
            server {{ server_name a; limit_req zone=y; }} server {{ server_name b; }}"
        ),
        &["z 10/1s 1 by ip", "y 1/1m 1 by ip at a replaces z"],
        &[],
    );
    check(
        &format!("{Z}{Y}server {{ limit_req zone=z; location /a/ {{ limit_req zone=y; }} }}"),
        &["z 10/1s 1 by ip", "y 1/1m 1 by ip on /a/* replaces z"],
        &[],
    );
    check(
        &format!(
            "{Z}{Y}server {{ location /a/ {{ limit_req zone=z;
            location /a/b/ {{ limit_req zone=y; }} location /a/c/ {{ }} }} }}"
        ),
        &["z 10/1s 1 by ip on /a/*", "y 1/1m 1 by ip on /a/b/* replaces z"],
        &[],
    );
    // Beside each other, the longer prefix.
    check(
        &format!(
            "{Z}{Y}server {{ location /a/b/ {{ limit_req zone=y; }}
            location /a/ {{ limit_req zone=z; }} location = /a/x {{ limit_req zone=y; }} }}"
        ),
        &["y 1/1m 1 by ip on /a/b/* /a/x replaces z", "z 10/1s 1 by ip on /a/*"],
        &[],
    );
    // A narrower name of a server.
    check(
        &format!(
            "{Z}{Y}server {{ server_name *.a.example; limit_req zone=z; }}
            server {{ server_name b.a.example; limit_req zone=y; }}"
        ),
        &["z 10/1s 1 by ip at *.a.example", "y 1/1m 1 by ip at b.a.example replaces z"],
        &[],
    );
}

#[test]
fn the_same_limit_below_is_the_same_rule() {
    check(
        &format!(
            "{Z}{Y}server {{ limit_req zone=z; location /a/ {{ limit_req zone=z; limit_req zone=y; }} }}"
        ),
        &["z 10/1s 1 by ip", "y 1/1m 1 by ip on /a/*"],
        &[],
    );
    // Another burst replaces it, and counts apart.
    check(
        &format!(
            "{Z}server {{ limit_req zone=z; location /a/ {{ limit_req zone=z burst=9 nodelay; }} }}"
        ),
        &["z 10/1s 1 by ip", "z.2 10/1s 10 by ip on /a/* replaces z"],
        &["z apart", "z.2 apart"],
    );
}

#[test]
fn where_nothing_is_limited_nothing_is_charged() {
    check(
        &format!(
            "{Z}server {{ location / {{ limit_req zone=z; }} location /static/ {{ }}
            location = /ok {{ }} }}"
        ),
        &["z 10/1s 1 by ip /ok=0 /static/*=0"],
        &[],
    );
    // What is limited again further down is charged again.
    check(
        &format!(
            "{Z}server {{ location / {{ limit_req zone=z; }} location /static/ {{ }}
            location /static/api/ {{ limit_req zone=z; }} }}"
        ),
        &["z 10/1s 1 by ip /static/*=0 /static/api/*=1"],
        &[],
    );
    // A location with a `return` is not limited in nginx either.
    check(
        &format!("{Z}server {{ limit_req zone=z; location = /health {{ return 204; }} }}"),
        &["z 10/1s 1 by ip /health=0"],
        &[],
    );
    check(
        &format!(
            "{Z}limit_req zone=z; server {{ location = /health {{ return 204; }} location /a {{ }} }}"
        ),
        &["z 10/1s 1 by ip /health=0"],
        &[],
    );
}

#[test]
fn what_is_free_in_one_server_only_is_noted() {
    check(
        &format!(
            "{Z}server {{ server_name a; location / {{ limit_req zone=z; }} location /s/ {{ }} }}
            server {{ server_name b; location / {{ limit_req zone=z; }} }}"
        ),
        &["z 10/1s 1 by ip at a b"],
        &["z also_applies"],
    );
    // In both it can be said.
    check(
        &format!(
            "{Z}server {{ server_name a; location / {{ limit_req zone=z; }} location /s/ {{ }} }}
            server {{ server_name b; location / {{ limit_req zone=z; }} location /s/ {{ }} }}"
        ),
        &["z 10/1s 1 by ip at a b /s/*=0"],
        &[],
    );
    check(
        &format!(
            "{Z}server {{ server_name *.a.example; limit_req zone=z; }}
            server {{ server_name b.a.example; }}"
        ),
        &["z 10/1s 1 by ip at *.a.example"],
        &["z also_applies"],
    );
    // A server without names takes what the others leave, and so would its rule.
    check(
        &format!("{Z}server {{ limit_req zone=z; }} server {{ server_name b; }}"),
        &["z 10/1s 1 by ip"],
        &["z also_applies"],
    );
}

#[test]
fn two_rules_that_would_replace_each_other_do_not() {
    check(
        &format!(
            "{Z}{Y}server {{ location / {{ limit_req zone=z; }} location /a/ {{ limit_req zone=y; }}
            location /a/b/ {{ limit_req zone=z; }} }}"
        ),
        &["z 10/1s 1 by ip /a/*=0 /a/b/*=1", "y 1/1m 1 by ip on /a/* /a/b/*=0"],
        &[],
    );
    // A circle of three.
    let x = "limit_req_zone $uri zone=x:1m rate=1r/s;\n";
    check(
        &format!(
            "{Z}{Y}{x}server {{
            location /a/b/ {{ limit_req zone=x; }} location /c/ {{ limit_req zone=x; }}
            location /a/ {{ limit_req zone=y; }} location /d/e/ {{ limit_req zone=y; }}
            location /d/ {{ limit_req zone=z; }} location /c/f/ {{ limit_req zone=z; }} }}"
        ),
        &[
            "x 1/1s 1 by path on /a/b/* /c/* replaces y",
            "y 1/1m 1 by ip on /a/* /d/e/*",
            "z 10/1s 1 by ip on /c/f/* /d/* replaces x /d/e/*=0",
        ],
        &[],
    );
}

#[test]
fn a_key_that_can_be_missing_replaces_nothing_for_sure() {
    // nginx counts nothing there for a request without a device; so the wider rule must not either.
    check(
        &format!("{Z}{K}server {{ limit_req zone=z; location /a/ {{ limit_req zone=k; }} }}"),
        &["z 10/1s 1 by ip /a/*=0", "k 5/1s 1 by header:x-device on /a/*"],
        &[],
    );
    // Another rule beside it is surer.
    check(
        &format!(
            "{Z}{K}{Y}server {{ limit_req zone=z; location /a/ {{ limit_req zone=k; limit_req zone=y; }} }}"
        ),
        &[
            "z 10/1s 1 by ip",
            "k 5/1s 1 by header:x-device on /a/*",
            "y 1/1m 1 by ip on /a/* replaces z",
        ],
        &[],
    );
    // And where costs cannot say it, it is noted.
    check(
        &format!(
            "{Z}{K}limit_req zone=z; server {{ server_name a; limit_req zone=k; }}
            server {{ server_name b; }}"
        ),
        &["z 10/1s 1 by ip", "k 5/1s 1 by header:x-device at a replaces z"],
        &["k fallback"],
    );
}

#[test]
fn what_cannot_be_carried_over_leaves_the_wider_rule_in_force() {
    let lost = "limit_req_zone $cookie_a zone=c:1m rate=1r/s;\n";
    check(
        &format!("{Z}{lost}server {{ limit_req zone=z; location /a/ {{ limit_req zone=c; }} }}"),
        &["z 10/1s 1 by ip"],
        &["line 2 variable", "z also_applies"],
    );
}

#[test]
fn limits_beside_a_return_are_noted() {
    check(
        &format!(
            "{Z}server {{ listen 80;\nlimit_req zone=z;\nlocation /a {{ limit_req zone=z; }} return 204; }}"
        ),
        &[],
        &["line 3 returns", "line 4 returns"],
    );
    check(
        &format!(
            "{Z}server {{ location /a {{\nlimit_req zone=z; return 200; }} location /b/ {{ limit_req zone=z; }} }}"
        ),
        &["z 10/1s 1 by ip on /b/*"],
        &["line 3 returns"],
    );
}

#[test]
fn limits_that_no_request_meets_are_noted() {
    check(
        &format!("{Z}{Y}limit_req zone=z;\nserver {{ limit_req zone=y; }}"),
        &["y 1/1m 1 by ip"],
        &["line 3 never_met"],
    );
    check(
        &format!("{Z}{Y}server {{\nlimit_req zone=z; location / {{ limit_req zone=y; }} }}"),
        &["y 1/1m 1 by ip"],
        &["line 4 never_met"],
    );
    // nginx goes to /a/b/ at once, and never finds what is inside of /a/.
    check(
        &format!(
            "{Z}{Y}server {{ location /a/ {{ limit_req zone=z; location /a/b/c/ {{
            limit_req zone=y; }} }} location /a/b/ {{ }} }}"
        ),
        &["z 10/1s 1 by ip on /a/* /a/b/*=0"],
        &["line 4 never_met"],
    );
}

//! What nginx refuses is refused, with its place and with what would be right.

use crate::nginx::support::{Z, problems};

/// Checks the only problem of a text, as far as it is given.
#[track_caller]
fn check(text: &str, expected: &str) {
    let found = problems(text);
    let [problem] = &*found else { panic!("one problem of {text}: {found:?}") };
    assert!(problem.starts_with(expected), "{text}:\nfound    {problem}\nexpected {expected}");
}

#[test]
fn broken_text_is_reported_with_its_place() {
    for (text, expected) in [
        (";", "1:1 unexpected ;: no directive comes before it; remove it"),
        ("a;\n ;", "2:2 unexpected ;"),
        ("{}", "1:1 unexpected {: no directive comes before it; name the block"),
        ("}", "1:1 unexpected }: no block is open here"),
        ("http {\n}\n}", "3:1 unexpected }"),
        ("http {\n  server {\n  }\n", "1:6 the block that opens here is never closed"),
        ("http {", "1:6 the block that opens here is never closed; close it with }"),
        ("a b", "1:4 expected ; or { to end the directive, found the end of the file"),
        ("http {\n  a b\n}", "3:1 expected ; or { to end the directive, found a }"),
        ("a 'b", "1:3 the quote that opens here is never closed; close it with '"),
        ("a \"b\\\";", "1:3 the quote that opens here is never closed; close it with \""),
        ("a \"b\"c;", "1:6 unexpected 'c' behind a quoted word"),
        ("a\u{0}b;", "1:2 there is a NUL character here"),
        ("\u{0}", "1:1 there is a NUL character here"),
        ("a 'é\u{0}';", "1:5 there is a NUL character here"),
        ("access_by_lua_block {\n { '}' }", "1:22 the Lua that starts here has no end"),
        ("a \\", "1:4 expected ; or {"),
    ] {
        check(text, expected);
    }
    check(&"a {".repeat(65), "1:195 blocks are nested deeper than 64 levels");
}

#[test]
fn a_zone_that_nginx_refuses_is_refused() {
    for (arguments, expected) in [
        ("", "1:1 limit_req_zone has no key; write limit_req_zone $binary_remote_addr"),
        ("$uri", "1:1 limit_req_zone needs a zone and a rate"),
        ("$uri zone=z:1m", "1:1 limit_req_zone needs a zone and a rate"),
        ("$uri rate=1r/s", "1:1 limit_req_zone needs a zone and a rate"),
        ("$uri zone=z rate=1r/s", "1:21 \"zone=z\" is no zone with its size; write zone=NAME:10m"),
        ("$uri zone=:1m rate=1r/s", "1:21 \"zone=:1m\" is no zone"),
        ("$uri zone=z:1g rate=1r/s", "1:21 \"zone=z:1g\" is no zone"),
        ("$uri zone=z: rate=1r/s", "1:21 \"zone=z:\" is no zone"),
        ("$uri zone=z:1m rate=0r/s", "1:31 \"rate=0r/s\" is no rate; write rate=10r/s or"),
        ("$uri zone=z:1m rate=1r/h", "1:31 \"rate=1r/h\" is no rate"),
        ("$uri zone=z:1m rate=1.5r/s", "1:31 \"rate=1.5r/s\" is no rate"),
        ("$uri zone=z:1m rate=-1r/s", "1:31 \"rate=-1r/s\" is no rate"),
        ("$uri zone=z:1m rate=+1r/s", "1:31 \"rate=+1r/s\" is no rate"),
        ("$uri zone=z:1m rate=9223372036854775808r/s", "1:31 \"rate=9223372036854775808r/s\""),
        ("$uri zone=z:1m rate=1r/s quick", "1:41 \"quick\" is no parameter of limit_req_zone"),
        ("$ zone=z:1m rate=1r/s", "1:16 there is a $ without the name of a variable"),
        ("a$ zone=z:1m rate=1r/s", "1:16 there is a $ without the name"),
        ("${uri zone=z:1m rate=1r/s", "1:16 the brace of a variable is not closed; write ${name}"),
    ] {
        check(&format!("limit_req_zone {arguments};"), expected);
    }
    check(&format!("{Z}{Z}limit_req zone=z;"), "2:1 the zone \"z\" is at nginx.conf:1:1 already");
    check(
        "server { limit_req_zone $uri zone=z:1m rate=1r/s; }",
        "1:10 limit_req_zone is not allowed in \"server\"; put it into http",
    );
}

#[test]
fn a_limit_that_nginx_refuses_is_refused() {
    for (directive, expected) in [
        ("limit_req;", "2:1 limit_req names no zone; write limit_req zone=NAME burst=20"),
        ("limit_req burst=5;", "2:1 limit_req names no zone"),
        ("limit_req zone=;", "2:11 \"zone=\" is no parameter of limit_req"),
        ("limit_req zone=z burst=0;", "2:18 \"burst=0\" is not valid; write burst=5, a whole"),
        ("limit_req zone=z burst=-1;", "2:18 \"burst=-1\" is not valid"),
        ("limit_req zone=z burst=;", "2:18 \"burst=\" is not valid"),
        ("limit_req zone=z burst;", "2:18 \"burst\" is not valid"),
        ("limit_req zone=z delay=0;", "2:18 \"delay=0\" is not valid; write delay=5"),
        ("limit_req zone=z nodelay=1;", "2:18 \"nodelay=1\" is no parameter of limit_req"),
        ("limit_req zone=z\n  hurry;", "3:3 \"hurry\" is no parameter of limit_req"),
        ("limit_req zone=z; limit_req zone=z burst=5;", "2:19 the zone \"z\" is limited here"),
        ("limit_req_status 200;", "2:1 limit_req_status has one status from 400 to 599"),
        ("limit_req_status 600;", "2:1 limit_req_status has one status"),
        ("limit_req_status;", "2:1 limit_req_status has one status"),
        ("limit_req_status 429; limit_req_status 503;", "2:23 limit_req_status is here twice"),
        ("limit_req_dry_run maybe;", "2:1 limit_req_dry_run is either on or off"),
        ("limit_req_dry_run on; limit_req_dry_run on;", "2:23 limit_req_dry_run is here twice"),
        ("server { if ($uri) { limit_req zone=z; } }", "2:22 limit_req is not allowed in if"),
        (
            "server { location / { limit_except GET { limit_req zone=z; } } }",
            "2:42 limit_req is not allowed in limit_except",
        ),
    ] {
        check(&format!("{Z}{directive}"), expected);
    }
}

#[test]
fn a_location_that_nginx_refuses_is_refused() {
    for (location, expected) in [
        ("location { }", "1:10 a location has one path; write location /path {"),
        ("location a b c { }", "1:10 a location has one path"),
        ("location ! /a { }", "1:10 \"!\" is no mark of a location; write =, ^~, ~ or ~*"),
        (
            "location /a { location /b { } }",
            "1:24 location \"/b\" is outside of location \"/a\"; put it beside",
        ),
        (
            "location = /a { location /a/b { } }",
            "1:26 there is nothing inside of the one path \"/a\"",
        ),
    ] {
        check(&format!("server {{ {location} }}"), expected);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems("limit_req;\nlimit_req_status 1;\nlimit_req_zone;\nlocation { }");
    assert_eq!(found.len(), 4, "{found:?}");
    let many = problems(&"limit_req;".repeat(5_000));
    assert_eq!(many.len(), 1_000, "but no more than anybody reads");
}

//! Rates, bursts and delays, and what they are as rules.

use tollgate_import::nginx::NoteSubject;

use crate::nginx::support::{Y, Z, check, codes, imported};

#[test]
fn a_rate_is_a_limit() {
    for (rate, rule) in [
        ("10r/s", "z 10/1s 1 by ip"),
        ("1r/m", "z 1/1m 1 by ip"),
        ("90r/m", "z 90/1m 1 by ip"),
        // nginx takes a number alone as one per second.
        ("5", "z 5/1s 1 by ip"),
        ("9223372036854775807r/s", "z 9223372036854775807/1s 1 by ip"),
    ] {
        let text = format!("limit_req_zone $remote_addr zone=z:1m rate={rate}; limit_req zone=z;");
        check(&text, &[rule], &[]);
    }
}

#[test]
fn a_burst_comes_on_top() {
    for (limit, rule, notes) in [
        ("zone=z", "z 10/1s 1 by ip", &[][..]),
        ("zone=z nodelay", "z 10/1s 1 by ip", &[]),
        ("zone=z burst=20 nodelay", "z 10/1s 21 by ip", &[]),
        ("nodelay burst=20 zone=z", "z 10/1s 21 by ip", &[]),
        ("zone=z burst=20 delay=20", "z 10/1s 21 by ip", &[]),
        ("zone=z burst=20 delay=99", "z 10/1s 21 by ip", &[]),
        ("zone=z delay=5", "z 10/1s 1 by ip", &[]),
        // Held back from the first one on, or from the ninth on.
        ("zone=z burst=20", "z 10/1s 21 by ip as leaky_bucket", &["z held"]),
        ("zone=z burst=20 delay=8", "z 10/1s 9 by ip held 1200ms", &["z held"]),
        ("zone=y burst=7 delay=6", "y 1/1m 7 by ip held 60000ms", &["y held"]),
        (
            "zone=z burst=9223372036854775807",
            "z 10/1s 9223372036854775807 by ip as leaky_bucket",
            &["z held"],
        ),
        (
            "zone=z burst=9223372036854775807 delay=1",
            "z 10/1s 2 by ip held 31622400000ms",
            &["z held", "z long_delay"],
        ),
    ] {
        let zone = if limit.contains("zone=y") { Y } else { Z };
        check(&format!("{zone}limit_req {limit};"), &[rule], notes);
    }
}

#[test]
fn the_rate_of_a_delay_is_rounded_up() {
    let zone = "limit_req_zone $remote_addr zone=z:1m rate=3r/s;";
    let text = format!("{zone} limit_req zone=z burst=2 delay=1;");
    check(&text, &["z 3/1s 2 by ip held 334ms"], &["z held"]);
}

#[test]
fn a_dry_run_watches() {
    for (inside, rule) in [
        ("limit_req_dry_run on; limit_req zone=z;", "z 10/1s 1 by ip watching"),
        ("limit_req_dry_run ON; limit_req zone=z burst=4;", "z 10/1s 5 by ip watching"),
        ("limit_req_dry_run on; limit_req zone=z burst=4 delay=2;", "z 10/1s 5 by ip watching"),
        ("limit_req_dry_run off; limit_req zone=z;", "z 10/1s 1 by ip"),
        ("limit_req_dry_run on; server { limit_req zone=z; }", "z 10/1s 1 by ip watching"),
        ("limit_req zone=z; server { limit_req_dry_run on; }\n", "z 10/1s 1 by ip watching"),
    ] {
        check(&format!("{Z}{inside}"), &[rule], &[]);
    }
    // What only watches in one place is another rule.
    check(
        &format!(
            "{Z}server {{ location /a/ {{ limit_req zone=z; }}
            location /b/ {{ limit_req zone=z; limit_req_dry_run on; }} }}"
        ),
        &["z 10/1s 1 by ip on /a/*", "z.2 10/1s 1 by ip on /b/* watching"],
        &["z apart", "z.2 apart"],
    );
}

#[test]
fn another_status_than_429_is_noted() {
    for (inside, expected) in [
        ("limit_req zone=z;", &["Tollgate refuses with 429, nginx with 503"][..]),
        ("limit_req zone=z; limit_req_status 429;", &[]),
        ("limit_req_status 429; server { limit_req zone=z; }", &[]),
        (
            "limit_req zone=z; limit_req_status 429; server { limit_req_status 444; }
             server { location /a { limit_req_status 503; } }",
            &[
                "Tollgate refuses with 429, nginx with 444",
                "Tollgate refuses with 429, nginx with 503",
            ],
        ),
        ("limit_req zone=z; limit_req_dry_run on;", &[]),
    ] {
        let import = imported(&format!("{Z}{inside}"));
        let statuses = import.notes.iter().filter(|note| note.loss.code() == "status");
        let told = statuses.map(|note| note.loss.to_string()).collect::<Vec<_>>();
        assert_eq!(told, expected, "{inside}");
    }
}

#[test]
fn what_limits_something_else_is_noted() {
    for (directives, code) in [
        ("limit_conn_zone $remote_addr zone=c:1m;", "directive"),
        ("limit_conn c 5;", "directive"),
        ("limit_conn_status 429;", "directive"),
        ("limit_conn_log_level warn;", "directive"),
        ("limit_conn_dry_run on;", "directive"),
        ("limit_rate 10k;", "directive"),
        ("limit_rate_after 1m;", "directive"),
        ("limit_req_log_level warn;", "log_level"),
        ("access_by_lua_block { local t = { [[}]], '}' } -- }\n }", "program"),
        ("access_by_lua_file limit.lua;", "program"),
        ("rewrite_by_lua 'return';", "program"),
        ("content_by_lua_block { --[==[ } ]==] ngx.say(\"\\\"}\") }", "program"),
    ] {
        let text = format!("{Z}server {{ limit_req zone=z;\n{directives}\n}}");
        check(&text, &["z 10/1s 1 by ip"], &[&format!("line 3 {code}")]);
    }
    // These run once, or after the response.
    for directives in ["init_by_lua_block { }", "log_by_lua_block { local a = {} }"] {
        check(&format!("{Z}limit_req zone=z; {directives}"), &["z 10/1s 1 by ip"], &[]);
    }
}

#[test]
fn zones_and_limits_have_to_find_each_other() {
    check(Z, &[], &["line 1 unused_zone"]);
    check("limit_req zone=nowhere;", &[], &["line 1 unknown_zone"]);
    check(&format!("limit_req zone=z burst=2 nodelay;\n{Z}"), &["z 10/1s 3 by ip"], &[]);
    check(
        &format!("{Z}server {{ limit_req zone=z; limit_req zone=nowhere; }}"),
        &["z 10/1s 1 by ip"],
        &["line 2 unknown_zone"],
    );
}

#[test]
fn ids_are_what_is_left_of_names() {
    for (name, id) in [
        ("Per_IP", "per_ip"),
        ("a.b-c", "a.b-c"),
        ("'with space'", "with-space"),
        ("größe", "gr--e"),
        (&*"x".repeat(200), &*"x".repeat(90)),
    ] {
        let name = name.trim_matches('\'');
        let text = format!(
            "limit_req_zone $remote_addr 'zone={name}:1m' rate=1r/s; limit_req 'zone={name}';"
        );
        check(&text, &[&format!("{id} 1/1s 1 by ip")], &[]);
    }
    check(
        "limit_req_zone $uri zone=A:1m rate=1r/s; limit_req_zone $uri zone=a:1m rate=2r/s;
        limit_req zone=a; limit_req zone=A;",
        &["a 2/1s 1 by path", "a.2 1/1s 1 by path"],
        &[],
    );
}

#[test]
fn a_rule_says_where_it_is_from() {
    for limit in ["zone=z", "zone=z burst=5", "zone=z burst=5 nodelay", "zone=z burst=5 delay=2"] {
        let import = imported(&format!("{Z}limit_req {limit};"));
        let described = import.document.rules[0].description.as_deref();
        assert_eq!(described, Some(&*format!("limit_req {limit}")));
        assert_eq!((import.zones, import.limits), (1, 1));
    }
}

#[test]
fn notes_say_what_they_are_about() {
    let import = imported(&format!("{Z}limit_req zone=z;\n  limit_conn a 1;"));
    assert_eq!(codes(&import), ["line 3 directive", "z network", "z status"]);
    let NoteSubject::Place(place) = &import.notes[0].subject else { panic!("a place") };
    assert_eq!(place.to_string(), "nginx.conf:3:3");
    let told = import.notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(told[0].starts_with("nginx.conf:3:3: limit_conn limits something other"), "{told:?}");
    assert_eq!(told[1], "z: an IPv6 client counts by its /64, not by its address");
}

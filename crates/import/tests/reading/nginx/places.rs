//! Servers and locations, and the hosts and endpoints that they become.

use crate::nginx::support::{Y, Z, check};

/// What a rule says of the place of a limit.
#[track_caller]
fn applies(servers: &str, place: &str, notes: &[&str]) {
    check(&format!("{Z}{servers}"), &[&format!("z 10/1s 1 by ip{place}")], notes);
}

#[test]
fn locations_are_endpoints() {
    for (location, endpoint, notes) in [
        ("/", "", &[][..]),
        ("/a/", " on /a/*", &[]),
        ("^~ /a/", " on /a/*", &[]),
        ("^~/a/", " on /a/*", &[]),
        ("/a/b/c/", " on /a/b/c/*", &[]),
        ("= /a", " on /a", &[]),
        ("=/a", " on /a", &[]),
        ("= /", " on /", &[]),
        ("= /a/", " on /a", &[]),
        ("'/a b/'", " on /a%20b/*", &[]),
        ("/ü/", " on /%C3%BC/*", &[]),
        ("'/{id}/'", " on /%7Bid%7D/*", &[]),
        ("'/50%/'", " on /50%25/*", &[]),
        ("'/why?/'", " on /why%3F/*", &[]),
        // A prefix of any text: `/a` has `/ab` in it.
        ("/a", " on /a/*", &["z segments"]),
        ("^~ /a/b", " on /a/b/*", &["z segments"]),
    ] {
        let server = format!("server {{ location {location} {{ limit_req zone=z; }} }}");
        applies(&server, endpoint, notes);
    }
}

#[test]
fn locations_that_no_rule_can_match_are_noted() {
    for (location, note) in [
        (r"~ \.php$", "regex_location"),
        (r"~* \.(jpg|png)$", "regex_location"),
        (r"~\.php$", "regex_location"),
        ("@fallback", "named_location"),
        ("//a/", "unwritable_path"),
        ("/a/../b/", "unwritable_path"),
        ("a", "unwritable_path"),
        ("/a*/", "unwritable_path"),
        (&format!("/{}/", "a/".repeat(70)), "unwritable_path"),
        (&format!("/{}/", "a".repeat(2000)), "unwritable_path"),
    ] {
        let text = format!("{Z}server {{ location {location} {{ limit_req zone=z; }} }}");
        check(&text, &[], &[&format!("line 2 {note}")]);
    }
}

#[test]
fn a_regular_expression_matters_if_it_changes_anything() {
    let regex = r"location ~ \.php$ { proxy_pass http://a; }";
    applies(&format!("server {{ limit_req zone=z; {regex} }}"), "", &[]);
    applies(
        &format!("server {{ location /a/ {{ limit_req zone=z; }} {regex} }}"),
        " on /a/*",
        &["line 2 regex_location"],
    );
    // These win over regular expressions.
    for firm in ["^~ /a/", "= /a"] {
        let server = format!("server {{ location {firm} {{ limit_req zone=z; }} {regex} }}");
        let endpoint = if firm.starts_with('=') { " on /a" } else { " on /a/*" };
        applies(&server, endpoint, &[]);
    }
    applies(
        r"server { limit_req zone=z; location ~ ^/a { location ~ b { limit_req zone=z burst=2; } } }",
        "",
        &["line 2 regex_location"],
    );
    // A name alone leads nowhere, unless it limits.
    applies("server { location / { limit_req zone=z; } location @b { } }", "", &[]);
}

#[test]
fn a_limit_may_stand_at_every_level() {
    for (text, endpoint) in [
        ("limit_req zone=z;", ""),
        ("http { limit_req zone=z; server { } }", ""),
        ("server { limit_req zone=z; }", ""),
        ("location /a/ { limit_req zone=z; }", " on /a/*"),
        ("http { server { location /a/ { limit_req zone=z; } } }", " on /a/*"),
        ("server { location /a/ { location /a/b/ { limit_req zone=z; } } }", " on /a/b/*"),
        ("limit_req zone=z; server { location / { limit_req zone=z; } location /a/ { } }", ""),
    ] {
        applies(text, endpoint, &[]);
    }
}

#[test]
fn server_names_are_hosts() {
    for (names, hosts, notes) in [
        ("a.example", " at a.example", &[][..]),
        ("A.Example", " at a.example", &[]),
        ("b.example a.example", " at a.example b.example", &[]),
        ("a.example; server_name b.example", " at a.example b.example", &[]),
        ("*.example.com", " at *.example.com", &[]),
        (".example.com", " at *.example.com example.com", &[]),
        ("192.0.2.1", " at 192.0.2.1", &[]),
        ("_", "", &[]),
        ("_ a.example", " at a.example", &[]),
        (r"a.example ~^w\d+\.example$", " at a.example", &["z server_name"]),
        ("a.example www.example.*", " at a.example", &["z server_name"]),
        ("a.example \"\"", " at a.example", &["z server_name"]),
        ("a.example $hostname", " at a.example", &["z server_name"]),
        (r"~^(?<user>.+)\.example$", "", &["z every_host"]),
        ("example.*", "", &["z every_host"]),
    ] {
        let server = format!("server {{ server_name {names}; limit_req zone=z; }}");
        applies(&server, hosts, notes);
    }
}

#[test]
fn the_only_server_of_a_whole_configuration_takes_every_host() {
    let limited = "server_name a.example; limit_req zone=z;";
    for (inside, hosts, notes) in [
        (format!("server {{ {limited} }}"), "", &[][..]),
        (format!("server {{ listen 443 ssl default_server; {limited} }}"), "", &[]),
        // What only redirects takes nothing.
        (
            format!(
                "server {{ server_name a.example; return 301 https://a; }} server {{ listen 443; {limited} }}"
            ),
            "",
            &[],
        ),
        // Here another server takes the hosts that no server names.
        (
            format!("server {{ listen 80 default_server; return 444; }} server {{ {limited} }}"),
            " at a.example",
            &[],
        ),
        (
            format!("server {{ listen 80; return 444; }} server {{ listen *:80; {limited} }}"),
            " at a.example",
            &[],
        ),
        (
            format!("server {{ {limited} }} server {{ server_name b.example; }}"),
            " at a.example",
            &["z default_server"],
        ),
        (
            format!("server {{ server_name b.example; }} server {{ {limited} }}"),
            " at a.example",
            &[],
        ),
        (
            format!("server {{ server_name b; }} server {{ listen 80 default_server; {limited} }}"),
            " at a.example",
            &["z default_server"],
        ),
        (
            format!(
                "server {{ server_name b; }} server {{ listen 127.0.0.1; listen [::1]; {limited} }}"
            ),
            " at a.example",
            &["z default_server"],
        ),
    ] {
        applies(&format!("http {{ {inside} }}"), hosts, notes);
    }
}

#[test]
fn a_zone_in_several_places_is_one_rule() {
    applies(
        "server { location /a/ { limit_req zone=z; } location /b/ { limit_req zone=z; } }",
        " on /a/* /b/*",
        &[],
    );
    applies(
        "server { server_name a; location /x/ { limit_req zone=z; } }
         server { server_name b; location /x/ { limit_req zone=z; } }",
        " at a b on /x/*",
        &[],
    );
    // Hosts and endpoints are a product, so these do not fit into one.
    check(
        &format!(
            "{Z}server {{ server_name a; location /x/ {{ limit_req zone=z; }} }}
            server {{ server_name b; location /y/ {{ limit_req zone=z; }} }}"
        ),
        &["z 10/1s 1 by ip at a on /x/*", "z.2 10/1s 1 by ip at b on /y/*"],
        &["z apart", "z.2 apart"],
    );
    // And neither do different bursts.
    check(
        &format!(
            "{Z}server {{ location /a/ {{ limit_req zone=z burst=1 nodelay; }}
            location /b/ {{ limit_req zone=z burst=2 nodelay; }}
            location /c/ {{ limit_req zone=z burst=1 delay=1; }} }}"
        ),
        &["z 10/1s 2 by ip on /a/* /c/*", "z.2 10/1s 3 by ip on /b/*"],
        &["z apart", "z.2 apart"],
    );
}

#[test]
fn several_limits_of_one_level_are_several_rules() {
    check(
        &format!(
            "{Z}{Y}server {{ location /a/ {{ limit_req zone=z; limit_req zone=y burst=2; }} }}"
        ),
        &["z 10/1s 1 by ip on /a/*", "y 1/1m 3 by ip on /a/* as leaky_bucket"],
        &["y held"],
    );
}

#[test]
fn conditions_are_noted_where_something_is_limited() {
    applies(
        "server { if ($host = a) { return 301 /; } location / { limit_req zone=z;\nif ($uri) { } } }",
        "",
        &["line 3 if"],
    );
}

#[test]
fn paths_that_look_the_same_to_rules_are_one() {
    // The one with a slash is most of it.
    for locations in [
        "location /a { } location /a/ { limit_req zone=z; }",
        "location /a/ { limit_req zone=z; } location /a { }",
    ] {
        applies(&format!("server {{ {locations} }}"), " on /a/*", &["line 2 same_paths"]);
    }
    applies(
        "server { limit_req zone=z; location /a { } location /a/ { } location = /a { } }",
        "",
        &[],
    );
}

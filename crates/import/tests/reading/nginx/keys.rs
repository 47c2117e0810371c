//! What zones count by, and what rules count by instead.

use crate::nginx::support::check;

/// The key of a zone beside other directives, the identifiers of its rule, and what is noted.
#[track_caller]
fn counts_by(others: &str, key: &str, identifiers: &str, notes: &[&str]) {
    let text = format!("{others}\nlimit_req_zone {key} zone=z:1m rate=1r/s; limit_req zone=z;");
    let rule = format!("z 1/1s 1 by {identifiers}");
    check(&text, &[&rule], notes);
}

/// The same for a key that no rule can count by.
#[track_caller]
fn is_lost(others: &str, key: &str, note: &str) {
    let text = format!("{others}\nlimit_req_zone {key} zone=z:1m rate=1r/s; limit_req zone=z;");
    let line = others.lines().count().max(1) + 1;
    check(&text, &[], &[&format!("line {line} {note}")]);
}

#[test]
fn variables_are_identifiers() {
    for (key, identifiers, notes) in [
        ("$binary_remote_addr", "ip", &[][..]),
        ("$remote_addr", "ip", &[]),
        ("${remote_addr}", "ip", &[]),
        ("\"$Binary_Remote_Addr\"", "ip", &[]),
        ("$http_x_api_key", "api_key", &["z api_key"]),
        ("$http_x_device_id", "header:x-device-id", &[]),
        ("$http_authorization", "header:authorization", &[]),
        ("$http_x_forwarded_for", "ip", &["z forwarded_address"]),
        ("$http_x_real_ip", "ip", &["z forwarded_address"]),
        ("$host", "header:host", &["z host"]),
        ("$http_host", "header:host", &["z host"]),
        ("$uri", "path", &[]),
        ("$document_uri", "path", &[]),
        ("$request_uri", "path", &["z query"]),
        ("$jwt_claim_sub", "claim:sub", &[]),
        ("$remote_user", "user_id", &["z user"]),
    ] {
        counts_by("", key, identifiers, notes);
    }
}

#[test]
fn words_alone_are_one_counter() {
    for key in ["everything", "'all of it'", "a-b", "\"1\""] {
        counts_by("", key, "global", &[]);
    }
    is_lost("", "\"\"", "empty_key");
}

#[test]
fn what_stands_together_is_a_combination() {
    for (key, identifiers, notes) in [
        ("$binary_remote_addr$uri", "ip+path", &[][..]),
        ("$uri$binary_remote_addr", "path+ip", &[]),
        ("\"$uri|$remote_addr\"", "path+ip", &[]),
        ("${uri}x${remote_addr}", "path+ip", &[]),
        ("$remote_addr$binary_remote_addr", "ip", &[]),
        // nginx counts those without a device by what is left of the key.
        ("$remote_addr$http_device", "ip+header:device", &["z missing_part"]),
        ("device$http_device", "header:device", &["z missing_part"]),
        ("$http_a$http_b", "header:a+header:b", &["z missing_part"]),
    ] {
        counts_by("", key, identifiers, notes);
    }
    let eight = (1..=8).map(|number| format!("$http_h{number}")).collect::<String>();
    let names = (1..=8).map(|number| format!("header:h{number}")).collect::<Vec<_>>();
    counts_by("", &eight, &names.join("+"), &["z missing_part"]);
    is_lost("", &format!("{eight}$http_h9"), "long_key");
}

#[test]
fn what_rules_do_not_know_is_lost() {
    for key in [
        "$cookie_session",
        "$arg_token",
        "$request_method",
        "$scheme",
        "$ssl_client_s_dn",
        "$proxy_protocol_addr",
        "$http_",
        "$jwt_claim_",
        "$binary_remote_addr$cookie_session",
        "$nothing_at_all",
        &format!("$http_{}", "x".repeat(200)),
    ] {
        is_lost("", key, "variable");
    }
}

#[test]
fn a_map_that_exempts_is_followed() {
    let geo = "geo $limited { default 1; 10.0.0.0/8 0; }";
    let map = "map $limited $key { 0 \"\"; 1 $binary_remote_addr; }";
    counts_by(&format!("{geo} {map}"), "$key", "ip", &["z exempt"]);
    // The other way round: what it does not name is empty.
    counts_by("map $uri $key { /a $remote_addr; }", "$key", "ip", &["z exempt"]);
    counts_by("map $uri $key { default $remote_addr; }", "$key", "ip", &[]);
    counts_by("geo $remote_addr $key { default all; }", "$key", "global", &[]);
    counts_by("map $uri $key { volatile; hostnames; default $uri; }", "$key", "path", &[]);
    // One after the other.
    let maps = "map $uri $a { default $b; /x \"\"; } map $uri $b { default $http_k; }";
    counts_by(maps, "$a", "header:k", &["z exempt"]);
}

#[test]
fn what_is_computed_is_lost() {
    for (others, note) in [
        ("geo $key { default 1; 10.0.0.0/8 0; }", "computed"),
        ("map $uri $key { default $remote_addr; /a $http_a; }", "computed"),
        ("map $uri $key { default $arg_a; }", "variable"),
        ("map $uri $key { default \"\"; }", "empty_key"),
        ("map $uri $key { default '$'; }", "variable"),
        ("map $uri $key { default $key; }", "computed"),
        ("map $uri $key { default $b; } map $uri $b { default $key; }", "computed"),
        ("split_clients $remote_addr $key { 50% a; * b; }", "computed"),
        ("server { set $key $remote_addr; return 204; }", "computed"),
        ("map $uri $key { default $uri; } map $uri $key { default $host; }", "computed"),
        ("server { set_by_lua_block $key { return \"}\" } return 204; }", "computed"),
    ] {
        is_lost(others, "$key", note);
    }
}

#[test]
fn the_name_of_a_server_tells_servers_apart() {
    let zone = "limit_req_zone $server_name zone=z:1m rate=1r/s; limit_req zone=z;\n";
    check(
        &format!(
            "{zone}
            server {{ server_name a.example b.example; }}
            server {{ server_name c.example; }}"
        ),
        &["z 1/1s 1 by global at a.example b.example", "z.2 1/1s 1 by global at c.example"],
        &[],
    );
    // The same first name is the same counter.
    check(
        &format!(
            "{zone}
            server {{ server_name a.example; }}
            server {{ server_name a.example b.example; listen 81; }}"
        ),
        &["z 1/1s 1 by global at a.example b.example"],
        &[],
    );
    // No name, no key.
    check(&format!("{zone}\nserver {{ }}"), &[], &["line 3 empty_key"]);
    check(zone, &[], &["line 1 variable"]);
    let both = "limit_req_zone $server_name$remote_addr zone=z:1m rate=1r/s; limit_req zone=z;";
    check(&format!("{both} server {{ }}"), &["z 1/1s 1 by ip"], &[]);
}

//! The address of the client: trusted proxies can report it, clients cannot.

use std::num::NonZeroUsize;

use tollgate::Timestamp;
use tollgate::identity::{ClientIpConfig, ForwardingHeader, IdentityConfig};

use crate::{address, at_once, extractor, headers, parse};

/// Settings as text: trusted networks, `hops=2`, `prefix=56`, `forwarded`, `single=x-real-ip`.
fn config(text: &str) -> ClientIpConfig {
    let mut config = ClientIpConfig::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("hops", count)) => config.hops = NonZeroUsize::new(parse(count)),
            Some(("prefix", bits)) => config.ipv6_prefix = parse(bits),
            Some(("single", name)) => {
                config.header = ForwardingHeader::Single(parse(name));
            }
            Some(_) => panic!("no such setting: {word}"),
            None if word == "forwarded" => config.header = ForwardingHeader::Forwarded,
            None => config.trusted_proxies.push(parse(word)),
        }
    }
    config
}

fn check(settings: &str, peer: &str, lines: &[&str], expected: &str) {
    let extractor =
        extractor(IdentityConfig { client_ip: config(settings), ..IdentityConfig::default() });
    let identity = at_once(extractor.identify(&headers(lines), address(peer), Timestamp::EPOCH));
    assert_eq!(identity.ip, expected, "{settings}, from {peer}, with {lines:?}");
}

#[test]
fn without_trusted_proxies_the_peer_is_the_client() {
    check("", "198.51.100.7", &[], "198.51.100.7");
    check("", "198.51.100.7", &["x-forwarded-for: 1.1.1.1"], "198.51.100.7");
    check("", "198.51.100.7", &["forwarded: for=1.1.1.1"], "198.51.100.7");
    check("10.0.0.0/8", "198.51.100.7", &["x-forwarded-for: 1.1.1.1"], "198.51.100.7");
    check("10.0.0.0/8 hops=1", "198.51.100.7", &["x-forwarded-for: 1.1.1.1"], "198.51.100.7");
    check("10.0.0.0/8 single=x-real-ip", "198.51.100.7", &["x-real-ip: 1.1.1.1"], "198.51.100.7");
}

#[test]
fn the_first_untrusted_hop_from_the_right_is_the_client() {
    let through = |lines: &[&str], expected: &str| {
        check("10.0.0.0/8 2001:db8:ff::/48", "10.0.0.1", lines, expected);
    };
    through(&[], "10.0.0.1");
    through(&["x-forwarded-for: 203.0.113.9"], "203.0.113.9");
    // The leftmost is what the client wrote.
    through(&["x-forwarded-for: 1.1.1.1, 203.0.113.9"], "203.0.113.9");
    through(&["x-forwarded-for: 1.1.1.1, 203.0.113.9, 10.2.2.2"], "203.0.113.9");
    through(&["x-forwarded-for: 203.0.113.9, 2001:db8:ff::1"], "203.0.113.9");
    // Lines are joined in their order.
    through(&["x-forwarded-for: 1.1.1.1", "x-forwarded-for: 203.0.113.9"], "203.0.113.9");
    through(
        &["x-forwarded-for: 203.0.113.9, 10.1.1.1", "x-forwarded-for: 10.2.2.2"],
        "203.0.113.9",
    );
    // All trusted: the leftmost.
    through(&["x-forwarded-for: 10.3.3.3, 10.2.2.2"], "10.3.3.3");
    // Other headers are ignored.
    through(&["forwarded: for=1.1.1.1", "x-real-ip: 1.1.1.1"], "10.0.0.1");
}

#[test]
fn a_hop_that_cannot_be_read_ends_the_search() {
    for junk in ["unknown", "_hidden", "client.example", "1.2.3", "010.0.0.1", "1.2.3.4:", "\u{e9}"]
    {
        let line = format!("x-forwarded-for: 203.0.113.9, {junk}");
        check("10.0.0.0/8", "10.0.0.1", &[&line], "10.0.0.1");
        let line = format!("x-forwarded-for: 203.0.113.9, {junk}, 10.2.2.2");
        check("10.0.0.0/8", "10.0.0.1", &[&line], "10.2.2.2");
        let line = format!("x-forwarded-for: {junk}, 203.0.113.9");
        check("10.0.0.0/8", "10.0.0.1", &[&line], "203.0.113.9");
    }
}

#[test]
fn addresses_are_read_in_every_spelling() {
    let spelled = |entry: &str, expected: &str| {
        check("10.0.0.0/8", "10.0.0.1", &[&format!("x-forwarded-for: {entry}")], expected);
    };
    spelled("203.0.113.9:4711", "203.0.113.9");
    spelled("  203.0.113.9\t", "203.0.113.9");
    spelled(",203.0.113.9, ,", "203.0.113.9");
    spelled("::ffff:203.0.113.9", "203.0.113.9");
    spelled("[::ffff:203.0.113.9]:80", "203.0.113.9");
    spelled("::FFFF:cb00:7109", "203.0.113.9");
    spelled("2001:db8:1:2::", "2001:db8:1:2::");
    spelled("[2001:db8:1:2::]", "2001:db8:1:2::");
    spelled("[2001:DB8:1:2:0:0:0:0]:443", "2001:db8:1:2::");
    spelled("fe80::%eth0", "fe80::");
    spelled("[fe80::%25eth0]:443", "fe80::");
    for junk in ["[203.0.113.9]", "[2001:db8::1", "[2001:db8::1]x", "[2001:db8::1]:x", "1.2.3.4%a"]
    {
        spelled(junk, "10.0.0.1");
    }
}

#[test]
fn ipv4_in_ipv6_is_ipv4_before_it_is_trusted() {
    check("10.0.0.0/8", "::ffff:10.0.0.1", &["x-forwarded-for: 203.0.113.9"], "203.0.113.9");
    check("::ffff:10.0.0.0/104", "10.0.0.1", &["x-forwarded-for: 203.0.113.9"], "203.0.113.9");
    check(
        "10.0.0.0/8",
        "10.0.0.1",
        &["x-forwarded-for: 203.0.113.9, ::ffff:10.2.2.2"],
        "203.0.113.9",
    );
    check("", "::ffff:198.51.100.7", &[], "198.51.100.7");
    // All of IPv6 is not IPv4.
    check("::/0", "10.0.0.1", &["x-forwarded-for: 203.0.113.9"], "10.0.0.1");
}

#[test]
fn hops_can_be_counted_instead() {
    let counted = |count: &str, entries: &str, expected: &str| {
        let line = format!("x-forwarded-for: {entries}");
        check(&format!("10.0.0.0/8 hops={count}"), "10.0.0.1", &[&line], expected);
    };
    counted("1", "1.1.1.1, 203.0.113.9", "203.0.113.9");
    counted("2", "1.1.1.1, 203.0.113.9, 192.0.2.1", "203.0.113.9");
    // Fewer hops than there are proxies: the request did not pass all of them.
    counted("3", "1.1.1.1, 203.0.113.9", "10.0.0.1");
    counted("2", "unknown, 203.0.113.9", "10.0.0.1");
    check(
        "10.0.0.0/8 hops=2 forwarded",
        "10.0.0.1",
        &["forwarded: for=1.1.1.1, for=203.0.113.9, for=192.0.2.1"],
        "203.0.113.9",
    );
}

#[test]
fn forwarded_is_read_by_its_own_grammar() {
    let through = |lines: &[&str], expected: &str| {
        check("10.0.0.0/8 forwarded", "10.0.0.1", lines, expected);
    };
    through(&["forwarded: for=203.0.113.9"], "203.0.113.9");
    through(&["forwarded: For=203.0.113.9;proto=http;by=203.0.113.43"], "203.0.113.9");
    through(&["forwarded: proto=https ; for=\"203.0.113.9:4711\" ;"], "203.0.113.9");
    through(&["forwarded: for=\"[2001:db8:1:2::]:4711\""], "2001:db8:1:2::");
    through(&["forwarded: for=[2001:db8:1:2::]:_port"], "2001:db8:1:2::");
    through(&["forwarded: for=1.1.1.1, for=203.0.113.9, for=10.2.2.2"], "203.0.113.9");
    through(&["forwarded: for=1.1.1.1", "forwarded: for=203.0.113.9"], "203.0.113.9");
    // A quote that the client leaves open swallows nothing.
    through(&["forwarded: for=\"1.1.1.1, for=203.0.113.9"], "203.0.113.9");
    through(&["forwarded: for=\"1.1.1.1", "forwarded: for=203.0.113.9"], "203.0.113.9");
    // A comma that a client smuggles into a quoted value of the proxy separates no elements.
    through(&[r#"forwarded: for=203.0.113.9;host="x, for=1.1.1.1""#], "10.0.0.1");
    through(&[r#"forwarded: for=203.0.113.9;host="x, for=1.1.1.1;a=\"""#], "10.0.0.1");
    through(&[r#"forwarded: for=203.0.113.9;host="x, for=1.1.1.1;a=\"b\"""#], "10.0.0.1");
    for junk in [
        "for=unknown",
        "for=_hidden",
        "for=\"_hidden:80\"",
        "for=",
        "for",
        "for =203.0.113.9",
        "by=203.0.113.9",
        "for=203.0.113.9;for=1.1.1.1",
        "for=203.0.113.9 x",
        "for=\"203.0.113.9\"x",
        "for=\"203.0.113.9",
        "203.0.113.9",
    ] {
        through(&[&format!("forwarded: {junk}")], "10.0.0.1");
        through(&[&format!("forwarded: for=1.1.1.1, {junk}, for=10.2.2.2")], "10.2.2.2");
    }
    through(&["x-forwarded-for: 1.1.1.1"], "10.0.0.1");
}

#[test]
fn a_single_header_must_be_single() {
    let through = |lines: &[&str], expected: &str| {
        check("10.0.0.0/8 single=cf-connecting-ip", "10.0.0.1", lines, expected);
    };
    through(&["cf-connecting-ip: 203.0.113.9"], "203.0.113.9");
    through(&["cf-connecting-ip: 2001:db8:1:2::"], "2001:db8:1:2::");
    through(&["cf-connecting-ip: 203.0.113.9, 1.1.1.1"], "10.0.0.1");
    through(&["cf-connecting-ip: 203.0.113.9", "cf-connecting-ip: 203.0.113.9"], "10.0.0.1");
    through(&["cf-connecting-ip: unknown"], "10.0.0.1");
    through(&["x-forwarded-for: 1.1.1.1"], "10.0.0.1");
}

#[test]
fn an_ipv6_client_is_its_network() {
    let client = "2001:db8:1:2233:4455:6677:8899:aabb";
    check("", client, &[], "2001:db8:1:2233::");
    check("prefix=56", client, &[], "2001:db8:1:2200::");
    check("prefix=48", client, &[], "2001:db8:1::");
    check("prefix=128", client, &[], client);
    check("prefix=48", "203.0.113.9", &[], "203.0.113.9");
    check("", "2001:db8:0:0:1::", &[], "2001:db8::");
}

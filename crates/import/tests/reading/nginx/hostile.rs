//! No file makes the reader panic, hang, or fill the memory; and whatever it accepts is a policy.

use proptest::prelude::*;
use tollgate_import::nginx::import;

use crate::nginx::support::compile;
use tollgate_testbed::hostile_text::{HostileText, check_shown, mutated, random_bytes};

const VALID: &str = r#"# A file that uses everything there is.
limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;
limit_req_zone "$host$http_x_é" zone=two:1m rate=30r/m;
limit_req_zone $key zone=three:1m rate=5;
map $uri $key { default $server_name; "~^/a{2}" ""; }
geo $limited { default 1; 10.0.0.0/8 0; }
limit_req zone=one burst=20 nodelay;
limit_req_status 429;
server {
    listen 80 default_server;
    server_name .example.com *.example.org ~^w\d+$;
    limit_req zone=one burst=5; limit_req zone=two;
    location / { limit_req_dry_run on; }
    location /a/ { limit_req zone=two burst=9 delay=3; location /a/b { limit_req zone=three; } }
    location = /c { return 204; }
    location ~ \.php$ { if ($uri = "x") { set $y 'z'; } }
    location @d { access_by_lua_block { return "}" } }
}
server { server_name b.example.com; location /a/ { } include nothing; }
"#;

/// Reads the text and checks the reported problems.
fn check(text: &str) {
    let include = &mut |_: &str, _: &str| Err("none".to_owned());
    match import(&[("nginx.conf", text)], include) {
        Ok(import) => {
            compile(&import);
            for note in import.notes.iter().step_by(100) {
                let told = note.to_string();
                assert!(!told.contains('\n'), "one line: {told:?}");
                check_shown(&told);
            }
        }
        Err(problems) => {
            assert!((1..=1_000).contains(&problems.len()), "problems are bounded");
            assert!(
                problems.iter().all(|told| told.problem.position.is_some()),
                "all have a place"
            );
            let hostile = HostileText::new("nginx.conf", text);
            hostile.check(problems.iter().map(|told| &told.problem));
            for told in problems.iter().step_by(100) {
                check_shown(&told.to_string());
            }
        }
    }
}

fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        "[{};\"'#$\\\\=~@*/.\n\r\t 0-9a-z\u{0}\u{1b}\u{e9}\u{feff}\u{1f600}]{1,3}",
        Just("limit_req zone=one burst=3;".to_owned()),
        Just("location /a/b/c/ { limit_req zone=two; }".to_owned()),
        Just("server { server_name a.example.com; location /a { } }".to_owned()),
        Just("return 200;".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes(text in random_bytes()) {
        check(&text);
    }

    #[test]
    fn random_punctuation(text in "[{};\"'#$\\\\=~@*/\n\r\t 0ae.\u{feff}]{0,80}") {
        check(&text);
    }

    #[test]
    fn mutations(text in mutated(VALID, pieces())) {
        check(&text);
    }
}

#[test]
fn the_valid_text_is_valid() {
    check(VALID);
    let include = &mut |_: &str, _: &str| Err("none".to_owned());
    let import = import(&[("nginx.conf", VALID)], include).expect("valid");
    assert!(import.document.rules.len() >= 5, "{:?}", import.document.rules);
}

/// What is repeated until a text of a megabyte is full.
#[test]
fn a_megabyte_of_anything() {
    for piece in [
        "{",
        "}",
        "a{",
        "a {",
        "a;",
        ";",
        "\"",
        "'",
        "\\",
        "$",
        "${",
        "#",
        "\n",
        "\r",
        "\u{0}",
        "é",
        "a ",
        "limit_req;",
        "limit_req_zone;",
        "location / {",
        "location /a {",
        "server {",
        "server { limit_req zone=z; }",
        "location /a/ { limit_req zone=z; }",
        "include a;",
        "access_by_lua_block {",
        "access_by_lua_block { [[",
        "[==[",
        "map $a $b {",
        "/a/",
        "limit_req_zone $uri zone=z:1m rate=1r/s;",
        "limit_req zone=z;",
        "return 200;",
        "map $a $a { default $a; }",
        "a.example ",
    ] {
        check(&piece.repeat((1 << 20) / piece.len()));
    }
}

/// As many different things of each kind as fit.
#[test]
fn a_megabyte_of_different_things() {
    let numbered = |head: &str, many: usize, one: &dyn Fn(usize) -> String, tail: &str| {
        let middle = (0..many).map(one).collect::<String>();
        check(&format!("{head}{middle}{tail}"));
    };
    let zone = "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req zone=z;";
    let zones = |many: usize| {
        let zone =
            |n: usize| format!("limit_req_zone $uri zone=z{n}:1m rate=1r/s; limit_req zone=z{n};");
        (0..many).map(zone).collect::<String>()
    };
    numbered(&zones(15_000), 1, &|_| "server { }".to_owned(), "");
    numbered(&zones(2_000), 9_000, &|n| format!("server {{ server_name s{n}; }}"), "");
    numbered(zone, 15_000, &|n| format!("server {{ server_name s{n}; limit_req zone=z; }}"), "");
    let burst = |n: usize| format!("server {{ limit_req zone=z burst={}; }}", n + 1);
    numbered(zone, 9_000, &burst, "");
    let named =
        |n: usize| format!("server {{ server_name a; limit_req zone=z burst={} nodelay; }}", n + 1);
    numbered(zone, 9_000, &named, "");
    let location = |n: usize| format!("location /l{n}/ {{ limit_req zone=z burst={}; }}", n + 1);
    numbered(&format!("{zone} server {{ "), 9_000, &location, "}");
    numbered(&format!("{zone} server {{ "), 20_000, &location, "}");
    let free = |n: usize| format!("location /l{n} {{ }}");
    numbered(&format!("{zone} server {{ location / {{ limit_req zone=z; }}"), 9_000, &free, "}");
    let regex = |n: usize| format!("location ~ {n} {{ limit_req zone=z; }}");
    numbered(&format!("{zone} server {{ "), 9_000, &regex, "}");
    let name = |n: usize| format!(" a.b.c.d.e.f.g.h{n}.example");
    let locations = (0..2_000).map(location).collect::<String>();
    numbered(&format!("{zone} server {{ {locations} server_name"), 30_000, &name, "; }");
    let map = |n: usize| format!("map $uri $v{} {{ default $v{n}; }}", n + 1);
    numbered("limit_req_zone $v9000 zone=z:1m rate=1r/s; limit_req zone=z;", 9_000, &map, "");
    let value = |n: usize| format!("k{n} v{n};");
    numbered(&format!("{zone} map $uri $v {{"), 50_000, &value, "}");
}

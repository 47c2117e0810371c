//! Quotes, escapes, comments and includes.

use tollgate_import::nginx::{NginxFile, NginxImport, import};

use crate::nginx::support::{Z, check, codes, shown};

#[test]
fn words_may_be_written_in_many_ways() {
    for text in [
        "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s; limit_req zone=z;",
        "limit_req_zone\n\t$binary_remote_addr\r\n  zone=z:1m   rate=10r/s\n;limit_req zone=z;",
        "limit_req_zone \"$binary_remote_addr\" 'zone=z:1m' \"rate=10r/s\"; limit_req 'zone=z';",
        "\"limit_req_zone\" ${binary_remote_addr} zone=z:1m rate=10r/s; 'limit_req' zone=z;",
        "# a comment; with } { \" in it\nlimit_req_zone $binary_remote_addr # another\nzone=z:1m rate=10r/s; limit_req zone=z;#",
        "\u{feff}limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s; limit_req zone=z;",
        "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s sync; limit_req zone=z;",
        "http{limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;limit_req zone=z;server{}}",
        "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s; limit_req zone=y zone=z;",
    ] {
        check(text, &["z 10/1s 1 by ip"], &[]);
    }
}

#[test]
fn what_has_nothing_to_do_with_limits_may_be_anything() {
    for other in [
        "events { worker_connections 10; }",
        "log_format a '$remote_addr \"$request\" {';",
        "types { text/html html; limit_req nothing; }",
        "upstream u { server 127.0.0.1:80; keepalive 2; }",
        "stream { server { listen 1; proxy_pass a; } }",
        "map $uri $x { limit_req a; '~^/(a|b){2}' 'c;'; \\x 1; }",
        "server { rewrite ^/(.*)\\{$ /$1; add_header X \"a\\\"b;\"; return 200 a#b; }",
        "server { location ~ \"^/a{2,3}$\" { return 200; } return 204; }",
        "server { if ($http_a = \"b\") { set $c 1; } return 204; }",
        "server { return 200 a}b\"c; }",
        "unknown_directive;",
    ] {
        check(&format!("{Z}limit_req zone=z;\n{other}"), &["z 10/1s 1 by ip"], &[]);
    }
}

const FILES: [(&str, &str); 8] = [
    ("zones.conf", "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;"),
    ("sites/*", "sites/a sites/b"),
    ("sites/a", "server { server_name a; include limit.conf; }"),
    ("sites/b", "server { server_name b; include limit.conf; }"),
    ("limit.conf", "limit_req zone=z;"),
    ("itself.conf", "include itself.conf;"),
    ("twice.conf", "include twice.conf; include twice.conf;"),
    ("broken.conf", "server {\n  listen 80"),
];

/// Imports a file that may include the others.
fn with_files(text: &str) -> Result<NginxImport, Vec<String>> {
    let find = |name: &str| FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let mut include = |top: &str, pattern: &str| {
        assert_eq!(top, "nginx.conf", "the folder at the top is where nginx starts");
        let found = find(pattern).ok_or("there is no such file")?;
        let names = if pattern.contains('*') { found.split(' ').collect() } else { vec![pattern] };
        let file = |name: &str| {
            let text = find(name)?.to_owned();
            Some(NginxFile { name: name.to_owned(), text })
        };
        Ok(names.into_iter().filter_map(file).collect())
    };
    let told = |problems: Vec<_>| problems.iter().map(ToString::to_string).collect();
    import(&[("nginx.conf", text)], &mut include)
        .map_err(|problems: Vec<tollgate_import::FileProblem>| told(problems))
}

#[test]
fn included_files_stand_where_they_are_named() {
    let found = with_files("http { include zones.conf; include sites/*; }").expect("valid files");
    let rules = found.document.rules.iter().map(shown).collect::<Vec<_>>();
    assert_eq!(rules, ["z 10/1s 1 by ip at a b"]);
    assert_eq!((found.zones, found.limits), (1, 2));
}

#[test]
fn a_file_that_is_missing_is_noted() {
    let found = with_files("include zones.conf; include limit.conf;\ninclude missing/*;");
    let found = found.expect("valid files");
    assert_eq!(codes(&found), ["line 2 include", "z network", "z status"]);
    let expected = "nginx.conf:2:1: \"missing/*\" is included, and nothing is known of it: there is \
                    no such file";
    assert_eq!(found.notes[0].to_string(), expected);
}

#[test]
fn includes_have_bounds() {
    for (text, expected) in [
        ("include itself.conf;", "itself.conf: line 1, column 1: files include each other more"),
        ("include twice.conf;", "twice.conf: line 1, column 1: files include each other more"),
        ("include broken.conf;", "broken.conf: line 2, column 12: expected ; or { to end"),
        ("include a b;", "nginx.conf: line 1, column 1: include names one file"),
        ("include;", "nginx.conf: line 1, column 1: include names one file"),
    ] {
        let problems = with_files(text).expect_err("a problem");
        assert!(problems[0].starts_with(expected), "{text}: {problems:?}");
    }
    let problems = with_files("include twice.conf;").expect_err("a problem");
    assert!(problems.iter().any(|it| it.contains("the files are more than 1000")), "{problems:?}");
}

#[test]
fn several_files_are_parts_of_one_configuration() {
    let include = &mut |_: &str, _: &str| Ok(Vec::new());
    let files = [("sites.conf", "server { limit_req zone=z; }"), ("zones.conf", Z)];
    let found = import(&files, include).expect("valid files");
    assert_eq!(found.document.rules.iter().map(shown).collect::<Vec<_>>(), ["z 10/1s 1 by ip"]);
}

//! The page that replays an access log: who, when, by which rule, under six algorithms; bounded, and nothing stored.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tollgate_e2e::client::{Answer, Connection};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

use crate::browser::{Browser, multipart, put_rule, token};

const PAGE: &str = "/ui/simulate";
const IN_FORCE: &[(&str, &str)] = &[("format", "auto"), ("policy", "in_force")];
const PER_IP: &str = r#"{"rule_id":"per_ip","limit":10,"window":"1m","identifier_type":"ip"}"#;

/// A server with these rules only.
fn start(settings: &str) -> Server {
    let server = Server::start(&Setup { settings, ..Setup::default() });
    put_rule(&server, PER_IP);
    let deleted = server.ask(
        "DELETE",
        "/api/v1/rules/default_per_ip",
        &[tollgate_e2e::server::bearer_admin()],
        "",
    );
    assert_eq!(deleted.status, 204, "{deleted:?}");
    server
}

/// 30 requests of a greedy client and one of each of four others, within a minute.
fn log() -> String {
    let line = |client: &str, second: usize| {
        format!(
            "{client} - - [15/Nov/2026:10:00:{second:02} +0000] \"GET /items HTTP/1.1\" 200 5 \"-\" \"agent/1\"\n"
        )
    };
    let greedy = (0..30).map(|second| line("192.0.2.1", second));
    let others = (0..4).map(|other| line(&format!("198.51.100.{other}"), 30 + other));
    greedy.chain(others).collect()
}

/// The text of a page without its tags, so that figures stand in the order in which they are read.
fn words(page: &Answer) -> String {
    let text = page.text();
    // Where a name may be broken, nothing is read.
    let text = text.replace("<wbr>", "");
    let (_, report) = text.split_once("id=\"report\"").unwrap_or(("", &text));
    let mut words = String::new();
    let mut rest = report;
    while let Some((before, tag)) = rest.split_once('<') {
        words.push_str(before);
        words.push(' ');
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

#[test]
fn a_log_is_replayed_against_the_rules_in_force() {
    let server = start("");
    let mut browser = Browser::admin(&server);
    assert!(browser.get("/").text().contains("href=\"/ui/simulate\""), "it is in the navigation");
    let form = browser.get(PAGE).text();
    assert!(form.contains("rule_id: per_ip") && form.contains("64 MiB"), "{form}");
    for (name, content) in [("access.log", log().into_bytes()), ("access.log.gz", gzip(&log()))] {
        let page = browser.upload(PAGE, IN_FORCE, (name, &content));
        assert_eq!(page.status, 200, "{page:?}");
        let words = words(&page);
        for expected in [
            // Who, when, by which rule.
            "Requests 34",
            "Refused 58.8 %",
            "Clients refused 1 of 5",
            &format!("{name} combined"),
            "per_ip 10 / 1 min · ip 34 20 58.8 % 1",
            "192.0.2.1 /items agent/1 30 20 per_ip",
            // Six algorithms.
            "token_bucket",
            "leaky_bucket",
            "gcra",
            "fixed_window",
            "sliding_window_counter in use",
            "sliding_window_log in use 20 58.8 %",
        ] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
    }
    let policy = browser.get(PAGE).text();
    assert!(!policy.contains("192.0.2.1"), "nothing of the upload is stored: {policy}");
    let audit = server.get_as_admin("/api/v1/audit").text();
    assert!(!audit.contains("access.log"), "{audit}");
    let left = server.check(r#"{"identifiers":{"ip":"192.0.2.1"}}"#);
    assert_eq!(left["remaining"], 9, "nothing was charged: {left}");
}

#[test]
fn edited_rules_are_tried_and_problems_have_their_line() {
    let server = start("");
    let mut browser = Browser::admin(&server);
    let edited = |document: &'static str| [("policy", "edited"), ("document", document)];
    let lenient = "rules:\r\n  - rule_id: per_ip\r\n    limit: 25\r\n    window: 1m\r\n    identifier_type: ip\r\n";
    let page = browser.upload(PAGE, &edited(lenient), ("a.log", log().as_bytes()));
    assert_eq!(page.status, 422, "the format is missing: {page:?}");
    let with_format = |document| [&IN_FORCE[..1], &edited(document)[..]].concat();
    let page = browser.upload(PAGE, &with_format(lenient), ("a.log", log().as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(words(&page).contains("per_ip 25 / 1 min · ip 34 5 14.7 % 1"), "{}", words(&page));
    assert!(page.text().contains("limit: 25"), "the edited text stays");
    let tried =
        "rules: [{rule_id: a, limit: 25, window: 1m, identifier_type: ip, candidate: {limit: 20}}]";
    let page = browser.upload(PAGE, &with_format(tried), ("a.log", log().as_bytes()));
    assert!(words(&page).contains("a~candidate shadow 20 / 1 min · ip"), "{}", words(&page));
    let hit = "192.0.2.1 30 5 a~candidate candidate";
    assert!(words(&page).contains(hit), "whom the candidate would refuse: {}", words(&page));
    let none = browser.upload(PAGE, &with_format("rules: []\n"), ("a.log", log().as_bytes()));
    assert_eq!(none.status, 200, "{none:?}");
    assert!(words(&none).contains("34 requests matched no rule"), "{}", words(&none));
    for (document, line) in [
        (
            "rules:\n  - rule_id: a\n    limit: many\n    window: 1m\n    identifier_type: ip\n",
            "line 3",
        ),
        (
            "rules:\n  - rule_id: a\n    limit: 1\n    window: 1m\n    identifier_type: ip\n    replaces: [x]\n",
            "line 6",
        ),
        ("rules: [\n", "line"),
    ] {
        let page = browser.upload(PAGE, &with_format(document), ("a.log", log().as_bytes()));
        assert_eq!(page.status, 422, "{document}: {page:?}");
        assert!(page.text().contains("The edited rules are invalid"), "{document}: {page:?}");
        assert!(page.text().contains(line), "{document}: {page:?}");
    }
    let saved = server.get_as_admin("/api/v1/rules/per_ip").json();
    assert_eq!(saved["limit"], 10, "nothing is saved");
}

#[test]
fn logs_that_cannot_be_used_are_refused_with_the_line() {
    let server = start("limits: {log_bytes: 4KiB, body_bytes: 1KiB}");
    let mut browser = Browser::admin(&server);
    let long = log().repeat(3);
    let bomb = gzip(&log().repeat(100));
    assert!(bomb.len() < 4_096);
    let cases: [(&[u8], u16, &str); 6] = [
        (b"", 422, "choose an access log that is not empty"),
        (b"\n\n\n", 422, "bad.log is empty"),
        (b"\nhello\n", 422, "line 2 is not common or combined"),
        (b"\x1f\x8b\x08damaged", 422, "cannot read bad.log"),
        (long.as_bytes(), 413, "the log is larger than 4KiB (limits.log_bytes)"),
        (&bomb, 422, "take more than 16KiB of memory: send a part of the log"),
    ];
    for (content, status, said) in cases {
        let page = browser.upload(PAGE, IN_FORCE, ("bad.log", content));
        assert_eq!(page.status, status, "{said}: {page:?}");
        assert!(page.text().to_lowercase().contains(&said.to_lowercase()), "{said}: {page:?}");
        assert!(
            page.text().contains("enctype=\"multipart/form-data\""),
            "the form is there: {page:?}"
        );
    }
    let page = browser.upload(PAGE, &[("format", "apache")], ("bad.log", log().as_bytes()));
    assert_eq!(page.status, 422, "{page:?}");
    assert!(page.text().contains("Unknown format"), "{page:?}");
    // Bad lines among good ones are counted, and the first is shown.
    let mixed = format!("{}no request\n{}", log(), "?\n".repeat(2));
    let page = browser.upload(PAGE, IN_FORCE, ("mixed.log", mixed.as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(
        words(&page).contains("3 lines could not be read , the first: line 35:"),
        "{}",
        words(&page)
    );
}

#[test]
fn texts_of_a_log_are_shown_as_text() {
    let server = start("");
    let mut browser = Browser::admin(&server);
    let hostile = "<script>alert(1)</script>";
    let mut log = String::new();
    for second in 0..30 {
        log += &format!(
            "192.0.2.1 - {hostile} [15/Nov/2026:10:00:{second:02} +0000] \"GET /{hostile}\u{202e} HTTP/1.1\" 200 5 \"-\" \"{hostile}<img src=x onerror=alert(2)>\"\n"
        );
    }
    log += &format!("{hostile}\n");
    let name = "<img src=x onerror=alert(3)>.log";
    let page = browser.upload(PAGE, IN_FORCE, (name, log.as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    let text = page.text();
    assert!(text.contains("&lt;script&gt;alert(1)"), "{text}");
    for tag in ["<script>", "<img", "\u{202e}"] {
        assert!(!text.contains(tag), "{tag}: {text}");
    }
    let page = browser.upload(PAGE, IN_FORCE, (name, hostile.as_bytes()));
    assert_eq!(page.status, 422);
    assert!(!page.text().contains("<script>") && !page.text().contains("<img"), "{page:?}");
}

#[test]
fn a_tenant_simulates_its_own_rules_only() {
    let server = start("");
    for rule in [
        r#"{"rule_id":"acme_api","limit":4,"window":"1m","identifier_type":"ip","tenant":"acme"}"#,
        r#"{"rule_id":"globex_api","limit":1,"window":"1m","identifier_type":"ip","tenant":"globex"}"#,
    ] {
        put_rule(&server, rule);
    }
    let listed = r#"{"identifier_type":"ip","identifier":"198.51.100.1"}"#;
    let made = server.post_as_admin("/api/v1/blacklist", listed);
    assert_eq!(made.status, 201, "{made:?}");
    let (_, secret) = token(&server, r#"{"role":"tenant-admin","tenant":"acme"}"#);
    let mut browser = Browser::signed_in(&server, &secret);
    let page = browser.upload(PAGE, IN_FORCE, ("a.log", log().as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    // The other clients pass: neither the rule of all nor the list is looked at.
    assert!(words(&page).contains("acme_api 4 / 1 min · ip 34 26 76.5 % 1"), "{}", words(&page));
    for foreign in ["globex", "per_ip"] {
        assert!(!page.text().contains(foreign), "{foreign}: {page:?}");
    }
    let edit = |document| [("format", "auto"), ("policy", "edited"), ("document", document)];
    let own =
        "rules: [{rule_id: acme_api, limit: 2, window: 1m, identifier_type: ip, tenant: acme}]";
    let page = browser.upload(PAGE, &edit(own), ("a.log", log().as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    for foreign in [
        "rules: [{rule_id: per_ip, limit: 2, window: 1m, identifier_type: ip}]",
        "rules: [{rule_id: x, limit: 2, window: 1m, identifier_type: ip, tenant: globex}]",
        "whitelist: [{identifier_type: ip, identifier: 192.0.2.1}]",
    ] {
        let page = browser.upload(PAGE, &edit(foreign), ("a.log", log().as_bytes()));
        assert_eq!(page.status, 403, "{foreign}: {page:?}");
        assert!(page.text().contains("those with `tenant: acme`"), "{foreign}: {page:?}");
    }
    // A viewer sees all rules, and the list counts.
    let (_, secret) = token(&server, r#"{"role":"viewer"}"#);
    let page =
        Browser::signed_in(&server, &secret).upload(PAGE, IN_FORCE, ("a.log", log().as_bytes()));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(words(&page).contains("Clients refused 2 of 5"), "{}", words(&page));
}

#[test]
fn a_log_needs_the_token_of_its_session() {
    let server = start("");
    let browser = Browser::admin(&server);
    let send = |body: &[u8], headers: &[(&str, &str)]| {
        Connection::open(server.address).ask(&browser.upload_request(PAGE, body, headers))
    };
    let file = ("a.log", log().into_bytes());
    let form = |csrf: &str| multipart(&[&[("csrf", csrf)], IN_FORCE].concat(), (file.0, &file.1));
    assert_eq!(send(&form(&browser.csrf), &[]).status, 200);
    for csrf in ["", "x"] {
        let refused = send(&form(csrf), &[]);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.text().contains("not one of your session"), "{refused:?}");
    }
    for field in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
        assert_eq!(send(&form(&browser.csrf), &[field]).status, 403, "{field:?}");
    }
    let damaged = send(b"--nothing\r\n", &[]);
    assert_eq!(damaged.status, 400, "{damaged:?}");
}

#[test]
fn few_logs_are_replayed_at_a_time_and_a_caller_that_leaves_makes_room() {
    let server = start("");
    let mut people: Vec<Browser<'_>> = ["viewer", "operator", "viewer"]
        .map(|role| token(&server, &format!(r#"{{"role":"{role}"}}"#)).1)
        .iter()
        .map(|secret| Browser::signed_in(&server, secret))
        .collect();
    let log = log();
    // Two of them have sent a part of their logs, and so take both places.
    let held: Vec<Connection> = people[..2].iter_mut().map(|it| hold(&server, it, &log)).collect();
    let own = people[0].upload(PAGE, IN_FORCE, ("a.log", log.as_bytes()));
    assert_eq!(own.status, 429, "{own:?}");
    let said = "A simulation of yours is in progress: wait until it ends";
    assert!(own.text().contains(said), "{own:?}");
    let any = people[2].upload(PAGE, IN_FORCE, ("a.log", log.as_bytes()));
    assert_eq!((any.status, any.header("retry-after")), (503, Some("30")), "{any:?}");
    assert!(any.text().contains("send the log again in 30 s"), "{any:?}");
    drop(held);
    for person in [2, 0] {
        until("a place", || {
            let page = people[person].upload(PAGE, IN_FORCE, ("a.log", log.as_bytes()));
            (page.status == 200).then_some(())
        });
    }
}

/// A connection that has sent a part of a log, for which there is a place.
fn hold(server: &Server, browser: &mut Browser<'_>, log: &str) -> Connection {
    until("a place", || {
        let fields = [&[("csrf", browser.csrf.as_str())], IN_FORCE].concat();
        let body = multipart(&fields, ("a.log", log.as_bytes()));
        let bytes = browser.upload_request(PAGE, &body, &[]);
        let mut connection = Connection::open(server.address);
        connection.send(&bytes[..bytes.len() - 1_000]).expect("sent");
        // The other one came first if it has a place.
        let other = browser.upload(PAGE, IN_FORCE, ("a.log", log.as_bytes()));
        (other.status == 429).then_some(connection)
    })
}

#[test]
fn only_rules_in_force_are_links_clients_are_searched_for_and_the_chart_says_its_unit() {
    let server = start("");
    let mut browser = Browser::admin(&server);
    let document =
        "rules:\n  - {rule_id: edited_rule, limit: 10, window: 1m, identifier_type: ip}\n";
    let edited = [("format", "auto"), ("policy", "edited"), ("document", document)];
    let day = |day: u32, hour: u32| {
        format!(
            "192.0.2.1 - - [{day}/Nov/2026:{hour:02}:00:00 +0000] \"GET /items HTTP/1.1\" 200 5\n"
        )
    };
    let days: String = (14..17).flat_map(|it| (0..24).map(move |hour| day(it, hour))).collect();
    let page = browser.upload(PAGE, &edited, ("access.log", days.as_bytes())).text();
    assert!(page.contains("edited_<wbr>rule"), "{page}");
    assert!(!page.contains("href=\"/ui/rules/edited_rule\""), "{page}");
    assert!(page.contains("requests per hour"), "{page}");
    assert!(!page.contains("requests per second"), "{page}");
    let page = browser.upload(PAGE, IN_FORCE, ("access.log", log().as_bytes())).text();
    assert!(page.contains("href=\"/ui/rules/per_ip\""), "{page}");
    assert!(page.contains("href=\"/ui/clients?q=192.0.2.1\""), "a client is searched for: {page}");
    let document = "rules:\n  - {rule_id: per_ip, limit: 10, window: 1m, identifier_type: ip}\n";
    let edited = [("format", "auto"), ("policy", "edited"), ("document", document)];
    let page = browser.upload(PAGE, &edited, ("access.log", log().as_bytes())).text();
    assert!(page.contains("per_<wbr>ip"), "{page}");
    assert!(!page.contains("href=\"/ui/rules/per_ip\""), "another rule has that name: {page}");
}

//! What each line means, and how inputs are recognised, ordered and refused.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tollgate_simulate::traffic::{
    FormatChoice, Input, InputError, Loader, MAX_LINE, Options, Progress, RecordView, Traffic,
    TrafficFormat,
};

const LOG: &str = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1"#;
const TRACE: &str = r#"{"t_ms":5,"key":"k"}"#;

fn load(options: Options, streams: &[(&str, &[u8])]) -> Result<Traffic, InputError> {
    let mut loader = Loader::new(options);
    for (name, bytes) in streams {
        loader.add(name, *bytes)?;
    }
    Ok(loader.finish())
}

fn auto(bytes: &[u8]) -> Traffic {
    load(Options::default(), &[("input", bytes)]).expect("some requests")
}

fn error(streams: &[(&str, &[u8])]) -> String {
    load(Options::default(), streams).expect_err("an input that cannot be used").to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

/// All that is known of a request, in one line.
fn describe(record: RecordView<'_>) -> String {
    let micros = record.time().as_micros();
    let mut fields = vec![match micros % 1_000 {
        0 => format!("{}ms", micros / 1_000),
        _ => format!("{micros}us"),
    }];
    if record.cost() != 1 {
        fields.push(format!("cost={}", record.cost()));
    }
    let texts = [
        ("key", record.key()),
        ("ip", record.ip()),
        ("user", record.user()),
        ("api_key", record.api_key()),
        ("tenant", record.tenant()),
        ("tier", record.tier()),
        ("host", record.host()),
        ("method", record.method()),
        ("path", record.path()),
        ("referer", record.header("Referer")),
        ("agent", record.header("User-Agent")),
        ("trace_id", record.header("x-trace-id")),
        ("region", record.attribute("region")),
        ("plan", record.attribute("plan")),
    ];
    for (name, value) in texts {
        fields.extend(value.map(|value| format!("{name}={value}")));
    }
    fields.extend(record.status().map(|status| format!("status={status}")));
    fields.join(" ")
}

/// What a line says in a format; after an exclamation mark, why it says nothing.
fn meaning(format: TrafficFormat, line: &str) -> String {
    let options = Options { format: FormatChoice::Told(format), sort: true, ..Options::default() };
    match load(options, &[("input", line.as_bytes())]) {
        Ok(traffic) => traffic.iter().map(describe).collect::<Vec<_>>().join("\n"),
        Err(InputError::Unrecognised { tried, .. }) => {
            tried.iter().map(|(_, reason)| format!("! {reason}")).collect()
        }
        Err(other) => format!("? {other}"),
    }
}

fn check(format: TrafficFormat, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(meaning(format, line), *expected, "{line}");
    }
}

#[test]
fn combined_lines() {
    check(
        TrafficFormat::Combined,
        &[
            (
                r#"192.0.2.1 - frank [17/May/2015:10:05:03 +0000] "GET /a/b?x=1 HTTP/1.1" 200 203023 "http://r.example/" "Agent/1.0 (X; Y)""#,
                "1431857103000ms ip=192.0.2.1 user=frank method=GET path=/a/b referer=http://r.example/ agent=Agent/1.0 (X; Y) status=200",
            ),
            (LOG, "1431857103000ms ip=192.0.2.1 method=GET path=/a status=200"),
            // Clients: IPv6, names, users of two words, of none, with brackets.
            (
                r#"2001:db8::1 - - [17/May/2015:12:05:03 +0200] "HEAD / HTTP/2.0" 304 -"#,
                "1431857103000ms ip=2001:db8::1 method=HEAD path=/ status=304",
            ),
            (
                r#"client.example.net - - [17/May/2015:04:35:03 -0530] "PUT /x HTTP/1.1" 500 0 "-" "-""#,
                "1431857103000ms ip=client.example.net method=PUT path=/x status=500",
            ),
            (
                r#"192.0.2.1 - jo smith [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "1431857103000ms ip=192.0.2.1 user=jo smith method=GET path=/ status=200",
            ),
            (
                r#"192.0.2.1 - "" [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 401 1"#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/ status=401",
            ),
            (
                r#"192.0.2.1 - a [b] [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "1431857103000ms ip=192.0.2.1 user=a [b] method=GET path=/ status=200",
            ),
            (
                r#"192.0.2.1 - a\x20b\"c [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                r#"1431857103000ms ip=192.0.2.1 user=a b"c method=GET path=/ status=200"#,
            ),
            // A virtual host first.
            (
                r#"shop.example:80 192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "-""#,
                "1431857103000ms ip=192.0.2.1 host=shop.example method=GET path=/ status=200",
            ),
            (
                r#"shop.example 2001:db8::1 - jo smith [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "1431857103000ms ip=2001:db8::1 user=jo smith host=shop.example method=GET path=/ status=200",
            ),
            (
                r#"[2001:db8::2]:443 client.example - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "1431857103000ms ip=client.example host=[2001:db8::2] method=GET path=/ status=200",
            ),
            (
                r#"2001:db8::1:80 - jo smith [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "1431857103000ms ip=2001:db8::1:80 user=jo smith method=GET path=/ status=200",
            ),
            // Requests that are no HTTP are requests.
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 157 "-" "-""#,
                "1431857103000ms ip=192.0.2.1 status=400",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "-" 408 0 "-" "-""#,
                "1431857103000ms ip=192.0.2.1 status=408",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "" 000 0"#,
                "1431857103000ms ip=192.0.2.1",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http://b.example/c?d HTTP/1.1" - -"#,
                "1431857103000ms ip=192.0.2.1 host=b.example method=GET path=/c",
            ),
            // Escapes and quotes.
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /\"a\"\x22\\ HTTP/1.1" 200 1 "\\" "a \"b\" c\tq\qz""#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/\"a\"\"\\ referer=\\ agent=a \"b\" c\tq\\qz status=200",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /caf\xC3\xA9\xff\x HTTP/1.1" 200 1"#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/café\u{fffd}\\x status=200",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a"b HTTP/1.1" 200 1 "-" "say "hi"!""#,
                r#"1431857103000ms ip=192.0.2.1 method=GET path=/a"b agent=say "hi"! status=200"#,
            ),
            // More fields, or fewer.
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "A" "198.51.100.1" 0.004 ."#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/ agent=A status=200",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 0.004"#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/ status=200",
            ),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "http://r.example/" "cut of"#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/ referer=http://r.example/ status=200",
            ),
            // Not requests.
            ("hello", "! no time like [17/May/2015:10:05:03 +0000]"),
            ("[17/May/2015:10:05:03 +0000]", "! fewer than three fields before the time"),
            (
                r#"192.0.2.1 - - [32/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "! no time like [17/May/2015:10:05:03 +0000]",
            ),
            (
                r#"192.0.2.1 - - [17/May/1969:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "! no time like [17/May/2015:10:05:03 +0000]",
            ),
            (
                r#"192.0.2.1 - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
                "! fewer than three fields before the time",
            ),
            ("a - - [17/May/2015:10:05:03 +0000]", "! no quoted request after the time"),
            (r#"a - - [17/May/2015:10:05:03 +0000] "GET / HT"#, "! no end of the quoted request"),
            (
                r#"a - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1""#,
                "! no status after the request",
            ),
            (
                r#"a - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" +20 1"#,
                "! the status is not a number of up to three digits",
            ),
            (
                r#"a - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 2000 1"#,
                "! the status is not a number of up to three digits",
            ),
            (
                r#"a - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200"#,
                "! no size after the status",
            ),
        ],
    );
}

#[test]
fn common_lines() {
    check(
        TrafficFormat::Common,
        &[
            (LOG, "1431857103000ms ip=192.0.2.1 method=GET path=/a status=200"),
            (
                r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "http://r.example/" "A""#,
                "1431857103000ms ip=192.0.2.1 method=GET path=/ status=200",
            ),
            (TRACE, "! no time like [17/May/2015:10:05:03 +0000]"),
        ],
    );
}

#[test]
fn nginx_json_lines() {
    check(
        TrafficFormat::NginxJson,
        &[
            (
                r#"{"time_iso8601":"2015-05-17T12:05:03+02:00","remote_addr":"192.0.2.1","remote_user":"","request":"GET /a?b HTTP/1.1","status":200,"body_bytes_sent":1,"http_referer":"","http_user_agent":"A \"b\"","http_x_trace_id":"7","upstream":{"x":[1]}}"#,
                r#"1431857103000ms ip=192.0.2.1 method=GET path=/a agent=A "b" trace_id=7 status=200"#,
            ),
            (
                r#"{"msec":"1431857103.123","time_local":"17/May/2015:10:05:04 +0000","client_ip":"192.0.2.2","realip_remote_addr":"192.0.2.3","request_method":"POST","request_uri":"/x?y","uri":"/index.php","host":"a.example","http_host":"b.example:80","server_name":"c","status":"201","remote_user":"u","http_x_api_key":"K","http_x_tenant":"acme"}"#,
                "1431857103123ms ip=192.0.2.2 user=u api_key=K tenant=acme host=a.example method=POST path=/x status=201",
            ),
            // Numbers keep every digit.
            (r#"{"msec":1431857103.001}"#, "1431857103001ms"),
            (r#"{"msec":4294967295.999}"#, "4294967295999ms"),
            (r#"{"time_local":"17/May/2015:10:05:03 +0000"}"#, "1431857103000ms"),
            (r#"{"@timestamp":"2015-05-17T10:05:03.123456Z"}"#, "1431857103123456us"),
            (r#"{"timestamp":1431857103}"#, "1431857103000ms"),
            (r#"{"time":1431857103123}"#, "1431857103123ms"),
            (r#"{"time":"1431857103.5","timestamp":null}"#, "1431857103500ms"),
            // Where a value is missing, the next best is taken.
            (
                r#"{"time":1,"remote_addr":"-","realip_remote_addr":"192.0.2.3","uri":"/u","http_host":"b.example"}"#,
                "1000ms ip=192.0.2.3 host=b.example path=/u",
            ),
            (
                r#"{"time":1,"server_name":"_","request":"GET http://t.example/\u0061 HTTP/1.1","status":"-"}"#,
                "1000ms host=t.example method=GET path=/a",
            ),
            (r#"{"time":1,"request":"\u0016\u0003","server_name":"s"}"#, "1000ms host=s"),
            (r#"{"time":1,"remote_user":5,"HTTP_USER_AGENT":"x"}"#, "1000ms user=5"),
            // Not requests.
            ("{}", "! no member msec, time_iso8601, time_local, @timestamp, timestamp or time"),
            (
                r#"{"time":"noon"}"#,
                r#"! "noon" is no time: RFC 3339, like a common log, or since 1970"#,
            ),
            (r#"{"time":-5}"#, r#"! "-5" is no time: RFC 3339, like a common log, or since 1970"#),
            (
                r#"{"msec":1.5e9}"#,
                r#"! "1.5e9" is no time: RFC 3339, like a common log, or since 1970"#,
            ),
            (r#"{"time":1,"status":"ok"}"#, "! the status is not a number of up to three digits"),
            (r#"{"time":1,"host":{}}"#, "! host is neither a string nor a number at column 20"),
            (r#"{"time":1"#, "! EOF while parsing an object at column 9"),
            (r#"{"time":1} x"#, "! trailing characters at column 12"),
            (r#"{"time":1,"uri":"\x22"}"#, "! invalid escape at column 19"),
            ("[1]", "! not a JSON object"),
            (LOG, "! not a JSON object"),
        ],
    );
}

#[test]
fn trace_lines() {
    check(
        TrafficFormat::Trace,
        &[
            (TRACE, "5ms key=k"),
            (r#"{"t_ms":0,"key":"k","cost":3}"#, "0ms cost=3 key=k"),
            (r#" { "key" : "\u00e9\n" , "t_ms" : 1 } "#, "1ms key=é\n"),
            (r#"{"t_ms":0,"key":"","cost":0}"#, "0ms cost=0 key="),
            (
                r#"{"t_ms":9,"user_id":"u","api_key":"a","ip":"192.0.2.1","tenant":"t","endpoint":"/p?q","method":"GET","host":"h","tier":"pro","attributes":{"region":"eu","plan":"x"}}"#,
                "9ms ip=192.0.2.1 user=u api_key=a tenant=t tier=pro host=h method=GET path=/p?q region=eu plan=x",
            ),
            (r#"{"t_ms":1,"attributes":{"region":"eu"}}"#, "1ms region=eu"),
            (r#"{"t_ms":1,"endpoint":"/"}"#, "1ms path=/"),
            (
                r#"{"t_ms":1,"key":"k","cost":9223372036854775807}"#,
                "1ms cost=9223372036854775807 key=k",
            ),
            (
                r#"{"t_ms":18446744073709551,"key":"k","cost":18446744073709551615}"#,
                "18446744073709551ms cost=18446744073709551615 key=k",
            ),
            (
                r#"{"t_ms":18446744073709552,"key":"k"}"#,
                "! invalid value: integer `18446744073709552`, expected t_ms as a whole number from 0 to 18446744073709551 at column 25",
            ),
            (
                r#"{"t_ms":1,"key":"k","cost":-1}"#,
                "! invalid type: integer `-1`, expected cost as a whole number from 0 to 18446744073709551615 at column 29",
            ),
            (
                r#"{"t_ms":1,"key":"k","cost":1.5}"#,
                "! invalid type: floating point `1.5`, expected cost as a whole number from 0 to 18446744073709551615 at column 30",
            ),
            (
                r#"{"t_ms":"1","key":"k"}"#,
                "! invalid type: string \"1\", expected t_ms as a whole number from 0 to 18446744073709551 at column 11",
            ),
            (r#"{"key":"k"}"#, "! missing field `t_ms` at column 11"),
            (
                r#"{"t_ms":1,"method":"GET","tier":"pro"}"#,
                "! no key, user_id, api_key, ip, tenant, endpoint or attribute",
            ),
            (
                r#"{"t_ms":1,"kye":"k"}"#,
                "! unknown field `kye`, expected one of `t_ms`, `cost`, `key`, `user_id`, `api_key`, `ip`, `tenant`, `tier`, `host`, `method`, `endpoint`, `attributes` at column 15",
            ),
            (r#"{"t_ms":1,"t_ms":2,"key":"k"}"#, "! duplicate field `t_ms` at column 16"),
            (
                r#"{"t_ms":1,"key":7}"#,
                "! invalid type: integer `7`, expected a string at column 17",
            ),
            (r#"[1,1,"k",null,null,null,null,null,null,null,null,{}]"#, "! not a JSON object"),
            (LOG, "! not a JSON object"),
        ],
    );
}

#[test]
fn a_cost_that_cannot_be_exact_is_refused() {
    for cost in ["18446744073709551616", "1e3", "1.0", "-0.5", "null", "true", "[1]", "\"1\""] {
        let line = format!(r#"{{"t_ms":1,"key":"k","cost":{cost}}}"#);
        let meaning = meaning(TrafficFormat::Trace, &line);
        assert!(meaning.starts_with("! invalid type: "), "{line}: {meaning}");
        assert!(meaning.contains("expected cost as a whole number"), "{line}: {meaning}");
    }
}

#[test]
fn a_format_is_recognised_by_the_first_line_that_can_be_read() {
    let check = |input: &str, format: TrafficFormat, requests: u64, unparsable: u64| {
        let traffic = auto(input.as_bytes());
        let [source] = traffic.sources() else { panic!("one source for one input: {input}") };
        assert_eq!(
            (source.format, source.requests, source.unparsable),
            (format, requests, unparsable)
        );
        assert_eq!(traffic.len() as u64, requests);
        assert_eq!(traffic.unparsable(), unparsable);
    };
    let combined = format!("{LOG} \"-\" \"A\"");
    check(LOG, TrafficFormat::Common, 1, 0);
    check(&combined, TrafficFormat::Combined, 1, 0);
    check(&format!("{LOG}\n{combined}\n"), TrafficFormat::Combined, 2, 0);
    check(r#"{"time":1}"#, TrafficFormat::NginxJson, 1, 0);
    check(TRACE, TrafficFormat::Trace, 1, 0);
    check(&format!("# a trace\n{TRACE}\n{LOG}\n{TRACE}"), TrafficFormat::Trace, 2, 2);
    check(&format!("\u{feff}\r\n\r\n{LOG}\r\n \r\n{LOG}\r\n"), TrafficFormat::Common, 2, 0);
    check(&format!("\u{feff}{TRACE}"), TrafficFormat::Trace, 1, 0);
}

#[test]
fn lines_that_are_not_utf_8_are_read() {
    let path = |input: &[u8]| auto(input).get(0).and_then(|r| r.path().map(str::to_owned));
    let log = b"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /caf\xe9 HTTP/1.1\" 200 1";
    assert_eq!(path(log).as_deref(), Some("/caf\u{fffd}"));
    assert_eq!(path(b"{\"time\":1,\"uri\":\"/caf\xe9\"}").as_deref(), Some("/caf\u{fffd}"));
}

#[test]
fn gzip_is_recognised_and_may_have_several_members() {
    let line = format!("{LOG}\n");
    let members = [gzip(line.as_bytes()), gzip(b""), gzip(line.as_bytes())].concat();
    assert_eq!(auto(&members).len(), 2);

    let cut = &gzip(line.as_bytes())[..40];
    let message = error(&[("cut.gz", cut)]);
    assert!(message.starts_with("cannot read cut.gz: "), "{message}");
    let damaged = [&gzip(line.as_bytes())[..], b"rest"].concat();
    let message = error(&[("damaged.gz", &damaged)]);
    assert!(message.starts_with("cannot read damaged.gz beyond line 1: "), "{message}");
}

#[test]
fn logs_are_sorted_and_traces_are_not() {
    let log = |second: u32, path: &str| {
        format!("a - - [17/May/2015:10:05:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let json = r#"{"time":"2015-05-17T10:05:02.5Z","uri":"/json"}"#;
    let first = [log(3, "/1"), log(1, "/2"), log(2, "/3"), log(1, "/4")].concat();
    let streams = [("one", first.as_bytes()), ("two", json.as_bytes())];
    let paths = |sort| {
        let options = Options { sort, ..Options::default() };
        let traffic = load(options, &streams).expect("two logs");
        traffic.iter().filter_map(RecordView::path).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(paths(true), "/2 /4 /3 /json /1");
    assert_eq!(paths(false), "/1 /2 /3 /4 /json");

    let trace = "{\"t_ms\":2,\"key\":\"a\"}\n{\"t_ms\":1,\"key\":\"b\"}\n";
    let keys: String = auto(trace.as_bytes()).iter().filter_map(RecordView::key).collect();
    assert_eq!(keys, "ab");
}

#[test]
fn bad_lines_are_counted_and_the_first_few_are_kept() {
    let first = format!("\nbad\t1\n{LOG}\n{{bad 2\n");
    let too_long = [b"x".repeat(MAX_LINE + 1), b"\n".to_vec()].concat();
    let second = [TRACE.as_bytes(), b"\nbad 3\n", &too_long, LOG.as_bytes(), b"\nbad 5\n"].concat();
    let second = [second, b"bad 6\nbad 7".to_vec()].concat();
    let streams = [("one.log", first.as_bytes()), ("two.log", &second)];
    let options = Options {
        format: FormatChoice::Told(TrafficFormat::Combined),
        sort: true,
        ..Options::default()
    };
    let traffic = load(options, &streams).expect("a request in each");
    assert_eq!((traffic.len(), traffic.unparsable()), (2, 8));
    let kept: Vec<_> = traffic
        .bad_lines()
        .iter()
        .map(|bad| format!("{}:{} {} | {}", bad.input, bad.line, bad.reason, bad.excerpt))
        .collect();
    let no_time = "no time like [17/May/2015:10:05:03 +0000]";
    assert_eq!(
        kept,
        [
            format!("one.log:2 {no_time} | bad\\t1"),
            format!("one.log:4 {no_time} | {{bad 2"),
            format!("two.log:1 {no_time} | {TRACE}"),
            format!("two.log:2 {no_time} | bad 3"),
            format!("two.log:3 longer than 65536 bytes | {}…", "x".repeat(119)),
        ]
    );
}

#[test]
fn a_bad_line_before_the_format_is_known_is_explained_as_what_it_looks_like() {
    let input = format!("{{\"t_ms\":-1}}\n{{\"time\":\"x\"}}\nrotated\n{LOG}");
    let traffic = auto(input.as_bytes());
    let reasons: Vec<_> = traffic.bad_lines().iter().map(|bad| bad.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "invalid type: integer `-1`, expected t_ms as a whole number from 0 to 18446744073709551 at column 10",
            "\"x\" is no time: RFC 3339, like a common log, or since 1970",
            "no time like [17/May/2015:10:05:03 +0000]",
        ]
    );
}

#[test]
fn inputs_that_cannot_be_used_are_named() {
    assert_eq!(error(&[("a.log", LOG.as_bytes()), ("b.log", b"\n\r\n")]), "b.log is empty");
    assert_eq!(
        error(&[("a.txt", b"\nhello \x1b[31m\nworld")]),
        "a.txt holds no request that can be read; line 2 is \
         not common or combined (no time like [17/May/2015:10:05:03 +0000]), \
         not nginx-json (not a JSON object), not trace (not a JSON object): hello \\u{1b}[31m"
    );
    let mixed = "a trace cannot be mixed with logs: t.jsonl is a trace, a.log is a log";
    let (log, trace) = (("a.log", LOG.as_bytes()), ("t.jsonl", TRACE.as_bytes()));
    assert_eq!(error(&[log, trace]), mixed);
    assert_eq!(error(&[trace, log]), mixed);

    let options = Options {
        format: FormatChoice::Told(TrafficFormat::Trace),
        sort: true,
        ..Options::default()
    };
    assert_eq!(
        load(options, &[log]).expect_err("a log is no trace").to_string(),
        format!(
            "a.log holds no request that can be read; line 1 is \
             not trace (not a JSON object): {LOG}"
        )
    );
}

#[test]
fn files_are_read_with_progress() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a writable file");
        Input::File(path)
    };
    let plain = format!("{LOG}\n").repeat(5_000);
    let packed = gzip(plain.as_bytes());
    let inputs = [input("a.log", plain.as_bytes()), input("b.log.gz", &packed)];
    let total = (plain.len() + packed.len()) as u64;
    let mut seen = Vec::new();
    let traffic = Traffic::read(&inputs, Options::default(), &mut |progress| seen.push(progress))
        .expect("two logs");
    assert_eq!(traffic.len(), 10_000);
    assert_eq!(traffic.sources().len(), 2);
    assert!(seen.is_sorted_by_key(|progress| progress.read));
    assert!(seen.len() > 4, "progress is reported while reading");
    assert_eq!(seen.last(), Some(&Progress { read: total, total: Some(total) }));

    let read = |path: &Path| {
        let inputs = [Input::File(path.to_owned())];
        let result = Traffic::read(&inputs, Options::default(), &mut |_| {});
        result.expect_err("nothing to read").to_string()
    };
    let missing = folder.path().join("missing.log");
    assert!(read(&missing).starts_with(&format!("cannot open {}: ", missing.display())));
    assert!(read(folder.path()).starts_with(&format!("cannot read {}: ", folder.path().display())));
}

#[test]
fn arguments_stand_for_inputs_and_formats() {
    assert_eq!(Input::from_argument("-"), Input::Stdin);
    assert_eq!(Input::from_argument("-").name(), "standard input");
    assert_eq!(Input::from_argument("logs/a.log").name(), "logs/a.log");

    assert_eq!("auto".parse(), Ok(FormatChoice::Auto));
    assert_eq!("nginx-json".parse(), Ok(FormatChoice::Told(TrafficFormat::NginxJson)));
    for (name, choice) in FormatChoice::ALL {
        assert_eq!(name.parse(), Ok(choice));
    }
    assert_eq!(
        "json".parse::<FormatChoice>().expect_err("no such format").to_string(),
        "unknown format \"json\"; known are auto, common, combined, nginx-json, trace"
    );
}

#[test]
fn a_day_in_the_life_of_a_server() {
    let traffic = auto(include_bytes!("combined.log"));
    let [source] = traffic.sources() else { panic!("one input") };
    assert_eq!(
        (source.format, source.requests, source.unparsable),
        (TrafficFormat::Combined, 37, 2)
    );
    let bad: Vec<_> =
        traffic.bad_lines().iter().map(|bad| (bad.line, bad.excerpt.as_str())).collect();
    assert_eq!(
        bad,
        [
            (32, "logrotate: rotated access.log at 09:15"),
            (33, r#"203.0.113.47 - - [03/Mar/2025:09:15:14 +0000] "GET /trunc"#),
        ]
    );

    let count =
        |holds: &dyn Fn(RecordView<'_>) -> bool| traffic.iter().filter(|r| holds(*r)).count();
    assert_eq!(count(&|r| r.ip() == Some("203.0.113.9")), 10);
    assert_eq!(count(&|r| r.ip() == Some("198.51.100.77")), 6);
    assert_eq!(count(&|r| r.method().is_none() && r.path().is_none()), 3);
    assert_eq!(count(&|r| r.path() == Some("/api/v1/search")), 6);
    assert_eq!(count(&|r| r.status() == Some(429)), 2);
    assert_eq!(count(&|r| r.header("user-agent") == Some("curl/8.9.1")), 3);
    assert_eq!(count(&|r| r.host() == Some("shop.example")), 1);
    let seconds: Vec<_> = traffic.iter().map(|r| r.time().as_micros() / 1_000_000).collect();
    assert!(seconds.is_sorted());
    assert_eq!((seconds.first(), seconds.last()), (Some(&1_740_993_300), Some(&1_740_993_316)));
}

#[test]
fn a_small_compressed_log_does_not_fill_the_memory() {
    let bomb = gzip("{\"t_ms\":0,\"key\":\"k\"}\n".repeat(1_000_000).as_bytes());
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    for (sort, lines) in [(true, 10_000..11_000), (false, 16_000..17_000)] {
        let options = Options { sort, max_bytes: 1 << 20, ..Options::default() };
        let message = load(options, &[("bomb.gz", &bomb)]).expect_err("too much").to_string();
        let told = message.strip_prefix("bomb.gz is too large: the requests up to line ");
        let line = told.and_then(|told| told.split(' ').next()?.parse::<u64>().ok());
        assert!(line.is_some_and(|line| lines.contains(&line)), "{message}");
        assert!(message.contains("take more than 1048576 bytes of memory"), "{message}");
    }
}

//! Logs hold what strangers sent. No bytes may stop the reader, and none may be read as something
//! that was not written.

use std::fmt::Write as _;
use std::io::{self, Read};

use jiff::tz::{Offset, TimeZone};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tollgate_core::Timestamp;
use tollgate_simulate::traffic::{
    FormatChoice, InputError, Loader, Options, RecordView, Traffic, TrafficFormat,
};

const LINES: [&[u8]; 6] = [
    br#"192.0.2.1 - jo [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 5 "http://r/" "A\x22\"" 1"#,
    br#"shop.example:80 2001:db8::1 - - [17/May/2015:10:05:03 +0000] "\x16\x03" 400 0"#,
    br#"{"time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"192.0.2.1","request":"GET /\u00e9 HTTP/1.1","status":200,"http_x_api_key":"k"}"#,
    br#"{"msec":1431857103.123,"request_method":"GET","request_uri":"/x?y","host":"h","status":"404"}"#,
    br#"{"t_ms":12,"key":"k","cost":3,"attributes":{"a":"b","c":"\n"}}"#,
    br#"{"t_ms":0,"user_id":"u","ip":"192.0.2.1","endpoint":"/e","method":"GET","tier":"pro"}"#,
];

fn load(choice: FormatChoice, stream: impl Read) -> Result<Traffic, InputError> {
    let mut loader = Loader::new(Options { format: choice, sort: true, ..Options::default() });
    loader.add("input", stream)?;
    Ok(loader.finish())
}

/// Looks at everything there is to see of a request.
fn look(record: RecordView<'_>) -> Vec<Option<&str>> {
    vec![
        record.key(),
        record.user(),
        record.api_key(),
        record.ip(),
        record.tenant(),
        record.tier(),
        record.host(),
        record.method(),
        record.path(),
        record.header("referer"),
        record.header("user-agent"),
        record.attribute("a"),
    ]
}

/// Every line must be accounted for, as a request or as a bad line, in whatever format.
fn check_account(bytes: &[u8]) -> Result<(), TestCaseError> {
    let bytes_without_mark = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = bytes_without_mark.split(|byte| *byte == b'\n');
    let written = lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64;
    for (_, choice) in FormatChoice::ALL {
        match load(choice, bytes) {
            Ok(traffic) => {
                prop_assert_eq!(traffic.len() as u64 + traffic.unparsable(), written);
                prop_assert_eq!(traffic.iter().map(look).count(), traffic.len());
                for bad in traffic.bad_lines() {
                    prop_assert!(bad.excerpt.chars().count() <= 120);
                    prop_assert!(!bad.excerpt.chars().any(char::is_control));
                }
            }
            Err(InputError::Empty { .. }) => prop_assert_eq!(written, 0),
            Err(InputError::Unrecognised { .. }) => prop_assert_ne!(written, 0),
            Err(InputError::Read { .. }) => prop_assert!(bytes.starts_with(b"\x1f\x8b")),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Edit {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index),
    Cut(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let meaningful = select(br#"\"[]{}:, -/?+0x"#.to_vec());
    let byte = prop_oneof![any::<u8>(), meaningful];
    prop_oneof![
        4 => (at(), byte.clone()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        4 => (at(), vec(byte, 1..20)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        4 => at().prop_map(Edit::Remove),
        1 => at().prop_map(Edit::Cut),
    ]
}

fn apply(edit: Edit, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match edit {
        Edit::Replace(at, byte) => *at.get_mut(bytes) = byte,
        Edit::Insert(at, new) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, new);
        }
        Edit::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        Edit::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

/// A stream that hands out a few bytes at a time.
struct Dribble<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.step.min(buffer.len());
        self.bytes.read(&mut buffer[..length])
    }
}

#[derive(Clone, Debug)]
struct Written {
    seconds: i64,
    zone_minutes: i32,
    ip: String,
    user: Option<String>,
    method: String,
    path: String,
    status: u16,
    referer: Option<String>,
    agent: Option<String>,
}

/// Text that does not stand for a missing value, as `-` does.
fn text() -> impl Strategy<Value = String> {
    any::<String>()
        .prop_filter("reads as missing", |text| !["", "-", "\"\""].contains(&text.as_str()))
}

fn written() -> impl Strategy<Value = Written> {
    let address = prop_oneof![
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|ip| ip.to_string()),
    ];
    (
        (0..4_102_444_800_i64, -720..=840_i32, address, option::of(text())),
        ("[A-Z-]{1,12}", "/[^?]*", 1..=999_u16, option::of(text()), option::of(text())),
    )
        .prop_map(
            |((seconds, zone_minutes, ip, user), (method, path, status, referer, agent))| Written {
                seconds,
                zone_minutes,
                ip,
                user,
                method,
                path,
                status,
                referer,
                agent,
            },
        )
}

#[derive(Clone, Copy, Debug)]
enum Server {
    Apache,
    Nginx,
}

impl Server {
    /// Escapes as the server does.
    fn escape(self, text: &str) -> String {
        let mut escaped = String::new();
        for character in text.chars() {
            match (self, character) {
                (Self::Apache, '"' | '\\') => escaped.extend(['\\', character]),
                (Self::Apache, '\n') => escaped.push_str("\\n"),
                (Self::Apache, '\t') => escaped.push_str("\\t"),
                (Self::Apache, '\u{b}') => escaped.push_str("\\v"),
                (Self::Nginx, '"' | '\\') => write_hex(&mut escaped, character),
                (Self::Nginx, _) if !character.is_ascii() => write_hex(&mut escaped, character),
                _ if character.is_control() => write_hex(&mut escaped, character),
                _ => escaped.push(character),
            }
        }
        escaped
    }

    fn line(self, written: &Written) -> String {
        let zone = Offset::from_seconds(written.zone_minutes * 60).expect("a possible offset");
        let time = jiff::Timestamp::from_second(written.seconds)
            .expect("a possible time")
            .to_zoned(TimeZone::fixed(zone));
        let optional = |text: &Option<String>| {
            text.as_ref().map_or_else(|| "-".to_owned(), |text| self.escape(text))
        };
        format!(
            r#"{} - {} [{}] "{} {}?query HTTP/1.1" {} 17 "{}" "{}""#,
            written.ip,
            optional(&written.user),
            time.strftime("%d/%b/%Y:%H:%M:%S %z"),
            written.method,
            self.escape(&written.path),
            written.status,
            optional(&written.referer),
            optional(&written.agent),
        )
    }
}

fn write_hex(escaped: &mut String, character: char) {
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        write!(escaped, "\\x{byte:02X}").expect("a string can be written to");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_accounted_for(bytes in vec(any::<u8>(), 0..2_000)) {
        check_account(&bytes)?;
    }

    #[test]
    fn anything_after_the_beginning_of_gzip_is_survived(bytes in vec(any::<u8>(), 0..500)) {
        check_account(&[b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", &bytes[..]].concat())?;
    }

    #[test]
    fn damaged_lines_are_accounted_for(
        lines in vec(select(LINES.to_vec()), 1..6),
        edits in vec(edit(), 1..12),
    ) {
        let mut bytes = lines.join(&b'\n');
        for edit in edits {
            apply(edit, &mut bytes);
        }
        check_account(&bytes)?;
    }

    #[test]
    fn a_stream_reads_the_same_in_pieces(
        lines in vec(select(LINES[..4].to_vec()), 1..40),
        step in 1..200_usize,
    ) {
        let bytes = lines.join(&b'\n');
        let choice = FormatChoice::Auto;
        let whole = load(choice, &bytes[..]).expect("intact lines");
        let pieces = load(choice, Dribble { bytes: &bytes, step }).expect("the same lines");
        prop_assert_eq!(whole.sources(), pieces.sources());
        prop_assert_eq!(whole.bad_lines(), pieces.bad_lines());
        prop_assert!(whole.iter().map(look).eq(pieces.iter().map(look)));
    }

    #[test]
    fn a_combined_line_says_what_was_written(
        written in written(),
        server in select(vec![Server::Apache, Server::Nginx]),
    ) {
        let line = server.line(&written);
        let traffic = load(FormatChoice::Told(TrafficFormat::Combined), line.as_bytes());
        let traffic = traffic.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(traffic.len(), 1, "{}", line);
        let record = traffic.get(0).expect("one request");
        prop_assert_eq!(record.time(), Timestamp::from_secs(written.seconds.unsigned_abs()));
        prop_assert_eq!(record.ip(), Some(written.ip.as_str()));
        prop_assert_eq!(record.user(), written.user.as_deref());
        prop_assert_eq!(record.method(), Some(written.method.as_str()));
        prop_assert_eq!(record.path(), Some(written.path.as_str()));
        prop_assert_eq!(record.status(), Some(written.status));
        prop_assert_eq!(record.header("Referer"), written.referer.as_deref());
        prop_assert_eq!(record.header("User-Agent"), written.agent.as_deref());
    }

    #[test]
    fn a_trace_line_says_what_was_written(
        (t_ms, cost) in (0..=u64::MAX / 1_000, any::<u64>()),
        (key, path) in any::<(String, Option<String>)>(),
        (name, value) in any::<(String, String)>(),
    ) {
        let line = serde_json::json!({
            "t_ms": t_ms, "cost": cost, "key": key, "endpoint": path,
            "attributes": {name.as_str(): value},
        });
        let traffic = load(FormatChoice::Auto, line.to_string().as_bytes()).expect("a trace");
        let record = traffic.get(0).expect("one step");
        prop_assert_eq!(record.time(), Timestamp::from_millis(t_ms));
        prop_assert_eq!(record.cost(), cost);
        prop_assert_eq!(record.key(), Some(key.as_str()));
        prop_assert_eq!(record.path(), path.as_deref());
        prop_assert_eq!(record.attribute(&name), Some(value.as_str()));
    }

    #[test]
    fn milliseconds_are_exact(millis in 0..100_000_000_000_000_u64, quoted in any::<bool>()) {
        let quote = if quoted { "\"" } else { "" };
        let (seconds, rest) = (millis / 1_000, millis % 1_000);
        let line = format!(r#"{{"msec":{quote}{seconds}.{rest:03}{quote}}}"#);
        let traffic = load(FormatChoice::Auto, line.as_bytes()).expect("a log");
        let time = traffic.get(0).map(RecordView::time);
        prop_assert_eq!(time, Some(Timestamp::from_millis(millis)));
    }

    #[test]
    fn sorting_keeps_the_order_within_a_moment(times in vec(0..5_u64, 1..200)) {
        let mut log = String::new();
        for (number, time) in times.iter().enumerate() {
            writeln!(log, r#"{{"time":{time},"uri":"/{number}"}}"#).expect("a string");
        }
        let mut expected: Vec<_> = times.iter().zip(0..).collect();
        expected.sort_by_key(|(time, _)| **time);
        let expected = expected.iter().map(|(_, number): &(_, usize)| format!("/{number}"));
        let traffic = load(FormatChoice::Auto, log.as_bytes()).expect("a log");
        prop_assert!(traffic.iter().filter_map(RecordView::path).eq(expected));
    }
}

//! What may differ between two runs of a session: times, durations, names of nodes and ids of decisions.

const UNITS: [&str; 4] = ["ms", "s", "min", "h"];
/// What stands before a number of seconds that has no unit.
const COUNTDOWNS: [&str; 4] =
    ["\"retry_after\":", "retry-after: ", ";t=", "\"durationUntilReset\":\""];

/// What stands before the name of a node, which is another after every start.
const NODES: [&str; 2] = ["by node ", "\"node\":\""];

/// The text without times, durations and ids, and with columns joined, since their widths vary.
pub(crate) fn without_moments(text: &str) -> String {
    text.lines().map(|line| without_spans(&without_points(line)) + "\n").collect()
}

/// Leaves out dates, seconds since 1970, seconds that are counted down, names of nodes and ids of decisions.
fn without_points(line: &str) -> String {
    if line.starts_with("date: ") {
        return "date: #".to_owned();
    }
    let mut kept = String::new();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let is_countdown = COUNTDOWNS.iter().any(|before| kept.ends_with(before));
        let is_node = NODES.iter().any(|before| kept.ends_with(before));
        let digits = leading(rest, |c| c.is_ascii_digit());
        let point = match digits {
            _ if is_node => leading(rest, |c| c.is_ascii_hexdigit()),
            4 if is_date(rest) => "0000-00-00 00:00:00".len(),
            1.. if digits >= 10 || is_countdown => digits,
            0 => decision_id(rest).unwrap_or(0),
            _ => 0,
        };
        // A number is left out as a whole or not at all.
        let step = if point > 0 { point } else { digits.max(next.len_utf8()) };
        kept.push_str(if point > 0 { "#" } else { &rest[..step] });
        rest = &rest[step..];
    }
    kept
}

/// Leaves out `59.994 s` and `1 h 47 min`.
fn without_spans(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number =
        |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.') && !word.is_empty();
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches(|c: char| !c.is_alphabetic()));
    let starts_span =
        |at: usize| is_number(words[at]) && words.get(at + 1).is_some_and(|next| is_unit(next));
    let kept = (0..words.len()).filter(|at| !starts_span(*at));
    let kept = kept.filter(|at| *at == 0 || !starts_span(*at - 1)).map(|at| words[at]);
    kept.collect::<Vec<_>>().join(" ")
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.chars().take_while(|c| belongs(*c)).map(char::len_utf8).sum()
}

fn is_date(text: &str) -> bool {
    let shape: String =
        text.chars().take(19).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00 00:00:00" || shape == "0000-00-00T00:00:00"
}

/// The length of the id of a decision at this place: `d1f00dbee-a2a`.
fn decision_id(text: &str) -> Option<usize> {
    let is_hexadecimal = |c: char| c.is_ascii_hexdigit();
    let node = text.strip_prefix('d')?;
    let number = node.get(8..)?.strip_prefix("-a").or_else(|| node.get(8..)?.strip_prefix("-r"))?;
    let length = leading(number, is_hexadecimal);
    (node[..8].chars().all(is_hexadecimal) && length > 0)
        .then_some(text.len() - number.len() + length)
}

#[test]
fn only_what_changes_by_itself_is_left_out() {
    for (text, expected) in [
        (r#"{"reset_at":1794723225,"remaining":4}"#, r##"{"reset_at":#,"remaining":4}"##),
        (r#"{"retry_after":60,"limit":60}"#, r##"{"retry_after":#,"limit":60}"##),
        (r#""decision_id":"d7b707277-r0""#, r##""decision_id":"#""##),
        (r#"ratelimit: "a";r=4;t=60, "b";r=49;t=1"#, r##"ratelimit: "a";r=4;t=#, "b";r=49;t=#"##),
        ("retry-after: 60", "retry-after: #"),
        (r#"{"durationUntilReset":"43s"}"#, r##"{"durationUntilReset":"#s"}"##),
        (r#"{"node":"461dafb4","limit":4}"#, r##"{"node":"#","limit":4}"##),
        ("decided by node deadbeef", "decided by node #"),
        ("date: Sun, 15 Nov 2026 06:12:44 GMT", "date: #"),
        ("full again 2026-11-15 06:13:45 UTC", "full again # UTC"),
        ("at 2026-11-15T06:13:45Z", "at #Z"),
        ("binds   1     4  1 min 0 s  59.994 s  ip=203.0.113.9", "binds 1 4 ip=203.0.113.9"),
        ("Try again in 60 s.\"", "Try again in"),
        ("4 of 5 left, deadbeef-a", "4 of 5 left, deadbeef-a"),
        ("4 rules, revision 1", "4 rules, revision 1"),
    ] {
        assert_eq!(without_moments(text).trim_end(), expected);
    }
}

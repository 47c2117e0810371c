//! `limit_req_zone` and `limit_req`: what is counted, how fast, and how much at once.

use std::fmt;
use std::sync::Arc;

use tollgate_core::MAX_WINDOW;
use tollgate_document::quote;

use crate::nginx::directive::Directive;
use crate::nginx::key::flaw;
use crate::nginx::lexer::Word;
use crate::nginx::place::FilePosition;
use crate::nginx::reader::Findings;

/// The longest that a rule can hold a request back.
pub(super) const MAX_DELAY_MS: u64 = MAX_WINDOW.as_millis_ceil();

/// `limit_req_zone`: counters for the values of a key, all with one rate.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: Arc<str>,
    /// As written.
    pub(super) key: String,
    pub(super) rate: ZoneRate,
    pub(super) place: FilePosition,
}

/// So many requests in a second or a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZoneRate {
    pub(super) requests: u64,
    pub(super) is_per_minute: bool,
}

impl ZoneRate {
    /// How long it takes to serve so many requests, rounded up.
    pub(super) fn delay_ms(self, requests: u64) -> u64 {
        let window = if self.is_per_minute { 60_000 } else { 1_000 };
        let delay = (u128::from(requests) * window).div_ceil(u128::from(self.requests.max(1)));
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

/// `limit_req`: how much more than the rate of a zone may come at once. Two that do the same are
/// equal, however they are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestLimit {
    pub(super) zone: Arc<str>,
    pub(super) burst: u64,
    /// How many of the burst are not held back: with `nodelay`, all of them.
    pub(super) at_once: u64,
}

/// The arguments, in the order that people write.
impl fmt::Display for RequestLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, burst, at_once } = self;
        write!(f, "limit_req zone={zone}")?;
        if *burst > 0 {
            write!(f, " burst={burst}")?;
        }
        match *at_once {
            0 => Ok(()),
            _ if at_once == burst => f.write_str(" nodelay"),
            _ => write!(f, " delay={at_once}"),
        }
    }
}

/// Reads `limit_req_zone KEY zone=NAME:SIZE rate=RATE`.
pub(super) fn zone(directive: &Directive, findings: &mut Findings) -> Option<Zone> {
    const ADVICE: &str = "write limit_req_zone $binary_remote_addr zone=NAME:10m rate=10r/s;";
    let [key, others @ ..] = &*directive.arguments else {
        findings.problem(&directive.place, "limit_req_zone has no key", ADVICE);
        return None;
    };
    if let Some((message, advice)) = flaw(&key.text) {
        findings.problem(&key.place, message, advice);
        return None;
    }
    let (mut name, mut rate) = (None, None);
    for word in others {
        match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("zone", value) => match zone_name(value) {
                Some(found) => name = Some(found),
                None => return refuse(word, "is no zone with its size", "zone=NAME:10m", findings),
            },
            ("rate", value) => match parse_rate(value) {
                Some(found) => rate = Some(found),
                None => return refuse(word, "is no rate", "rate=10r/s or rate=30r/m", findings),
            },
            // Zones that a cluster shares; a policy is for all nodes anyway.
            ("sync", "") => {}
            _ => {
                let known = "zone=NAME:10m or rate=10r/s";
                return refuse(word, "is no parameter of limit_req_zone", known, findings);
            }
        }
    }
    let (Some(name), Some(rate)) = (name, rate) else {
        findings.problem(&directive.place, "limit_req_zone needs a zone and a rate", ADVICE);
        return None;
    };
    Some(Zone { name: name.into(), key: key.text.clone(), rate, place: directive.place.clone() })
}

/// Reads `limit_req zone=NAME [burst=N] [nodelay | delay=N]`.
pub(super) fn limit(directive: &Directive, findings: &mut Findings) -> Option<RequestLimit> {
    let mut zone = None;
    let mut burst = 0;
    let mut at_once = 0;
    for word in &directive.arguments {
        let (field, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        match (field, whole(value)) {
            ("zone", _) if !value.is_empty() => zone = Some(Arc::from(value)),
            ("burst", Some(number)) => burst = number,
            ("delay", Some(number)) => at_once = number,
            ("nodelay", _) if value.is_empty() => at_once = u64::MAX,
            ("burst" | "delay", None) => {
                let right = format!("{field}=5, a whole number from 1 on");
                return refuse(word, "is not valid", &right, findings);
            }
            _ => {
                let known = "zone=NAME, burst=20, delay=5 or nodelay";
                return refuse(word, "is no parameter of limit_req", known, findings);
            }
        }
    }
    if zone.is_none() {
        let advice = "write limit_req zone=NAME burst=20 nodelay;";
        findings.problem(&directive.place, "limit_req names no zone", advice);
    }
    Some(RequestLimit { zone: zone?, burst, at_once: at_once.min(burst) })
}

/// Reports what is wrong with a word, and what to write.
fn refuse<T>(word: &Word, flaw: &str, right: &str, findings: &mut Findings) -> Option<T> {
    let message = format!("{} {flaw}", quote(&word.text));
    findings.problem(&word.place, &message, &format!("write {right}"));
    None
}

/// The name in `NAME:SIZE`.
fn zone_name(text: &str) -> Option<&str> {
    let (name, size) = text.split_once(':')?;
    let digits = size.strip_suffix(['k', 'K', 'm', 'M']).unwrap_or(size);
    (!name.is_empty() && whole(digits).is_some()).then_some(name)
}

/// `10r/s`, `30r/m`; nginx takes a number alone as one per second.
fn parse_rate(text: &str) -> Option<ZoneRate> {
    let per_minute = text.strip_suffix("r/m");
    let requests = per_minute.unwrap_or_else(|| text.strip_suffix("r/s").unwrap_or(text));
    Some(ZoneRate { requests: whole(requests)?, is_per_minute: per_minute.is_some() })
}

/// A whole number that is not 0, as far as nginx can count.
fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten()?;
    (1..=i64::MAX as u64).contains(&number).then_some(number)
}

//! Access logs of JSON lines, as nginx's `log_format ... escape=json` writes them: its variables,
//! by their own names.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_core::Timestamp;

use super::access_log::{present, status};
use super::json::{self, JsonText};
use super::record::{LogEntry, Pairs};
use super::{BadLineReason, request_line, time};

/// Reads a line. Where several members say the same, the most exact one counts.
pub(super) fn parse(line: &str) -> Result<LogEntry<'_>, BadLineReason> {
    let log: Variables<'_> = json::parse(line)?;
    let mut entry = LogEntry::at(log.moment()?);
    entry.status = log.status.as_deref().map_or(Ok(None), status)?;
    // With the realip module of nginx, the last of these is the address of the proxy.
    entry.ip = log.remote_addr.or(log.client_ip).or(log.realip_remote_addr);
    entry.user = log.remote_user;

    let request = log.request.as_ref();
    entry.method = log
        .request_method
        .or_else(|| part(request?, |line| request_line::split(line).map(|line| line.method)));
    // nginx may have rewritten `uri`; the client asked for what the others say.
    let target = log
        .request_uri
        .or_else(|| part(request?, |line| request_line::split(line).map(|line| line.target)))
        .or(log.uri);
    let target = target.as_ref();
    entry.path = target.and_then(|target| part(target, |target| Some(request_line::path(target))));

    let header = |wanted: &str| {
        log.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    };
    entry.host = log
        .host
        .or_else(|| header("host"))
        .or_else(|| part(target?, request_line::host))
        .or(log.server_name);
    entry.api_key = header("x-api-key");
    entry.tenant = header("x-tenant");
    entry.headers = log.headers;
    Ok(entry)
}

/// A part of a text, borrowed from the line if the text is.
fn part<'a>(text: &Cow<'a, str>, pick: fn(&str) -> Option<&str>) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => pick(text).map(Cow::Borrowed),
        Cow::Owned(text) => pick(text).map(|part| Cow::Owned(part.to_owned())),
    }
}

type Variable<'a> = Option<Cow<'a, str>>;

/// The variables that say something about a request, as far as the line has them.
#[derive(Default)]
struct Variables<'a> {
    msec: Variable<'a>,
    time_iso8601: Variable<'a>,
    time_local: Variable<'a>,
    at_timestamp: Variable<'a>,
    timestamp: Variable<'a>,
    time: Variable<'a>,
    remote_addr: Variable<'a>,
    client_ip: Variable<'a>,
    realip_remote_addr: Variable<'a>,
    remote_user: Variable<'a>,
    request: Variable<'a>,
    request_method: Variable<'a>,
    request_uri: Variable<'a>,
    uri: Variable<'a>,
    host: Variable<'a>,
    server_name: Variable<'a>,
    status: Variable<'a>,
    /// What was called `http_...`, by the names of the headers.
    headers: Pairs<'a>,
}

impl<'a> Variables<'a> {
    fn moment(&self) -> Result<Timestamp, BadLineReason> {
        let others =
            [&self.time_iso8601, &self.time_local, &self.at_timestamp, &self.timestamp, &self.time];
        let (text, moment) = if let Some(text) = &self.msec {
            (text, time::epoch_seconds(text))
        } else if let Some(text) = others.into_iter().flatten().next() {
            (text, time::any(text))
        } else {
            return Err(
                "no member msec, time_iso8601, time_local, @timestamp, timestamp or time".into()
            );
        };
        moment.ok_or_else(|| {
            format!("{text:?} is no time: RFC 3339, like a common log, or since 1970").into()
        })
    }

    fn named(&mut self, name: &str) -> Option<&mut Variable<'a>> {
        Some(match name {
            "msec" => &mut self.msec,
            "time_iso8601" => &mut self.time_iso8601,
            "time_local" => &mut self.time_local,
            "@timestamp" => &mut self.at_timestamp,
            "timestamp" => &mut self.timestamp,
            "time" => &mut self.time,
            "remote_addr" => &mut self.remote_addr,
            "client_ip" => &mut self.client_ip,
            "realip_remote_addr" => &mut self.realip_remote_addr,
            "remote_user" => &mut self.remote_user,
            "request" => &mut self.request,
            "request_method" => &mut self.request_method,
            "request_uri" => &mut self.request_uri,
            "uri" => &mut self.uri,
            "host" => &mut self.host,
            "server_name" => &mut self.server_name,
            "status" => &mut self.status,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Variables<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Variables<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
                let mut variables = Variables::default();
                while let Some(JsonText(name)) = members.next_key()? {
                    if let Some(variable) = variables.named(&name) {
                        *variable = scalar(&name, members.next_value()?)?;
                    } else if let Some(header) = name.strip_prefix("http_") {
                        if let Some(value) = scalar(&name, members.next_value()?)? {
                            variables.headers.push((Cow::Owned(header_name(header)), value));
                        }
                    } else {
                        members.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(variables)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// `X-Api-Key` and `x_api_key` are both `x-api-key`.
fn header_name(variable: &str) -> String {
    let spelt = |letter: char| if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
    variable.chars().map(spelt).collect()
}

/// The text of a string, or a number as it was written, so that no digit is lost.
fn scalar<'a, E: serde::de::Error>(name: &str, raw: &'a RawValue) -> Result<Variable<'a>, E> {
    let text = match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str::<JsonText<'_>>(raw.get()).map_err(E::custom)?.0,
        Some(b'{' | b'[') => {
            return Err(E::custom(format_args!("{name} is neither a string nor a number")));
        }
        _ if raw.get() == "null" => return Ok(None),
        _ => Cow::Borrowed(raw.get()),
    };
    Ok(present(&text).is_some().then_some(text))
}

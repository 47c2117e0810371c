//! The formats of recorded traffic, and how they are detected.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use super::record::LogEntry;
use super::{access_log, nginx_json, trace};

/// What the lines of an input look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficFormat {
    /// Apache's and nginx's common log format; whatever follows it is ignored.
    Common,
    /// The common log format followed by referer and user agent.
    Combined,
    /// A JSON object a line, with nginx's variables as members.
    NginxJson,
    /// A JSON object a line, as `{"t_ms":0,"key":"k","cost":1}`.
    Trace,
}

/// The format as given on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatChoice {
    /// Each input is recognised by its first line that can be read.
    #[default]
    Auto,
    /// Every input has this format.
    Told(TrafficFormat),
}

/// Why a line is not in a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLineReason(Cow<'static, str>);

/// A name that stands for no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl TrafficFormat {
    /// What an input of unknown format is tried as. A line fits at most one of these. Common is not
    /// among them, since every common line also reads as a combined one without headers.
    pub(super) const TRIED: [Self; 3] = [Self::Combined, Self::NginxJson, Self::Trace];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::NginxJson => "nginx-json",
            Self::Trace => "trace",
        }
    }

    pub(super) fn parse(self, line: &str) -> Result<LogEntry<'_>, BadLineReason> {
        match self {
            Self::Common => access_log::parse(line).map(LogEntry::without_headers),
            Self::Combined => access_log::parse(line),
            Self::NginxJson => nginx_json::parse(line),
            Self::Trace => trace::parse(line),
        }
    }

    /// What a line that fits no format was most likely meant to be.
    pub(super) fn likely(line: &str) -> Self {
        match (line.starts_with('{'), line.contains("\"t_ms\"")) {
            (true, true) => Self::Trace,
            (true, false) => Self::NginxJson,
            (false, _) => Self::Combined,
        }
    }
}

impl FormatChoice {
    /// Every choice by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        (TrafficFormat::Common.name(), Self::Told(TrafficFormat::Common)),
        (TrafficFormat::Combined.name(), Self::Told(TrafficFormat::Combined)),
        (TrafficFormat::NginxJson.name(), Self::Told(TrafficFormat::NginxJson)),
        (TrafficFormat::Trace.name(), Self::Told(TrafficFormat::Trace)),
    ];

    /// The format, if it was given.
    #[must_use]
    pub const fn told(self) -> Option<TrafficFormat> {
        match self {
            Self::Auto => None,
            Self::Told(format) => Some(format),
        }
    }
}

impl FromStr for FormatChoice {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, choice)| *choice).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format {:?}; known are", self.0)?;
        for (index, (name, _)) in FormatChoice::ALL.iter().enumerate() {
            write!(f, "{} {name}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Error for UnknownFormat {}

impl fmt::Display for BadLineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&'static str> for BadLineReason {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for BadLineReason {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

//! Notes on the import of a configuration: everything that a rule says otherwise, or cannot say.

use std::fmt;
use std::sync::Arc;

use tollgate_document::{printable, quote};

use crate::nginx::place::FilePosition;

/// A difference between the rules and the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NginxNote {
    /// What it is about.
    pub subject: NoteSubject,
    /// What is different.
    pub loss: NginxLoss,
}

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoteSubject {
    /// A rule, by its id.
    Rule(Arc<str>),
    /// Something in the files.
    Place(FilePosition),
}

impl fmt::Display for NoteSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(id) => f.write_str(id),
            Self::Place(place) => place.fmt(f),
        }
    }
}

/// One line: `nginx.conf:4:5: it is not carried over: limit_conn counts connections`.
impl fmt::Display for NginxNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.loss)
    }
}

impl NginxNote {
    pub(super) fn at(place: &FilePosition, loss: NginxLoss) -> Self {
        Self { subject: NoteSubject::Place(place.clone()), loss }
    }
}

/// What a rule says otherwise than the files, or cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NginxLoss {
    /// Nothing is known of files that are included.
    Include {
        /// What names them.
        pattern: String,
        /// Why they are not there.
        reason: String,
    },
    /// A directive that limits something other than requests.
    Directive(String),
    /// Refusals have a level in nginx' log.
    LogLevel,
    /// A program, which may limit too.
    Program(String),
    /// Conditions in the configuration itself.
    If,
    /// No rule: nothing defines the zone.
    UnknownZone(String),
    /// No rule: nothing uses the zone.
    UnusedZone(String),
    /// No rule: the key is always empty.
    EmptyKey,
    /// No rule: the key has too many parts.
    LongKey,
    /// No rule: rules know nothing like this variable.
    Variable(String),
    /// No rule: the variable is computed, and can be anything.
    Computed {
        /// The variable.
        variable: String,
        /// The directive that computes it.
        by: String,
        /// Where that stands.
        place: FilePosition,
    },
    /// No rule: no request gets there.
    NeverMet,
    /// No rule: a `return` beside it responds first.
    Returns,
    /// No rule for what is limited in a location with a regular expression.
    RegexLocation(String),
    /// No rule for what is limited in a location without a path.
    NamedLocation(String),
    /// No rule for what is limited in a location whose path no rule can match.
    UnwritablePath(String),
    /// Another location has the same paths, as far as rules can tell.
    SamePaths(String),
    /// The key is empty for some requests, by a `map` or `geo`.
    Exempt {
        /// The variable.
        variable: String,
        /// The directive that computes it.
        by: String,
        /// Where that stands.
        place: FilePosition,
    },
    /// IPv6 clients count by their network.
    Network,
    /// The query is not part of a path.
    Query,
    /// Users are known by other means.
    User,
    /// The host has to be passed on.
    Host,
    /// API keys have to be known.
    ApiKey,
    /// The client's address is taken from a header.
    ForwardedAddress,
    /// Requests that lack one part of the key are not counted.
    MissingPart,
    /// Refusals have another status.
    Status(u16),
    /// nginx delays requests itself; Tollgate leaves that to the caller.
    Held,
    /// The longest delay is longer than a rule can have it.
    LongDelay,
    /// Limits of one zone count apart.
    Apart {
        /// The zone.
        zone: Arc<str>,
        /// How many rules there are of it.
        rules: usize,
    },
    /// The rule applies elsewhere too.
    AlsoApplies {
        /// The first place.
        place: FilePosition,
        /// How many others there are.
        others: usize,
    },
    /// Where a request lacks what the rule counts by, the wider rule that it replaces applies.
    Fallback(Arc<str>),
    /// The prefix of a location ends within a segment.
    Segments(String),
    /// Requests for unknown hosts go to this server.
    DefaultServer(FilePosition),
    /// This name of the server is left out.
    ServerName(String),
    /// No name of the server can be matched.
    EveryHost(FilePosition),
}

impl NginxLoss {
    /// A word that names the kind, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Include { .. } => "include",
            Self::Directive(_) => "directive",
            Self::LogLevel => "log_level",
            Self::Program(_) => "program",
            Self::If => "if",
            Self::UnknownZone(_) => "unknown_zone",
            Self::UnusedZone(_) => "unused_zone",
            Self::EmptyKey => "empty_key",
            Self::LongKey => "long_key",
            Self::Variable(_) => "variable",
            Self::Computed { .. } => "computed",
            Self::NeverMet => "never_met",
            Self::Returns => "returns",
            Self::RegexLocation(_) => "regex_location",
            Self::NamedLocation(_) => "named_location",
            Self::UnwritablePath(_) => "unwritable_path",
            Self::SamePaths(_) => "same_paths",
            Self::Exempt { .. } => "exempt",
            Self::Network => "network",
            Self::Query => "query",
            Self::User => "user",
            Self::Host => "host",
            Self::ApiKey => "api_key",
            Self::ForwardedAddress => "forwarded_address",
            Self::MissingPart => "missing_part",
            Self::Status(_) => "status",
            Self::Held => "held",
            Self::LongDelay => "long_delay",
            Self::Apart { .. } => "apart",
            Self::AlsoApplies { .. } => "also_applies",
            Self::Fallback(_) => "fallback",
            Self::Segments(_) => "segments",
            Self::DefaultServer(_) => "default_server",
            Self::ServerName(_) => "server_name",
            Self::EveryHost(_) => "every_host",
        }
    }
}

/// A sentence about the subject, without naming it.
impl fmt::Display for NginxLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Include { pattern, reason } => {
                write!(f, "{pattern} is included, and nothing is known of it: {reason}")
            }
            Self::Directive(name) => write!(
                f,
                "{} limits something other than the rate of requests; it is not carried over",
                printable(name)
            ),
            Self::LogLevel => f.write_str(
                "limit_req_log_level is not carried over: refusals are counted in metrics, and \
                 can be explained one by one",
            ),
            Self::Program(name) => write!(
                f,
                "{} runs a program, which may limit requests too; it was not examined",
                printable(name)
            ),
            Self::If => f.write_str(
                "what an if answers or sends elsewhere is not counted in nginx; rules do not know \
                 its condition",
            ),
            Self::UnknownZone(zone) => write!(
                f,
                "nothing in the files defines the zone {}; no rule is made of it",
                quote(zone)
            ),
            Self::UnusedZone(zone) => {
                write!(f, "no limit_req uses the zone {}; no rule is made of it", quote(zone))
            }
            Self::EmptyKey => f.write_str(
                "the key is always empty, and nginx counts no empty keys; no rule is made of it",
            ),
            Self::LongKey => f.write_str(
                "the key has more parts than a rule can count by; no rule is made of it",
            ),
            Self::Variable(variable) => {
                write!(f, "rules cannot count by {}; no rule is made of it", printable(variable))
            }
            Self::Computed { variable, by, place } => write!(
                f,
                "the key is {}, which {} computes at {place}; no rule is made of it",
                printable(variable),
                printable(by)
            ),
            Self::NeverMet => f.write_str("no request gets here; no rule is made of it"),
            Self::Returns => f.write_str(
                "nginx runs the return beside it before it counts, so that nothing is limited; no \
                 rule is made of it",
            ),
            Self::RegexLocation(path) => write!(
                f,
                "rules match no regular expressions; what location {} limits in another way than \
                 the locations around it is not carried over",
                quote(path)
            ),
            Self::NamedLocation(name) => write!(
                f,
                "location {} has no path, since nginx leads requests there by itself; what it \
                 limits is not carried over",
                quote(name)
            ),
            Self::UnwritablePath(path) => write!(
                f,
                "no rule can match the path {}; what is limited there is not carried over",
                quote(path)
            ),
            Self::SamePaths(path) => write!(
                f,
                "a location beside it has the same paths, {}, as far as rules can tell, and counts \
                 for both",
                quote(path)
            ),
            Self::Exempt { variable, by, place } => write!(
                f,
                "nginx does not count requests for which {} at {place} leaves {} empty; here they \
                 are counted: list such clients in the whitelist",
                printable(by),
                printable(variable)
            ),
            Self::Network => f.write_str("an IPv6 client counts by its /64, not by its address"),
            Self::Query => f.write_str("the query is not part of what it counts by"),
            Self::User => f.write_str(
                "the user is who a token or API key says, not who nginx has asked for a password",
            ),
            Self::Host => f.write_str(
                "it counts by the header Host as Tollgate gets it: let the proxy pass on the \
                 client's",
            ),
            Self::ApiKey => f.write_str(
                "an API key counts if the settings of Tollgate know it, or say api_keys: any",
            ),
            Self::ForwardedAddress => f.write_str(
                "it counts by the client's address: name your proxies in trusted_proxies, and \
                 what a client writes into the header itself does not count",
            ),
            Self::MissingPart => f.write_str(
                "it does not apply to requests that lack one part of its key; nginx counts them \
                 by the others",
            ),
            Self::Status(status) => {
                write!(f, "Tollgate refuses with 429, nginx with {status}")
            }
            Self::Held => f.write_str(
                "nginx holds early requests back; Tollgate tells how long to wait, and waiting is \
                 up to the caller. Forward-auth does not wait",
            ),
            Self::LongDelay => f.write_str("it holds requests back for 366 days at most"),
            Self::Apart { zone, rules } => write!(
                f,
                "nginx counts together what uses the zone {}; here it is {rules} rules, and each \
                 counts by itself",
                quote(zone)
            ),
            Self::AlsoApplies { place, others } => {
                write!(f, "it applies to requests for {place} ")?;
                if *others > 0 {
                    write!(f, "and {others} other places ")?;
                }
                f.write_str("too, which it does not in nginx")
            }
            Self::Fallback(replaced) => write!(
                f,
                "where a request lacks what it counts by, {replaced} applies; nginx counts nothing \
                 then"
            ),
            Self::Segments(path) => write!(
                f,
                "location {} is a prefix of any text in nginx; rules match whole segments, so \
                 {}/x is covered and {}x is not",
                quote(path),
                printable(path),
                printable(path)
            ),
            Self::DefaultServer(place) => write!(
                f,
                "nginx sends requests for hosts that no server names to {place}; the rule does not \
                 apply to them: refuse them there, or remove hosts from the rule"
            ),
            Self::ServerName(name) => {
                write!(f, "rules cannot match the server name {}; it is left out", quote(name))
            }
            Self::EveryHost(place) => write!(
                f,
                "none of the names of the server at {place} can be matched; it applies to every \
                 host"
            ),
        }
    }
}

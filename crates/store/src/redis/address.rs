//! Reads a Redis URL.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates,
};

use redis::io::tcp::TcpSettings;

const DEFAULT_PORT: u16 = 6_379;
const DEFAULT_SENTINEL_PORT: u16 = 26_379;
/// The default prefix of keys.
pub(super) const DEFAULT_PREFIX: &str = "tg:";
const HELP: &str = "write redis://[user:password@]host[:port][/database], \
                    redis+sentinel://host[:port],.../name-of-the-master[/database] or \
                    redis+cluster://host[:port],...; with rediss instead of redis for TLS";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads `host:port` as sent by the server `asked`. A server that does not know its own name leaves the host out;
    /// then it is that of `asked`.
    pub(super) fn named_by(asked: &Self, place: &str) -> Option<Self> {
        let (host, port) = place.rsplit_once(':')?;
        let host = if host.is_empty() { &asked.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How servers are discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    /// A single server.
    Single,
    /// Sentinels know the master of this name.
    Sentinel(String),
    /// A cluster: its servers share the slots, and each knows the owner of each slot.
    Cluster,
}

/// The parts of a URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RedisUrl {
    pub(super) kind: Discovery,
    /// At least one.
    pub(super) addresses: Vec<Address>,
    pub(super) prefix: String,
    user: Option<String>,
    password: Option<String>,
    /// Sentinels have a separate password.
    sentinel_password: Option<String>,
    database: u32,
    tls: Option<RedisTlsFiles>,
}

/// Files for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RedisTlsFiles {
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Omits secrets.
impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, addresses, prefix, database, .. } = self;
        f.debug_struct("RedisUrl")
            .field("kind", kind)
            .field("addresses", addresses)
            .field("prefix", prefix)
            .field("database", database)
            .finish_non_exhaustive()
    }
}

impl RedisUrl {
    /// Reads a URL. Errors do not repeat it: it may contain a password.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or(HELP)?;
        let (is_tls, how) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", how) => (false, how),
            ("rediss", how) => (true, how),
            _ => return Err(HELP.to_owned()),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Errors name parameters, which must not be parts of a password.
        if query.contains('@') {
            return Err(
                "an @ after a question mark: in a user, a password or an option write %3F \
                        for ? and %40 for @"
                    .to_owned(),
            );
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (decode(user)?, Some(decode(password)?)),
            None => (decode(who)?, None),
        };
        let (kind, database) = match how {
            "" => (Discovery::Single, path),
            "cluster" => (Discovery::Cluster, path),
            "sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(format!("the name of the master is missing; {HELP}"));
                }
                (Discovery::Sentinel(decode(master)?), database)
            }
            _ => return Err(HELP.to_owned()),
        };
        let database = match database.trim_end_matches('/') {
            "" => 0,
            digits => digits
                .parse()
                .map_err(|_| format!("the database has to be a number, as in /1; {HELP}"))?,
        };
        if kind == Discovery::Cluster && database != 0 {
            return Err("a Redis Cluster has only the database 0".to_owned());
        }
        let is_sentinel = matches!(kind, Discovery::Sentinel(_));
        let port = if is_sentinel { DEFAULT_SENTINEL_PORT } else { DEFAULT_PORT };
        let addresses =
            hosts.split(',').map(|host| address(host, port)).collect::<Result<Vec<_>, _>>()?;
        if kind == Discovery::Single && addresses.len() > 1 {
            return Err(format!(
                "several servers need redis+sentinel:// or redis+cluster://; {HELP}"
            ));
        }
        let mut parsed = Self {
            kind,
            addresses,
            prefix: DEFAULT_PREFIX.to_owned(),
            user: Some(user).filter(|user| !user.is_empty()),
            password,
            sentinel_password: None,
            database,
            tls: is_tls.then(RedisTlsFiles::default),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parsed.option(name, decode(value)?)?;
        }
        Ok(parsed)
    }

    fn option(&mut self, name: &str, value: String) -> Result<(), String> {
        let needs_tls = || format!("{name} is for TLS: write rediss instead of redis");
        match name {
            "prefix" if value.contains(['{', '}']) => {
                return Err("prefix: braces have a meaning in keys, use others".to_owned());
            }
            "prefix" => self.prefix = value,
            "sentinel_password" => self.sentinel_password = Some(value),
            "ca" | "cert" | "key" => {
                let tls = self.tls.as_mut().ok_or_else(needs_tls)?;
                let place = match name {
                    "ca" => &mut tls.authorities,
                    "cert" => &mut tls.certificate,
                    _ => &mut tls.key,
                };
                *place = Some(PathBuf::from(value));
            }
            _ => {
                return Err(format!(
                    "{name} is unknown; known are prefix, sentinel_password, ca, cert and key"
                ));
            }
        }
        Ok(())
    }

    /// A client for a server with counters.
    pub(super) fn client(&self, address: &Address) -> Result<redis::Client, String> {
        self.client_with(address, self.account())
    }

    /// A client that also subscribes: only RESP3 delivers messages on a connection that sends commands.
    pub(super) fn listening_client(&self, address: &Address) -> Result<redis::Client, String> {
        self.client_with(address, self.account().set_protocol(ProtocolVersion::RESP3))
    }

    fn account(&self) -> RedisConnectionInfo {
        let mut redis =
            RedisConnectionInfo::default().set_db(self.database.into()).set_skip_set_lib_name();
        if let Some(user) = &self.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &self.password {
            redis = redis.set_password(password);
        }
        redis
    }

    /// A client for a sentinel.
    pub(super) fn sentinel_client(&self, address: &Address) -> Result<redis::Client, String> {
        let mut redis = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.sentinel_password {
            redis = redis.set_password(password);
        }
        self.client_with(address, redis)
    }

    fn client_with(
        &self,
        address: &Address,
        redis: RedisConnectionInfo,
    ) -> Result<redis::Client, String> {
        let Address { host, port } = address.clone();
        let place = match &self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let information: ConnectionInfo =
            place.into_connection_info().map_err(|error| error.to_string())?;
        let information = information
            .set_redis_settings(redis)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = match &self.tls {
            None => redis::Client::open(information),
            Some(files) => redis::Client::build_with_tls(information, files.read()?),
        };
        client.map_err(|error| error.to_string())
    }
}

impl RedisTlsFiles {
    fn read(&self) -> Result<TlsCertificates, String> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
            }
            (None, None) => None,
            _ => return Err("cert and key belong together: give both".to_owned()),
        };
        let root_cert = self.authorities.as_deref().map(read).transpose()?;
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn address(text: &str, default_port: u16) -> Result<Address, String> {
    let wrong = || format!("a host and maybe a port are expected, as in 10.0.0.1:6379; {HELP}");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { default_port } else { port.parse().map_err(|_| wrong())? };
    if host.is_empty() || port == 0 {
        return Err(wrong());
    }
    Ok(Address { host: host.to_owned(), port })
}

/// Reads `%40` as `@`.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || "a % has to be followed by two hexadecimal digits; % itself is %25".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = others.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(wrong)?);
        rest = &others[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_redis_is() {
        let check = |url: &str, kind: Discovery, addresses: &[&str], database: u32| {
            let parsed = RedisUrl::parse(url).unwrap_or_else(|problem| panic!("{url}: {problem}"));
            let shown: Vec<String> = parsed.addresses.iter().map(ToString::to_string).collect();
            assert_eq!((parsed.kind, parsed.database), (kind, database), "{url}");
            assert_eq!(shown, addresses, "{url}");
        };
        check("redis://localhost", Discovery::Single, &["localhost:6379"], 0);
        check("redis://10.0.0.1:7000/3", Discovery::Single, &["10.0.0.1:7000"], 3);
        check("rediss://[::1]:7000/", Discovery::Single, &["[::1]:7000"], 0);
        check("redis+cluster://a:1,b,c:3", Discovery::Cluster, &["a:1", "b:6379", "c:3"], 0);
        let sentinel = Discovery::Sentinel("mymaster".to_owned());
        check("redis+sentinel://a,b:2/mymaster/1", sentinel, &["a:26379", "b:2"], 1);
    }

    #[test]
    fn addresses_sent_by_servers_are_read() {
        let asked = Address { host: "asked".to_owned(), port: 1 };
        let check = |place: &str, expected: Option<&str>| {
            let named = Address::named_by(&asked, place).map(|address| address.to_string());
            assert_eq!(named.as_deref(), expected, "{place}");
        };
        check("10.0.0.1:7000", Some("10.0.0.1:7000"));
        check("::1:7000", Some("[::1]:7000"));
        check("redis-3.example:7000", Some("redis-3.example:7000"));
        check(":7000", Some("asked:7000"));
        check("10.0.0.1", None);
        check("10.0.0.1:", None);
        check("10.0.0.1:70000", None);
    }

    #[test]
    fn secrets_are_read_and_never_shown() {
        let parsed = RedisUrl::parse("redis://me:p%40ss@h?prefix=x:").expect("a valid URL");
        assert_eq!(
            (parsed.user.as_deref(), parsed.password.as_deref()),
            (Some("me"), Some("p@ss"))
        );
        assert_eq!(parsed.prefix, "x:");
        assert!(!format!("{parsed:?}").contains("ss\""));
        let without_user = RedisUrl::parse("redis://:secret@h").expect("a valid URL");
        assert_eq!((without_user.user, without_user.password.as_deref()), (None, Some("secret")));
    }

    #[test]
    fn errors_omit_the_password() {
        let check = |url: &str, expected: &str| {
            let problem = RedisUrl::parse(url).expect_err(url);
            assert!(problem.contains(expected), "{url}: {problem}");
            assert!(!problem.contains("secret"), "{url}: {problem}");
        };
        check("localhost:6379", "write redis://");
        check("http://localhost", "write redis://");
        check("redis+banana://localhost", "write redis://");
        check("redis://", "a host");
        check("redis://:secret@h:port", "a host");
        check("redis://:secret@h:0", "a host");
        check("redis://:secret@a,b", "need redis+sentinel");
        check("redis://h/one", "a number");
        check("redis+cluster://h/1", "only the database 0");
        check("redis+sentinel://h", "the name of the master is missing");
        check("redis://h?colour=red", "colour is unknown");
        check("redis://h?insecure", "insecure is unknown");
        check("redis://:pass?secret@h", "%3F");
        check("redis://:pass?secret=1@h", "%3F");
        check("redis://h?prefix=a{b", "braces");
        check("redis://h?ca=x.pem", "rediss");
        check("redis://:%zzsecret@h", "hexadecimal");
    }
}

//! Finds the upstreams of a request, by its host and its path.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::failure::{ForwardError, HeadProblem};
use crate::upstream::Upstreams;
use crate::url::UpstreamUrl;

/// The upstreams of a host and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host; `None`: any.
    pub host: Option<HostPattern>,
    /// The path.
    pub path: PathPattern,
    /// Equal upstreams, at least one.
    pub upstreams: Vec<UpstreamUrl>,
}

/// A host, or all hosts below one: `api.example.com`, `*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPattern {
    /// Exact hosts come first, then the longest.
    is_exact: bool,
    name: String,
}

/// A path, or all paths below one: `/health`, `/v1/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    path: String,
    is_exact: bool,
}

impl HostPattern {
    fn matches(&self, host: &str) -> bool {
        if self.is_exact {
            return host.eq_ignore_ascii_case(&self.name);
        }
        let Some(split) = host.len().checked_sub(self.name.len()) else { return false };
        let (below, name) = (host.get(..split), host.get(split..));
        let is_below = below.is_some_and(|below| below.len() > 1 && below.ends_with('.'));
        is_below && name.is_some_and(|name| name.eq_ignore_ascii_case(&self.name))
    }
}

impl PathPattern {
    fn matches(&self, path: &str) -> bool {
        match path.strip_prefix(&self.path) {
            Some("") => true,
            // `OPTIONS *` has no path.
            Some(rest) => !self.is_exact && (rest.starts_with('/') || path == "*"),
            None => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, is_exact) = match text.strip_prefix("*.") {
            Some(name) => (name, false),
            None => (text, true),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let is_name = name.split('.').all(is_label);
        let is_address = is_exact && name.strip_prefix('[').is_some_and(|name| name.ends_with(']'));
        if !is_name && !is_address {
            return Err(
                "expected a host without a port like api.example.com or *.example.com".to_owned()
            );
        }
        Ok(Self { is_exact, name: name.to_ascii_lowercase() })
    }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, is_exact) = match text.strip_suffix("/*") {
            Some(path) => (path, false),
            None => (text, true),
        };
        let is_path = text.starts_with('/') && !path.contains(['*', '?', '#', ' ']);
        if !is_path || has_dot_segment(path) {
            return Err("expected a path like /health, or /v1/* for all below".to_owned());
        }
        Ok(Self { path: path.to_owned(), is_exact })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_exact { "" } else { "*." }, self.name)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, if self.is_exact { "" } else { "/*" })
    }
}

/// All routes, in order of precedence.
#[derive(Debug)]
pub(crate) struct Routes<U = Arc<Upstreams>> {
    routes: Vec<(Option<HostPattern>, PathPattern, U)>,
    /// The upstreams of requests without a route.
    rest: Option<U>,
}

impl<U> Routes<U> {
    pub(crate) fn new(
        mut routes: Vec<(Option<HostPattern>, PathPattern, U)>,
        rest: Option<U>,
    ) -> Self {
        // Named hosts first, exact ones before others, then the longest path.
        routes.sort_by(|(host, path, _), (other_host, other_path, _)| {
            let rank = |host: &Option<HostPattern>, path: &PathPattern| {
                let host = host.as_ref().map(|host| (host.is_exact, host.name.len()));
                (host, path.path.len(), path.is_exact)
            };
            rank(other_host, other_path).cmp(&rank(host, path))
        });
        Self { routes, rest }
    }

    /// The upstreams of a request. The host is without its port.
    pub(crate) fn find(&self, host: &str, path: &str) -> Result<&U, ForwardError> {
        // An upstream may resolve such a path to another one.
        if !self.routes.is_empty() && has_dot_segment(path) {
            return Err(ForwardError::Refused(HeadProblem::Path));
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_meant = |(named, pattern, _): &&(Option<HostPattern>, PathPattern, U)| {
            named.as_ref().is_none_or(|named| named.matches(host)) && pattern.matches(path)
        };
        let found = self.routes.iter().find(is_meant).map(|(_, _, upstreams)| upstreams);
        found.or(self.rest.as_ref()).ok_or(ForwardError::NoRoute)
    }
}

/// Whether a path has `.` or `..` for a segment, also escaped.
fn has_dot_segment(path: &str) -> bool {
    const ESCAPES: [(&str, &str); 4] = [("%2e", "."), ("%2f", "/"), ("%5c", "\\"), ("%3b", ";")];
    if !path.contains(['.', '%']) {
        return false;
    }
    let lower = path.to_ascii_lowercase();
    let plain = ESCAPES.iter().fold(lower, |path, (escape, plain)| path.replace(escape, plain));
    plain.split(['/', '\\']).any(|segment| {
        // The part behind a semicolon is a parameter to some servers.
        let name = segment.split(';').next().unwrap_or_default();
        name == "." || name == ".."
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(routes: &[(&str, &str)], has_rest: bool) -> Routes<usize> {
        let routes = routes.iter().enumerate().map(|(number, (host, path))| {
            let host = (!host.is_empty()).then(|| host.parse().expect(host));
            (host, path.parse().expect(path), number)
        });
        Routes::new(routes.collect(), has_rest.then_some(99))
    }

    #[test]
    fn the_named_host_and_then_the_longest_path_wins() {
        let routes = [
            ("", "/*"),
            ("", "/v1/*"),
            ("", "/v1/users/*"),
            ("", "/v1/users/me"),
            ("api.example.com", "/v1/*"),
            ("*.example.com", "/v1/users/*"),
            ("*.api.example.com", "/*"),
        ];
        let check = |host: &str, path: &str, expected: usize| {
            assert_eq!(table(&routes, false).find(host, path), Ok(&expected), "{host}{path}");
        };
        check("other.org", "/", 0);
        check("other.org", "/v10", 0);
        check("other.org", "*", 0);
        check("other.org", "/v1", 1);
        check("other.org", "/v1/", 1);
        check("other.org", "/v1/x/y", 1);
        check("other.org", "/v1/users", 2);
        check("other.org", "/v1/users/me", 3);
        check("other.org", "/v1/users/me/x", 2);
        check("api.example.com", "/v1/users/me", 4);
        check("API.Example.com.", "/v1/users/me", 4);
        check("api.example.com", "/other", 0);
        check("www.example.com", "/v1/users/7", 5);
        check("example.com", "/v1/users/7", 2);
        check("notexample.com", "/v1/users/7", 2);
        check("eu.api.example.com", "/v1/users/7", 6);
    }

    #[test]
    fn requests_without_a_route_are_refused() {
        let routes = table(&[("api.example.com", "/v1/*")], false);
        assert_eq!(routes.find("api.example.com", "/v2"), Err(ForwardError::NoRoute));
        assert_eq!(routes.find("other", "/v1/x"), Err(ForwardError::NoRoute));
        assert_eq!(table(&[("api.example.com", "/v1/*")], true).find("other", "/"), Ok(&99));
        assert_eq!(table(&[], true).find("", "/a/../b"), Ok(&99));
    }

    #[test]
    fn a_path_that_others_may_read_otherwise_is_refused() {
        let routes = table(&[("", "/v1/*"), ("", "/admin/*")], true);
        for path in [
            "/v1/../admin",
            "/v1/.",
            "/v1/%2e%2E/admin",
            "/v1/.%2e/x",
            "/v1/..;x=1/y",
            "/v1/..\\x",
            "/v1/..%2fadmin",
            "/v1/%2e%2e%2Fadmin",
            "/v1/..%5cadmin",
            "/v1/x%5C..",
            "/v1/..%3Bx/y",
        ] {
            assert_eq!(
                routes.find("", path),
                Err(ForwardError::Refused(HeadProblem::Path)),
                "{path}"
            );
        }
        for path in ["/v1/..x", "/v1/...", "/v1/a.b", "/v1//x", "/v1/a%2fb", "/v1/a%2F..b"] {
            assert_eq!(routes.find("", path), Ok(&0), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_that_is_shown_is_the_same_pattern(text in "[/*.a-c:%-]{0,12}") {
            if let Ok(pattern) = text.parse::<PathPattern>() {
                prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
            }
            if let Ok(pattern) = text.parse::<HostPattern>() {
                prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
            }
        }

        /// Compares with a linear search: of all routes that match, none precedes the one that is found.
        #[test]
        fn no_route_that_fits_better_is_passed_over(
            hosts in prop::collection::vec(prop::sample::select(vec!["", "a.b", "*.b", "b"]), 4),
            paths in prop::collection::vec(prop::sample::select(vec!["/*", "/x", "/x/*", "/x/y/*"]), 4),
            host in prop::sample::select(vec!["a.b", "c.b", "b", "z"]),
            path in prop::sample::select(vec!["/", "/x", "/x/y", "/x/y/z", "/q"]),
        ) {
            let pairs: Vec<(&str, &str)> = hosts.iter().copied().zip(paths.iter().copied()).collect();
            let rank = |(own_host, own_path): (&str, &str)| {
                let below = own_host.strip_prefix('*');
                let is_host = own_host.is_empty()
                    || own_host == host
                    || below.is_some_and(|below| host.ends_with(below) && host.len() > below.len());
                let prefix = own_path.strip_suffix("/*");
                let is_path = prefix.map_or(path == own_path, |prefix| {
                    path == prefix || path.starts_with(&format!("{prefix}/"))
                });
                let host_rank = if own_host.is_empty() { 0 } else { 1 + u8::from(below.is_none()) };
                let path_rank = prefix.map_or((own_path.len(), true), |prefix| (prefix.len(), false));
                (is_host && is_path).then_some((host_rank, path_rank))
            };
            let best = pairs.iter().filter_map(|pair| rank(*pair)).max();
            let found = table(&pairs, false).find(host, path).ok().copied();
            prop_assert_eq!(found.and_then(|number| rank(pairs[number])), best);
        }
    }

    #[test]
    fn patterns_are_understood_or_refused() {
        for host in ["a", "api.example.com", "*.example.com", "10.0.0.1", "[::1]"] {
            assert_eq!(host.parse::<HostPattern>().expect(host).to_string(), host);
        }
        for host in ["", "*", "*.", "a.*.b", "a:80", "a/b", "*.*.a", "a..b", "a b"] {
            assert!(host.parse::<HostPattern>().is_err(), "{host}");
        }
        for path in ["/", "/*", "/v1/*", "/health"] {
            assert_eq!(path.parse::<PathPattern>().expect(path).to_string(), path);
        }
        for path in ["", "v1", "*", "/a*", "/*/b", "/v1/**", "/a?b", "/a/../b", "/a b"] {
            assert!(path.parse::<PathPattern>().is_err(), "{path}");
        }
    }
}

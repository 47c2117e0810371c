//! nginx' own choice of limits, and what the rules apply to the same request: they must agree
//! wherever nothing is noted.

use std::collections::BTreeSet;
use std::hash::RandomState;

use proptest::prelude::*;
use tollgate_core::Timestamp;
use tollgate_rules::{Attribute, Attributes};

use crate::nginx::support::{compile, imported};

struct Request<'a> {
    host: &'a str,
    path: &'a str,
}

impl Attributes for Request<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::Host => Some(self.host),
            Attribute::Path => Some(self.path),
            Attribute::Ip => Some("192.0.2.1"),
            _ => None,
        }
    }
}

/// A location: its path, whether it is exact, and its limits, by the numbers of zones. Without a
/// list, it inherits them.
type Location = (&'static str, bool, Option<Vec<usize>>);

/// A server with one name, its own limits, and its locations.
#[derive(Clone, Debug)]
struct Server {
    name: &'static str,
    limits: Option<Vec<usize>>,
    locations: Vec<Location>,
}

const PATHS: [&str; 6] = ["/", "/a/", "/a/b/", "/a/b/c/", "/d/", "/d/e/"];
const HOSTS: [&str; 3] = ["one.example", "two.example", "*.example"];

fn limits() -> impl Strategy<Value = Option<Vec<usize>>> {
    prop::option::of(prop::sample::subsequence(vec![0, 1, 2], 0..=2))
}

fn location() -> impl Strategy<Value = Location> {
    (prop::sample::select(&PATHS[..]), any::<bool>(), limits())
}

fn server() -> impl Strategy<Value = Server> {
    let locations = prop::collection::vec(location(), 0..5);
    (prop::sample::select(&HOSTS[..]), limits(), locations)
        .prop_map(|(name, limits, locations)| Server { name, limits, locations })
}

/// The directives of a list. An empty one is the same as none: only a level that limits something
/// does not inherit.
fn written(limits: Option<&Vec<usize>>) -> String {
    let limits = limits.into_iter().flatten();
    limits.map(|zone| format!("limit_req zone=z{zone} nodelay; ")).collect()
}

fn configuration(http: Option<&Vec<usize>>, servers: &[Server]) -> String {
    let mut text = String::new();
    for zone in 0..3 {
        text += &format!("limit_req_zone $binary_remote_addr zone=z{zone}:1m rate=1r/s;\n");
    }
    text += &written(http);
    for Server { name, limits, locations } in servers {
        text += &format!("server {{ server_name {name}; {}", written(limits.as_ref()));
        for (path, is_exact, limits) in locations {
            let mark = if *is_exact { "= " } else { "" };
            text += &format!("location {mark}{path} {{ {}}} ", written(limits.as_ref()));
        }
        text += "}\n";
    }
    text
}

/// The zones that nginx would count a request in: those of the longest prefix, of the server with
/// the narrowest name.
fn limited_by_nginx(
    http: Option<&Vec<usize>>,
    servers: &[Server],
    request: &Request<'_>,
) -> Option<BTreeSet<usize>> {
    let own = |limits: Option<&Vec<usize>>| limits.filter(|limits| !limits.is_empty()).cloned();
    let named = |name: &str| servers.iter().find(|server| server.name == name);
    let server = named(request.host).or_else(|| named("*.example"))?;
    let exact =
        server.locations.iter().find(|(path, is_exact, _)| *is_exact && *path == request.path);
    let prefixes = server.locations.iter().filter(|(_, is_exact, _)| !is_exact);
    let prefix = prefixes
        .filter(|(path, ..)| request.path.starts_with(path))
        .max_by_key(|(path, ..)| path.len());
    let location = exact.or(prefix).and_then(|(_, _, limits)| own(limits.as_ref()));
    let limits = location.or_else(|| own(server.limits.as_ref())).or_else(|| own(http));
    Some(limits.unwrap_or_default().into_iter().collect())
}

/// The zones whose rules charge the request.
fn limited_by_rules(text: &str, request: &Request<'_>) -> BTreeSet<usize> {
    let policy = compile(&imported(text));
    let plan = policy.plan(&[request], Timestamp::from_secs(0), &RandomState::new());
    let charged = plan.charges(policy.rules()).filter(|charge| charge.cost > 0);
    let zone = |rule: &str| rule.strip_prefix('z').and_then(|it| it.get(..1)?.parse().ok());
    charged.map(|charge| zone(charge.key.rule).expect("the number of a zone")).collect()
}

/// nginx refuses a location twice, and so does the import.
fn without_repetition(mut servers: Vec<Server>) -> Vec<Server> {
    let mut names = BTreeSet::new();
    servers.retain(|server| names.insert(server.name));
    for server in &mut servers {
        let mut known = BTreeSet::new();
        server.locations.retain(|(path, is_exact, _)| known.insert((*path, *is_exact)));
    }
    servers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rules_apply_where_nginx_limits(
        http in limits(),
        servers in prop::collection::vec(server(), 1..4).prop_map(without_repetition),
    ) {
        let text = configuration(http.as_ref(), &servers);
        let import = imported(&text);
        // Where rules cannot say it, they say that they cannot.
        let is_noted = import.notes.iter().any(|note| note.loss.code() == "also_applies");
        for host in ["one.example", "two.example", "three.example"] {
            for path in ["/", "/x", "/a/", "/a/x", "/a/b/", "/a/b/x", "/a/b/c/x", "/d/x", "/d/e/x"] {
                // With a slash at the end or without is the same path to rules.
                let is_exact = |server: &Server| server.locations.iter().any(|it| it.1 && it.0 == path);
                if path.len() > 1 && path.ends_with('/') && servers.iter().any(is_exact) {
                    continue;
                }
                let request = Request { host, path };
                let Some(expected) = limited_by_nginx(http.as_ref(), &servers, &request) else {
                    continue;
                };
                let found = limited_by_rules(&text, &request);
                prop_assert!(found.is_superset(&expected), "{host}{path}: {found:?} lacks some of {expected:?}\n{text}");
                if !is_noted {
                    prop_assert_eq!(found, expected, "{}{}\n{}", host, path, text);
                }
            }
        }
    }
}

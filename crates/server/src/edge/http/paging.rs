//! Long lists in pages: the query of a call, and the link to the next page.

use http::{HeaderMap, HeaderValue, Uri, header};
use tollgate::Timestamp;
use tollgate_catalog::Filter;

use crate::edge::http::problem::Problem;

const MAX_LIMIT: usize = 1_000;
const DEFAULT_LIMIT: usize = 100;

/// The parameters of a query, each of which may occur several times.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// From when until when, as far as a query says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSpan {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl Parameters {
    /// Reads a query; parameters other than the `known` ones are an error, and so is a NUL byte.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default().as_bytes();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query)
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let stranger = pairs.iter().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, _)) = stranger {
            let name: String = name.chars().take(50).collect();
            let detail = if known.is_empty() {
                format!("there is no parameter `{name}`; this call takes none")
            } else {
                format!("there is no parameter `{name}`; there are {}", known.join(", "))
            };
            return Err(Problem::bad_request("invalid_query", detail));
        }
        if let Some((name, _)) = pairs.iter().find(|(_, value)| value.contains('\0')) {
            let detail = format!("`{name}` contains a NUL byte, which no name has: remove it");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter that may occur once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() {
            let detail = format!("`{name}` is there twice; say it once");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        Ok(first)
    }

    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = name.to_owned();
        self.0.iter().filter(move |(it, _)| *it == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false; false if it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    pub(crate) fn optional_flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.one(name)? {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => {
                let detail = format!("`{name}` is true or false");
                Err(Problem::bad_request("invalid_query", detail))
            }
        }
    }

    pub(crate) fn owned(&self, name: &str) -> Result<Option<String>, Problem> {
        Ok(self.one(name)?.map(str::to_owned))
    }

    /// How many entries are wanted.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.one("limit")? else { return Ok(DEFAULT_LIMIT) };
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.ok_or_else(|| {
            let detail = format!("`limit` is a number from 1 to {MAX_LIMIT}");
            Problem::bad_request("invalid_query", detail)
        })
    }

    /// A time, as RFC 3339.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let time = tollgate::rules::parse_time(text);
        time.map(Some).ok_or_else(|| {
            let detail = format!("`{name}` is an RFC 3339 time like 2030-12-01T00:00:00Z");
            Problem::bad_request("invalid_query", detail)
        })
    }

    /// The times `since` and `until`.
    pub(crate) fn span(&self) -> Result<TimeSpan, Problem> {
        let (since, until) = (self.time("since")?, self.time("until")?);
        if since.zip(until).is_some_and(|(since, until)| since > until) {
            let detail = "`since` is after `until`: the earlier time is that of `since`";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        Ok(TimeSpan { since, until })
    }

    /// The filter for entries; a tenant's administrator gets the entries of that tenant only.
    pub(crate) fn filter(&self, own: Option<String>) -> Result<Filter, Problem> {
        Ok(Filter {
            tenant: own.map_or_else(|| self.owned("tenant"), |own| Ok(Some(own)))?,
            rule_id: self.owned("rule_id")?,
            tier: self.owned("tier")?,
            identifier_type: self.owned("identifier_type")?,
            identifier: self.owned("identifier")?,
            enabled: self.optional_flag("enabled")?,
        })
    }
}

/// Adds the link to the next page: the same call, after the last entry of this page.
pub(crate) fn link_next(fields: &mut HeaderMap, uri: &Uri, name: &str, next: Option<&str>) {
    let Some(next) = next else { return };
    let query = uri.query().unwrap_or_default().as_bytes();
    let others = form_urlencoded::parse(query).filter(|(it, _)| it != name);
    let mut serializer = form_urlencoded::Serializer::new(String::new());
    serializer.extend_pairs(others);
    serializer.append_pair(name, next);
    let link = format!("<{}?{}>; rel=\"next\"", uri.path(), serializer.finish());
    // The link is percent-encoded, so it is a valid header value.
    if let Ok(link) = HeaderValue::from_str(&link) {
        fields.insert(header::LINK, link);
    }
}

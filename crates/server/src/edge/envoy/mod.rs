//! Envoy's rate limit service, over gRPC and HTTP: requests, checks, responses.
//!
//! A domain that is in the files of envoyproxy/ratelimit is checked by them ([`files`]), any other by
//! the rules of the policy ([`own`]). Either way all descriptors of a request are charged, or none.

mod file_set;
mod files;
mod overrun;
mod own;
mod quota;
mod reset;
mod response;
pub(crate) mod source;
pub(crate) mod values;

use smallvec::SmallVec;
use tollgate::Promise;
use tollgate_import::envoy::{Descriptor, DescriptorVerdict, Unit};

pub(crate) use reset::reset;
pub(crate) use response::{Answer, BindingRule, Status};
#[cfg(test)]
pub(crate) use response::{CurrentLimit, HeaderField};

use self::file_set::FileSet;
use crate::app::state::{ServerState, SharedStore};
use crate::check::checker::{Naming, Recording};
use crate::edge::http::problem::Problem;
use crate::observe::metrics::EntryPoint;

/// How many descriptors one request may have. Envoy sends a few.
const MAX_DESCRIPTORS: usize = 1_000;

/// The size of the largest message, or `limits.body_bytes` if that is more. Envoy copies header fields
/// of its clients into it, 60 KiB of them by default, as often as it has descriptors for them.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A request to check.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) domain: &'a str,
    pub(crate) descriptors: Vec<AskedDescriptor<'a>>,
}

/// One view of the request.
#[derive(Debug)]
pub(crate) struct AskedDescriptor<'a> {
    pub(crate) entries: SmallVec<[(&'a str, &'a str); 4]>,
    /// A limit that the request carries.
    pub(crate) limit: Option<CarriedLimit>,
    /// Its cost; 0 to peek.
    pub(crate) hits: u64,
}

/// A limit that a request carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedLimit {
    pub(crate) requests_per_unit: u32,
    /// `None` if the unit is unknown.
    pub(crate) unit: Option<Unit>,
}

/// What a descriptor costs: its own hits, or else those of the request, which are at least one.
pub(crate) fn hits(own: Option<u64>, of_request: u32) -> u64 {
    own.unwrap_or_else(|| u64::from(of_request.max(1)))
}

impl Ask<'_> {
    /// How the check is recorded. A request whose descriptors all peek is counted when it is charged.
    fn recording(&self) -> Recording {
        let is_request = self.descriptors.iter().any(|asked| asked.hits > 0);
        let (entry, naming) = (EntryPoint::Envoy, Naming::Kept);
        Recording { entry, is_request, outcome: None, naming, call: None }
    }
}

/// The problem of a check by rule, if the rule is a limit of a file: where that can be checked.
pub(crate) fn or_of_file(app: &ServerState, rule_id: Option<&str>, problem: Problem) -> Problem {
    let set = app.envoy.source.loaded.load();
    let mut limits = set.config.limits().iter();
    match limits.find(|limit| problem.code() == "unknown_rule" && Some(&*limit.id) == rule_id) {
        Some(limit) => {
            let detail = format!(
                "`{}` is a limit of a file of envoyproxy/ratelimit: check it with POST /json, with the domain and descriptors",
                limit.id
            );
            Problem::not_found("unknown_rule", detail)
        }
        None => problem,
    }
}

/// Checks a request.
pub(crate) fn check<'a>(
    app: &'a ServerState,
    ask: &'a Ask<'_>,
) -> Promise<'a, Result<Answer, Problem>, SharedStore> {
    Promise::run(app.limiter.store(), async move {
        validate(ask)?;
        let set = app.envoy.source.loaded.load_full();
        match verdicts(&set, ask) {
            Some(verdicts) => files::check(app, &set, ask, &verdicts).await,
            None => Ok(own::check(app, ask).await),
        }
    })
}

/// The verdicts of files on all descriptors; `None` if the domain is in no file.
fn verdicts(set: &FileSet, ask: &Ask<'_>) -> Option<Vec<DescriptorVerdict>> {
    let descriptors: SmallVec<[Descriptor<'_>; 8]> = ask
        .descriptors
        .iter()
        .map(|asked| Descriptor { entries: &asked.entries, carries_limit: asked.limit.is_some() })
        .collect();
    set.config.judge(ask.domain, &descriptors)
}

/// Validates what Envoy's operator configures. What Envoy's clients choose, the length and the bytes of
/// texts, is never an error: Envoy lets requests pass whose check failed.
fn validate(ask: &Ask<'_>) -> Result<(), Problem> {
    let refuse = |detail: String| Err(Problem::bad_request("invalid_descriptors", detail));
    if ask.domain.is_empty() {
        return refuse("domain: it is empty; name the domain of the limits".to_owned());
    }
    if ask.descriptors.is_empty() {
        return refuse("descriptors: there is none; send at least one".to_owned());
    }
    if ask.descriptors.len() > MAX_DESCRIPTORS {
        return refuse(format!(
            "descriptors: at most {MAX_DESCRIPTORS} are allowed, these are {}",
            ask.descriptors.len()
        ));
    }
    for (place, descriptor) in ask.descriptors.iter().enumerate() {
        if descriptor.limit.is_some_and(|limit| limit.unit.is_none()) {
            return refuse(format!(
                "descriptors[{place}].limit.unit: write SECOND, MINUTE, HOUR, DAY, MONTH or YEAR"
            ));
        }
    }
    Ok(())
}

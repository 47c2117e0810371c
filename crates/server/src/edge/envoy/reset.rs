//! Resets the counters that a request of Envoy would charge, by the limits of files.

use std::collections::HashSet;

use tollgate::{CheckTarget, ExplicitCharge};
use tollgate_catalog::Author;
use tollgate_import::envoy::DescriptorVerdict;

use super::files::{carried_keys, carried_limits};
use super::own::DescriptorRequest;
use super::source::CARRIED;
use super::{Ask, validate, verdicts};
use crate::app::state::ServerState;
use crate::check::refund::{is_maybe_done, store_away};
use crate::edge::http::handlers::refund::used_counters;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::decode::shorten;
use crate::observe::audit_log::resets::{CounterChange, note, records_of};

/// Resets the counters of all descriptors; returns how many there were.
pub(crate) async fn reset(
    app: &ServerState,
    author: &Author,
    ask: &Ask<'_>,
) -> Result<usize, Problem> {
    validate(ask)?;
    let set = app.envoy.source.loaded.load_full();
    let verdicts = verdicts(&set, ask).ok_or_else(|| unknown_domain(ask.domain))?;
    let carried = carried_limits(ask)?;
    let carried_keys = carried_keys(&verdicts, &carried);
    let (mut known, mut counters) = (HashSet::new(), 0);
    for (place, (verdict, asked)) in verdicts.iter().zip(&ask.descriptors).enumerate() {
        let (file_limit, counter) = match verdict {
            DescriptorVerdict::Limit { limit, key } => (Some(*limit), key.as_str()),
            DescriptorVerdict::Carried { .. } => (None, carried_keys[place].as_str()),
            DescriptorVerdict::Unmatched
            | DescriptorVerdict::Unlimited
            | DescriptorVerdict::Replaced => continue,
        };
        let rule_id = set.limit(file_limit).map_or(CARRIED, |limit| &*limit.id);
        if !known.insert((rule_id, counter)) {
            continue;
        }
        let limit = carried[place].as_ref().map(|(_, limit)| limit);
        let charge = [ExplicitCharge { rule_id, limit, counter, cost: 0 }];
        let limiter = &app.envoy.limiter;
        // One by one, so that the log names the descriptor of each counter.
        let peek = || limiter.check_unrecorded(CheckTarget::Charges(&charge));
        let before = peek().await;
        let reset = limiter.reset(CheckTarget::Charges(&charge)).await;
        if is_maybe_done(&reset) {
            let after = peek().await;
            let request = DescriptorRequest { domain: ask.domain, asked };
            let records = records_of(author, &request.context(), None, &before, &after);
            note(app, CounterChange::Reset, records);
        }
        reset.map_err(store_away)?;
        counters += used_counters(&before);
    }
    Ok(counters)
}

fn unknown_domain(domain: &str) -> Problem {
    let detail = format!(
        "no file of envoyproxy/ratelimit has the domain `{}`; reset rules by identifiers and attributes",
        shorten(domain.to_owned())
    );
    Problem::not_found("unknown_domain", detail)
}

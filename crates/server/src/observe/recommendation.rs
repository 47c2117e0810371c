//! Limits that the recent requests of this node propose.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use tollgate::{Attribute, Attributes as _};
use tollgate_api::RecommendedRule;
use tollgate_catalog::rule_prefix;
use tollgate_simulate::ReplayOptions;
use tollgate_simulate::recommend::{RecommendError, RecommendOptions, Recommendation, recommend};
use tollgate_simulate::traffic::{Loader, Options, Traffic, TrafficRequest};

use crate::app::state::Shared;
use crate::edge::http::problem::Problem;
use crate::observe::preview::no_traffic;
use crate::observe::recent_traffic::TrafficView;
use crate::observe::recent_traffic::replayed::ReplayedRequest;
use crate::observe::replay_budget::{CancelOnDrop, ReplayBudget};

/// About how many requests are looked at, at most: the last ones. They are replayed up to a hundred times.
const MAX_REQUESTS: u64 = 200_000;
/// How long it takes at most.
const MAX_DURATION: Duration = Duration::from_secs(20);
/// The most memory that the requests take.
const MAX_TRAFFIC_BYTES: usize = 256 << 20;
/// How much memory counters take.
const STORE_BYTES: usize = 64 << 20;
/// What the requests are called.
const SOURCE: &str = "recent requests";

/// Limits, and what they were made from.
#[derive(Clone, Debug)]
pub(crate) struct LiveRecommendation {
    pub(crate) recommendation: Recommendation,
    /// One in so many clients was kept.
    pub(crate) one_in: u64,
    /// Whether requests were left out, because there were too many.
    pub(crate) is_cut: bool,
    /// Rules in force that are not among the proposed ones; of one tenant, those of that tenant.
    pub(crate) other_rules: u64,
}

impl Shared {
    /// Proposes limits by the recent requests of this node; of one tenant, if the options name it. `caller` is the name
    /// whose share of the queue it takes. Ends early if the caller stops waiting.
    ///
    /// # Errors
    /// No requests are kept, or none can be counted by; too many replays run; or it took too long.
    pub(crate) async fn recommend(
        &self,
        caller: &str,
        options: RecommendOptions,
    ) -> Result<LiveRecommendation, Problem> {
        let ticket = self.queues.previews.enter(caller)?;
        let traffic = Arc::clone(&self.recent_traffic);
        let path_case = self.check_options.path_case;
        let policy = self.limiter.policy();
        let canceller = CancelOnDrop::default();
        let is_cancelled = canceller.flag();
        let computing = async move {
            let budget = ReplayBudget::new(is_cancelled, MAX_DURATION);
            let view = traffic.view().ok_or_else(no_traffic)?;
            let (traffic, one_in, is_cut) = collected(&view, options.tenant.as_deref(), &budget)?;
            if traffic.is_empty() {
                let detail = "no request has been checked on this node yet; send some, or give a log to \
                              `tollgate recommend`";
                return Err(Problem::not_found("no_recent_traffic", detail));
            }
            let replaying =
                ReplayOptions { store_bytes: STORE_BYTES, path_case, ..ReplayOptions::default() };
            let mut watch = |replayed: usize| budget.check(replayed);
            let recommended = recommend(&traffic, &options, &replaying, &mut watch);
            let mut recommendation = recommended.map_err(|error| problem(&error))?;
            if let Some(tenant) = options.tenant.as_deref() {
                name_as_own(&mut recommendation.rules, tenant);
            }
            let is_other = |id: &str| !recommendation.rules.iter().any(|rule| rule.rule_id == id);
            let tenant = options.tenant.as_deref();
            let visible = policy
                .rules()
                .iter()
                .filter(|rule| tenant.is_none() || rule.tenant.as_deref() == tenant);
            let other_rules = visible.filter(|rule| is_other(&rule.id)).count() as u64;
            Ok(LiveRecommendation { recommendation, one_in, is_cut, other_rules })
        };
        let recommended = ticket.run(computing).await?;
        drop(canceller);
        recommended
    }
}

/// Gives rules ids that administrators of a tenant may use.
fn name_as_own(rules: &mut [RecommendedRule], tenant: &str) {
    let prefix = rule_prefix(tenant);
    let own = |id: &str| format!("{prefix}{id}");
    for rule in rules {
        rule.rule_id = own(&rule.rule_id);
        for replaced in &mut rule.replaces {
            *replaced = own(replaced);
        }
    }
}

/// The kept requests as traffic. Checks of one rule by its id are left out: no other rule applies to them.
fn collected(
    view: &TrafficView,
    tenant: Option<&str>,
    budget: &ReplayBudget,
) -> Result<(Traffic, u64, bool), Problem> {
    // In the order in which a preview replays them, so that it shows the same.
    let options = Options { max_bytes: MAX_TRAFFIC_BYTES, sort: false, ..Options::default() };
    let (mut loader, mut seen) = (Loader::new(options), 0);
    let replayed = view.replay(MAX_REQUESTS, tenant, |request| {
        seen += 1;
        let is_full =
            request.asked_rule().is_none() && loader.push(SOURCE, &recorded(request)).is_err();
        if is_full || budget.check(seen).is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if budget.is_spent() {
        return Err(took_too_long());
    }
    Ok((loader.finish(), replayed.one_in, replayed.is_cut))
}

fn recorded<'a>(request: &'a ReplayedRequest<'_>) -> TrafficRequest<'a> {
    TrafficRequest {
        time: request.at,
        cost: request.cost(),
        user: request.get(Attribute::UserId),
        api_key: request.get(Attribute::ApiKey),
        ip: request.get(Attribute::Ip),
        tenant: request.get(Attribute::Tenant),
        tier: request.get(Attribute::Tier),
        host: request.get(Attribute::Host),
        method: request.get(Attribute::Method),
        path: request.get(Attribute::Path),
    }
}

fn problem(error: &RecommendError) -> Problem {
    match error {
        RecommendError::NoClients => Problem::not_found("no_recent_traffic", error.to_string()),
        RecommendError::Invalid(problem) => Problem::unprocessable("invalid_document", problem),
        RecommendError::Stopped => took_too_long(),
    }
}

fn took_too_long() -> Problem {
    let seconds = MAX_DURATION.as_secs();
    let detail = format!(
        "the recent requests could not be replayed within {seconds} s; try again when the server is less busy, or give a \
         log to `tollgate recommend`"
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "replay_too_long", detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("60"))
}

//! `--live`: limits that a server proposes by its recent requests.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate::Timestamp;
use tollgate::rules::parse_time;
use tollgate_api::RecommendationResponse;
use tollgate_simulate::recommend::Recommendation;

use super::arguments::RecommendArguments;
use super::output::ProposalSource;
use crate::failure::Failure;
use crate::remote::client::Remote;
use crate::terminal::count;

/// Asks the server.
pub(super) fn recommend(
    arguments: &RecommendArguments,
) -> Result<(Recommendation, ProposalSource), Failure> {
    let server = arguments.live.to_server();
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let path = format!(
        "/api/v1/recommendation?headroom={}&refuse_at_most={}&window={}&endpoints={}",
        encoded(&arguments.headroom.to_string()),
        encoded(&arguments.refuse_at_most.to_string()),
        encoded(&arguments.window),
        arguments.endpoints,
    );
    let response = Remote::new(&server)?.get::<RecommendationResponse>(&path)?.value;
    let time = |text: &str| -> Result<Timestamp, Failure> {
        let wrong = || Failure::usage(format!("the server sent a time that is none: {text:?}"));
        parse_time(text).ok_or_else(wrong)
    };
    if response.other_rules > 0 {
        let others = count(response.other_rules, "rule");
        eprintln!(
            "tollgate: {others} in force on this server would stay beside the proposed ones, and refuse more than is \
             shown here; `tollgate rules apply --prune` removes what is not in the file"
        );
    }
    let source = ProposalSource {
        name: server.server,
        requests: response.requests,
        about: about(&response),
    };
    let recommendation = Recommendation {
        first: time(&response.from)?,
        last: time(&response.until)?,
        rules: response.rules,
        requests: response.requests,
        refused: response.refused,
        clients: response.clients,
        clients_refused: response.clients_refused,
    };
    Ok((recommendation, source))
}

/// What the requests are, and which are missing.
fn about(response: &RecommendationResponse) -> String {
    let mut about = "recent ones of one node".to_owned();
    if response.one_in > 1 {
        about += &format!(", of one in {} clients", response.one_in);
    }
    if response.cut {
        about += ", older ones left out";
    }
    about
}

//! The cost of an HTTP call without the check: an axum handler that reads the same request and returns a constant
//! response.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::SocketAddr;

use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::CHECK_PATH;
use crate::Fallible;
use crate::peers::LIMIT;
use crate::rows::server::RULE;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the question is read, but nothing depends on it")]
struct BareRequest {
    rule_id: Option<String>,
    key_type: Option<String>,
    key_value: Option<String>,
    request_count: Option<u64>,
    identifiers: Option<Identifiers>,
    endpoint: Option<String>,
    method: Option<String>,
    host: Option<String>,
    tier: Option<String>,
    attributes: Option<BTreeMap<String, String>>,
    cost: Option<u64>,
    detail: Option<bool>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "as above")]
struct Identifiers {
    user_id: Option<String>,
    api_key: Option<String>,
    ip: Option<String>,
    tenant: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    allowed: bool,
    limit: u32,
    remaining: u32,
    reset_at: u64,
    rule_id: &'static str,
    state: &'static str,
    decision_id: &'static str,
}

/// Serves until the process is ended, and says where.
pub(crate) fn serve(address: SocketAddr) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        writeln!(io::stdout(), "http http://{}", listener.local_addr()?)?;
        axum::serve(listener, Router::new().route(CHECK_PATH, post(answer))).await?;
        Ok(())
    })
}

async fn answer(Json(_): Json<BareRequest>) -> Json<Answer> {
    Json(Answer {
        allowed: true,
        limit: LIMIT,
        remaining: LIMIT - 1,
        reset_at: 1_800_000_000,
        rule_id: RULE,
        state: "normal",
        decision_id: "d1f00dbee-a2a2a2",
    })
}

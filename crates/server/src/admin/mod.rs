//! The admin API: entities are rows of one table with generic handlers; calls that only one of them has are in separate
//! files.

mod api_keys;
pub(crate) mod auth;
mod bans;
mod call;
mod describe;
mod foreign_rules;
mod history;
mod policy;
mod read;
mod resources;
mod response;
mod secrets;
mod tiers;
mod tokens;
mod users;
mod write;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::state::ServerState;
use describe::in_both_families;
use resources::RESOURCES;
pub(crate) use response::{ChangeAnswer, action, invalid, refusal};

/// All calls that read and write entries.
pub(crate) fn routes() -> OpenApiRouter<ServerState> {
    let entities = RESOURCES.iter().flat_map(|entity| entity.routes());
    entities
        .fold(OpenApiRouter::new(), OpenApiRouter::routes)
        .routes(in_both_families(routes!(bans::delete)))
        .routes(routes!(policy::get, policy::put))
        .routes(routes!(history::list))
        .routes(routes!(history::show))
        .routes(routes!(history::diff))
        .routes(routes!(history::rollback))
        .routes(routes!(tiers::get, tiers::put))
        .routes(routes!(users::limits))
        .routes(routes!(users::put_tier, users::delete_tier))
        .routes(routes!(users::post_override, users::delete_override))
        .routes(routes!(api_keys::get, api_keys::post))
        .routes(routes!(tokens::get, tokens::post))
}

//! The admin API from the command line, beside rules and tokens: API keys, bans, lists, tiers, clients, exceptions, users,
//! the audit log, figures, nodes and decisions.

mod bans;
mod client_name;
mod clients;
mod entries;
mod exception;
mod history;
mod keys;
mod lists;
mod logs;
mod nodes;
mod overrides;
mod reached;
mod resource;
mod stats;
mod tiers;
mod times;
mod users;

pub(crate) use bans::{BansCommand, run as bans};
pub(crate) use clients::{ClientsCommand, run as clients};
pub(crate) use keys::{KeysCommand, run as keys};
pub(crate) use lists::{ListsCommand, run as lists};
pub(crate) use logs::{AuditArguments, DecisionsCommand, audit, decisions};
pub(crate) use nodes::{NodesArguments, nodes};
pub(crate) use overrides::{OverridesCommand, run as overrides};
pub(crate) use stats::{RankedBy, StatsArguments, stats};
pub(crate) use tiers::{TiersCommand, run as tiers};
pub(crate) use times::parse_end;
pub(crate) use users::{UsersCommand, run as users};

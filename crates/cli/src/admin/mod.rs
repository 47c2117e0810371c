//! The admin API from the command line, beside rules and tokens: bans, lists, clients, users, the audit log, figures and
//! decisions.

mod bans;
mod client_name;
mod clients;
mod entries;
mod lists;
mod logs;
mod resource;
mod stats;
mod times;
mod users;

pub(crate) use bans::{BansCommand, run as bans};
pub(crate) use clients::{ClientsCommand, run as clients};
pub(crate) use lists::{ListsCommand, run as lists};
pub(crate) use logs::{AuditArguments, DecisionsCommand, audit, decisions};
pub(crate) use stats::{RankedBy, StatsArguments, stats};
pub(crate) use users::{UsersCommand, run as users};

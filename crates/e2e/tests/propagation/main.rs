//! Rules that change under traffic: how soon each node has them in force, and how requests and writes
//! fare while the catalog is killed, restored from a backup, full, slow or unavailable.

mod faults;
mod fleet;
mod in_force;
mod other_store;
mod policy_copy;
mod readiness;
mod reads;
mod secret;
mod sqlite;
mod start;

//! Rules that change while traffic flows: how soon each node has them in force, and what becomes of
//! requests and writes while the catalog is killed, restored from a backup, full, slow or away.

mod faults;
mod fleet;
mod in_force;
mod sqlite;
mod start;

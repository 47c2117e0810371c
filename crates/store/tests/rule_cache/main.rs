//! The rule cache in Redis, against real servers: published rules arrive whole, older rules never
//! replace newer ones, and whatever happens to servers and networks, every node notices a change.

mod garbage;
mod leaks;
mod listening;
mod order;
mod policy_copy;
mod rights;
mod round_trip;
mod stand;
mod topology;

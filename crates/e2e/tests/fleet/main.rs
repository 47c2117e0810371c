//! Several nodes that count together, from outside: the real binary, real stores, and what happens to
//! clients when a store is killed, stopped, emptied, filled, moved or cut off.

mod changes;
mod degraded;
mod exactness;
mod explained;
mod faults;
mod figures;
mod freshness;
mod load;
mod nodes;
mod other_store;
mod refunds;
mod released_keys;
mod rotation;
mod secret;
mod shown;
mod unreachable;
mod vectors;

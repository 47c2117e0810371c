//! What nodes tell each other through Redis, against real servers: that all of it arrives, that nothing
//! old replaces anything new, and that whatever happens to servers and networks, everybody hears of a
//! change.

#[path = "support/eventually.rs"]
mod eventually;

#[path = "board/garbage.rs"]
mod garbage;
#[path = "board/leaks.rs"]
mod leaks;
#[path = "board/listening.rs"]
mod listening;
#[path = "board/order.rs"]
mod order;
#[path = "board/rights.rs"]
mod rights;
#[path = "board/round_trip.rs"]
mod round_trip;
#[path = "board/stand.rs"]
mod stand;
#[path = "board/topology.rs"]
mod topology;

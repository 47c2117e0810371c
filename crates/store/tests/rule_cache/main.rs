//! What nodes tell each other through Redis, against real servers: that all of it arrives, that nothing
//! old replaces anything new, and that whatever happens to servers and networks, everybody hears of a
//! change.

mod garbage;
mod leaks;
mod listening;
mod order;
mod rights;
mod round_trip;
mod stand;
mod topology;

//! Files of other rate limiters, valid and hostile ones: how they are read, matched and made into a policy.

mod envoy;
mod nginx;

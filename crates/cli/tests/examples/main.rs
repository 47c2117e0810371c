//! Every file of `examples` is run by a test, or says that it is not.

mod files;
mod fleet;

#[expect(dead_code, reason = "the tests of the service use all of it")]
#[path = "../service/support/mod.rs"]
mod support;

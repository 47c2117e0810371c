//! Every file of `examples` is run by a test, or says that it is not.

mod files;
mod fleet;

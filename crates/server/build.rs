//! Turns the definitions in `proto` into Rust, without a compiler of the system.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let services = ["tollgate/v1/rate_limiter.proto", "envoy/service/ratelimit/v3/rls.proto"];
    let definitions = protox::compile(services, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // For clients that ask the server what it can do.
    fs::write(out.join("definitions.bin"), definitions.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("definitions.rs")
        .compile_fds(definitions)?;
    Ok(())
}

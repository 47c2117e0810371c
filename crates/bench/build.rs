//! Notes the compiler, because figures mean little without it, and turns the server's definitions of
//! gRPC into Rust for the clients and handlers that it is measured with.

use std::env;
use std::error::Error;
use std::process::Command;

const DEFINITIONS: &str = "../server/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=TOLLGATE_BENCH_RUSTC={}", version.unwrap_or_default());

    println!("cargo::rerun-if-changed={DEFINITIONS}");
    let services = ["tollgate/v1/rate_limiter.proto", "envoy/service/ratelimit/v3/rls.proto"];
    let definitions = protox::compile(services, [DEFINITIONS])?;
    tonic_prost_build::configure().include_file("definitions.rs").compile_fds(definitions)?;
    Ok(())
}

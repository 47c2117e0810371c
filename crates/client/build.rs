//! Turns the server's definition of its gRPC calls into Rust, so that there is one definition only.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "grpc")]
    {
        let folder = "../server/proto";
        println!("cargo::rerun-if-changed={folder}/tollgate");
        let definitions = protox::compile(["tollgate/v1/rate_limiter.proto"], [folder])?;
        tonic_prost_build::configure()
            .build_server(false)
            .build_transport(false)
            .include_file("definitions.rs")
            .compile_fds(definitions)?;
    }
    Ok(())
}

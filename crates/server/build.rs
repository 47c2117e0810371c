//! Compiles the definitions in `proto` to Rust, without an installed `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Text that Envoy copies from requests of its clients. Header values may hold any byte, and a `string`
/// field that is not UTF-8 fails the whole call before any handler sees it. As `bytes` the wire format
/// is the same.
const CLIENT_TEXT: [(&str, &str); 6] = [
    ("RateLimitRequest", "domain"),
    ("Entry", "key"),
    ("Entry", "value"),
    ("HttpRequest", "path"),
    ("HttpRequest", "host"),
    ("HeadersEntry", "value"),
];
const ENVOY_PACKAGES: &str = "envoy.";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let services = [
        "tollgate/v1/rate_limiter.proto",
        "envoy/service/ratelimit/v3/rls.proto",
        "envoy/service/auth/v3/external_auth.proto",
    ];
    let mut definitions = protox::compile(services, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // For reflection.
    fs::write(out.join("definitions.bin"), definitions.encode_to_vec())?;
    read_client_text_as_bytes(&mut definitions)?;
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("definitions.rs")
        .compile_fds(definitions)?;
    Ok(())
}

/// Changes the generated code only: clients that use reflection still see `string`.
fn read_client_text_as_bytes(definitions: &mut FileDescriptorSet) -> Result<(), String> {
    fn visit(message: &mut DescriptorProto, changed: &mut usize) {
        let name = message.name().to_owned();
        for field in &mut message.field {
            if CLIENT_TEXT.contains(&(&name, field.name())) {
                field.set_type(Type::Bytes);
                *changed += 1;
            }
        }
        message.nested_type.iter_mut().for_each(|nested| visit(nested, changed));
    }
    let mut changed = 0;
    let files = definitions.file.iter_mut();
    for file in files.filter(|file| file.package().starts_with(ENVOY_PACKAGES)) {
        file.message_type.iter_mut().for_each(|message| visit(message, &mut changed));
    }
    if changed == CLIENT_TEXT.len() {
        Ok(())
    } else {
        Err(format!("{changed} of {} text fields of Envoy were found", CLIENT_TEXT.len()))
    }
}

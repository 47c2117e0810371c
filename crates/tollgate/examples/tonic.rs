//! A gRPC service of tonic that admits three calls of each address in ten seconds.
//!
//! `cargo run -p tollgate --features tower --example tonic`, and with `-- --once` it calls itself and ends.

use tollgate::{Limiter, tower::RateLimitLayer};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const POLICY: &str = "
rules: [{rule_id: per_address, limit: 3, window: 10s, identifier_type: ip, algorithm: gcra}]
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = RateLimitLayer::new(Limiter::from_text(POLICY)?)
        .client_address(|parts| Some(parts.extensions.get::<TcpConnectInfo>()?.remote_addr?.ip()));
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let address = format!("http://{}", incoming.local_addr()?);
    println!("grpc.health.v1.Health at {address}");
    let is_once = std::env::args().any(|argument| argument == "--once");
    tokio::select! {
        served = Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming) => served?,
        answer = call(address), if is_once => println!("{:?}", answer?.metadata()),
    }
    Ok(())
}

async fn call(address: String) -> Result<tonic::Response<impl Sized>, Box<dyn std::error::Error>> {
    let channel = Channel::from_shared(address)?.connect().await?;
    Ok(HealthClient::new(channel).check(HealthCheckRequest::default()).await?)
}

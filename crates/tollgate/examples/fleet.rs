//! An axum service behind a load balancer. All its instances share counters in Redis.
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p tollgate --features redis,tower --example fleet --
//! examples/fleet/policy.yaml 127.0.0.1:3001`, and again with other ports.

use std::{env, fs, net::SocketAddr};

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::identity::{Extractor, IdentityConfig};
use tollgate::store::{DenyCache, RemoteSettings, redis::RedisStore};
use tollgate::{InvalidPolicy, Limiter, Policy, tower::RateLimitLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, policy, address] = &*arguments else {
        return Err("write: fleet POLICY_FILE ADDRESS".into());
    };
    let policy = Policy::from_text(&fs::read_to_string(policy)?).map_err(InvalidPolicy)?;
    let url = env::var("REDIS_URL").map_err(|_| "REDIS_URL must say where to count")?;
    let store = DenyCache::new(RedisStore::connect(&url, RemoteSettings::default())?);
    // The address of the load balancer: its forwarding headers are trusted.
    let mut identity = IdentityConfig::default();
    identity.client_ip.trusted_proxies.push("127.0.0.1/32".parse()?);
    let layer = RateLimitLayer::new(Limiter::builder().policy(policy).store(store).build())
        .client_address(|parts| Some(parts.extensions.get::<ConnectInfo<SocketAddr>>()?.ip()))
        .identify(Extractor::new(identity)?);
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("curl -i http://{}/", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

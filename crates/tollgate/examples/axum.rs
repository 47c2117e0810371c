//! An axum service that admits three requests of each address in ten seconds.
//!
//! `cargo run -p tollgate --features tower --example axum`, and with `-- --once` it calls itself and ends.

use std::net::SocketAddr;

use axum::{Router, extract::ConnectInfo, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Limiter, tower::RateLimitLayer};

const POLICY: &str = "
rules: [{rule_id: per_address, limit: 3, window: 10s, identifier_type: ip, algorithm: gcra}]
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = RateLimitLayer::new(Limiter::from_text(POLICY)?)
        .client_address(|parts| Some(parts.extensions.get::<ConnectInfo<SocketAddr>>()?.ip()));
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("curl -i http://{address}/");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let is_once = std::env::args().any(|argument| argument == "--once");
    tokio::select! {
        served = axum::serve(listener, service).into_future() => served?,
        answer = ask(address), if is_once => println!("{}", answer?),
    }
    Ok(())
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let (mut stream, mut answer) = (TcpStream::connect(address).await?, String::new());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

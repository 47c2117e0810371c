//! Checks whether a few requests of one user may pass.
//!
//! `TOLLGATE_SERVER=http://127.0.0.1:8080 cargo run -p tollgate-client --example check`

use std::time::Duration;

use tollgate_client::{Check, Client, OnFailure, Source};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::var("TOLLGATE_SERVER")
        .map_err(|_| "set TOLLGATE_SERVER to the address of a server")?;
    let client = Client::builder(server)
        .timeout(Duration::from_millis(250))
        .on_failure(OnFailure::Open)
        .build()?;
    let check = Check::new().user_id("alice").endpoint("/orders").method("GET");
    for _ in 0..3 {
        let decision = client.check(&check).await;
        let rule = decision.rule_id.as_deref().unwrap_or("no rule");
        let left =
            decision.remaining.map_or_else(|| "any number".to_owned(), |left| left.to_string());
        match decision.source {
            Source::Server if decision.allowed => println!("passes by {rule}, {left} left"),
            Source::Server => println!("refused by {rule} for {:?}", decision.retry_after),
            Source::FailedOpen(error) => println!("passes unchecked: {error}"),
            Source::FailedClosed(error) => println!("refused unchecked: {error}"),
        }
    }
    Ok(())
}

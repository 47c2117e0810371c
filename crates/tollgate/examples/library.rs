//! A limiter in process: no server, no store, no async.
//!
//! `cargo run --example library`

use tollgate::{Limiter, Request};

const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 3, window: 10s, identifier_type: user_id, algorithm: gcra}
  - {rule_id: exports, limit: 1, window: 1m, identifier_type: tenant, applies_to: {endpoints: [/export/*]}}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::from_text(POLICY)?;
    for path in ["/orders", "/export/csv", "/export/csv", "/orders", "/orders"] {
        let request = Request::new().user_id("alice").tenant("acme").path(path);
        let decision = limiter.check(&request).now();
        let binding = decision.binding().map_or("no rule", |binding| &*binding.rule.id);
        let verdict = if decision.is_allowed() { "passes " } else { "refused" };
        let left = decision.remaining().unwrap_or_default();
        println!("{path:12} {verdict} by {binding}, {left} left");
    }
    for (rule, counts) in limiter.stats() {
        println!("{rule}: {} admitted, {} refused", counts.admitted, counts.refused);
    }
    Ok(())
}

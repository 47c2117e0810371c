//! Databases that die, stand still, or have no room left: calls fail in time with an error that
//! says so, acknowledged writes stay, and no write is made in part.

mod full_disk;
mod killed;
mod listening;
mod stopped;
mod writer;

use serde_json::json;
use tollgate_catalog::{Author, Catalog, Edit, Entry, Expect, Kind, PolicyBounds, Seed};
use tollgate_core::Timestamp;
use tollgate_testbed::Postgres;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const PASSWORD: &str = "hunter2";

/// A catalog in a server, as a node has it that was given a password.
fn node(server: &Postgres) -> Catalog {
    let url = server.url().replace("postgres@", &format!("postgres:{PASSWORD}@"));
    Catalog::new(url.parse().expect("a valid URL"), PolicyBounds::default())
}

async fn opened(server: &Postgres) -> Catalog {
    let catalog = node(server);
    catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
    catalog
}

fn author() -> Author {
    Author::program("test")
}

fn rule(rule_id: &str) -> Edit {
    let body = json!({
        "rule_id": rule_id, "limit": 1, "window_seconds": 1, "identifier_type": "user_id",
    });
    let entry = Entry::parse(Kind::Rule, &body.to_string()).expect("a rule");
    Edit::Put { entry, expect: Expect::Absent }
}

//! The pictures of the documents. They are taken in every run, from some seconds of traffic; `UPDATE_SCREENSHOTS=1` takes
//! those that documents show, from some minutes.

use std::collections::BTreeSet;
use std::env;
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Stopwatch;
use tollgate_e2e::program::root;
use tollgate_e2e::server::Server;

use crate::script::run;
use crate::shop::{self, check, check_all, write};

/// The largest picture in bytes.
const MAX_BYTES: usize = 200_000;
/// How many batches of requests are sent before the pictures are taken.
const BATCHES: usize = 960;
/// How far apart they are for the documents, and in other runs.
const BATCH_INTERVAL: Duration = Duration::from_millis(250);
const SHORT_INTERVAL: Duration = Duration::from_millis(5);

/// The pictures that README and documents show are there, small, and no others are.
#[test]
fn screenshots_of_the_documents_are_there_and_small() {
    let folder = tempfile::tempdir().expect("a folder");
    if env::var_os("UPDATE_SCREENSHOTS").is_some() {
        take(&root().join("docs/images"), BATCH_INTERVAL);
    } else {
        take(folder.path(), SHORT_INTERVAL);
        assert_eq!(pictures_in(folder.path()), pictures_in(&root().join("docs/images")));
    }
    let mut shown = BTreeSet::new();
    for (document, before) in [("README.md", "docs/images/"), ("docs/dashboard.md", "images/")] {
        let text = fs::read_to_string(root().join(document)).expect("a document");
        let address = format!("]({before}");
        let pictures = text.split(&address).skip(1);
        let names = pictures.filter_map(|rest| rest.split(')').next()).map(str::to_owned);
        let names: BTreeSet<String> = names.collect();
        assert!(!names.is_empty(), "{document} shows no picture");
        shown.extend(names);
    }
    let files = pictures_in(&root().join("docs/images"));
    assert_eq!(files, shown, "pictures that are there, and those that documents show");
    for name in files {
        let picture = fs::read(root().join("docs/images").join(&name)).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG"), "{name} is a PNG file");
        assert!(picture.len() < MAX_BYTES, "{name} has {} bytes", picture.len());
    }
}

fn pictures_in(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).expect("the pictures").flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

/// Sends requests to a shop, and takes the pictures while they go on.
fn take(folder: &Path, interval: Duration) {
    let server = shop::open();
    let watch = Stopwatch::start();
    for batch in 0..BATCHES {
        send(&server, batch, interval * u32::try_from(batch).expect("few"), &watch);
    }
    let begun = watch.elapsed();
    let last = |is_over: &AtomicBool| {
        let mut batch = BATCHES;
        while !is_over.load(Ordering::Relaxed) {
            let due = begun + BATCH_INTERVAL * u32::try_from(batch - BATCHES).expect("few");
            send(&server, batch, due, &watch);
            batch += 1;
        }
    };
    let seconds = begun.as_secs().max(10);
    let log = root().join("examples/access.log");
    let facts = json!({"folder": folder, "seconds": seconds, "log": log});
    tollgate_e2e::beside(1, last, || run("screenshots.py", &server, &facts));
}

/// Sends the requests of a batch when it is due.
fn send(server: &Server, batch: usize, due: Duration, watch: &Stopwatch) {
    thread::sleep(due.saturating_sub(watch.elapsed()));
    if batch == BATCHES / 2 {
        let mut rule = server.get_as_admin("/api/v1/rules/login").json();
        rule["limit"] = json!(8);
        write(server, "PUT", "/api/v1/rules/login", &rule);
    }
    check_all(server, &requests(batch));
}

/// The requests of a quarter of a second: a calm course, with an attempt to guess passwords in it.
fn requests(batch: usize) -> Vec<Value> {
    let wave = (batch as f64 / 420.0 * TAU).sin() + 0.4 * (batch as f64 / 90.0 * TAU).sin();
    let customers = (10.0 + 4.0 * wave) as usize + batch * 7_919 % 4;
    let mut checks: Vec<Value> = (0..customers)
        .map(|customer| {
            let who = (batch * 31 + customer * 17) % 60;
            let tenant = if who.is_multiple_of(3) { "globex" } else { "acme" };
            let endpoint = ["/orders", "/orders/4711", "/cart", "/search"][(batch + customer) % 4];
            check(
                &format!("192.0.2.{}", 10 + who),
                &format!("u_{}", 8_100 + who),
                tenant,
                "GET",
                endpoint,
            )
        })
        .collect();
    let is_attacked = (BATCHES * 6 / 10..BATCHES * 8 / 10).contains(&batch);
    for _ in 0..if is_attacked { 6 } else { usize::from(batch.is_multiple_of(9)) } {
        checks.push(check("203.0.113.66", "", "acme", "POST", "/login"));
    }
    if batch % 5 < 2 {
        // Neither of them uses up its limit of an hour.
        let user = if batch < BATCHES / 2 { "u_33" } else { "u_35" };
        checks.extend(vec![check("198.51.100.23", user, "globex", "PUT", "/uploads"); 3]);
    }
    if batch.is_multiple_of(4) {
        checks.push(check("198.51.100.99", "scraper", "globex", "GET", "/orders"));
        checks.push(check("192.0.2.81", "ann", "acme", "GET", "/search"));
    }
    if batch.is_multiple_of(40) {
        checks.push(check("192.0.2.81", "ann", "acme", "POST", "/exports"));
    }
    checks
}

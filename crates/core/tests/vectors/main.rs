//! Replays the golden traces in `vectors/`: what each algorithm answers, to the millisecond. They
//! were made by an independent reference in exact rational numbers.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use tollgate_core::{Algorithm, Micros, Quota, Timestamp};

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    algorithm: String,
    mode: Option<String>,
    limit: u64,
    window_ms: u64,
    burst: Option<u64>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    t_ms: u64,
    cost: u64,
    expect: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    info: serde_json::Map<String, serde_json::Value>,
}

fn replay(vector: &Vector) {
    let algorithm = match vector.mode.as_deref() {
        Some("meter") => Algorithm::TokenBucket,
        _ => Algorithm::from_name(&vector.algorithm).expect("a known algorithm"),
    };
    let mut quota = Quota::new(algorithm, vector.limit, Micros::from_millis(vector.window_ms));
    quota.burst = vector.burst;
    let limit = quota.compile().expect("a quota within bounds");
    let mut state = None;
    for (number, step) in vector.steps.iter().enumerate() {
        let now = Timestamp::from_millis(step.t_ms);
        let admitted = limit.fits(state.as_ref(), now, step.cost);
        if admitted {
            limit.charge(&mut state, now, step.cost);
        }
        let report = limit.report(state.as_ref(), now, step.cost, admitted);
        let millis = |span: Option<Micros>| span.map(Micros::as_millis_ceil);
        let answer = serde_json::json!({
            "allowed": admitted,
            "remaining": report.remaining,
            "retry_after_ms": millis(report.retry_after),
            "reset_ms": report.reset_after.as_millis_ceil(),
            "delay_ms": millis(report.delay),
            "next_ms": millis(report.next_after),
        });
        let backwards = !step.expect.contains_key("reset_ms");
        let advisory = if backwards { None } else { Some(&step.info) };
        for (field, expected) in step.expect.iter().chain(advisory.into_iter().flatten()) {
            assert_eq!(
                &answer[field], expected,
                "{} step {number} at {} ms, cost {}: {field}",
                vector.name, step.t_ms, step.cost
            );
        }
    }
}

#[test]
fn every_vector_is_decided_exactly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut replayed = 0;
    for entry in fs::read_dir(folder).expect("the folder of vectors") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("a readable file");
        let file: File = serde_json::from_str(&text).expect("a file of vectors");
        file.vectors.iter().for_each(replay);
        replayed += file.vectors.len();
    }
    assert_eq!(replayed, 300);
}

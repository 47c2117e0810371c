//! A server that is killed in the middle of writing: acknowledged writes are kept, and the file is
//! intact.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fleet::{node, put, rounds};
use tollgate_e2e::{beside, until};

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("catalog.db");
    let catalog = format!("sqlite:{}", file.display());
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for round in 0..rounds(4, 100) {
        let server = node(&catalog, "memory:", &folder);
        let written = Mutex::new(Vec::new());
        let wanted = 3 + round % 17;
        let write = |is_over: &AtomicBool| {
            for number in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let rule = format!("round_{round}_{}", number % 5);
                let body = format!(
                    "{{\"limit\":{},\"window\":\"1h\",\"identifier_type\":\"tenant\"}}",
                    number + 1
                );
                let path = format!("/api/v1/rules/{rule}");
                let answer = std::panic::catch_unwind(|| put(&server, &path, &body).status);
                match answer {
                    Ok(200 | 201) => {
                        written.lock().expect("no thread panicked").push((rule, number + 1));
                    }
                    // It was killed; the outcome of this write is unknown.
                    _ => return,
                }
            }
        };
        beside(1, write, || {
            until("some writes", || {
                (written.lock().expect("no thread panicked").len() >= wanted).then_some(())
            });
            server.process.signal("KILL");
        });
        drop(server);
        acknowledged.extend(written.into_inner().expect("no thread panicked"));
        let server = node(&catalog, "memory:", &folder);
        let mut newest = std::collections::BTreeMap::new();
        for (rule, limit) in &acknowledged {
            newest.insert(rule, *limit);
        }
        for (rule, limit) in newest {
            let found = server.get_as_admin(&format!("/api/v1/rules/{rule}"));
            assert_eq!(found.status, 200, "{rule} is gone");
            let found = found.json()["limit"].as_u64().expect("a limit");
            // A write in flight when the server was killed may have been kept.
            assert!((limit..=limit + 5).contains(&found), "{rule}: {found}, not {limit}");
        }
        assert_eq!(integrity(&file), "ok");
    }
}

fn integrity(file: &std::path::Path) -> String {
    let script = "import sqlite3, sys; \
                  print(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchone()[0])";
    let checked = Command::new("python3").args(["-c", script]).arg(file).output();
    String::from_utf8_lossy(&checked.expect("python3 runs").stdout).trim().to_owned()
}

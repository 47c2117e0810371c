//! A file on a disk that is full: writes fail in words, what was kept stays, and reading goes on.
//!
//! Only a separate process can be given a small disk, so the test starts itself again: on a small separate
//! file system where the kernel allows that, else with a bound on the size of files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tollgate_catalog::{
    Author, BanEntry, Catalog, CatalogError, DecisionAction, DecisionFilter, Edit, Entry, Expect,
    Intent, Kind, Logged, LoggedDecision, PolicyBounds, Seed,
};
use tollgate_core::{Micros, Timestamp};

use crate::{NOW, author};

const FOLDER: &str = "TOLLGATE_SMALL_DISK";

const RUN_ON_A_SMALL_DISK: &str = r#"
    if unshare --mount --map-root-user mount -t tmpfs none "$0" 2>/dev/null; then
        exec unshare --mount --map-root-user sh -c \
            'mount -t tmpfs -o size='"$TOLLGATE_DISK_SIZE"' none "$0" && exec "$@"' "$0" "$@"
    fi
    trap '' XFSZ
    ulimit -f 2048
    exec "$@"
"#;

#[tokio::test]
async fn a_disk_that_is_full() {
    match std::env::var_os(FOLDER) {
        Some(folder) => fill(Path::new(&folder)).await,
        None => run_on_a_small_disk("full_disk::a_disk_that_is_full", "2m"),
    }
}

/// A log of decisions that filled the disk once kept administrators from blocking clients.
#[tokio::test]
async fn a_full_log_does_not_stop_administration() {
    match std::env::var_os(FOLDER) {
        Some(folder) => fill_with_decisions(Path::new(&folder)).await,
        None => run_on_a_small_disk("full_disk::a_full_log_does_not_stop_administration", "40m"),
    }
}

/// A tenant administrator that filled the disk once kept operators from revoking its token.
#[tokio::test]
async fn a_tenant_that_fills_the_disk_does_not_stop_operators() {
    let test = "full_disk::a_tenant_that_fills_the_disk_does_not_stop_operators";
    match std::env::var_os(FOLDER) {
        Some(folder) => fill_as_tenant(Path::new(&folder)).await,
        None => run_on_a_small_disk(test, "40m"),
    }
}

/// Runs a test of this file again, on a disk of that size.
fn run_on_a_small_disk(test: &str, size: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("sh")
        .args(["-c", RUN_ON_A_SMALL_DISK])
        .arg(folder.path())
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder.path())
        .env("TOLLGATE_DISK_SIZE", size)
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{said}\n{complained}", output.status);
    assert!(said.contains("1 passed"), "{said}");
}

/// Writes until the disk is full.
async fn fill(folder: &Path) {
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![0; 600_000]).expect("room");
    let url = format!("sqlite:{}", folder.join("catalog.db").display());
    let catalog = Catalog::new(url.parse().expect("a valid URL"), PolicyBounds::default());
    catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
    let mut kept = 0;
    let error = loop {
        match write(&catalog, kept).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10_000, "the disk is not small");
    };
    for _ in 0..5 {
        let error =
            write(&catalog, kept).await.err().unwrap_or_else(|| panic!("room after {error}"));
        let words = error.to_string();
        assert!(matches!(error, CatalogError::Away(_)), "{error:?}");
        assert!(words.contains("full") || words.contains("disk"), "{words}");
        check(&catalog, kept).await;
    }
    // Another node reads it as well.
    check(&Catalog::new(catalog.url().clone(), PolicyBounds::default()), kept).await;
    if is_own_disk(folder) {
        fs::remove_file(ballast).expect("room");
        write(&catalog, kept).await.expect("a write, now that there is room");
        check(&catalog, kept + 1).await;
    }
}

/// Logs decisions until there is no room for more, and then changes the catalog.
async fn fill_with_decisions(folder: &Path) {
    let url = format!("sqlite:{}", folder.join("catalog.db").display());
    let catalog = Catalog::new(url.parse().expect("a valid URL"), PolicyBounds::default());
    catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
    let record = |number: u64| LoggedDecision {
        at: Timestamp::from_micros(NOW.as_micros() + number),
        decision_id: format!("d00000001-r{number:x}"),
        action: DecisionAction::Refused,
        rule_id: None,
        client: format!("client {}", number % 1_000),
        tenant: None,
        body: json!({"endpoint": "/".repeat(1_500)}).to_string(),
    };
    let log = async |batch: u64| {
        let records: Vec<LoggedDecision> = (0..500).map(|row| record(batch * 500 + row)).collect();
        catalog.log_decisions(&records, 1 << 30).await.expect("no error for want of room")
    };
    for batch in 0..60 {
        log(batch).await;
    }
    for number in 0..20 {
        write(&catalog, number).await.expect("a change, whatever the log takes");
    }
    check(&catalog, 20).await;
    let decisions = catalog.decisions(&DecisionFilter::default(), None, 100_000).await;
    let decisions = decisions.expect("a log");
    assert!(!decisions.is_empty(), "the log can be read");
    if is_own_disk(folder) {
        assert!(decisions.len() < 20_000, "the disk is not small: {}", decisions.len());
        assert_eq!(
            decisions[0].decision_id,
            record(60 * 500 - 1).decision_id,
            "new ones replace old ones"
        );
        // Others fill the disk: nothing is logged, rather than the last bytes taken.
        let system = rustix::fs::statvfs(folder).expect("a file system");
        let free = usize::try_from(system.f_bavail * system.f_frsize).expect("a small disk");
        fs::write(folder.join("ballast"), vec![0; free - (6 << 20)]).expect("room");
        assert_eq!(log(60).await, Logged::NoSpace);
        write(&catalog, 20).await.expect("a change");
        fs::remove_file(folder.join("ballast")).expect("room");
        assert_eq!(log(61).await, Logged::Written);
    }
}

/// Writes as a tenant until there is no room for more, and then as an operator.
async fn fill_as_tenant(folder: &Path) {
    if !is_own_disk(folder) {
        // Without a separate file system the test would have to fill the disk of this machine.
        return;
    }
    let url = format!("sqlite:{}", folder.join("catalog.db").display());
    let catalog = Catalog::new(url.parse().expect("a valid URL"), PolicyBounds::default());
    catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
    let acme = Author {
        actor: "acme's".to_owned(),
        role: "tenant-admin".to_owned(),
        tenant: Some("acme".to_owned()),
        address: None,
    };
    let rules = |number: u64| {
        let rule = |id: u64| {
            let body = json!({
                "rule_id": format!("acme.r{id}"), "tenant": "acme", "limit": number, "window": "1h",
                "identifier_type": "user_id", "description": "x".repeat(60_000),
                "penalty": {"after": 1, "within_seconds": 1, "ban_seconds": 1},
            });
            let entry = Entry::parse(Kind::Rule, &body.to_string()).expect("a rule");
            Edit::Put { entry, expect: Expect::Anything }
        };
        Intent::Edits((0..16).map(rule).collect())
    };
    let mut written = 0;
    let error = loop {
        match catalog.write(&acme, rules(written + 1), NOW, false).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100, "the disk is not small");
    };
    assert!(matches!(error, CatalogError::NoSpace(_)), "{error:?} after {written} changes");
    catalog.write(&acme, rules(1), NOW, true).await.expect("a trial, which takes no room");
    let ban = BanEntry {
        rule_id: "acme.r0".to_owned(),
        identifier: vec!["u1".to_owned()],
        tenant: Some("acme".to_owned()),
        expires_at: "2030-01-01T00:00:00Z".to_owned(),
        lifted: None,
    };
    let kept = catalog.keep_bans(&[ban], NOW).await;
    assert!(matches!(kept, Err(CatalogError::NoSpace(_))), "{kept:?}");
    for number in 0..100 {
        write(&catalog, number).await.expect("a change by an operator");
    }
    for id in 0..16 {
        let name = format!("acme.r{id}");
        let removal = Edit::Remove { kind: Kind::Rule, name, expect: Expect::Present };
        let removed = catalog.write(&author(), Intent::Edits(vec![removal]), NOW, false).await;
        removed.expect("a rule removed by an operator");
    }
    // What is forgotten makes room within the file.
    let later = NOW.plus(Micros::from_secs(10));
    while catalog.forget_audit(later, Micros::ZERO).await.expect("done") > 0 {}
    catalog.write(&acme, rules(1), later, false).await.expect("a change, now that there is room");
}

/// All acknowledged writes are there, complete, and nothing else.
async fn check(catalog: &Catalog, kept: usize) {
    let view = catalog.view().await.expect("a view");
    assert_eq!(view.version().revision.number, kept as u64);
    assert_eq!(view.policy().directory().sizes(), (0, 0, 2 * kept));
}

/// Whether the kernel gave this test a separate file system.
fn is_own_disk(folder: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).expect("a folder").dev();
    device(folder) != device(folder.parent().expect("a parent"))
}

/// Two entries at once, which take some room.
async fn write(catalog: &Catalog, number: usize) -> Result<(), CatalogError> {
    let put = |kind: Kind, user: String| {
        let body = json!({
            "identifier_type": "user_id", "identifier": user, "reason": "because ".repeat(500),
        });
        let entry = Entry::parse(kind, &body.to_string()).expect("an entry");
        Edit::Put { entry, expect: Expect::Absent }
    };
    let edits = vec![
        put(Kind::Blacklist, format!("bad {number}")),
        put(Kind::Whitelist, format!("good {number}")),
    ];
    catalog.write(&author(), Intent::Edits(edits), NOW, false).await.map(drop)
}

//! A file on a disk that is full: writes fail in words, what was kept stays, and reading goes on.
//!
//! Only a process of its own can be given a small disk, so the test starts itself again: on a small file
//! system of its own where the kernel allows that, else with a bound on the size of files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tollgate_catalog::{
    Beginning, Catalog, CatalogError, Edit, Entry, Expect, Intent, Kind, Purpose,
};

use crate::{NOW, author};

const FOLDER: &str = "TOLLGATE_SMALL_DISK";

const RUN_ON_A_SMALL_DISK: &str = r#"
    if unshare --mount --map-root-user mount -t tmpfs none "$0" 2>/dev/null; then
        exec unshare --mount --map-root-user sh -c \
            'mount -t tmpfs -o size=2m none "$0" && exec "$@"' "$0" "$@"
    fi
    trap '' XFSZ
    ulimit -f 2048
    exec "$@"
"#;

#[tokio::test]
async fn a_disk_that_is_full() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return fill(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("sh")
        .args(["-c", RUN_ON_A_SMALL_DISK])
        .arg(folder.path())
        .arg(program)
        .args(["--exact", "full_disk::a_disk_that_is_full", "--nocapture"])
        .env(FOLDER, folder.path())
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
    let catalog = Catalog::new(url.parse().expect("a sound URL"), Purpose::default());
    catalog.open(Beginning::default(), NOW, false).await.expect("a catalog");
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
    check(&Catalog::new(catalog.url().clone(), Purpose::default()), kept).await;
    let is_own_disk = fs::metadata(folder).expect("a folder").dev()
        != fs::metadata(folder.parent().expect("a parent")).expect("a folder").dev();
    if is_own_disk {
        fs::remove_file(ballast).expect("room");
        write(&catalog, kept).await.expect("a write, now that there is room");
        check(&catalog, kept + 1).await;
    }
}

/// Everything that was kept is there, wholly, and nothing else.
async fn check(catalog: &Catalog, kept: usize) {
    let view = catalog.view().await.expect("a view");
    assert_eq!(view.head().revision.number, kept as u64);
    assert_eq!(view.policy().directory().sizes(), (0, 0, 2 * kept));
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

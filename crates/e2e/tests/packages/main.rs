//! Packages as their users meet them: unpacked or installed, and started. The binary in them is the one
//! under test; `scripts/package` builds the one of a release the same way, but static.

mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use tollgate_e2e::program::root;
use tollgate_e2e::server::{Server, binary};

/// A time that is neither now nor that of a commit.
const EPOCH: &str = "1700000000";

/// The packages of the binary under test, in a folder that the next run uses again.
static PACKAGES: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    fs::create_dir_all(&folder).expect("a folder");
    let stripped = folder.join("tollgate");
    // What debuggers need is most of it, and only makes packages larger.
    run(Command::new("strip").arg("-o").arg(&stripped).arg(binary()));
    package(&stripped, &folder);
    folder
});

/// Runs a program that has to succeed, and returns what it printed.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {}{errors}", String::from_utf8_lossy(&ran.stdout));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn package(binary: &Path, out: &Path) {
    let mut script = Command::new(root().join("scripts/package"));
    run(script.arg("--binary").arg(binary).arg("--out").arg(out).env("SOURCE_DATE_EPOCH", EPOCH));
}

/// The package whose name ends like this.
fn made(folder: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(ending));
    found.next().unwrap_or_else(|| panic!("no {ending} in {}", folder.display()))
}

fn unpack(archive: &Path, into: &Path) {
    fs::create_dir_all(into).expect("a folder");
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into));
}

/// Starts an unpacked program in a folder without anything, and asks it whether it is ready.
fn serves(command: &mut Command, program: &Path) {
    let server = Server::run(command);
    let mut health = Command::new(program);
    assert_eq!(run(health.args(["health", "--url", &server.url("")])), "ready\n");
    let body = r#"{"identifiers":{"user_id":"alice"},"endpoint":"/orders","method":"GET"}"#;
    assert_eq!(server.check(body)["allowed"], true);
    server.stop();
}

/// A command with the variables that keep a server off ports and folders of this machine.
fn isolated(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder);
    command.envs([("TOLLGATE_HTTP", "127.0.0.1:0"), ("TOLLGATE_GRPC", "127.0.0.1:0")]);
    command
}

#[test]
fn two_runs_make_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = folder.path().join("tollgate");
    // All that goes into a package but the weight of the program.
    fs::write(&small, format!("#!/bin/sh\nexec {} \"$@\"\n", binary().display())).expect("written");
    fs::set_permissions(&small, fs::Permissions::from_mode(0o755)).expect("a program");
    let sums = ["first", "second"].map(|name| {
        let out = folder.path().join(name);
        package(&small, &out);
        fs::read_to_string(out.join("SHA256SUMS")).expect("sums")
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].lines().count(), 3, "{}", sums[0]);
}

#[test]
fn the_tarball_runs_where_it_is_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    unpack(&made(&PACKAGES, ".tar.gz"), folder.path());
    let unpacked = made(folder.path(), "");
    let program = unpacked.join("bin/tollgate");
    serves(isolated(&program, folder.path()).arg("serve"), &program);
    for path in [
        "share/bash-completion/completions/tollgate",
        "share/zsh/site-functions/_tollgate",
        "share/fish/vendor_completions.d/tollgate.fish",
        "share/man/man1/tollgate.1.gz",
        "share/man/man1/tollgate-rules-lint.1.gz",
        "share/doc/tollgate/LICENSE",
        "share/doc/tollgate/examples/policy.yaml",
        "share/doc/tollgate/docs/grpc.md",
        "share/doc/tollgate/deploy/monitoring/tollgate-rules.yml",
        "share/tollgate/proto/tollgate/v1/rate_limiter.proto",
        "share/tollgate/proto/envoy/service/ratelimit/v3/rls.proto",
    ] {
        assert!(unpacked.join(path).is_file(), "{path}");
    }
}

#[test]
fn the_debian_package_installs_its_user_and_its_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("etc")).expect("a folder");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("a folder");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("a folder");
    for (name, text) in [
        ("etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
        ("etc/shadow", ""),
        ("etc/gshadow", ""),
        ("var/lib/dpkg/status", ""),
    ] {
        fs::write(root.join(name), text).expect("written");
    }
    // dpkg itself, with the scripts of the package, into a folder instead of this machine. The packages
    // that it depends on are not in the folder.
    let script = r#"
        set -e
        dpkg="dpkg --root=$1 --force-script-chrootless --force-depends --log=$1/log"
        $dpkg --install "$2" >"$1/installed" 2>&1 || { cat "$1/installed"; exit 1; }
        cd "$1"
        stat -c '%n %U:%G %a' usr/bin/tollgate
        id=$(sed -n 's/^tollgate:x:\([0-9]*\):.*nologin$/\1/p' etc/passwd)
        stat -c '%n %u:%g %a' var/lib/tollgate etc/tollgate etc/tollgate/tollgate.yaml | sed "s/\b$id\b/ID/g"
        # The second time there is nothing left to make.
        $dpkg --install "$2" >>"$1/installed" 2>&1
        grep -c '^tollgate:' etc/passwd
        touch var/lib/tollgate/tollgate.db
        $dpkg --remove tollgate >>"$1/installed" 2>&1
        ls var/lib/tollgate
        $dpkg --purge tollgate >>"$1/installed" 2>&1
        ls var/lib
    "#;
    let mut install = Command::new("fakeroot");
    install.args(["sh", "-c", script, "sh"]).arg(&root).arg(made(&PACKAGES, ".deb"));
    let expected = "usr/bin/tollgate root:root 755\nvar/lib/tollgate ID:ID 750\netc/tollgate 0:ID 750\n\
                    etc/tollgate/tollgate.yaml 0:ID 640\n1\ntollgate.db\ndpkg\n";
    assert_eq!(run(&mut install), expected);
}

#[test]
fn the_service_of_the_debian_package_starts_and_is_confined() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    run(Command::new("dpkg-deb").arg("-x").arg(made(&PACKAGES, ".deb")).arg(&root));
    let program = root.join("usr/bin/tollgate");
    // What the unit starts, with its settings file; only ports and the state folder are others.
    let unit =
        fs::read_to_string(root.join("lib/systemd/system/tollgate.service")).expect("a unit");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    assert_eq!(start, "/usr/bin/tollgate serve --config /etc/tollgate/tollgate.yaml");
    let mut command = isolated(&program, folder.path());
    command.env("TOLLGATE_CATALOG", "sqlite:tollgate.db").args(["serve", "--config"]);
    serves(command.arg(root.join("etc/tollgate/tollgate.yaml")), &program);

    let verified = folder.path().join("tollgate.service");
    fs::write(&verified, unit.replace("/usr/bin/tollgate", &program.to_string_lossy()))
        .expect("written");
    run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&verified));
    // From 0, confined, to 10; in tenths.
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true", "--threshold=15"]).arg(&verified);
    assert!(run(&mut security).contains("OK"));
}

#[test]
fn the_image_runs_without_rights_on_a_read_only_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = folder.path().join("layout");
    unpack(&made(&PACKAGES, "-oci-x86_64.tar"), &layout);
    let blob = |description: &Value| {
        let digest = description["digest"].as_str().expect("a digest");
        let path = layout.join("blobs").join(digest.replace(':', "/"));
        let sum = run(Command::new("sha256sum").arg(&path));
        assert_eq!(format!("sha256:{}", &sum[..64]), digest);
        assert_eq!(description["size"], fs::metadata(&path).expect("a blob").len());
        path
    };
    let json = |path: &Path| -> Value {
        serde_json::from_slice(&fs::read(path).expect("a blob")).expect("JSON")
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]))["config"].clone();
    assert_eq!((&config["User"], &config["Cmd"][0]), (&"65532:65532".into(), &"serve".into()));
    let system = folder.path().join("system");
    unpack(&blob(&manifest["layers"][0]), &system);

    // As a runtime would: its own mounts, a root that cannot be written, a volume for the state, and
    // the user of the image, which only root can become.
    let script = r#"
        mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" &&
        mount -t tmpfs -o "mode=0700$3" tmpfs "$1/var/lib/tollgate" && exec $2
    "#;
    let is_root = run(Command::new("id").arg("-u")) == "0\n";
    let (namespace, owner, user) = if is_root {
        (&["--mount"][..], ",uid=65532,gid=65532", "--userspec=65532:65532")
    } else {
        (&["--mount", "--map-root-user"][..], "", "--userspec=0:0")
    };
    let system = system.to_string_lossy();
    let program = "/usr/bin/tollgate serve --catalog sqlite:/var/lib/tollgate/tollgate.db";
    let program = format!("/usr/sbin/chroot {user} {system} {program}");
    let mut command = Command::new("unshare");
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder.path());
    // The addresses of the image, but for the ports; its caller has to choose check_auth.
    command.envs([("TOLLGATE_HTTP", "0.0.0.0:0"), ("TOLLGATE_GRPC", "0.0.0.0:0")]);
    command.envs([("TOLLGATE_ADMIN", "127.0.0.1:0"), ("TOLLGATE_CHECK_AUTH", "none")]);
    command.args(namespace).args(["sh", "-c", script, "sh", &system, &program, owner]);
    let own = Path::new(&*system).join("usr/bin/tollgate");
    serves(&mut command, &own);
}

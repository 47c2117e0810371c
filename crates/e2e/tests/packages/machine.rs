//! The packages on a Debian of their own, with systemd as its first process: the service and the image are
//! started, used, upgraded and removed with the commands of docs/install.md.

use std::path::Path;
use std::process::Command;

use super::{PACKAGES, run};

/// Runs a script there as root, and returns what it printed. Other users need sudo.
fn on_a_machine(script: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let is_root = run(Command::new("id").arg("-u")) == "0\n";
    let mut command = Command::new(if is_root { "unshare" } else { "sudo" });
    if !is_root {
        command.args(["-n", "unshare"]);
    }
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/machine.sh");
    command.arg("--mount").arg(machine).arg(folder.path()).arg(&*PACKAGES);
    run(command.arg(script))
}

#[test]
fn the_service_runs_under_systemd() {
    let script = r#"
        dpkg -i /packages/tollgate_*.deb >/dev/null 2>&1
        systemctl is-active tollgate || true
        systemctl enable --now tollgate 2>/dev/null
        tollgate health

        # Confined as the unit says.
        pid() { systemctl show --property MainPID --value tollgate; }
        stat -c '%U' "/proc/$(pid)"
        grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(pid)/status" | tr '\t\n' '  '; echo
        stat -c '%U %a %n' /var/lib/tollgate /var/lib/tollgate/tollgate.db
        ! nsenter --target "$(pid)" --mount touch /etc/tollgate/other 2>/dev/null || echo writes to /etc
        systemd-analyze security --no-pager --threshold=15 tollgate | tail -1 | grep -o 'OK'

        token=$(journalctl -u tollgate -o cat | sed -n 's/^token *\(tg_[^ ]*\).*/\1/p')
        rules() { tollgate rules list --token "$token" | tail -1; }
        rules
        tollgate check --user-id alice >/dev/null && echo checked

        first=$(pid)
        systemctl reload tollgate
        [ "$(pid)" = "$first" ] && echo reloaded
        systemctl kill --signal=KILL tollgate
        tollgate health --wait 60
        [ "$(pid)" != "$first" ]

        # An upgrade restarts it.
        second=$(pid)
        dpkg -i /packages/tollgate_*.deb >/dev/null 2>&1
        [ "$(pid)" != "$second" ] && tollgate health
        rules

        systemctl stop tollgate
        systemctl show --property Result,ExecMainStatus tollgate | sort
        journalctl -u tollgate -o cat | grep -c 'operation not permitted\|Operation not permitted' || true
        systemctl start tollgate
        dpkg --remove tollgate >/dev/null 2>&1
        systemctl is-active tollgate || true
        ls /var/lib/tollgate/tollgate.db
        dpkg --purge tollgate >/dev/null 2>&1
        [ -e /var/lib/tollgate ] || echo purged
    "#;
    let expected = "inactive\nready\ntollgate\n\
                    CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 \n\
                    tollgate 750 /var/lib/tollgate\ntollgate 600 /var/lib/tollgate/tollgate.db\n\
                    OK\n4 rules\nchecked\nreloaded\nready\nready\n4 rules\n\
                    ExecMainStatus=0\nResult=success\n0\ninactive\n/var/lib/tollgate/tollgate.db\npurged\n";
    assert_eq!(on_a_machine(script), expected);
}

/// The flags beside those of the documentation are for machines without controllers of cgroups, or without
/// the right to raise limits, as in CI.
#[test]
fn podman_runs_the_image() {
    let script = r#"
        tool="podman --storage-driver vfs"
        ready() { $tool exec tollgate /usr/bin/tollgate health --wait 60; }
        $tool load -q -i /packages/tollgate-*-oci-*.tar
        $tool run -d --name tollgate --read-only -v tollgate:/var/lib/tollgate \
            -e TOLLGATE_CHECK_AUTH=token -e TOLLGATE_CHECK_TOKEN=caller-correct-horse-battery \
            --network host --cgroups disabled --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
            tollgate:0.1.0 >/dev/null
        ready
        curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8080/health/live
        $tool logs tollgate 2>/dev/null | grep -c '^token *tg_'
        $tool stop tollgate >/dev/null
        $tool inspect --format '{{.State.ExitCode}}' tollgate
        # The volume keeps the rules and the token.
        $tool start tollgate >/dev/null
        ready
        $tool logs tollgate 2>/dev/null | grep -c '^token *tg_'
        $tool stop tollgate >/dev/null
        # `load` takes it for an archive of docker, which has another list of the same layers.
        $tool rm tollgate >/dev/null
        $tool rmi --all >/dev/null
        $tool images --format '{{.Repository}}:{{.Tag}}'
        $tool pull -q oci-archive:"$(ls /packages/tollgate-*-oci-*.tar)" >/dev/null
        $tool images --format '{{.Repository}}:{{.Tag}}'
    "#;
    let expected = "Loaded image: docker.io/library/tollgate:0.1.0\nready\n200\n1\n0\nready\n1\n\
                    docker.io/library/tollgate:0.1.0\n";
    assert_eq!(on_a_machine(script), expected);
}

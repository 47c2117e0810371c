//! Files of envoyproxy/ratelimit are imported as a valid policy.

use serde_json::{Value, json};

use crate::support::{tollgate, write};

const SHOP: &str = "\
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 100, name: base}
  - key: tenant
    value: acme
    rate_limit: {unit: minute, requests_per_unit: 1000}
  - key: tenant
    value: probe
    rate_limit: {unlimited: true}
  - key: path
    value: /login*
    share_threshold: true
    descriptors:
      - key: remote_address
        shadow_mode: true
        rate_limit: {unit: day, requests_per_unit: 5, algorithm: gcra}
        detailed_metric: true
";

const MAIL: &str = "\
domain: mail
descriptors:
  - {key: sender, rate_limit: {unit: week, requests_per_unit: 7}, detailed_metric: true}
";

#[test]
fn files_become_a_policy_as_people_write_it() {
    let ran = tollgate(&["rules", "import", "--from", "envoy", "-"], SHOP);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = "\
rules:
  - rule_id: shop.tenant
    name: base
    limit: 100
    window: 1m
    algorithm: fixed_window
    identifier_type: attribute:tenant
    applies_to:
      attributes:
        attribute:tenant:
          - \"[!p]*\"
          - p
          - \"p[!r]*\"
          - pr
          - \"pr[!o]*\"
          - pro
          - \"pro[!b]*\"
          - prob
          - \"prob[!e]*\"
          - \"probe?*\"
        domain: [shop]
  - rule_id: shop.tenant_acme
    limit: 1000
    window: 1m
    algorithm: fixed_window
    identifier_type: global
    applies_to:
      attributes:
        attribute:tenant: [acme]
        domain: [shop]
    replaces: [shop.tenant]
  - rule_id: shop.path_-login-.remote_address-b60c42e9637f1b03
    limit: 5
    window: 1d
    algorithm: gcra
    identifier_type: attribute:remote_address
    applies_to:
      attributes:
        attribute:path: [\"/login*\"]
        domain: [shop]
    action: log_only
";
    assert_eq!(ran.stdout, expected);
}

#[test]
fn an_imported_policy_passes_the_linter() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "shop.yaml", SHOP);
    write(folder.path(), "mail.yml", MAIL);
    write(folder.path(), ".hidden.yaml", "rubbish");
    let path = folder.path().to_str().expect("a path");
    let ran = tollgate(&["rules", "import", "--from", "envoy", path], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let linted = tollgate(&["rules", "lint", "-"], &ran.stdout);
    assert_eq!((linted.code, &*linted.stdout), (0, "1 file: 0 errors, 0 warnings\n"));
    let ids: Vec<&str> =
        ran.stdout.lines().filter_map(|line| line.split("rule_id: ").nth(1)).collect();
    assert_eq!(
        ids[..3],
        ["mail.sender", "shop.tenant", "shop.tenant_acme"],
        "by the names of files"
    );
}

#[test]
fn each_lost_feature_is_reported_once_with_its_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let shop = write(folder.path(), "shop.yaml", SHOP);
    let mail = write(folder.path(), "mail.yaml", MAIL);
    let ran = tollgate(&["rules", "import", "--from", "envoy", &mail, &shop], "");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [entries, empty, metrics, unlimited, summary] = &*lines else {
        panic!("five lines:\n{}", ran.stderr)
    };
    assert!(entries.starts_with("note: every rule: it applies wherever its keys"), "{entries}");
    assert!(empty.starts_with("note: every rule: an entry with an empty value"), "{empty}");
    assert!(metrics.starts_with("note: mail.sender, shop.path_"), "{metrics}");
    assert!(metrics.ends_with(": metrics name the rule, not the values of requests"), "{metrics}");
    let expected = "note: shop.tenant_probe: it is unlimited, so no rule is made of it";
    assert_eq!(*unlimited, expected);
    assert_eq!(*summary, "2 files, 5 limits, 4 rules");
}

#[test]
fn programs_get_policy_and_notes_in_one_object() {
    let ran = tollgate(&["rules", "import", "--from", "envoy", "--json", "-"], SHOP);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let linted = tollgate(&["rules", "lint", "-"], &answer["policy"].to_string());
    assert_eq!(linted.code, 0, "{}", linted.stdout);
    let yaml = tollgate(&["rules", "import", "--from", "envoy", "-"], SHOP);
    assert_eq!(ran.stderr, yaml.stderr, "people see the notes either way");
    let notes = answer["notes"].as_array().expect("notes");
    let told: Vec<(&Value, &Value)> =
        notes.iter().map(|note| (&note["limit"], &note["code"])).collect();
    assert_eq!(told[0], (&Value::Null, &json!("entries")));
    assert_eq!(told[2], (&json!("shop.tenant_probe"), &json!("unlimited")));
    assert!(notes.iter().all(|note| note["message"].is_string()), "{notes:?}");
}

#[test]
fn files_without_limits_are_an_empty_policy() {
    let ran = tollgate(&["rules", "import", "--from", "envoy", "-"], "domain: shop");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "{}\n", "1 file, 0 limits, 0 rules\n"));
    assert_eq!(tollgate(&["rules", "lint", "-"], &ran.stdout).code, 0);
}

#[test]
fn invalid_files_exit_with_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let empty = empty.to_str().expect("a path");
    let first =
        write(folder.path(), "first.yaml", "domain: ''\ndescriptors: [{key: k, unit: day}]\n");
    let second = write(folder.path(), "second.yaml", "domain: d\ndescriptors:\n  - {value: v}\n");
    let again = write(folder.path(), "again.yaml", MAIL);
    let mail = write(folder.path(), "mail.yaml", MAIL);
    let binary = write(folder.path(), "binary.yaml", [0xff, 0xfe, 0x00]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["missing.yaml"], &["cannot read missing.yaml"]),
        (&[empty], &["there is no visible file in", "empty"]),
        (&[&binary], &["cannot read", "binary.yaml"]),
        (
            &[&first, &mail, &second],
            &[
                "the files cannot be used: 3 problems",
                "domain: the domain is empty",
                "first.yaml:1:9",
                "first.yaml:2:24",
                "second.yaml:3:5",
                "3 |   - {value: v}",
                "= help: add key",
            ],
        ),
        (&[&mail, &again], &["again.yaml:1:9", "is in", "mail.yaml already, at line 1, column 9"]),
        (&[folder.path().to_str().expect("a path")], &["cannot read", "binary.yaml"]),
    ];
    for (files, expected) in cases {
        let arguments = [&["rules", "import", "--from", "envoy"], *files].concat();
        let ran = tollgate(&arguments, "");
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{files:?}: {}", ran.stderr);
        for text in *expected {
            assert!(ran.stderr.contains(text), "{files:?}: no {text:?} in\n{}", ran.stderr);
        }
    }
}

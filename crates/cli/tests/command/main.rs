//! The command from outside: arguments in, text and exit code out.

mod fail_if;
mod lint_envoy;
mod recommend;
mod report;
mod scenarios;
mod stores;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn tollgate(arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // A command that complains about its arguments does not read what it is sent.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("readable output");
    Ran {
        code: output.status.code().expect("an exit code"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Three clients within a minute: a greedy one, a slow one, and one line of rubbish.
fn log() -> String {
    let line = |ip: &str, second: u32, path: &str| {
        format!("{ip} - - [15/Nov/2026:10:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5\n")
    };
    let mut log = String::new();
    for second in 0..30 {
        log += &line("192.0.2.1", second, "/api/items");
        if second % 10 == 0 {
            log += &line("192.0.2.2", second, "/about");
        }
    }
    log + "rubbish\n" + &line("198.51.100.7", 59, "/api/items")
}

#[test]
fn a_report_says_who_was_refused_by_what_and_when() {
    let ran = tollgate(&["simulate", "--rule", r#"{"limit":10,"window":"1m"}"#, "-"], &log());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |expected: &str| {
        let words: Vec<&str> = expected.split_whitespace().collect();
        assert!(lines.contains(&words), "no line {expected:?} in\n{}", ran.stdout);
    };
    has("standard input: 34 requests (common)");
    has("2026-11-15 10:00:00 UTC to 2026-11-15 10:00:59 UTC, 59 s");
    has("requests 34");
    has("allowed 14 41.18 %");
    has("refused 20 58.82 %");
    has("clients 3");
    has("clients refused 1 33.33 %");
    has("inline 34 20 58.82 % 1");
    has("192.0.2.1 30 20 66.67 %");
    assert!(!ran.stdout.contains("192.0.2.2"), "clients that pass are not listed\n{}", ran.stdout);
    let left_out = "left out 1 line that could not be read:\n  standard input:34: ";
    assert!(ran.stderr.contains(left_out), "{}", ran.stderr);
    assert!(ran.stderr.contains("rubbish"), "{}", ran.stderr);
}

#[test]
fn six_algorithms_stand_side_by_side() {
    let rule = r#"{"limit":10,"window":"1m"}"#;
    let ran = tollgate(&["simulate", "--compare", "--json", "--rule", rule, "-"], &log());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&str> =
        rows.iter().map(|row| row["algorithm"].as_str().expect("a name")).collect();
    let expected = [
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
        "token_bucket",
        "leaky_bucket",
        "gcra",
    ];
    assert_eq!(names, expected);
    assert_eq!(rows[1]["unlike_log"], 0);
    assert_eq!(rows[1]["refused"], 20);
    // A bucket refills while the greedy client goes on: 10 at once, then one every six seconds.
    assert_eq!(rows[3]["refused"], 16);
    assert_eq!(rows[5], rows_with_name(&rows[3], "gcra"));
    let table = tollgate(&["simulate", "--compare", "--rule", rule, "-"], &log());
    assert!(table.stdout.starts_with("34 requests, the same limits, six algorithms"));
}

fn rows_with_name(row: &Value, name: &str) -> Value {
    let mut row = row.clone();
    row["algorithm"] = name.into();
    row
}

#[test]
fn every_vector_can_be_replayed_from_outside() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of vectors") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a readable file");
        let file: Value = serde_json::from_str(&text).expect("a file of vectors");
        for vector in file["vectors"].as_array().expect("vectors") {
            replay(vector);
            replayed += 1;
        }
    }
    assert_eq!(replayed, 300);
}

fn replay(vector: &Value) {
    let meter = vector["mode"] == "meter";
    let window_ms = vector["window_ms"].as_u64().expect("a window");
    let rule = serde_json::json!({
        "algorithm": if meter { "token_bucket".into() } else { vector["algorithm"].clone() },
        "limit": vector["limit"],
        "window": format!("{window_ms}ms"),
        "burst": vector["burst"],
    });
    let steps = vector["steps"].as_array().expect("steps");
    let trace: String = steps
        .iter()
        .map(|step| {
            format!("{{\"t_ms\":{},\"key\":\"k\",\"cost\":{}}}\n", step["t_ms"], step["cost"])
        })
        .collect();
    let ran = tollgate(&["simulate", "--json", "--rule", &rule.to_string(), "-"], &trace);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", vector["name"]);
    let answers: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), steps.len(), "{}", vector["name"]);
    for (number, (step, answer)) in steps.iter().zip(&answers).enumerate() {
        for (field, expected) in step["expect"].as_object().expect("expectations") {
            assert_eq!(&answer[field], expected, "{} step {number}: {field}", vector["name"]);
        }
    }
}

#[test]
fn gzip_and_several_inputs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log.gz");
    let mut gzip =
        GzEncoder::new(std::fs::File::create(&path).expect("a file"), Compression::fast());
    gzip.write_all(log().as_bytes()).expect("written");
    gzip.finish().expect("finished");
    let path = path.to_str().expect("a path");
    let rule = r#"{"limit":10,"window":"1m"}"#;
    let ran = tollgate(&["simulate", "--rule", rule, path, "-"], &log());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("access.log.gz: 34 requests"), "{}", ran.stdout);
    assert!(ran.stdout.contains("standard input: 34 requests"), "{}", ran.stdout);
    // Sorted by time over both: 60 requests of one client in one window.
    assert!(ran.stdout.contains("192.0.2.1        60       50"), "{}", ran.stdout);
}

#[test]
fn traffic_that_takes_too_much_memory_is_refused_with_what_to_do() {
    let rule = r#"{"limit":10,"window":"1m"}"#;
    let ran =
        tollgate(&["simulate", "--rule", rule, "--max-memory", "64KiB", "-"], &log().repeat(100));
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    for part in ["up to line ", "take more than 64KiB of memory", "--max-memory", "--no-sort"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn wrong_usage_is_reported_in_a_sentence_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("bad.yaml");
    std::fs::write(
        &bad,
        "rules:\n  - rule_id: a\n    limit: five\n    window: 1h\n    identifier_type: ip\n",
    )
    .expect("written");
    let bad = bad.to_str().expect("a path");
    let rule = r#"{"limit":1,"window":"1s"}"#;
    let cases: &[(&[&str], &str)] = &[
        (&["simulate", "--rule", rule, "missing.log"], "cannot open missing.log"),
        (&["simulate", "--rules", "missing.yaml", "-"], "cannot read missing.yaml"),
        (&["simulate", "--rule", "{", "-"], "--rule cannot be used"),
        (&["simulate", "--rule", r#"{"limit":1}"#, "-"], "window"),
        (&["simulate", "--rules", bad, "-"], "bad.yaml:3:12"),
        (&["simulate", "--rule", rule, "--format", "apache", "-"], "unknown format \"apache\""),
        (&["simulate", "--rule", rule], "INPUT"),
        (&["simulate", "-"], "--rules <FILE>|--rule <JSON>"),
        (&["check", "--cost", "-1"], "write a whole number from 0 to 9223372036854775807"),
        (&["check", "--cost", "99999999999999999999"], "write a whole number from 0 to"),
        (&["simulate", "--rule", rule, "--rules", bad, "-"], "cannot be used with"),
        (&["simulate", "--rule", rule, "-"], "standard input is empty"),
        (&["rules", "lint", "missing.yaml"], "cannot read missing.yaml"),
        (&["fly"], "unrecognized subcommand"),
    ];
    for (arguments, expected) in cases {
        let ran = tollgate(arguments, "");
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{arguments:?}: {}", ran.stdout);
    }
}

#[test]
fn lint_reports_errors_and_warnings_with_their_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let good = write(
        "good.yaml",
        "rules: [{rule_id: a, limit: 50, window: 1s, identifier_type: user_id}]\n",
    );
    let doubtful = write(
        "doubtful.yaml",
        "rules:\n  - rule_id: login\n    limit: 50\n    window: 1m\n    identifier_type: user_id\n    on_store_failure: open\n",
    );
    let wrong = write("wrong.yaml", "rules: [{rule_id: a, limit: -1}]\n");

    let ran = tollgate(&["rules", "lint", &good], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1 file: 0 errors, 0 warnings\n"));
    let ran = tollgate(&["rules", "lint", &doubtful], "");
    assert_eq!(ran.code, 0, "warnings alone");
    assert!(ran.stdout.contains("doubtful.yaml:6:"), "{}", ran.stdout);
    let ran = tollgate(&["rules", "lint", "--strict", &doubtful], "");
    assert_eq!(ran.code, 1, "warnings are enough with --strict");
    let ran = tollgate(&["rules", "lint", "--json", &wrong, &doubtful], "");
    assert_eq!(ran.code, 1);
    let problems: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(problems.iter().any(|problem| problem["severity"] == "warning"), "{}", ran.stdout);
    for field in ["rules[0].limit", "rules[0].identifier_type", "rules[0].window_seconds"] {
        let told = problems.iter().find(|problem| problem["field"] == field);
        let told = told.unwrap_or_else(|| panic!("nothing about {field} in {}", ran.stdout));
        assert_eq!((&told["severity"], &told["line"]), (&"error".into(), &1.into()));
    }
}

#[test]
fn a_folder_is_linted_as_one_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    let path = folder.path().to_str().expect("a path");
    let rule = "rules: [{rule_id: a, limit: 50, window: 1s, identifier_type: user_id}]\n";
    let exception =
        "overrides:\n  - {rule_id: a, identifier_type: user_id, identifier: u, limit: 9}\n";
    write("a.yaml", rule);
    write("b.yaml", exception);
    for arguments in [&["rules", "lint", path][..], &["rules", "lint", "-f", path]] {
        let ran = tollgate(arguments, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "2 files: 0 errors, 0 warnings\n"));
    }
    // Alone, it refers to nothing.
    let alone = folder.path().join("b.yaml");
    let ran = tollgate(&["rules", "lint", alone.to_str().expect("a path")], "");
    assert!(ran.code == 1 && ran.stdout.contains("there is no rule `a`"), "{}", ran.stdout);
    // An entry of two files names both, and a warning of a third file is still told.
    write("c.yaml", rule);
    write("d.yaml", "rules: [{rule_id: d, limit: 5, window: 1s, identifier_type: user_id}]\n");
    let ran = tollgate(&["rules", "lint", path], "");
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    for expected in ["c.yaml:1:9", "a.yaml:1:9 too", "d.yaml:1:29", "4 files: 1 error, 1 warning"] {
        assert!(ran.stdout.contains(expected), "{expected} in {}", ran.stdout);
    }
    // A text that cannot be parsed is reported alone: what it would have declared is unknown.
    write("a.yaml", "rules: [");
    let ran = tollgate(&["rules", "lint", path], "");
    assert!(ran.code == 1 && ran.stdout.contains("4 files: 1 error, 0 warnings"), "{}", ran.stdout);
}

#[test]
fn completions_know_commands_and_flags() {
    for (shell, expected) in
        [("bash", "--trusted-proxies"), ("zsh", "_tollgate"), ("fish", "complete -c tollgate")]
    {
        let ran = tollgate(&["completions", shell], "");
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{shell}");
        assert!(ran.stdout.contains(expected) && ran.stdout.contains("simulate"), "{shell}");
        for command in [
            "bans",
            "keys",
            "lists",
            "tiers",
            "clients",
            "overrides",
            "users",
            "audit",
            "stats",
            "nodes",
            "decisions",
            "refund",
            "reset",
        ] {
            assert!(ran.stdout.contains(command), "{shell}: {command}");
        }
    }
    // What bash reads has to be bash.
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("completions");
    std::fs::write(&script, tollgate(&["completions", "bash"], "").stdout).expect("written");
    let read = Command::new("bash").arg("-n").arg(&script).status();
    assert!(read.expect("bash runs").success());
    let ran = tollgate(&["completions", "cmd.exe"], "");
    assert!(ran.code == 2 && ran.stderr.contains("bash"), "{}", ran.stderr);
}

#[test]
fn the_manual_is_printed_and_help_names_first_steps() {
    let ran = tollgate(&["man"], "");
    assert!(ran.code == 0 && ran.stdout.contains(".TH tollgate 1"), "{}", ran.stdout);
    let ran = tollgate(&["--help"], "");
    for expected in ["First steps:", "tollgate serve", "tollgate check --user-id alice"] {
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let taken = folder.path().join("file");
    std::fs::write(&taken, "").expect("written");
    let pages = folder.path().join("pages");
    assert_eq!(tollgate(&["man", "--dir", pages.to_str().expect("a path")], "").code, 0);
    for page in [
        "bans-lift",
        "lists-add",
        "clients-remove",
        "users-show",
        "audit",
        "stats",
        "decisions-list",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("tollgate-{page}.1"))).expect(page);
        assert!(page.contains("EXIT STATUS") && page.contains("TOLLGATE_SERVER"), "{page}");
    }
    let ran = tollgate(&["man", "--dir", taken.to_str().expect("a path")], "");
    assert!(ran.code == 2 && ran.stderr.contains("cannot write pages into"), "{}", ran.stderr);
}

#[test]
fn commands_tell_their_exit_codes() {
    let mut commands = vec![String::new()];
    let mut found = 0;
    while let Some(command) = commands.pop() {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = tollgate(&arguments, "").stdout;
        // A command of commands lists them, one a line.
        if let Some((_, listed)) = help.split_once("\nCommands:\n") {
            let names = listed.lines().map_while(|line| line.split_whitespace().next());
            let names = names.filter(|name| *name != "help");
            commands.extend(names.map(|name| format!("{command} {name}")));
            continue;
        }
        found += 1;
        let help = help.replace('\n', " ");
        assert!(help.contains("exit code is 0"), "{command}: {help}");
    }
    assert!(found >= 45, "only {found} commands were found");
}

#[test]
fn the_schema_is_printed() {
    let ran = tollgate(&["rules", "schema"], "");
    assert_eq!(ran.code, 0);
    let schema: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

/// A token in the environment made every usage line look as if a token had to be typed.
#[test]
fn a_usage_line_has_nothing_of_the_environment() {
    let ran = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["lists", "add"])
        .env("TOLLGATE_SERVER", "http://127.0.0.1:9")
        .env("TOLLGATE_TOKEN", "secret-of-the-environment")
        .output()
        .expect("the binary runs");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    let text = String::from_utf8(ran.stderr).expect("readable output");
    assert!(text.contains("Usage: tollgate lists add"), "{text}");
    assert!(!text.contains("--server") && !text.contains("--token"), "{text}");
}

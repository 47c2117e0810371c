//! Names of unknown settings, and the settings that were probably meant.

use tollgate_document::{Problem, closest, edits};

use super::layers::{FLAGGED, PREFIX, short, variable};

/// The problem of an unknown name in the file.
pub(super) fn unknown_setting(name: &str, known: &[&str]) -> Problem {
    unknown(name, "setting", meant(name, known))
}

/// The problem of an unknown environment variable, if it was probably meant to be a setting.
pub(super) fn unknown_variable(name: &str, known: &[&'static str]) -> Option<Problem> {
    misspelt(name).or_else(|| only_in_file(name, known))
}

/// The setting that an unknown name probably means: a misspelt one, or one whose group was left out.
fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let by_end = || known.iter().find(|known| last(known) == last(name)).copied();
    closest(name, known.iter().copied()).or_else(by_end)
}

/// The problem of a misspelt variable. Others with the prefix are ignored: an orchestrator sets
/// `TOLLGATE_PORT` and the like for a service named tollgate, so only few edits are tolerated.
fn misspelt(variable_name: &str) -> Option<Problem> {
    let written = variable_name.strip_prefix(PREFIX)?.to_lowercase();
    let secrets = [
        "check_token",
        "admin_token",
        "fleet_secret",
        "fleet_previous_secret",
        "jwt_secret",
        "config",
    ];
    let flagged = FLAGGED.map(|name| short(name).replace('.', "_"));
    let names = flagged.iter().map(String::as_str).chain(secrets);
    let is_close = |guess: &&str| (1..=(guess.len() / 4).max(1)).contains(&edits(&written, guess));
    let guess = closest(&written, names).filter(is_close)?;
    Some(unknown(variable_name, "environment variable", Some(&variable(guess))))
}

/// The problem of a variable named after a setting that has none: if it were ignored, the mistake would
/// go unnoticed.
fn only_in_file(variable_name: &str, known: &[&'static str]) -> Option<Problem> {
    let is_meant = |name: &&&str| !FLAGGED.contains(*name) && variable(name) == variable_name;
    let name = known.iter().find(is_meant)?;
    let secrets = ["check_token", "admin_token", "fleet.secret", "fleet.previous_secret"];
    (!secrets.contains(name)).then(|| {
        Problem::new(variable_name, "there is no such environment variable")
            .with_advice(format!("set {name} in the settings file"))
    })
}

fn unknown(name: &str, kind: &str, guess: Option<&str>) -> Problem {
    let problem = Problem::new(name, format!("there is no such {kind}"));
    match guess {
        Some(guess) => problem.with_advice(format!("did you mean {guess}?")),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_misspelt_settings_only() {
        let names = ["http", "memory", "check_auth", "limits.header_timeout", "identity.api_keys"];
        for (written, expected) in [
            ("htpp", Some("http")),
            ("Memory", Some("memory")),
            ("check-auth", Some("check_auth")),
            ("limits.header_timeot", Some("limits.header_timeout")),
            ("header_timeout", Some("limits.header_timeout")),
            ("identity.header_timeout", Some("limits.header_timeout")),
            ("port", None),
            ("service_host", None),
            ("", None),
        ] {
            assert_eq!(meant(written, &names), expected, "{written}");
        }
        assert_eq!(meant(&"x".repeat(1 << 20), &names), None);
    }

    #[test]
    fn variables_of_an_orchestrator_are_ignored() {
        for name in ["PORT", "SERVICE_HOST", "SERVICE_PORT_GRPC", "PORT_8080_TCP_ADDR", "HTTP"] {
            assert_eq!(misspelt(&format!("TOLLGATE_{name}")), None, "{name}");
        }
        assert!(misspelt("TOLLGATE_HTPP").is_some());
    }
}

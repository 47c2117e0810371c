//! Results in the Test Anything Protocol, version 14.

use super::FileResult;
use crate::terminal::printable;

pub(super) fn to_tap(results: &[FileResult]) -> String {
    let all = results.iter().flat_map(|file| file.scenarios.iter().map(move |it| (file, it)));
    let number = all.clone().count();
    let mut text = format!("TAP version 14\n1..{number}\n");
    for (i, (file, scenario)) in all.enumerate() {
        let word = if scenario.is_passed() { "ok" } else { "not ok" };
        let name = described(&format!("{}: {}", file.name, scenario.name));
        text += &format!("{word} {} - {name}\n", i + 1);
        if scenario.is_passed() {
            continue;
        }
        text += "  ---\n  failures:\n";
        for failure in &scenario.failures {
            let place = format!("{}:{}", file.name, failure.position.line);
            let message = format!("{}: {}", failure.place, failure.message);
            text += &format!("    - at: {}\n", quoted(&place));
            text += &format!("      message: {}\n", quoted(&message));
        }
        text += "  ...\n";
    }
    text
}

/// A description: a number sign would begin a directive.
fn described(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A text in the YAML of a diagnostic.
fn quoted(text: &str) -> String {
    serde_json::Value::from(printable(text)).to_string()
}

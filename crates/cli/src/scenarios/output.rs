//! Results for people.

use super::FileResult;
use super::runner::ScenarioResult;
use crate::output::{Mood, Paint};
use crate::terminal::{count, grouped, printable};

pub(super) fn to_text(results: &[FileResult]) -> String {
    let paint = Paint::of_output();
    let mut text = String::new();
    for file in results {
        text += &format!("{}\n", printable(&file.name));
        for scenario in &file.scenarios {
            let (word, mood) =
                if scenario.is_passed() { ("ok    ", Mood::Good) } else { ("FAILED", Mood::Bad) };
            let requests = count(scenario.requests, "request");
            let name = printable(&scenario.name);
            text += &format!("  {}  {name} ({requests})\n", paint.colour(word, mood));
            for failure in &scenario.failures {
                let line = failure.position.line;
                text += &format!("          line {line}, {}:\n", failure.place);
                text += &format!("            {}\n", printable(&failure.message));
            }
        }
        text.push('\n');
    }
    let scenarios = || results.iter().flat_map(|file| &file.scenarios);
    let passed = scenarios().filter(|scenario| scenario.is_passed()).count() as u64;
    let all = scenarios().count() as u64;
    let requests = scenarios().map(|scenario: &ScenarioResult| scenario.requests).sum();
    text + &format!(
        "{}, {}: {} passed, {} failed\n",
        count(all, "scenario"),
        count(requests, "request"),
        grouped(passed),
        grouped(all - passed)
    )
}

//! Results as XML, in the form that JUnit made common.

use tollgate_chart::escaped;

use super::FileResult;
use super::runner::ScenarioResult;

pub(super) fn to_xml(results: &[FileResult]) -> String {
    let failed = |file: &FileResult| file.scenarios.iter().filter(|it| !it.is_passed()).count();
    let tests: usize = results.iter().map(|file| file.scenarios.len()).sum();
    let failures: usize = results.iter().map(failed).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"tollgate test\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n"
    );
    for file in results {
        let name = escaped(&file.name);
        text += &format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">\n",
            file.scenarios.len(),
            failed(file)
        );
        for scenario in &file.scenarios {
            text += &case(&name, scenario);
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

fn case(file: &str, scenario: &ScenarioResult) -> String {
    let name = escaped(&scenario.name);
    let line = scenario.position.line;
    let opening = format!(
        "    <testcase classname=\"{file}\" name=\"{name}\" file=\"{file}\" line=\"{line}\""
    );
    if scenario.is_passed() {
        return opening + "/>\n";
    }
    let mut text = opening + ">\n";
    for failure in &scenario.failures {
        let message = escaped(&failure.message);
        let place = escaped(&format!("line {}, {}", failure.position.line, failure.place));
        text += &format!("      <failure message=\"{message}\">{place}: {message}</failure>\n");
    }
    text + "    </testcase>\n"
}

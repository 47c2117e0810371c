//! Every error code of the server is in the table of docs/http.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tollgate_e2e::program::root;

/// What is before the code in the call that makes a problem.
const CALLS: [&str; 5] = [
    "Problem::bad_request(\"",
    "Problem::unprocessable(\"",
    "Problem::not_found(\"",
    "Problem::new(StatusCode::",
    "Self::new(StatusCode::",
];

fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            // Long calls have line breaks after the parenthesis and the comma.
            let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.push(words.replace("( ", "("));
        }
    }
}

fn codes_in(text: &str) -> impl Iterator<Item = &str> {
    CALLS.into_iter().flat_map(move |call| {
        text.split(call).skip(1).filter_map(move |rest| {
            let rest = if call.ends_with('"') { rest } else { rest.split_once(", \"")?.1 };
            let code = rest.split('"').next()?;
            let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            (!code.is_empty() && code.bytes().all(is_code)).then_some(code)
        })
    })
}

#[test]
fn every_error_code_is_documented() {
    let mut texts = Vec::new();
    sources(&root().join("crates/server/src"), &mut texts);
    let codes: BTreeSet<&str> = texts.iter().flat_map(|text| codes_in(text)).collect();
    assert!(codes.len() > 30 && codes.contains("unknown_ban"), "{codes:?}");
    let page = fs::read_to_string(root().join("docs/http.md")).expect("the page");
    let table: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| 4") || line.starts_with("| 5"))
        .flat_map(|line| line.split('|').nth(2).unwrap_or_default().split('`'))
        .collect();
    let missing: Vec<&&str> = codes.difference(&table).collect();
    assert!(missing.is_empty(), "not in the table of docs/http.md: {missing:?}");
}

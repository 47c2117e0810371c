//! The words of the house: sources and documents are written in those of the field.

use std::fs;
use std::path::Path;

use crate::{files, root};

/// The words that are not used, one in each line.
const BANNED: &str = include_str!("banned_words.txt");

/// A line with single spaces between its words, in lower case, so that names count too.
fn words_of(line: &str) -> String {
    let mut words = String::from(" ");
    for word in line.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|it| !it.is_empty())
    {
        words.push_str(&word.to_lowercase());
        words.push(' ');
    }
    words
}

#[test]
fn banned_words_are_not_used() {
    let banned: Vec<String> =
        BANNED.lines().filter(|line| !line.starts_with('#')).map(words_of).collect();
    let mut found = Vec::new();
    for ending in [".rs", ".lua", ".proto", ".md", ".yaml", ".sh"] {
        files(&root(), ending, &mut found);
    }
    files(&root().join("scripts"), "", &mut found);
    let mut wrong = Vec::new();
    for path in found {
        // It says which words are not used.
        if path.ends_with("CONTRIBUTING.md") || is_data(&path) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            // A name on the wire stays.
            let words = if line.contains("rename = ") { String::new() } else { words_of(line) };
            if let Some(word) = banned.iter().find(|word| words.contains(word.as_str())) {
                let (path, number) = (path.display(), number + 1);
                wrong.push(format!("{path}:{number}: `{}` in: {}", word.trim(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a file is what tests read, not what we wrote.
fn is_data(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "data" || part.as_os_str() == "vectors")
}

//! Reads JSON bodies quickly, and reports exactly what is wrong with invalid ones.

use serde::Deserialize;
use tollgate_api::Object;

use crate::edge::http::problem::Problem;

/// Reads a body. If that fails, it is read again, more slowly, to find the position.
pub(crate) fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // UTF-8 is validated once here, not again for each string.
    let read = str::from_utf8(body).ok().and_then(|text| serde_json::from_str(text).ok());
    read.map(|Object(value)| value).ok_or_else(|| {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let read = serde_path_to_error::deserialize::<_, Object<T>>(&mut deserializer);
        let detail = match read.map(|_| deserializer.end()) {
            Err(error) => {
                let path = error.path().to_string();
                // Users do not know the types of Rust.
                let error = error.into_inner();
                let is_json = error.is_data();
                let what = error.to_string();
                let what = what.replacen(", expected u64", ", expected a whole number from 0", 1);
                match path.as_str() {
                    _ if !is_json => format!("the body is not JSON: {what}"),
                    "." | "?" => what,
                    path => format!("{path}: {what}"),
                }
            }
            Ok(Err(error)) => format!("after the JSON value: {error}"),
            Ok(Ok(())) => "the body is not JSON".to_owned(),
        };
        let detail =
            if body.is_empty() { "the body is empty; send JSON".to_owned() } else { detail };
        Problem::bad_request("invalid_body", shorten(detail))
    })
}

/// Cuts the middle out of a text that quotes too much of what a client sent.
pub(crate) fn shorten(text: String) -> String {
    const BEGINNING: usize = 600;
    const END: usize = 300;
    if text.len() <= BEGINNING + END {
        return text;
    }
    let beginning = text.floor_char_boundary(BEGINNING);
    let end = text.ceil_char_boundary(text.len() - END);
    format!("{} ... {}", &text[..beginning], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_ends_early_is_named_without_a_path() {
        let detail =
            |body: &str| match decode::<std::collections::BTreeMap<String, u64>>(body.as_bytes()) {
                Ok(_) => panic!("{body} was read"),
                Err(problem) => format!("{problem:?}"),
            };
        let told = detail("{");
        assert!(
            told.contains("the body is not JSON: EOF while parsing an object")
                && !told.contains('?'),
            "{told}"
        );
        assert!(detail(r#"{"a":"b"}"#).contains("a: invalid type"), "{}", detail(r#"{"a":"b"}"#));
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(shorten("short".to_owned()), "short");
        for filler in ["x", "\u{e9}", "\u{1f6a6}"] {
            let text = format!("begin {} end", filler.repeat(100_000));
            let short = shorten(text);
            assert!(short.starts_with("begin ") && short.ends_with(" end"), "{short}");
            assert!(short.len() < 1_000, "{}", short.len());
        }
    }
}

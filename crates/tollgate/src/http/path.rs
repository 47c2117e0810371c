//! Checks the path of a request before rules match it: servers read some spellings differently.
//!
//! A rule for `/login` is no use if the service behind it also takes `/login%2F`, `/x/..%2flogin` or `/login;x=1` for
//! the same page. [`PathMatching::Strict`] refuses a path that two servers could read differently, and ignores path
//! parameters.

use std::borrow::Cow;
use std::fmt;

/// How the path of a request is read before it is matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathMatching {
    /// As it is. Dot segments are resolved, and `%2F` is data.
    #[default]
    Lenient,
    /// Ambiguous paths are refused, and path parameters (`;x=1`) do not count.
    Strict,
}

/// What makes a path ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathProblem {
    /// `%2F`, which some servers read as `/`.
    EscapedSlash,
    /// `\` or `%5C`, which some servers read as `/`.
    Backslash,
    /// A control character, at which some servers cut the path off.
    ControlCharacter,
    /// `.` or `..`, which some servers resolve and others do not, also escaped or before `;`.
    DotSegment,
    /// `%` without two hexadecimal digits.
    InvalidEscape,
    /// A segment that begins or ends with an escaped space, which some servers cut off.
    OuterSpace,
    /// `//` at the start, behind which some servers read a host.
    LeadingSlashes,
    /// `#`, at which some servers cut the path off.
    Fragment,
}

impl PathProblem {
    /// A fixed word that names the problem.
    pub const CODE: &'static str = "ambiguous_path";
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EscapedSlash => "the path has an escaped slash: send / or leave it out",
            Self::Backslash => "the path has a backslash: send / instead",
            Self::ControlCharacter => "the path has a control character: send it without",
            Self::DotSegment => "the path has the segment . or ..: send the path it leads to",
            Self::InvalidEscape => {
                "the path has a percent sign without two hexadecimal digits behind it: escape it"
            }
            Self::OuterSpace => {
                "a segment of the path begins or ends with a space: send it without"
            }
            Self::LeadingSlashes => "the path begins with two slashes: send one",
            Self::Fragment => "the path has a #: escape it as %23",
        })
    }
}

impl PathMatching {
    /// The path that rules match, without its query. The service gets the original path.
    ///
    /// # Errors
    /// What makes the path ambiguous.
    pub fn read(self, path: &str) -> Result<Cow<'_, str>, PathProblem> {
        if self == Self::Lenient || is_plain(path) {
            return Ok(path.into());
        }
        Self::read_strictly(path)
    }

    fn read_strictly(path: &str) -> Result<Cow<'_, str>, PathProblem> {
        let path = path.split('?').next().unwrap_or_default();
        if path.contains('#') {
            return Err(PathProblem::Fragment);
        }
        check_bytes(path.as_bytes())?;
        for segment in path.split('/') {
            check_segment(segment)?;
        }
        let path: Cow<'_, str> = if path.contains(';') || path.contains("%3") {
            path.split('/').map(without_parameters).collect::<Vec<_>>().join("/").into()
        } else {
            path.into()
        };
        // URL parsers read `//x/login` as the host x and the path /login.
        if path.starts_with("//") { Err(PathProblem::LeadingSlashes) } else { Ok(path) }
    }
}

/// Whether all servers read a path alike: it has no escapes, no parameters, no query, no empty segment and none that
/// begins with a dot. Most paths are like that, and every request has one.
fn is_plain(path: &str) -> bool {
    let mut before = b'/';
    path.starts_with('/')
        && path.bytes().skip(1).all(|byte| {
            let is_plain = match byte {
                b'/' | b'.' => before != b'/',
                b'-' | b'_' | b'~' => true,
                byte => byte.is_ascii_alphanumeric(),
            };
            before = byte;
            is_plain
        })
}

fn check_bytes(mut rest: &[u8]) -> Result<(), PathProblem> {
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let byte = if first == b'%' {
            let byte = escaped(after).ok_or(PathProblem::InvalidEscape)?;
            rest = &after[2..];
            byte
        } else {
            first
        };
        match byte {
            b'/' if first == b'%' => return Err(PathProblem::EscapedSlash),
            b'\\' => return Err(PathProblem::Backslash),
            0..=0x1f | 0x7f => return Err(PathProblem::ControlCharacter),
            _ => {}
        }
    }
    Ok(())
}

/// The byte that two hexadecimal digits encode.
fn escaped(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    Some(value(*digits.first()?)? << 4 | value(*digits.get(1)?)?)
}

fn check_segment(segment: &str) -> Result<(), PathProblem> {
    let name = without_parameters(segment);
    let is_at_an_end = |space: &str| name.starts_with(space) || name.ends_with(space);
    if is_at_an_end(" ") || is_at_an_end("%20") {
        return Err(PathProblem::OuterSpace);
    }
    // A dot may be escaped.
    let is_dots = match name.len() {
        1 | 2 => matches!(name, "." | ".."),
        3..=6 => matches!(&*name.to_ascii_lowercase().replace("%2e", "."), "." | ".."),
        _ => false,
    };
    if is_dots { Err(PathProblem::DotSegment) } else { Ok(()) }
}

/// A segment up to its parameters. An escaped semicolon counts too: some servers unescape before they split
/// parameters.
fn without_parameters(segment: &str) -> &str {
    let escaped = segment.find("%3b").into_iter().chain(segment.find("%3B")).min();
    let end = segment.find(';').into_iter().chain(escaped).min();
    &segment[..end.unwrap_or(segment.len())]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_paths_are_plain() {
        for path in ["/", "/login", "/a/b.html", "/api/v1/rate-limit/", "/a_b/~c/0"] {
            assert!(is_plain(path), "{path}");
        }
        for path in ["", "*", "//a", "/a//b", "/.", "/..", "/.a", "/a/.b", "/a;b", "/a%20", "/a?"] {
            assert!(!is_plain(path), "{path}");
        }
    }

    #[test]
    fn strict_matching_refuses_ambiguous_paths() {
        use PathProblem::*;
        let check = |path: &str, expected: Result<&str, PathProblem>| {
            let read = PathMatching::Strict.read(path);
            assert_eq!(read.as_deref().map_err(|problem| *problem), expected, "{path}");
            assert_eq!(PathMatching::Lenient.read(path).as_deref(), Ok(path));
        };
        for path in ["/", "*", "/login", "/a//b/", "/a.b/..c/.d/e..", "/%7Eme/%C3%BC", "/a%20b"] {
            check(path, Ok(path));
        }
        check("/login?x=..%2f#", Ok("/login"));
        check("/login;x=1", Ok("/login"));
        check("/login%3bx=1", Ok("/login"));
        check("/cars;color=red/wheels;n=4?x", Ok("/cars/wheels"));
        for path in ["/login%2F", "/x/..%2flogin", "/a%2fb"] {
            check(path, Err(EscapedSlash));
        }
        for path in ["/x\\..\\login", "/a%5cb", "/a%5Cb"] {
            check(path, Err(Backslash));
        }
        for path in ["/login%00", "/login%0a", "/%1f", "/a%7f", "/a\tb"] {
            check(path, Err(ControlCharacter));
        }
        for path in
            ["/..;/login", "/.;/login", "/./a", "/a/..", "/%2e%2E/a", "/.%2e;x/a", "/..%3b/a"]
        {
            check(path, Err(DotSegment));
        }
        for path in ["/%", "/%2", "/%zz", "/a%u002f"] {
            check(path, Err(InvalidEscape));
        }
        for path in ["/login%20", "/%20login", "/login /x", "/login%20;x"] {
            check(path, Err(OuterSpace));
        }
        for path in ["//x/login", "//", "///login", "//login?x", "/;x/login"] {
            check(path, Err(LeadingSlashes));
        }
        for path in ["/x#/../login", "#", "/login#?x"] {
            check(path, Err(Fragment));
        }
    }

    proptest! {
        /// A plain path is read as any other.
        #[test]
        fn plain_paths_are_unambiguous(path in "/?[a-c./_%2eE;? ~-]{0,12}") {
            if is_plain(&path) {
                let read = PathMatching::read_strictly(&path);
                prop_assert_eq!(read.as_deref(), Ok(path.as_str()));
            }
        }

        /// A path that was accepted has nothing that is refused, and reading it again changes nothing.
        #[test]
        fn reading_an_accepted_path_again_changes_nothing(path in "(/|\\.|;|%2e|%2F|%3b|%20|%|a|\\\\|\\?|é){0,12}") {
            if let Ok(read) = PathMatching::Strict.read(&path) {
                prop_assert!(!read.contains([';', '\\', '?']));
                prop_assert!(!read.split('/').any(|segment| matches!(segment, "." | "..")));
                let again = PathMatching::Strict.read(&read);
                prop_assert_eq!(again.as_deref(), Ok(&*read));
            }
        }
    }
}

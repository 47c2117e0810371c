//! The files that an `include` of nginx names, found as nginx finds them: from the folder of the file
//! at the top, with `*`, `?` and `[a-z]` in any part of the path.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use tollgate_import::nginx::NginxFile;

/// The most paths that a pattern may lead to, on every level.
const MAX_PATHS: usize = 1_000;
/// The longest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// The files of a pattern, or why there are none. As in nginx, a pattern may match
/// nothing, but a plain name must exist.
pub(super) fn included(top: &str, pattern: &str) -> Result<Vec<NginxFile>, String> {
    let folder = Path::new(top).parent().unwrap_or(Path::new(""));
    let paths = find(folder, pattern).map_err(|error| error.to_string())?;
    paths.iter().map(|path| read(path).map_err(|error| error.to_string())).collect()
}

fn read(path: &Path) -> io::Result<NginxFile> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other(format!("{} is not a file", path.display())));
    }
    if metadata.len() > MAX_BYTES {
        return Err(io::Error::other(format!("{} is too long", path.display())));
    }
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    Ok(NginxFile { name: path.display().to_string(), text })
}

/// The paths that a pattern names, by name.
fn find(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![folder.join(pattern)]);
    }
    let mut paths = vec![folder.to_owned()];
    for part in Path::new(pattern).components() {
        let Component::Normal(name) = part else {
            for path in &mut paths {
                path.push(part);
            }
            continue;
        };
        let name = name.to_string_lossy();
        let mut deeper = Vec::new();
        for path in paths {
            deeper.extend(matching(&path, &name)?);
            if deeper.len() > MAX_PATHS {
                let message = format!("it names more than {MAX_PATHS} files");
                return Err(io::Error::other(message));
            }
        }
        paths = deeper;
    }
    paths.retain(|path| path.is_file());
    Ok(paths)
}

/// What a folder has of that name or pattern.
fn matching(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    if !pattern.contains(['*', '?', '[']) {
        return Ok(Some(folder.join(pattern)).filter(|path| path.exists()).into_iter().collect());
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A pattern asks for folders, and a file is none.
    if !listed.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(listed)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if (pattern.starts_with('.') || !text.starts_with('.')) && matches(pattern, &text) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Whether a name matches a pattern as the shell's do.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.chars().collect::<Vec<_>>(), name.chars().collect::<Vec<_>>());
    let (mut at, mut seen) = (0, 0);
    // Where to go on if what follows the last star does not fit.
    let mut retry = None;
    loop {
        let step = match (pattern.get(at), name.get(seen)) {
            (Some('*'), _) => {
                retry = Some((at + 1, seen));
                at += 1;
                continue;
            }
            (None, None) => return true,
            (Some(_), Some(c)) => one(&pattern[at..], *c),
            (None, Some(_)) | (Some(_), None) => None,
        };
        match (step, &mut retry) {
            (Some(length), _) => {
                at += length;
                seen += 1;
            }
            (None, Some((after_star, from))) if *from < name.len() => {
                *from += 1;
                (at, seen) = (*after_star, *from);
            }
            (None, _) => return false,
        }
    }
}

/// How much of the pattern matches this character at its start, if anything does.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        ['[', rest @ ..] => set(rest, c),
        [plain, ..] => (*plain == c).then_some(1),
        [] => None,
    }
}

/// How much of a set, after its opening bracket, matches this character. A set that is never closed is a
/// plain bracket.
fn set(rest: &[char], c: char) -> Option<usize> {
    let is_negated = matches!(rest, ['!' | '^', ..]);
    let start = usize::from(is_negated);
    let members = rest.get(start..)?;
    // A bracket that comes first is a member.
    let Some(end) = members.iter().skip(1).position(|it| *it == ']').map(|at| at + 1) else {
        return (c == '[').then_some(1);
    };
    let members = members.get(..end)?;
    let mut is_member = false;
    let mut at = 0;
    while let Some(first) = members.get(at) {
        match members.get(at + 1..at + 3) {
            Some(['-', last]) => {
                is_member |= (*first..=*last).contains(&c);
                at += 3;
            }
            _ => {
                is_member |= *first == c;
                at += 1;
            }
        }
    }
    (is_member != is_negated).then_some(1 + start + end + 1)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, names, others) in [
            ("*", &["", "a", "a.conf"][..], &[][..]),
            ("*.conf", &["a.conf", ".conf"], &["a.conf~", "conf", "a.con"]),
            ("a*b*c", &["abc", "axbxbxc"], &["abcd", "acb"]),
            ("?.conf", &["a.conf", "ü.conf"], &[".conf", "ab.conf"]),
            ("[0-9][0-9]-*", &["10-a", "99-"], &["1-a", "ab-c"]),
            ("[!a-c]x", &["dx", "-x"], &["ax", "x"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b", "[]a]"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[a", &["[a"], &["a"]),
            ("a\\*", &["a*"], &["ab", "a\\*"]),
            ("**a", &["a", "ba"], &["b"]),
        ] {
            for name in names {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in others {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
        let (pattern, name) = ("*a".repeat(500) + "b", "a".repeat(2_000));
        assert!(!matches(&pattern, &name), "soon enough");
    }
}

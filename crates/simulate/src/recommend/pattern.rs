//! Endpoints from paths: segments that name a thing become `{id}`, and rare paths are joined under their folder.

use std::collections::BTreeMap;

use tollgate::rules::normalise_path;

/// Deeper paths are joined under this depth.
const MAX_DEPTH: usize = 6;
/// Longer segments name a thing.
const MAX_SEGMENT: usize = 40;
/// From this length on, a segment of hexadecimal digits names a thing.
const MIN_HEX: usize = 8;
/// From this length on, a segment with letters and several digits names a thing.
const MIN_TOKEN: usize = 16;

/// Endings of the files that pages load. They cost little, so only the class of their client limits them.
const FILES: [&str; 14] = [
    "css", "js", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "woff", "woff2",
    "ttf",
];

/// Whether the path is that of a file that pages load.
pub(super) fn is_file(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| FILES.iter().any(|file| file.eq_ignore_ascii_case(ending)))
}

/// The path of an endpoint, as segments.
pub(super) type Segments = Vec<String>;

/// The segments of a path, those that name a thing as `{id}`.
pub(super) fn segments(path: &str) -> Segments {
    let normal = normalise_path(path);
    let mut segments: Segments = normal
        .split('/')
        .filter(|segment| !segment.is_empty())
        .take(MAX_DEPTH + 1)
        .map(|segment| if names_a_thing(segment) { "{id}" } else { segment })
        .map(str::to_owned)
        .collect();
    if segments.len() > MAX_DEPTH {
        segments.truncate(MAX_DEPTH);
        segments.push("*".to_owned());
    }
    segments
}

fn names_a_thing(segment: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    if segment.len() > MAX_SEGMENT || !segment.bytes().all(is_plain) {
        return true;
    }
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let has_extension = segment.contains('.');
    digits == segment.len()
        || (is_hex && digits > 0 && segment.len() >= MIN_HEX)
        || (digits >= 4 && segment.len() >= MIN_TOKEN && !has_extension)
}

/// The pattern of an endpoint.
pub(super) fn pattern(segments: &[String]) -> String {
    format!("/{}", segments.join("/"))
}

/// The endpoint of a path: `/users/{id}` of `/users/7`.
#[must_use]
pub fn endpoint_of(path: &str) -> String {
    pattern(&segments(path))
}

/// Endpoints with at least so many requests each. Rarer ones are joined as `/folder/*`, as far up as is needed, but
/// not to `/*`.
pub(super) fn frequent(counts: BTreeMap<Segments, u64>, least: u64) -> Vec<(Segments, u64)> {
    let mut frequent = Vec::new();
    // The requests of each folder that no endpoint below it has, by the depth of the folder.
    let mut folders: Vec<BTreeMap<Segments, u64>> = vec![BTreeMap::new(); MAX_DEPTH + 1];
    let join = |folders: &mut Vec<BTreeMap<Segments, u64>>, folder: &[String], count: u64| {
        if let Some(level) = folders.get_mut(folder.len()) {
            *level.entry(folder.to_vec()).or_default() += count;
        }
    };
    for (segments, count) in counts {
        match segments.split_last() {
            Some((last, folder)) if count < least || last == "*" => {
                join(&mut folders, folder, count);
            }
            _ if count >= least => frequent.push((segments, count)),
            _ => {}
        }
    }
    for depth in (1..=MAX_DEPTH).rev() {
        for (mut folder, count) in std::mem::take(&mut folders[depth]) {
            if count >= least {
                folder.push("*".to_owned());
                frequent.push((folder, count));
            } else if let Some((_, above)) = folder.split_last() {
                let above = above.to_vec();
                join(&mut folders, &above, count);
            }
        }
    }
    frequent.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    frequent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_have_no_names() {
        let check = |path: &str, expected: &str| assert_eq!(pattern(&segments(path)), expected);
        check("/", "/");
        check("/login", "/login");
        check("/api/v1/items/337?page=2", "/api/v1/items/{id}");
        check("/users/3f2504e0-4f89-11d3-9a0c-0305e82c3301/cart", "/users/{id}/cart");
        check("/commit/deadbeef01", "/commit/{id}");
        check("/images/kibana-dashboard3.png", "/images/kibana-dashboard3.png");
        check("/a/b/c/d/e/f/g/h", "/a/b/c/d/e/f/*");
        check("/x{y}/*/\"quote\"", "/{id}/{id}/{id}");
        check("/blog/2015/05/17/title", "/blog/{id}/{id}/{id}/title");
    }

    #[test]
    fn files_of_pages_are_known_by_their_ending() {
        assert!(is_file("/favicon.ico") && is_file("/a/b/Style.CSS?v=2") && is_file("/x.tar.js"));
        assert!(!is_file("/js") && !is_file("/a.js/b") && !is_file("/feed.xml") && !is_file("/"));
    }

    #[test]
    fn rare_paths_are_joined() {
        let paths = [("/login", 60), ("/s/a.png", 30), ("/s/b.png", 30), ("/x/y/z", 5), ("/", 7)];
        let counts = paths.into_iter().map(|(path, count)| (segments(path), count)).collect();
        let found: Vec<(String, u64)> =
            frequent(counts, 50).iter().map(|(path, count)| (pattern(path), *count)).collect();
        assert_eq!(found, [("/login".to_owned(), 60), ("/s/*".to_owned(), 60)]);
    }
}

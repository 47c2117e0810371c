//! No spelling of a path gets past a rule.

use proptest::prelude::*;
use tollgate_core::Timestamp;
use tollgate_rules::{PathCase, normalise_path};

use crate::request::{Request, plan, policy, render};

#[test]
fn paths_have_one_spelling() {
    for (raw, expected) in [
        ("", "/"),
        ("/", "/"),
        ("//", "/"),
        ("/api", "/api"),
        ("api", "/api"),
        ("/api/", "/api"),
        ("/api//", "/api"),
        ("//api", "/api"),
        ("/api//x", "/api/x"),
        ("/api/./x", "/api/x"),
        ("/api/../x", "/x"),
        ("/api/..", "/"),
        ("/..", "/"),
        ("/../../api", "/api"),
        ("/a/b/../../c", "/c"),
        ("/api/%2e%2e/x", "/x"),
        ("/api/%2E/x", "/api/x"),
        ("/api/.%2e/x", "/x"),
        ("/%61dmin", "/admin"),
        ("/Admin", "/Admin"),
        ("/api/%2Fx", "/api/%2Fx"),
        ("/api/%2fx", "/api/%2Fx"),
        ("/api%2F..%2Fx", "/api%2F..%2Fx"),
        ("/a%252e", "/a%252e"),
        ("/a%", "/a%25"),
        ("/a%4", "/a%254"),
        ("/a%zz", "/a%25zz"),
        ("/%%36%31", "/%2561"),
        ("/a%40b%3A", "/a@b:"),
        ("/a b", "/a%20b"),
        ("/a\\b", "/a/b"),
        ("\\a\\\\b\\", "/a/b"),
        ("/x\\..\\a", "/a"),
        ("/a%5Cb", "/a%5Cb"),
        ("/café", "/caf%C3%A9"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/%00", "/%00"),
        ("/...", "/..."),
        ("/.well-known/x", "/.well-known/x"),
        ("/api?x=/../y", "/api"),
        ("/api#x", "/api"),
        ("/api/?x", "/api"),
        ("?x", "/"),
        ("/api%3Fx", "/api%3Fx"),
        ("*", "/*"),
    ] {
        assert_eq!(normalise_path(raw), expected, "{raw}");
    }
}

#[test]
fn a_guarded_path_stays_guarded() {
    let policy = policy(
        "rules: [{rule_id: r, limit: 1, window: 1m, identifier_type: global, \
         applies_to: {endpoints: [/admin/*, '/café/{id}']}}]",
    );
    for (path, is_guarded) in [
        ("/admin", true),
        ("/admin/", true),
        ("//admin//x", true),
        ("/x/../admin", true),
        ("/%61dmin/y", true),
        ("/%2e/admin", true),
        ("/admin?x", true),
        ("/caf%C3%A9/1", true),
        ("/café/1/", true),
        ("/café/%2F", true),
        ("/café", false),
        ("/café/1/2", false),
        ("/admin%2Fx", false),
        ("/ADMIN", false),
        ("/administrator", false),
    ] {
        let request = Request::default().with("path", path);
        let found = plan(&policy, &[request], Timestamp::EPOCH).planned().len() == 1;
        assert_eq!(found, is_guarded, "{path}");
    }
}

#[test]
fn capital_letters_can_be_ignored_in_requests_and_rules() {
    let text = "rules: [{rule_id: r, limit: 1, window: 1m, identifier_type: path, \
                applies_to: {endpoints: [/Admin/*, '/users/{id}/LOG', /users/me/log, /caf%c3%a9]}}]";
    let policy = policy(text);
    let folding = policy.clone().with_path_case(PathCase::Insensitive);
    for (path, is_exact, folded) in [
        ("/Admin/x", true, Some("/admin/x")),
        ("/admin", false, Some("/admin")),
        ("/ADMIN/X", false, Some("/admin/x")),
        ("/Users/7/log", false, Some("/users/7/log")),
        ("/users/7/LOG", true, Some("/users/7/log")),
        ("/users/ME/Log", false, Some("/users/me/log")),
        ("/CAF\u{e9}", false, Some("/caf%c3%a9")),
        ("/caf%C3%A9", true, Some("/caf%c3%a9")),
        ("/other", false, None),
    ] {
        let request = Request::default().with("path", path);
        let planned = |policy| {
            render(&plan(policy, std::slice::from_ref(&request), Timestamp::EPOCH), policy)
        };
        assert_eq!(!planned(&policy).is_empty(), is_exact, "{path}: {}", planned(&policy));
        let expected = folded.map(|path| format!("r({path})=1*1")).unwrap_or_default();
        assert_eq!(planned(&folding), expected, "{path}");
        let explained = folding.explain(&request, Timestamp::EPOCH);
        assert_eq!(explained.rules[0].applies, folded.is_some(), "{path}");
    }
}

/// Text that is likely to be trouble.
pub(crate) fn nasty_path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "/", "//", ".", "..", "%2e", "%2E", "%2f", "%61", "%", "%%", "%4", "?", "#", "a", "b",
            "api", "*", "{x}", "é", "%C3%A9", "\\", " ", "\0", ";", "@", "%25", "%252e",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(raw in nasty_path()) {
        let once = normalise_path(&raw).into_owned();
        prop_assert_eq!(&*normalise_path(&once), &once);
    }

    #[test]
    fn normal_paths_have_no_odd_parts(raw in nasty_path()) {
        let path = normalise_path(&raw);
        prop_assert!(path.starts_with('/'), "{}", path);
        prop_assert!(path.is_ascii() && !path.contains(['?', '#', ' ', '\\']), "{}", path);
        let inner = &path[1..];
        let is_sound = inner.is_empty() || inner.split('/').all(|part| !matches!(part, "" | "." | ".."));
        prop_assert!(is_sound, "{}", path);
    }

    #[test]
    fn detours_lead_to_the_same_place(raw in nasty_path(), detour in "[a-z]{1,5}") {
        let raw = raw.replace(['?', '#'], "");
        let expected = normalise_path(&raw);
        for path in [
            format!("/{detour}/../{raw}"),
            format!("/./{raw}//"),
            format!("/{raw}?x=/y"),
            format!("/{raw}/%2e#z"),
            format!("/{raw}/{detour}/%2E."),
        ] {
            prop_assert_eq!(&normalise_path(&path), &expected, "{}", path);
        }
    }
}

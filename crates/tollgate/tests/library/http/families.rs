//! Names of families, and which of them go together.

use tollgate::http::{HeaderFamilies, HeaderFamily};

#[test]
fn families_have_names() {
    for family in HeaderFamily::ALL {
        assert_eq!(family.to_string().parse(), Ok(family));
    }
    let error = "draft-12".parse::<HeaderFamily>().expect_err("there is none");
    let expected = "there is no header family \"draft-12\"; known are x-ratelimit, \
                    x-ratelimit-delta, draft-11, draft-7, draft-6";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn families_that_share_fields_do_not_go_together() {
    check("", "");
    check("draft-6", "draft-6");
    check("draft-11 x-ratelimit", "x-ratelimit draft-11");
    check("x-ratelimit-delta draft-7 draft-7", "x-ratelimit-delta draft-7");
    for (families, one, other) in [
        ("x-ratelimit x-ratelimit-delta", "x-ratelimit", "x-ratelimit-delta"),
        ("draft-7 x-ratelimit draft-11", "draft-7", "draft-11"),
        ("draft-11 draft-6", "draft-11", "draft-6"),
    ] {
        let sentence = "use the same header fields; choose one of them";
        check(families, &format!("{one} and {other} {sentence}"));
    }
    assert_eq!(names(HeaderFamilies::default()), "x-ratelimit draft-11");
    assert_eq!(names(HeaderFamilies::none()), "");
}

/// Compares the families that were taken, or why they were not.
fn check(families: &str, expected: &str) {
    let made = HeaderFamilies::new(parse(families)).map_or_else(|error| error.to_string(), names);
    assert_eq!(made, expected, "{families}");
}

fn parse(families: &str) -> impl Iterator<Item = HeaderFamily> {
    families.split_whitespace().map(|name| name.parse().expect("a family"))
}

fn names(families: HeaderFamilies) -> String {
    families.iter().map(HeaderFamily::name).collect::<Vec<_>>().join(" ")
}

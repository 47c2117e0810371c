//! `tollgate rules import`: files of other programs become a valid policy.

mod agreement;
mod envoy;
mod nginx;
mod support;

use crate::support::tollgate;

#[test]
fn wrong_usage_is_an_error() {
    for (arguments, expected) in [
        (&["rules", "import", "-"][..], "--from <LIMITER>"),
        (&["rules", "import", "--from", "envoy"], "<FILE|DIR>"),
        (&["rules", "import", "--from", "haproxy", "-"], "[possible values: envoy, nginx]"),
    ] {
        let ran = tollgate(arguments, "");
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
}

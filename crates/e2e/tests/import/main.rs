//! `tollgate rules import`: files of others in, a policy that can be used out.

mod agreement;
mod envoy;
mod nginx;
mod support;

use crate::support::tollgate;

#[test]
fn wrong_usage_is_told() {
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

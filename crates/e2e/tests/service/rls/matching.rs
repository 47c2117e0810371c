//! Which limit of the files applies to a descriptor.

use super::{ask, start};
use tollgate_e2e::grpc::Client;

const FILE: &str = "
domain: test
descriptors:
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 100}
    descriptors:
      - {key: path, rate_limit: {unit: year, requests_per_unit: 50}}
      - {key: path, value: /free}
      - {key: path, value: /login, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: file, value: '*.jpg', share_threshold: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: page, value: 'a*', rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: page, value: 'ab', rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: plan, rate_limit: {name: plain, unit: year, requests_per_unit: 40}}
  - {key: gold, rate_limit: {name: gold, unit: year, requests_per_unit: 60, replaces: [{name: plain}]}}
  - {key: open, rate_limit: {unlimited: true, replaces: [{name: plain}]}}
";

#[test]
fn descriptors_find_their_limits() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |descriptors: &[&[&str]], expected: &str| {
        assert_eq!(ask(&mut client, descriptors), expected, "{descriptors:?}");
    };
    check(&[&["tenant=a"]], "OK, OK 99");
    check(&[&["tenant=b"]], "OK, OK 99");
    check(&[&["tenant=a", "path=/x"]], "OK, OK 49");
    check(&[&["tenant=a", "path=/login"]], "OK, OK 4");
    check(&[&["tenant=b", "path=/login"]], "OK, OK 4");
    check(&[&["tenant=a"]], "OK, OK 98");
    // A value without a limit is unlimited; deeper and other keys are unknown.
    check(&[&["tenant=a", "path=/free"]], "OK, OK 0");
    check(&[&["tenant=a", "path=/login", "more=1"]], "OK, OK 0");
    check(&[&["path=/login"]], "OK, OK 0");
    check(&[&["tenant=a"], &["tenant=a", "path=/x"], &["what=?"]], "OK, OK 97, OK 48, OK 0");
    // One counter for all that match, or one for each.
    check(&[&["file=cat.jpg"]], "OK, OK 9");
    check(&[&["file=dog.jpg"]], "OK, OK 8");
    check(&[&["file=cat.png"]], "OK, OK 0");
    check(&[&["page=a1"]], "OK, OK 19");
    check(&[&["page=a2"]], "OK, OK 19");
    check(&[&["page=ab"]], "OK, OK 29");
    // A replaced limit is not counted.
    check(&[&["plan=x"]], "OK, OK 39");
    check(&[&["plan=x"], &["gold=x"]], "OK, OK 0, OK 59");
    check(&[&["open=x"], &["plan=x"]], "OK, OK 4294967295, OK 0");
    check(&[&["plan=x"]], "OK, OK 38");
}

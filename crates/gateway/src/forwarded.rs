//! Describes the client to the upstream: `Forwarded` and `X-Forwarded-*`.
//!
//! Fields from a trusted proxy are kept and extended; those from any other peer are removed. Only the number of
//! gateways that a request has passed is accepted from every peer: a wrong number harms its sender only.

use std::net::IpAddr;

use http::HeaderValue;
use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::IpNet;
use tollgate::identity::address_text;

use crate::failure::ForwardError;
use crate::guard::FieldGuard;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// How many gateways like this one a request may pass. More means a loop.
const MAX_GATEWAYS: u32 = 8;
/// The bytes that most elements fit into.
const ELEMENT_CAPACITY: usize = 96;
/// The identifier of a gateway, before the number of gateways that a request has passed.
const GATEWAY: &str = "by=_tollgate-";

/// One hop of a request: its client, and how it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardedHop<'a> {
    pub(crate) client: IpAddr,
    pub(crate) is_trusted: bool,
    pub(crate) guard: &'a FieldGuard,
    pub(crate) scheme: &'static str,
    pub(crate) host: Option<&'a str>,
}

/// Whether a peer is a trusted proxy, also for IPv4 written as IPv6.
pub(crate) fn is_trusted(proxies: &[IpNet], peer: IpAddr) -> bool {
    let mapped = match peer {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        IpAddr::V6(_) => peer.to_canonical(),
    };
    proxies.iter().any(|network| network.contains(&peer) || network.contains(&mapped))
}

impl ForwardedHop<'_> {
    /// Adds this hop to the fields of a trusted proxy, or replaces those of another peer.
    pub(crate) fn tell(&self, fields: &mut HeaderMap) -> Result<(), ForwardError> {
        let passed = gateways_passed(fields);
        if passed >= MAX_GATEWAYS {
            return Err(ForwardError::Loop);
        }
        self.guard.strip_head(fields, self.is_trusted);
        let client = self.client.to_canonical();
        let address = address_text(client);
        append(fields, FOR, &address);
        append(fields, FORWARDED, &self.element(client, &address, passed + 1));
        let host = self.host.map(HeaderValue::try_from).and_then(Result::ok);
        for (name, value) in [(PROTO, Some(HeaderValue::from_static(self.scheme))), (HOST, host)] {
            // The first proxy has the original value.
            if let Some(value) = value.filter(|_| !fields.contains_key(&name)) {
                fields.insert(name, value);
            }
        }
        Ok(())
    }

    /// This hop as an element of RFC 7239. Written without the formatter: every request has one.
    fn element(&self, client: IpAddr, address: &str, gateways: u32) -> String {
        let mut element = String::with_capacity(ELEMENT_CAPACITY);
        let (before, after) = if client.is_ipv4() { ("for=", "") } else { ("for=\"[", "]\"") };
        element.extend([before, address, after]);
        if let Some(host) = self.host {
            // A host has no character that ends a quoted string.
            element.extend([";host=\"", host, "\""]);
        }
        element.extend([";proto=", self.scheme, ";", GATEWAY]);
        // There are at most eight.
        element.extend(char::from_digit(gateways, 10));
        element
    }
}

/// How many gateways like this one a request has passed.
fn gateways_passed(fields: &HeaderMap) -> u32 {
    let lines = fields.get_all(FORWARDED).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| matches!(byte, b',' | b';')));
    let numbers = pairs.filter_map(|pair| {
        let number = pair.trim_ascii().strip_prefix(GATEWAY.as_bytes())?;
        std::str::from_utf8(number).ok()?.parse().ok()
    });
    numbers.max().unwrap_or(0)
}

/// Appends a value to a list, and joins its lines.
fn append(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    let mut list = Vec::new();
    for line in fields.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(value.as_bytes());
    // Valid values stay valid when joined.
    if let Ok(list) = HeaderValue::from_maybe_shared(bytes::Bytes::from(list)) {
        fields.insert(name, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GatewayConfig;

    fn told(is_trusted: bool, client: &str, lines: &[(&'static str, &'static str)]) -> String {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_static(value));
        }
        let client = client.parse().expect(client);
        let guard = FieldGuard::new(&GatewayConfig {
            proxy_fields: vec![HeaderName::from_static("x-tenant")],
            ..GatewayConfig::default()
        });
        let step = ForwardedHop {
            client,
            is_trusted,
            guard: &guard,
            scheme: "https",
            host: Some("shop.example:8443"),
        };
        step.tell(&mut fields).expect("no circle");
        let mut left: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        left.sort();
        left.join("\n")
    }

    const FRESH: &str =
        "forwarded: for=192.0.2.1;host=\"shop.example:8443\";proto=https;by=_tollgate-1
x-forwarded-for: 192.0.2.1
x-forwarded-host: shop.example:8443
x-forwarded-proto: https";

    #[test]
    fn forwarding_fields_of_a_client_are_replaced() {
        assert_eq!(told(false, "192.0.2.1", &[]), FRESH);
        assert_eq!(told(false, "::ffff:192.0.2.1", &[]), FRESH);
        let claims = [
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "10.0.0.1"),
            ("x_forwarded_for", "10.0.0.1"),
            ("x-forwarded_host", "evil"),
            ("x-tenant", "other"),
            ("x_tenant", "other"),
        ];
        assert_eq!(told(false, "192.0.2.1", &claims), FRESH);
    }

    #[test]
    fn what_a_trusted_proxy_wrote_is_added_to() {
        let lines = [
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "first.example"),
            ("x-forwarded-port", "80"),
            ("x_forwarded_for", "10.0.0.9"),
            ("x-tenant", "acme"),
            ("x_tenant", "other"),
        ];
        let expected = "forwarded: for=10.0.0.1, for=192.0.2.1;host=\"shop.example:8443\";proto=https;by=_tollgate-1
x-forwarded-for: 10.0.0.1, 10.0.0.2, 192.0.2.1
x-forwarded-host: first.example
x-forwarded-port: 80
x-forwarded-proto: http
x-tenant: acme";
        assert_eq!(told(true, "192.0.2.1", &lines), expected);
        assert_eq!(told(true, "192.0.2.1", &[]), FRESH);
    }

    #[test]
    fn gateways_are_counted_from_any_peer() {
        let check = |is_trusted: bool, lines: &[&'static str], expected: Option<u32>| {
            let mut fields = HeaderMap::new();
            for line in lines {
                fields.append(FORWARDED, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let client = IpAddr::from([192, 0, 2, 1]);
            let guard = &FieldGuard::default();
            let step = ForwardedHop { client, is_trusted, guard, scheme: "http", host: Some("a") };
            let told = step.tell(&mut fields).map(|()| gateways_passed(&fields));
            assert_eq!(told, expected.ok_or(ForwardError::Loop), "{lines:?}");
        };
        for is_trusted in [true, false] {
            check(is_trusted, &[], Some(1));
            check(is_trusted, &["for=a;by=_tollgate-1"], Some(2));
            check(is_trusted, &["for=é", "for=a; by=_tollgate-3 , by=_tollgate-2;for=b"], Some(4));
            check(is_trusted, &["for=a;by=_tollgate-x", "by=_tollgate-99999999999"], Some(1));
            check(is_trusted, &["by=_tollgate-7"], Some(8));
            check(is_trusted, &["by=_tollgate-8"], None);
            check(is_trusted, &["by=_tollgate-4294967295"], None);
        }
    }

    #[test]
    fn an_address_of_ipv6_is_quoted() {
        let told = told(false, "2001:db8::1", &[]);
        assert!(told.contains("forwarded: for=\"[2001:db8::1]\";host="), "{told}");
        assert!(told.contains("x-forwarded-for: 2001:db8::1\n"), "{told}");
    }

    #[test]
    fn proxies_are_known_however_they_are_written() {
        let check = |network: &str, peer: &str, expected: bool| {
            let proxies = [network.parse().expect(network)];
            assert_eq!(
                is_trusted(&proxies, peer.parse().expect(peer)),
                expected,
                "{network} {peer}"
            );
        };
        check("10.0.0.0/8", "10.1.2.3", true);
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true);
        check("10.0.0.0/8", "11.1.2.3", false);
        check("2001:db8::/32", "2001:db8::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
    }
}

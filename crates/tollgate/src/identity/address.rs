//! Addresses as text: in any of the spellings that proxies use, and in one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a hop, without port, brackets and zone; IPv4 written as IPv6 is IPv4.
///
/// `None` if the text is no address: `unknown`, `_hidden`, a host name.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return ipv6(address).filter(|_| is_whole);
    }
    match text.split_once(':') {
        None => ipv4(text),
        Some((address, port)) if is_port(port) && !address.is_empty() => ipv4(address),
        Some(_) => ipv6(text),
    }
}

/// The text of an address. That of IPv4 is written without the formatter: every request has one.
#[must_use]
pub fn address_text(address: IpAddr) -> String {
    let IpAddr::V4(address) = address else { return address.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.push('.');
        }
        for (divisor, least) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= least {
                text.push(char::from(b'0' + octet / divisor % 10));
            }
        }
    }
    text
}

fn ipv4(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

/// A zone (`fe80::1%eth0`) means something on one machine only.
fn ipv6(text: &str) -> Option<IpAddr> {
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

/// A number, or a name that hides one: RFC 7239 allows `_` and a few characters.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => {
            let is_hidden = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && name.bytes().all(is_hidden)
        }
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_formatter_writes_them() {
        let octets = (0..=u8::MAX).map(|octet| IpAddr::from([octet, 0, 255 - octet, octet]));
        for address in octets.chain([IpAddr::from(Ipv6Addr::LOCALHOST)]) {
            assert_eq!(address_text(address), address.to_string());
        }
    }
}

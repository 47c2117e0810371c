//! Addresses and networks: one spelling of each, and which of them are the same client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::compile::flaw::Flaw;

/// The part of an IPv6 address that names a site: within it a client picks addresses at will.
const SITE_PREFIX: u8 = 64;

/// The address of a client. IPv4 has one spelling; IPv4 written as IPv6 (`::ffff:192.0.2.1`) is IPv4.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(client_address)
}

/// The first 96 bits of `64:ff9b::/96`, in which NAT64 translators embed IPv4 addresses (RFC 6052).
const NAT64_PREFIX: u128 = 0x0064_ff9b << 96;

/// The address that a client is known by: the IPv4 address inside `::ffff:0:0/96` and inside the NAT64
/// prefix `64:ff9b::/96`, so that clients behind one translator do not share a counter.
///
/// Local NAT64 prefixes (RFC 8215) are not translated: where they embed the IPv4 address is
/// known only to their network.
#[must_use]
pub fn client_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => match (v6.to_bits() ^ NAT64_PREFIX).try_into() {
            Ok(embedded) => IpAddr::V4(Ipv4Addr::from_bits(embedded)),
            Err(_) => IpAddr::V6(v6),
        },
        v4 => v4,
    }
}

/// The key of a client that shares a resource with others: an IPv4 address, or the first address of the /64 of an
/// IPv6 address.
#[must_use]
pub fn client_network(address: IpAddr) -> IpAddr {
    match client_address(address) {
        IpAddr::V6(v6) => Network::around(v6.into(), SITE_PREFIX).base,
        v4 => v4,
    }
}

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network {
    /// The first address.
    base: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`; an address alone is the network of that one address.
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let flaw = |message: String| {
            Flaw::new(message, "write an address or a network, like 192.0.2.1 or 2001:db8::/32")
        };
        let Ok(written) = address.parse::<IpAddr>() else {
            return Err(flaw(format!("`{address}` is not an IP address")));
        };
        let longest = bits(written);
        let prefix = match prefix {
            None => longest,
            Some(digits) => decimal(digits)
                .filter(|prefix| *prefix <= longest)
                .ok_or_else(|| flaw(format!("the prefix length must be 0 to {longest}")))?,
        };
        let network = Self::canonical(written, prefix);
        if !network.is_spelled(written) {
            return Err(Flaw::new(
                format!("`{text}` has bits set behind its prefix"),
                format!("the network is {network}"),
            ));
        }
        Ok(network)
    }

    /// The network of that prefix length around an address.
    pub(crate) fn around(address: IpAddr, prefix: u8) -> Self {
        let base = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { base, prefix }
    }

    /// The first address, if all of them count as one client.
    pub(crate) fn as_client(self) -> Option<IpAddr> {
        let needed = if self.is_ipv4() { bits(self.base) } else { SITE_PREFIX };
        (self.prefix >= needed).then_some(self.base)
    }

    /// The /64 that an IPv6 network is in, or begins with.
    pub(crate) fn site(self) -> Option<Self> {
        (!self.is_ipv4()).then(|| Self::around(self.base, SITE_PREFIX))
    }

    /// How many leading bits its addresses share.
    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether these are IPv4 addresses.
    pub(crate) fn is_ipv4(self) -> bool {
        self.base.is_ipv4()
    }

    /// Networks within `::ffff:0:0/96` are IPv4 networks, and so are those within the NAT64 prefix. The
    /// NAT64 prefix as a whole is not: it would stand for all of IPv4.
    fn canonical(address: IpAddr, prefix: u8) -> Self {
        let is_mapped = address.to_canonical().is_ipv4();
        match (client_address(address), prefix.checked_sub(96)) {
            (IpAddr::V4(v4), Some(prefix)) if address.is_ipv6() && (is_mapped || prefix > 0) => {
                Self::around(v4.into(), prefix)
            }
            _ => Self::around(address, prefix),
        }
    }

    fn is_spelled(self, written: IpAddr) -> bool {
        self.base == if self.is_ipv4() { client_address(written) } else { written }
    }
}

/// What a client is counted by: its IPv4 address, or the /64 its IPv6 address is in.
///
/// It is written for every request that is counted by address, so it needs no allocation and none
/// of the machinery of formatting.
pub(crate) struct ClientText {
    buffer: [u8; Self::MAX_BYTES],
    len: usize,
}

impl ClientText {
    /// The length of `ffff:ffff:ffff:ffff::/64`.
    const MAX_BYTES: usize = 24;

    pub(crate) fn new(address: IpAddr) -> Self {
        let mut text = Self { buffer: [0; Self::MAX_BYTES], len: 0 };
        match address {
            IpAddr::V4(v4) => text.push_ipv4(v4),
            IpAddr::V6(v6) => text.push_site(v6),
        }
        text
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.buffer[..self.len]).unwrap_or_default()
    }

    fn push_ipv4(&mut self, address: Ipv4Addr) {
        for (at, octet) in address.octets().into_iter().enumerate() {
            if at > 0 {
                self.push(b'.');
            }
            for digit in [octet / 100, octet / 10 % 10].into_iter().skip_while(|digit| *digit == 0)
            {
                self.push(b'0' + digit);
            }
            self.push(b'0' + octet % 10);
        }
    }

    /// The last four groups are zero, so the longest run of zeros is always at the end.
    fn push_site(&mut self, address: Ipv6Addr) {
        let [a, b, c, d, ..] = address.segments();
        let groups = [a, b, c, d];
        let shown = groups.iter().rposition(|group| *group != 0).map_or(0, |last| last + 1);
        for group in &groups[..shown] {
            let digits = [12, 8, 4].map(|shift| group >> shift & 15);
            for digit in digits.into_iter().skip_while(|digit| *digit == 0).chain([group & 15]) {
                self.push(b"0123456789abcdef"[usize::from(digit)]);
            }
            self.push(b':');
        }
        if shown == 0 {
            self.push(b':');
        }
        b":/64".iter().for_each(|byte| self.push(*byte));
    }

    /// Nothing longer than the buffer is ever written.
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.buffer.get_mut(self.len) {
            *free = byte;
            self.len += 1;
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn decimal(digits: &str) -> Option<u8> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

/// A single IPv4 address is shown without its prefix length.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == bits(self.base) {
            write!(f, "{}", self.base)
        } else {
            write!(f, "{}/{}", self.base, self.prefix)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clients_behind_nat64_are_distinguished() {
        let check = |address: &str, expected_address: &str, expected_network: &str| {
            let address: IpAddr = address.parse().expect(address);
            assert_eq!(client_address(address).to_string(), expected_address);
            assert_eq!(client_network(address).to_string(), expected_network);
            assert_eq!(parse_address(&address.to_string()), Some(client_address(address)));
        };
        check("64:ff9b::c000:201", "192.0.2.1", "192.0.2.1");
        check("64:ff9b::192.0.2.2", "192.0.2.2", "192.0.2.2");
        check("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1");
        check("64:ff9b:0:0:0:1:c000:201", "64:ff9b::1:c000:201", "64:ff9b::");
        check("64:ff9b:1::c000:201", "64:ff9b:1::c000:201", "64:ff9b:1::");
        check("2001:db8:1:2:3::4", "2001:db8:1:2:3::4", "2001:db8:1:2::");
        let network = |text: &str| Network::parse(text).map(|network| network.to_string()).ok();
        assert_eq!(network("64:ff9b::c000:201").as_deref(), Some("192.0.2.1"));
        assert_eq!(network("64:ff9b::c000:200/120").as_deref(), Some("192.0.2.0/24"));
        assert_eq!(network("64:ff9b::/96").as_deref(), Some("64:ff9b::/96"));
        assert_eq!(network("::ffff:192.0.2.0/120").as_deref(), Some("192.0.2.0/24"));
    }

    proptest! {
        #[test]
        fn clients_are_written_as_their_networks(bits in any::<u128>(), mask in any::<[u16; 4]>()) {
            // Groups of zeros are what makes IPv6 addresses hard to write.
            let [a, b, c, d] = mask.map(|mask| if mask % 2 == 0 { 0 } else { mask });
            let sparse = Ipv6Addr::new(a, b, c, d, 0, 1, 0, 2);
            for address in [Ipv6Addr::from_bits(bits), sparse] {
                let expected = Network::around(address.into(), SITE_PREFIX).to_string();
                let text = ClientText::new(address.into());
                prop_assert_eq!(text.as_str(), expected);
            }
            let address = Ipv4Addr::from_bits(bits as u32);
            let text = ClientText::new(address.into());
            prop_assert_eq!(text.as_str(), address.to_string());
        }
    }
}

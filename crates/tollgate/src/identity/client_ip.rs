//! The address of the client, seen through the proxies in between.
//!
//! Only the peer of the socket is certain. A header is trusted as far as trusted proxies
//! wrote it, and they write on the right: the leftmost address is whatever the client likes.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;

use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net};
use tollgate_rules::client_address;

use super::error::IdentityError;
use super::{address, forwarded};

/// The most hops that are read. Longer chains are not real, and cost time.
const MAX_HOPS: usize = 64;
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How to find the address of a client.
#[derive(Clone, Debug)]
pub struct ClientIpConfig {
    /// The proxies whose headers are trusted. None by default: the peer is the client.
    pub trusted_proxies: Vec<IpNet>,
    /// The one header that they write. Other forwarding headers are ignored.
    pub header: ForwardingHeader,
    /// Take the address that stands this many places from the right, instead of the first that is
    /// not a trusted proxy: for proxies whose own addresses change. The peer must be trusted all the
    /// same.
    pub hops: Option<NonZeroUsize>,
    /// How much of an IPv6 address tells clients apart: 48, 56, 64 or 128 bits. A client has at
    /// least a /64 to itself and picks addresses in it at will, so that is the default. The rest
    /// becomes zero.
    ///
    /// With 128, lists see whole addresses; rules count by /64 even so.
    pub ipv6_prefix: u8,
}

impl Default for ClientIpConfig {
    fn default() -> Self {
        Self {
            trusted_proxies: Vec::new(),
            header: ForwardingHeader::XForwardedFor,
            hops: None,
            ipv6_prefix: 64,
        }
    }
}

/// The header in which proxies send the address of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`: a list to which every proxy adds its peer.
    XForwardedFor,
    /// `Forwarded`: such a list by RFC 7239.
    Forwarded,
    /// A header with one address, such as `X-Real-IP` or `CF-Connecting-IP`. The proxy must overwrite
    /// what the client sent.
    Single(HeaderName),
}

/// [`ClientIpConfig`], checked.
#[derive(Debug)]
pub(super) struct ClientIp {
    trusted_proxies: Vec<IpNet>,
    header: ForwardingHeader,
    hops: Option<NonZeroUsize>,
    ipv6_mask: u128,
}

impl ClientIp {
    pub(super) fn new(config: ClientIpConfig) -> Result<Self, IdentityError> {
        let ClientIpConfig { trusted_proxies, header, hops, ipv6_prefix } = config;
        if !matches!(ipv6_prefix, 48 | 56 | 64 | 128) {
            let problem = format!("{ipv6_prefix} bits; it can be 48, 56, 64 or 128");
            return Err(IdentityError::new("client_ip.ipv6_prefix", problem));
        }
        if hops.is_some() && matches!(header, ForwardingHeader::Single(_)) {
            let problem = "a header with one address has no hops to count; leave one of them out";
            return Err(IdentityError::new("client_ip.hops", problem));
        }
        if hops.is_some_and(|hops| hops.get() > MAX_HOPS) {
            let problem = format!("at most {MAX_HOPS} hops are looked at");
            return Err(IdentityError::new("client_ip.hops", problem));
        }
        let trusted_proxies = trusted_proxies.into_iter().map(canonical).collect();
        let ipv6_mask = u128::MAX << (128 - u32::from(ipv6_prefix));
        Ok(Self { trusted_proxies, header, hops, ipv6_mask })
    }

    /// Whether headers of this peer are trusted. The address must be canonical.
    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(&peer))
    }

    /// The client, where the peer's address is canonical.
    pub(super) fn find(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        match &self.header {
            ForwardingHeader::XForwardedFor => {
                self.choose(hops(headers, &X_FORWARDED_FOR, address::parse), peer)
            }
            ForwardingHeader::Forwarded => {
                self.choose(hops(headers, &FORWARDED, forwarded::client), peer)
            }
            ForwardingHeader::Single(name) => {
                let mut lines = headers.get_all(name).iter();
                // Two lines are one too many: the proxy did not overwrite what the client sent.
                let only = lines.next().filter(|_| lines.next().is_none());
                only.and_then(|line| address::parse(line.to_str().ok()?)).unwrap_or(peer)
            }
        }
    }

    /// What a client is known by: its IPv4 address, or the first address of its IPv6 network.
    pub(super) fn text(&self, client: IpAddr) -> String {
        match client_address(client) {
            address @ IpAddr::V4(_) => address::address_text(address),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & self.ipv6_mask).to_string()
            }
        }
    }

    /// Chooses among hops, the nearest first. One that cannot be read ends the search at the hop
    /// before it: a client may have written any hop beyond it.
    fn choose(&self, mut hops: impl Iterator<Item = Option<IpAddr>>, peer: IpAddr) -> IpAddr {
        if let Some(count) = self.hops {
            return hops.nth(count.get() - 1).flatten().unwrap_or(peer);
        }
        let mut client = peer;
        for hop in hops.take(MAX_HOPS) {
            let Some(hop) = hop else { break };
            client = hop;
            if !self.trusts(hop) {
                break;
            }
        }
        client
    }
}

/// The hops that all lines of a header name together, from right to left.
fn hops(
    headers: &HeaderMap,
    name: &HeaderName,
    read: impl Fn(&str) -> Option<IpAddr>,
) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(name).iter().rev();
    let entries = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    entries
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .map(move |entry| read(str::from_utf8(entry).ok()?))
}

/// Networks within `::ffff:0:0/96` are IPv4 networks, as addresses in it are IPv4 addresses.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let (Some(address), Some(prefix)) =
        (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96))
    else {
        return network;
    };
    Ipv4Net::new(address, prefix).map_or(network, IpNet::V4)
}

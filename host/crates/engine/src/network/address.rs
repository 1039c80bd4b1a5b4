//! Classifies IP addresses. An address that is not reachable from the whole internet must be named
//! in a grant, because services at such addresses often trust every client.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use toolyard_manifest::{Host, Hosts};

/// The kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressKind {
    /// Reachable from the whole internet.
    Public,
    /// An address of this machine.
    Loopback,
    /// Part of a non-public network or not routable. The word names the range.
    Private(&'static str),
    /// A service that gives cloud machines their credentials. Only a grant that names exactly this
    /// address reaches it.
    Metadata,
}

impl AddressKind {
    /// The kind as a word for messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private(word) => word,
            Self::Metadata => "metadata",
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(segments: [u16; 4], length: u8) -> Ipv6Net {
    let [a, b, c, d] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), length)
}

/// The metadata services of the clouds, and services that give credentials to containers.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The registry of special-purpose addresses, without the public ones.
const SPECIAL_V4: [(Ipv4Net, &str); 15] = [
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "carrier-grade NAT"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarking"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

const SPECIAL_V6: [(Ipv6Net, &str); 14] = [
    (v6([0x64, 0xff9b, 1, 0], 48), "translation"),
    (v6([0x100, 0, 0, 0], 64), "discard"),
    (v6([0x100, 0, 0, 1], 64), "reserved"),
    (v6([0x2001, 0, 0, 0], 32), "tunnel"),
    (v6([0x2001, 2, 0, 0], 48), "benchmarking"),
    (v6([0x2001, 0x10, 0, 0], 28), "reserved"),
    (v6([0x2001, 0x20, 0, 0], 28), "reserved"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    (v6([0x3fff, 0, 0, 0], 20), "documentation"),
    (v6([0x5f00, 0, 0, 0], 16), "reserved"),
    (v6([0xfc00, 0, 0, 0], 7), "unique-local"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// The kind of an address.
pub(crate) fn kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// Whether a network lies within a single range that is not public. Then all its addresses are of
/// one kind, and the grant cannot include one of them by accident.
pub(crate) fn is_of_one_kind(net: &IpNet) -> bool {
    const LOOPBACK: Ipv4Net = v4(127, 0, 0, 0, 8);
    match net {
        IpNet::V4(net) => {
            LOOPBACK.contains(net) || SPECIAL_V4.iter().any(|(special, _)| special.contains(net))
        }
        IpNet::V6(net) => SPECIAL_V6.iter().any(|(special, _)| special.contains(net)),
    }
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    if METADATA_V4.contains(&address) {
        return AddressKind::Metadata;
    }
    if address.is_loopback() {
        return AddressKind::Loopback;
    }
    let special = SPECIAL_V4.iter().find(|(net, _)| net.contains(&address));
    special.map_or(AddressKind::Public, |(_, word)| AddressKind::Private(word))
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    if METADATA_V6.contains(&address) {
        return AddressKind::Metadata;
    }
    if address.is_loopback() {
        return AddressKind::Loopback;
    }
    if address.is_unspecified() {
        return AddressKind::Private("unspecified");
    }
    if let Some(within) = embedded(address) {
        return kind_v4(within);
    }
    let special = SPECIAL_V6.iter().find(|(net, _)| net.contains(&address));
    special.map_or(AddressKind::Public, |(_, word)| AddressKind::Private(word))
}

/// The IPv4 address that an IPv6 address embeds: mapped, compatible, and NAT64 and 6to4 addresses,
/// which a gateway would translate.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let low = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        Ipv4Addr::new(a, b, c, d)
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(low(g, h)),
        [0x2002, high, rest, ..] => Some(low(high, rest)),
        _ => None,
    }
}

/// Whether a grant of these hosts covers an address that one of them resolved to.
pub(crate) fn reaches(hosts: &Hosts, private: bool, address: IpAddr) -> bool {
    let address = address.to_canonical();
    if let Hosts::One(Host::Address(named)) = hosts {
        return *named == address;
    }
    match kind(address) {
        AddressKind::Public => true,
        AddressKind::Metadata => false,
        AddressKind::Loopback => {
            private || matches!(hosts, Hosts::One(Host::Name(name)) if name == "localhost")
        }
        AddressKind::Private(_) => private,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_manifest::Written;

    #[test]
    fn every_kind_of_address_is_told_apart() {
        for (kind_word, addresses) in [
            (
                "public",
                "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
                 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 \
                 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 \
                 2606:4700:4700::1111 2a00:1450::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 \
                 2002:0808:0808::1",
            ),
            (
                "loopback",
                "127.0.0.1 127.255.255.255 127.0.0.0 ::1 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::127.0.0.1 \
                 2002:7f00:0001:: ::ffff:0:127.0.0.1",
            ),
            (
                "private",
                "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 \
                 ::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::a00:1 2002:c0a8:0101::1",
            ),
            ("carrier-grade NAT", "100.64.0.0 100.127.255.255"),
            ("link-local", "169.254.0.1 169.254.255.255 fe80::1 febf:ffff::1 ::ffff:169.254.1.1"),
            ("site-local", "fec0::1"),
            ("unique-local", "fc00::1 fdff:ffff::1 fd00::1"),
            ("unspecified", "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0"),
            ("multicast", "224.0.0.1 239.255.255.255 ff02::1"),
            ("broadcast", "255.255.255.255"),
            ("reserved", "240.0.0.1 254.255.255.255 192.0.0.1 192.88.99.1 2001:10::1 5f00::1"),
            ("documentation", "192.0.2.1 198.51.100.7 203.0.113.255 2001:db8::1 3fff::1"),
            ("benchmarking", "198.18.0.0 198.19.255.255 2001:2::1"),
            ("tunnel", "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2"),
            ("translation", "64:ff9b:1::1"),
            ("discard", "100::1"),
            (
                "metadata",
                "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 \
                 fd20:ce::254 ::ffff:169.254.169.254 ::169.254.169.254 64:ff9b::169.254.169.254 \
                 2002:a9fe:a9fe::1",
            ),
        ] {
            for address in addresses.split(' ') {
                let found = kind(address.parse().expect("an address"));
                assert_eq!(found.word(), kind_word, "{address}");
            }
        }
    }

    #[test]
    fn private_addresses_are_reached_only_by_who_named_them() {
        for (entry, private, reached, not) in [
            ("example.com", false, "93.184.216.34", "10.0.0.1 127.0.0.1 ::1 169.254.169.254"),
            ("*", false, "1.1.1.1", "192.168.1.1 127.0.0.1 fd00::1 ::ffff:10.0.0.1"),
            ("localhost", false, "127.0.0.1 ::1 127.0.0.9", "10.0.0.1 169.254.169.254 0.0.0.0"),
            ("intranet.corp", true, "10.0.0.1 127.0.0.1 fe80::1 1.1.1.1", "169.254.169.254 fd00:ec2::254"),
            ("10.0.0.5", false, "10.0.0.5 ::ffff:10.0.0.5", "10.0.0.6 1.1.1.1"),
            ("169.254.169.254", false, "169.254.169.254", "169.254.169.253"),
            ("*.localhost", false, "1.1.1.1", "127.0.0.1"),
        ] {
            let hosts = Written::parse(entry).expect(entry).hosts;
            for (addresses, is_reached) in [(reached, true), (not, false)] {
                for address in addresses.split(' ') {
                    let reaches = reaches(&hosts, private, address.parse().expect(address));
                    assert_eq!(reaches, is_reached, "{entry} {address}");
                }
            }
        }
    }
}

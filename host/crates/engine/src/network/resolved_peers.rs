//! The peers that a run may exchange data with over raw sockets: granted addresses, and the
//! addresses that a granted name resolved to in this run.

use crate::network::address::{self, AddressKind};
use ipnet::IpNet;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use toolyard_manifest::{Host, Hosts, Peer, Protocol, SocketGrant, SocketRule};

/// The maximum number of addresses recorded for a run.
const MAX_ADDRESSES: usize = 256;

/// Whether the guest may receive an address that the name of this rule resolved to.
fn gives(rule: &SocketRule, address: IpAddr) -> bool {
    match &rule.peer {
        Peer::Name(name) => address::reaches(&Hosts::One(Host::Name(name.clone())), rule.private, address),
        Peer::Net(_) => false,
    }
}

/// The addresses that a run received for names that it may connect to.
#[derive(Default)]
pub(crate) struct ResolvedPeers(Mutex<BTreeSet<(Protocol, u16, IpAddr)>>);

impl ResolvedPeers {
    /// Records an address of a name for each port that is granted with it. Returns whether it
    /// recorded any.
    pub fn note(&self, grant: &SocketGrant, name: &str, address: IpAddr) -> bool {
        let mut given = self.0.lock();
        let mut any = false;
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let is_of_name = |rule: &&SocketRule| matches!(&rule.peer, Peer::Name(named) if named == name);
            for rule in grant.of(protocol).iter().filter(is_of_name).filter(|rule| gives(rule, address)) {
                if given.len() < MAX_ADDRESSES {
                    given.insert((protocol, rule.port, address));
                    any = true;
                }
            }
        }
        any
    }

    /// Whether a run may exchange data with this address.
    pub fn may_reach(&self, grant: &SocketGrant, protocol: Protocol, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        let by_address = grant.of(protocol).iter().any(|rule| match &rule.peer {
            Peer::Name(_) => false,
            Peer::Net(net) => {
                rule.port == peer.port() && net.contains(&address) && covers(net, rule.private, address)
            }
        });
        by_address || {
            let given = self.0.lock();
            given.contains(&(protocol, peer.port(), address))
        }
    }
}

/// Whether a granted network covers an address in it. A non-public address is covered only if the
/// grant names it alone or names a network of its kind: a grant of the whole internet does not
/// include this machine.
fn covers(net: &IpNet, private: bool, address: IpAddr) -> bool {
    if net.prefix_len() == net.max_prefix_len() {
        return true;
    }
    match address::kind(address) {
        AddressKind::Public => true,
        AddressKind::Metadata => false,
        AddressKind::Loopback | AddressKind::Private(_) => private || address::is_of_one_kind(net),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(tcp: &[(&str, bool)]) -> SocketGrant {
        let rule = |(text, private): &(&str, bool)| SocketRule {
            private: *private,
            ..SocketRule::parse(text).expect(text)
        };
        SocketGrant { tcp: tcp.iter().map(rule).collect(), udp: Vec::new() }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_and_networks_are_reached_at_their_port_only() {
        let grant = grant(&[("10.0.0.5:6379", false), ("192.168.0.0/16:1", false), ("[fd00::/8]:2", false)]);
        let resolved = ResolvedPeers::default();
        let may = |peer| resolved.may_reach(&grant, Protocol::Tcp, at(peer));
        for peer in ["10.0.0.5:6379", "[::ffff:10.0.0.5]:6379", "192.168.7.7:1", "[fd12::1]:2"] {
            assert!(may(peer), "{peer}");
        }
        for peer in ["10.0.0.5:6380", "10.0.0.6:6379", "192.169.0.1:1", "[fe80::1]:2", "[fd00:ec2::254]:2"] {
            assert!(!may(peer), "{peer}");
        }
        assert!(!resolved.may_reach(&grant, Protocol::Udp, at("10.0.0.5:6379")), "another protocol");
    }

    #[test]
    fn a_network_that_is_wider_than_one_kind_covers_public_addresses_only() {
        let wide =
            [("0.0.0.0/0:1", false), ("[::/0]:1", false), ("126.0.0.0/7:1", false), ("[fc00::/6]:1", false)];
        for (text, rules) in [("apart", &wide[..]), ("alone", &[("0.0.0.0/0:1", false)])] {
            let grant = grant(rules);
            let may = |peer| ResolvedPeers::default().may_reach(&grant, Protocol::Tcp, at(peer));
            for peer in ["1.1.1.1:1", "[::ffff:1.1.1.1]:1"] {
                assert!(may(peer), "{text} {peer}");
            }
            for peer in "127.0.0.1:1 127.8.8.8:1 10.0.0.1:1 192.168.0.1:1 169.254.169.254:1 0.0.0.0:1 \
                         [::1]:1 [::ffff:127.0.0.1]:1 [fd00::1]:1 [64:ff9b::7f00:1]:1"
                .split(' ')
            {
                assert!(!may(peer), "{text} {peer}");
            }
        }
        let meant = grant(&[("0.0.0.0/0:1", true), ("127.0.0.0/8:2", false), ("127.0.0.0/30:3", false)]);
        let may = |peer| ResolvedPeers::default().may_reach(&meant, Protocol::Tcp, at(peer));
        for peer in ["127.0.0.1:1", "10.0.0.1:1", "1.1.1.1:1", "127.0.0.1:2", "127.0.0.1:3"] {
            assert!(may(peer), "{peer}");
        }
        for peer in ["169.254.169.254:1", "1.1.1.1:2"] {
            assert!(!may(peer), "{peer}");
        }
    }

    #[test]
    fn a_name_is_reached_at_what_the_run_was_given_for_it() {
        let grant =
            grant(&[("db.example.com:5432", false), ("intranet.corp:1", true), ("localhost:9", false)]);
        let ip = |text: &str| text.parse::<IpAddr>().expect(text);
        let (resolved, of_another_run) = (ResolvedPeers::default(), ResolvedPeers::default());
        let may = |run: &ResolvedPeers, peer| run.may_reach(&grant, Protocol::Tcp, at(peer));
        assert!(!may(&resolved, "93.184.216.34:5432"), "nothing was looked up yet");
        for (name, address, is_noted) in [
            ("db.example.com", "93.184.216.34", true),
            // Private.
            ("db.example.com", "10.0.0.1", false),
            // Not granted.
            ("other.example.com", "93.184.216.35", false),
            ("intranet.corp", "10.0.0.1", true),
            // Metadata.
            ("intranet.corp", "169.254.169.254", false),
            ("localhost", "127.0.0.1", true),
        ] {
            assert_eq!(resolved.note(&grant, name, ip(address)), is_noted, "{name} {address}");
        }
        assert!(may(&resolved, "93.184.216.34:5432"));
        assert!(!may(&resolved, "93.184.216.34:1"), "the port of another name");
        assert!(!may(&of_another_run, "93.184.216.34:5432"));
    }
}

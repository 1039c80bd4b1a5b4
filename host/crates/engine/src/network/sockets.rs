//! Raw sockets: which places a manifest lets a guest connect to, and the look-up of
//! names, which remembers for its run what it gave. Nobody listens.

use crate::run::host_functions::Run;
use crate::network::address::{self, Kind};
use crate::network::policy::Traffic;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::timeout;
use toolyard_manifest::{Host, Hosts, Peer, Protocol, SocketGrant, SocketRule};
use wasmtime::component::Resource;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{Host as Lookup, HostResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, Network};
use wasmtime_wasi::p2::{DynPollable, Pollable, SocketError, subscribe};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi::sockets::{SocketAddrUse, WasiSocketsView as _};

/// The type of a look-up under way, which wasmtime does not name.
type Stream = wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;

/// The most addresses that are remembered for a run.
const MOST_ADDRESSES: usize = 256;

/// Whether an address that the name of this rule resolved to may be given.
fn gives(rule: &SocketRule, address: IpAddr) -> bool {
    match &rule.peer {
        Peer::Name(name) => address::reaches(&Hosts::One(Host::Name(name.clone())), rule.private, address),
        Peer::Net(_) => false,
    }
}

/// The addresses that a run was given for names that it may connect to.
#[derive(Default)]
pub(crate) struct Given(Mutex<BTreeSet<(Protocol, u16, IpAddr)>>);

impl Given {
    /// Notes an address of a name, for the ports that are granted with it; whether
    /// there are any.
    fn note(&self, grant: &SocketGrant, name: &str, address: IpAddr) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let is_of_name = |rule: &&SocketRule| matches!(&rule.peer, Peer::Name(named) if named == name);
            for rule in grant.of(protocol).iter().filter(is_of_name).filter(|rule| gives(rule, address)) {
                if given.len() < MOST_ADDRESSES {
                    given.insert((protocol, rule.port, address));
                    any = true;
                }
            }
        }
        any
    }

    /// Whether a run may exchange data with this address.
    fn may_reach(&self, grant: &SocketGrant, protocol: Protocol, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        let by_address = grant.of(protocol).iter().any(|rule| match &rule.peer {
            Peer::Name(_) => false,
            Peer::Net(net) => {
                rule.port == peer.port() && net.contains(&address) && covers(net, rule.private, address)
            }
        });
        by_address || {
            let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            given.contains(&(protocol, peer.port(), address))
        }
    }
}

/// Whether a granted network covers an address in it. An address that is not public is covered only
/// where it is named, alone or by a network of its own kind: a grant of the whole internet does not
/// include this machine.
fn covers(net: &IpNet, private: bool, address: IpAddr) -> bool {
    if net.prefix_len() == net.max_prefix_len() {
        return true;
    }
    match address::kind(address) {
        Kind::Public => true,
        Kind::Metadata => false,
        Kind::Loopback | Kind::Private(_) => private || address::is_of_one_kind(net),
    }
}

/// Lets a run have the sockets that are granted.
pub(crate) fn grant(wasi: &mut WasiCtxBuilder, traffic: &Arc<Traffic>) {
    let grant = &traffic.grants.sockets;
    let has_names = grant.tcp.iter().chain(&grant.udp).any(|rule| matches!(rule.peer, Peer::Name(_)));
    wasi.allow_tcp(!grant.tcp.is_empty()).allow_udp(!grant.udp.is_empty()).allow_ip_name_lookup(has_names);
    let traffic = traffic.clone();
    wasi.socket_addr_check(move |address, used| {
        let may = may_use(&traffic, address, used);
        Box::pin(std::future::ready(may))
    });
}

fn may_use(traffic: &Traffic, address: SocketAddr, used: SocketAddrUse) -> bool {
    let protocol = match used {
        SocketAddrUse::TcpConnect => Protocol::Tcp,
        SocketAddrUse::UdpSend | SocketAddrUse::UdpReceive => Protocol::Udp,
        // A socket that connects is bound to some port of any address first. What comes
        // to it from elsewhere is dropped, or refused with `TcpListen`.
        SocketAddrUse::TcpBind | SocketAddrUse::UdpBind
            if address.ip().to_canonical().is_unspecified() && address.port() == 0 =>
        {
            return true;
        }
        SocketAddrUse::TcpBind
        | SocketAddrUse::UdpBind
        | SocketAddrUse::TcpListen
        | SocketAddrUse::TcpAccept => {
            traffic.refused("a socket was to be bound or to listen, which no manifest grants".to_owned());
            return false;
        }
    };
    if !traffic.may_act() {
        return false;
    }
    let may = traffic.given.may_reach(&traffic.grants.sockets, protocol, address);
    // Strangers may send datagrams to whom they like.
    if !may && !matches!(used, SocketAddrUse::UdpReceive) {
        let (protocol, manifest) = (protocol.as_str(), traffic.manifest());
        traffic.refused(format!(
            "{protocol} to {address} is not granted; `sockets.{protocol}` of {manifest} would have to name it"
        ));
    }
    may
}

/// A look-up of a guest, which it reads address by address.
pub(crate) struct NameLookup {
    name: Option<Arc<str>>,
    state: LookupState,
}

enum LookupState {
    UnderWay(AbortOnDropJoinHandle<Option<Arc<[IpAddr]>>>),
    Found(std::vec::IntoIter<IpAddr>),
    NotFound,
}

#[async_trait]
impl Pollable for NameLookup {
    async fn ready(&mut self) {
        if let LookupState::UnderWay(found) = &mut self.state {
            self.state = match found.await {
                Some(found) => LookupState::Found(Vec::from(&*found).into_iter()),
                None => LookupState::NotFound,
            };
        }
    }
}

impl NameLookup {
    /// The next address, as far as the look-up is.
    fn next(&mut self) -> Result<Option<IpAddr>, ErrorCode> {
        // What is ready becomes so by being polled.
        let _ = self.ready().now_or_never();
        match &mut self.state {
            LookupState::UnderWay(_) => Err(ErrorCode::WouldBlock),
            LookupState::Found(addresses) => Ok(addresses.next()),
            LookupState::NotFound => Err(ErrorCode::NameUnresolvable),
        }
    }
}

/// The handle of ours that stands behind one of WASI's.
fn ours(stream: &Resource<Stream>) -> Resource<NameLookup> {
    Resource::new_borrow(stream.rep())
}

/// Look-ups on threads that are counted, in place of wasmtime's, and only of names that are granted.
impl Lookup for Run {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<Stream>, SocketError> {
        let traffic = self.traffic().clone();
        // The network stands for the right to use it.
        self.table.get(&network)?;
        let lookup = match Host::parse(&in_uri(name)) {
            Ok(Host::Address(address)) => {
                NameLookup { name: None, state: LookupState::Found(vec![address].into_iter()) }
            }
            Ok(Host::Name(name)) if traffic.grants.sockets.names(&name) => {
                let name: Arc<str> = name.into();
                let (asked, traffic) = (name.clone(), traffic.clone());
                let time = traffic.limits.http_time;
                let found = async move { timeout(time, traffic.addresses(&asked)).await.ok().flatten() };
                NameLookup { name: Some(name), state: LookupState::UnderWay(spawn(found)) }
            }
            Ok(Host::Name(name)) => {
                let manifest = traffic.manifest();
                traffic.refused(format!(
                    "the name {name} is not looked up; an entry of `sockets` of {manifest} would have to name it"
                ));
                return Err(ErrorCode::AccessDenied.into());
            }
            Err(_) => return Err(ErrorCode::InvalidArgument.into()),
        };
        let lookup = self.table.push(lookup)?;
        Ok(Resource::new_own(lookup.rep()))
    }
}

/// A host as it stands in a URI: an IPv6 address in brackets.
fn in_uri(name: String) -> String {
    if name.parse::<Ipv6Addr>().is_ok() { format!("[{name}]") } else { name }
}

impl HostResolveAddressStream for Run {
    fn resolve_next_address(&mut self, stream: Resource<Stream>) -> Result<Option<IpAddress>, SocketError> {
        loop {
            let lookup = self.table.get_mut(&ours(&stream))?;
            let Some(address) = lookup.next()? else { return Ok(None) };
            let Some(name) = lookup.name.clone() else { return Ok(Some(address.into())) };
            let traffic = self.traffic();
            let ip = address.to_canonical();
            if traffic.given.note(&traffic.grants.sockets, &name, ip) {
                return Ok(Some(address.into()));
            }
            let (word, manifest) = (address::kind(ip).word(), traffic.manifest());
            traffic.refused(format!(
                "{name} is at a {word} address, which `sockets` of {manifest} does not cover; an entry that \
                 names the address reaches it, or one with `private = true`"
            ));
        }
    }

    fn subscribe(&mut self, stream: Resource<Stream>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(&mut self.table, ours(&stream))
    }

    fn drop(&mut self, stream: Resource<Stream>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<NameLookup>::new_own(stream.rep()))?;
        Ok(())
    }
}

/// What the errors of a look-up are made of.
impl network::Host for Run {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.sockets().network_error_code(error)
    }
}

impl network::HostNetwork for Run {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        network::HostNetwork::drop(&mut self.sockets(), network)
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
        let given = Given::default();
        let may = |peer| given.may_reach(&grant, Protocol::Tcp, at(peer));
        for peer in ["10.0.0.5:6379", "[::ffff:10.0.0.5]:6379", "192.168.7.7:1", "[fd12::1]:2"] {
            assert!(may(peer), "{peer}");
        }
        for peer in ["10.0.0.5:6380", "10.0.0.6:6379", "192.169.0.1:1", "[fe80::1]:2", "[fd00:ec2::254]:2"] {
            assert!(!may(peer), "{peer}");
        }
        assert!(!given.may_reach(&grant, Protocol::Udp, at("10.0.0.5:6379")), "another protocol");
    }

    #[test]
    fn a_network_that_is_wider_than_one_kind_covers_public_addresses_only() {
        let wide =
            [("0.0.0.0/0:1", false), ("[::/0]:1", false), ("126.0.0.0/7:1", false), ("[fc00::/6]:1", false)];
        for (text, rules) in [("apart", &wide[..]), ("alone", &[("0.0.0.0/0:1", false)])] {
            let grant = grant(rules);
            let may = |peer| Given::default().may_reach(&grant, Protocol::Tcp, at(peer));
            for peer in ["1.1.1.1:1", "[::ffff:1.1.1.1]:1"] {
                assert!(may(peer), "{text} {peer}");
            }
            for peer in [
                "127.0.0.1:1",
                "127.8.8.8:1",
                "10.0.0.1:1",
                "192.168.0.1:1",
                "169.254.169.254:1",
                "0.0.0.0:1",
                "[::1]:1",
                "[::ffff:127.0.0.1]:1",
                "[fd00::1]:1",
                "[64:ff9b::7f00:1]:1",
            ] {
                assert!(!may(peer), "{text} {peer}");
            }
        }
        let meant = grant(&[("0.0.0.0/0:1", true), ("127.0.0.0/8:2", false), ("127.0.0.0/30:3", false)]);
        let may = |peer| Given::default().may_reach(&meant, Protocol::Tcp, at(peer));
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
        let given = Given::default();
        assert!(
            !given.may_reach(&grant, Protocol::Tcp, at("93.184.216.34:5432")),
            "nothing was looked up yet"
        );
        assert!(given.note(&grant, "db.example.com", ip("93.184.216.34")));
        assert!(given.may_reach(&grant, Protocol::Tcp, at("93.184.216.34:5432")));
        assert!(!given.may_reach(&grant, Protocol::Tcp, at("93.184.216.34:1")), "the port of another name");
        assert!(!given.note(&grant, "db.example.com", ip("10.0.0.1")), "private");
        assert!(!given.note(&grant, "other.example.com", ip("93.184.216.35")), "not granted");
        assert!(given.note(&grant, "intranet.corp", ip("10.0.0.1")));
        assert!(!given.note(&grant, "intranet.corp", ip("169.254.169.254")), "metadata");
        assert!(given.note(&grant, "localhost", ip("127.0.0.1")));
        assert!(
            !Given::default().may_reach(&grant, Protocol::Tcp, at("93.184.216.34:5432")),
            "of another run"
        );
    }
}

//! Raw sockets: the peers that a manifest lets a guest connect to, by address or by a name that the
//! run has looked up. Guests cannot listen.

use crate::network::policy::NetworkPolicy;
use std::net::SocketAddr;
use std::sync::Arc;
use toolyard_manifest::Protocol;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::sockets::SocketAddrUse;

/// Gives a run the granted sockets.
pub(crate) fn grant(wasi: &mut WasiCtxBuilder, policy: &Arc<NetworkPolicy>) {
    let grant = &policy.grants.sockets;
    let (tcp, udp) = (!grant.tcp.is_empty(), !grant.udp.is_empty());
    // Many libraries also look up addresses, which are their own answers. Names that are not granted are
    // refused one by one.
    wasi.allow_tcp(tcp).allow_udp(udp).allow_ip_name_lookup(tcp || udp);
    let policy = policy.clone();
    wasi.socket_addr_check(move |address, used| {
        let may = may_use(&policy, address, used);
        Box::pin(std::future::ready(may))
    });
}

fn may_use(policy: &NetworkPolicy, address: SocketAddr, used: SocketAddrUse) -> bool {
    let protocol = match used {
        SocketAddrUse::TcpConnect => Protocol::Tcp,
        SocketAddrUse::UdpSend | SocketAddrUse::UdpReceive => Protocol::Udp,
        // A connecting socket is first bound to any port of any address. Data from other peers is
        // dropped, or refused with `TcpListen`.
        SocketAddrUse::TcpBind | SocketAddrUse::UdpBind
            if address.ip().to_canonical().is_unspecified() && address.port() == 0 =>
        {
            return true;
        }
        SocketAddrUse::TcpBind
        | SocketAddrUse::UdpBind
        | SocketAddrUse::TcpListen
        | SocketAddrUse::TcpAccept => {
            policy.refused("a socket was to be bound or to listen, which no manifest grants".to_owned());
            return false;
        }
    };
    if !policy.may_act() {
        return false;
    }
    let may = policy.resolved.may_reach(&policy.grants.sockets, protocol, address);
    // A datagram from an unknown peer is not an attempt of the guest, so it is not recorded.
    if !may && !matches!(used, SocketAddrUse::UdpReceive) {
        let (protocol, manifest) = (protocol.as_str(), policy.manifest());
        policy.refused(format!(
            "{protocol} to {address} is not granted; `sockets.{protocol}` of {manifest} would have to name it"
        ));
    }
    let may = may && !policy.is_offline(|| format!("{} to {address}", protocol.as_str()));
    if !matches!(used, SocketAddrUse::UdpReceive) {
        policy.report_socket(protocol, address, may);
    }
    may
}

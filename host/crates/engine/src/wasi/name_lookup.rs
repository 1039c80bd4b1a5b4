//! The interface `wasi:sockets/ip-name-lookup`. The host resolves names on a bounded number of
//! threads, and only names that the manifest grants. It records the addresses that a run received.

use crate::guest::state::GuestState;
use crate::network::address;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::time::timeout;
use toolyard_manifest::Host;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{Host as Lookup, HostResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, Network};
use wasmtime_wasi::p2::{DynPollable, Pollable, SocketError, subscribe};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi::sockets::WasiSocketsView as _;

/// The type of a running look-up, which wasmtime does not export by name.
type Stream = wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;

/// A guest's look-up, which the guest reads address by address.
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
    /// The next address, if the look-up has completed.
    fn next(&mut self) -> Result<Option<IpAddr>, ErrorCode> {
        // The look-up advances only when it is polled.
        let _ = self.ready().now_or_never();
        match &mut self.state {
            LookupState::UnderWay(_) => Err(ErrorCode::WouldBlock),
            LookupState::Found(addresses) => Ok(addresses.next()),
            LookupState::NotFound => Err(ErrorCode::NameUnresolvable),
        }
    }
}

/// Converts the handle that WASI calls an address stream.
fn ours(stream: &Resource<Stream>) -> Resource<NameLookup> {
    Resource::new_borrow(stream.rep())
}

/// Replaces wasmtime's look-ups: bounded threads, and only granted names.
impl Lookup for GuestState {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<Stream>, SocketError> {
        let policy = self.network_policy().clone();
        // The network handle represents the right to use it.
        self.table.get(&network)?;
        let lookup = match Host::parse(&in_uri(name)) {
            Ok(Host::Address(address)) => {
                NameLookup { name: None, state: LookupState::Found(vec![address].into_iter()) }
            }
            Ok(Host::Name(name)) if policy.grants.sockets.names(&name) => {
                if policy.is_offline(|| format!("the look-up of {name}")) {
                    return Err(ErrorCode::AccessDenied.into());
                }
                let name: Arc<str> = name.into();
                let (asked, policy) = (name.clone(), policy.clone());
                let time = policy.limits.http_time;
                let found = async move { timeout(time, policy.addresses(&asked)).await.ok().flatten() };
                NameLookup { name: Some(name), state: LookupState::UnderWay(spawn(found)) }
            }
            Ok(Host::Name(name)) => {
                let manifest = policy.manifest();
                policy.refused(format!(
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

/// The host in URI syntax: an IPv6 address in brackets.
fn in_uri(name: String) -> String {
    if name.parse::<Ipv6Addr>().is_ok() { format!("[{name}]") } else { name }
}

impl HostResolveAddressStream for GuestState {
    fn resolve_next_address(&mut self, stream: Resource<Stream>) -> Result<Option<IpAddress>, SocketError> {
        loop {
            let lookup = self.table.get_mut(&ours(&stream))?;
            let Some(address) = lookup.next()? else { return Ok(None) };
            let Some(name) = lookup.name.clone() else { return Ok(Some(address.into())) };
            let policy = self.network_policy();
            let ip = address.to_canonical();
            if policy.resolved.note(&policy.grants.sockets, &name, ip) {
                return Ok(Some(address.into()));
            }
            let (word, manifest) = (address::kind(ip).word(), policy.manifest());
            policy.refused(format!(
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

/// Converts the errors of a look-up.
impl network::Host for GuestState {
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

impl network::HostNetwork for GuestState {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        network::HostNetwork::drop(&mut self.sockets(), network)
    }
}

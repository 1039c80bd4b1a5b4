//! The interface `wasi:sockets/ip-name-lookup`: the host looks names up on threads that it counts,
//! only where the manifest grants the name, and remembers for the run which addresses it gave.

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

/// The type of a look-up under way, which wasmtime does not name.
type Stream = wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;

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
        // The look-up ends only when it is polled.
        let _ = self.ready().now_or_never();
        match &mut self.state {
            LookupState::UnderWay(_) => Err(ErrorCode::WouldBlock),
            LookupState::Found(addresses) => Ok(addresses.next()),
            LookupState::NotFound => Err(ErrorCode::NameUnresolvable),
        }
    }
}

/// The handle of a look-up, given the handle that WASI calls a stream of addresses.
fn ours(stream: &Resource<Stream>) -> Resource<NameLookup> {
    Resource::new_borrow(stream.rep())
}

/// Look-ups on threads that are counted, in place of wasmtime's, and only of names that are granted.
impl Lookup for GuestState {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<Stream>, SocketError> {
        let policy = self.network_policy().clone();
        // The network stands for the right to use it.
        self.table.get(&network)?;
        let lookup = match Host::parse(&in_uri(name)) {
            Ok(Host::Address(address)) => {
                NameLookup { name: None, state: LookupState::Found(vec![address].into_iter()) }
            }
            Ok(Host::Name(name)) if policy.grants.sockets.names(&name) => {
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

/// A host as a URI writes it: an IPv6 address in brackets.
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

/// Conversions of the errors of a look-up.
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

//! The interface `wasi:http/outgoing-handler`. The one of wasmtime keeps the options of a request until the run
//! ends, so that a run of many requests would meet the limit of its handles.

use crate::guest::state::GuestState;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host as _;
use wasmtime_wasi_http::p2::bindings::http::types;
use wasmtime_wasi_http::p2::types::HostOutgoingRequest;

/// Guests may import another version of WASI 0.2; the linker matches them.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<types::RequestOptions>>);
    linker.instance(OUTGOING_HANDLER)?.func_wrap(
        "handle",
        |mut store: StoreContextMut<'_, GuestState>, (request, options): Arguments| {
            let run = store.data_mut();
            let owned = options.as_ref().map(|options| Resource::new_own(options.rep()));
            let mut http = run.http();
            let handled = match http.handle(request, options) {
                Ok(response) => Ok(response),
                Err(error) => Err(types::Host::convert_error_code(&mut http, error)?),
            };
            if let Some(options) = owned {
                run.table.delete::<types::RequestOptions>(options)?;
            }
            Ok((handled,))
        },
    )
}

//! The WASI context of one run, with only the grants of its manifest.

use crate::guest::about::About;
use crate::guest::state::GuestState;
use crate::network::sockets;
use crate::wasi::clocks;
use crate::wasi::stdio::{self, GuestOutput};
use toolyard_manifest::RandomGrant;
use toolyard_task::tool::OutputStream;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

/// The maximum number of random bytes that a guest may request at once.
const MAX_RANDOM: u64 = 1 << 20;

/// A context without arguments and standard input, and with the granted network access.
fn context(run: &GuestState) -> WasiCtx {
    let About { plugin, function, grants, limits, .. } = &run.about;
    let budget = stdio::budget(limits.stdio);
    let output = |stream| {
        let redactor = grants.redactor.clone();
        let journal = run.find_journal().cloned();
        GuestOutput::new((plugin, function), stream, &budget, redactor, run.context.clone(), journal)
    };
    let mut wasi = WasiCtx::builder();
    wasi.stdout(output(OutputStream::Stdout))
        .stderr(output(OutputStream::Stderr))
        .max_random_size(MAX_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    // The linker of a run with a journal replaces the clocks.
    clocks::grant(&mut wasi, grants.clock, grants.random);
    match run.find_journal().map(|journal| journal.begin()) {
        None => {
            for (name, value) in grants.plain_environment() {
                wasi.env(name, value);
            }
        }
        Some(begin) => {
            if grants.random != RandomGrant::Fixed {
                wasi.secure_random(toolyard_journal::secure_random(&begin.seed))
                    .insecure_random(toolyard_journal::insecure_random(&begin.seed))
                    .insecure_random_seed(toolyard_journal::insecure_seed(&begin.seed));
            }
            for (name, value) in &begin.environment {
                wasi.env(name, value);
            }
        }
    }
    for (name, value) in grants.exposed_secrets() {
        wasi.env(name, value);
    }
    if !grants.sockets.is_empty() {
        sockets::grant(&mut wasi, run.network_policy());
    }
    wasi.build()
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        if self.wasi.is_none() {
            self.wasi = Some(Box::new(context(self)));
        }
        let Self { wasi, table, .. } = self;
        let ctx = wasi.get_or_insert_with(|| Box::new(WasiCtx::builder().build()));
        WasiCtxView { ctx, table }
    }
}

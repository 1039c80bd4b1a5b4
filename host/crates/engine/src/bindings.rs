//! What `wit/` says, as Rust types and a linker function.

// The macro's output has no doc comments of its own everywhere.
#![allow(missing_docs, clippy::all)]

wasmtime::component::bindgen!({
    path: "../../../wit",
    world: "full-plugin",
    imports: {
        "toolyard:plugin/host.sleep": async | trappable,
        "toolyard:plugin/host.ask": async | trappable,
        "toolyard:plugin/host.begin-task": async | trappable,
        "toolyard:plugin/host.effects": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

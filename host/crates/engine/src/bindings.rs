//! The interfaces of `wit/` as Rust types and a linker function.

// Not every item of the macro's output has a doc comment.
#![allow(missing_docs, clippy::all)]

wasmtime::component::bindgen!({
    path: "../../../wit",
    world: "full-plugin",
    imports: {
        "toolyard:plugin/host.sleep": async | trappable,
        "toolyard:plugin/host.ask": async | trappable,
        "toolyard:plugin/host.begin-task": async | trappable,
        "toolyard:plugin/host.effects": async | trappable,
        "toolyard:plugin/host.continue-with": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

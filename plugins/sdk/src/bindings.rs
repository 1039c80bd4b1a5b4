//! The bindings that `wit-bindgen` generates for the worlds in `wit/`. Each interface that a plugin may
//! export has a world and an export macro of its own. All share the types and the host interface of the
//! first.

wit_bindgen::generate!({
    path: "wit",
    world: "tools-plugin",
    pub_export_macro: true,
    default_bindings_module: "toolyard_plugin::bindings",
});

/// For a plugin with resources.
pub mod resources {
    wit_bindgen::generate!({
        path: "wit",
        world: "resources-plugin",
        pub_export_macro: true,
        export_macro_name: "export_resources",
        default_bindings_module: "toolyard_plugin::bindings::resources",
        with: {
            "toolyard:plugin/types@0.1.0": crate::bindings::toolyard::plugin::types,
            "toolyard:plugin/host@0.1.0": crate::bindings::toolyard::plugin::host,
        },
    });
}

/// For a plugin with prompts.
pub mod prompts {
    wit_bindgen::generate!({
        path: "wit",
        world: "prompts-plugin",
        pub_export_macro: true,
        export_macro_name: "export_prompts",
        default_bindings_module: "toolyard_plugin::bindings::prompts",
        with: {
            "toolyard:plugin/types@0.1.0": crate::bindings::toolyard::plugin::types,
            "toolyard:plugin/host@0.1.0": crate::bindings::toolyard::plugin::host,
        },
    });
}

/// For a plugin that completes arguments.
pub mod completion {
    wit_bindgen::generate!({
        path: "wit",
        world: "completion-plugin",
        pub_export_macro: true,
        export_macro_name: "export_completion",
        default_bindings_module: "toolyard_plugin::bindings::completion",
        with: {
            "toolyard:plugin/types@0.1.0": crate::bindings::toolyard::plugin::types,
            "toolyard:plugin/host@0.1.0": crate::bindings::toolyard::plugin::host,
        },
    });
}

//! What `wit-bindgen` makes of the world `tools-plugin`, straight from `wit/`,
//! so that a plugin and the contract cannot drift apart.

wit_bindgen::generate!({
    path: "../../wit",
    world: "tools-plugin",
    pub_export_macro: true,
    default_bindings_module: "contract::bindings",
});

//! Turns core modules into components: modules that carry the type of their world in a custom
//! section, as those of wit-bindgen do, and modules to which this code adds it.
//!
//! wasmtime's adapter provides their imports of WASI preview 1. The decision about which files of a
//! folder are converted does not belong here.

use crate::component::magic::{WasmKind, magic};
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The prefix of the names of the sections that hold a world's type.
const TYPE_SECTION: &str = "component-type";

/// Whether a core module declares the world that it is made for.
pub(crate) fn has_type(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(
        |payload| matches!(payload, Payload::CustomSection(section) if section.name().starts_with(TYPE_SECTION)),
    )
}

/// Makes a component from a core module.
///
/// `world` is the WIT package (a folder or a file) and the world in it that the module is made for.
/// It is needed only where the module does not declare its world. The world's name may be omitted
/// if the package has only one.
///
/// # Errors
/// A sentence that says why it cannot be done.
pub fn componentize(module: &[u8], world: Option<(&Path, Option<&str>)>) -> Result<Vec<u8>, String> {
    match magic(module) {
        Ok(WasmKind::TypedModule) => {}
        Ok(WasmKind::Component) => return Err("it is a component already".to_owned()),
        Err(refusal) => return Err(refusal.to_string()),
    }
    let mut module = module.to_vec();
    if let Some((place, name)) = world {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(place).map_err(whole)?;
        let world = resolve.select_world(&[package], name).map_err(whole)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(whole)?;
    } else if !has_type(&module) {
        return Err(
            "the module does not say which world it is made for; name it by --wit and --world".to_owned()
        );
    }
    // A command starts at `_start`. A module whose exports are called more than once is a reactor.
    let adapter = if is_command(&module) {
        WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER
    } else {
        WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER
    };
    let encode = || {
        ComponentEncoder::default()
            .validate(true)
            .module(&module)?
            .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter)?
            .encode()
    };
    // The encoder expects modules that a linker made. Some of its versions panic on others, such as an adapter
    // itself.
    match std::panic::catch_unwind(encode) {
        Ok(encoded) => encoded.map_err(whole),
        Err(_) => Err("the encoder does not get along with it".to_owned()),
    }
}

/// An error with its causes.
fn whole(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

fn is_command(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(|payload| match payload {
        Payload::ExportSection(exports) => {
            exports.into_iter().flatten().any(|export| export.name == "_start")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module that exports a function `f`.
    const MODULE: &str = r#"(module (func (export "f") (param i32) (result i32) local.get 0))"#;

    fn wit(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("made");
        std::fs::write(dir.path().join("world.wit"), text).expect("written");
        dir
    }

    #[test]
    fn a_module_whose_world_is_given_becomes_a_component() {
        let module = wat::parse_str(MODULE).expect("parses");
        assert!(!has_type(&module));
        let why = componentize(&module, None).expect_err("it does not say its world");
        assert!(why.contains("--world"), "{why}");
        let dir = wit("package a:b; world w { export f: func(x: u32) -> u32; }");
        let component = componentize(&module, Some((dir.path(), None))).expect("it is one");
        assert!(Parser::is_component(&component));
        assert!(componentize(&component, None).expect_err("it is one").contains("already"));
        let why =
            componentize(&module, Some((dir.path(), Some("none")))).expect_err("there is no such world");
        assert!(why.contains("none"), "{why}");
    }

    #[test]
    fn a_module_that_carries_its_type_needs_nothing_else() {
        let mut module = wat::parse_str(MODULE).expect("parses");
        let mut resolve = Resolve::default();
        let package = resolve.push_str("w.wit", "package a:b; world w { export f: func(x: u32) -> u32; }");
        let package = package.expect("parses");
        let world = resolve.select_world(&[package], None).expect("one");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("added");
        assert!(has_type(&module));
        assert!(Parser::is_component(&componentize(&module, None).expect("it is one")));
    }

    #[test]
    fn a_module_that_no_linker_made_is_refused() {
        let why = componentize(WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER, None).expect_err("it is an adapter");
        assert!(why.contains("main module cannot import memory"), "{why}");
    }

    #[test]
    fn a_module_that_lacks_what_its_world_exports_is_refused() {
        let module = wat::parse_str("(module)").expect("parses");
        let dir = wit("package a:b; world w { export f: func(); }");
        let why = componentize(&module, Some((dir.path(), None))).expect_err("it has no f");
        assert!(why.contains('f'), "{why}");
    }
}

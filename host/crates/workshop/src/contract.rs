//! The contract with plugins that this program was built with: its WIT package with those of WASI 0.2 that it
//! refers to, and the C bindings that are generated from it.

use anyhow::Context as _;
use wit_bindgen_core::wit_parser::{Resolve, SourceMap, UnresolvedPackageGroup};
use wit_bindgen_core::{Files, WorldGenerator};

/// The files of the WIT package, by their paths in its folder. Each file in `deps/` is a package of its own.
pub const WIT: [(&str, &str); 14] = [
    ("completion.wit", include_str!("../../../../wit/completion.wit")),
    ("deps/cli.wit", include_str!("../../../../wit/deps/cli.wit")),
    ("deps/clocks.wit", include_str!("../../../../wit/deps/clocks.wit")),
    ("deps/filesystem.wit", include_str!("../../../../wit/deps/filesystem.wit")),
    ("deps/http.wit", include_str!("../../../../wit/deps/http.wit")),
    ("deps/io.wit", include_str!("../../../../wit/deps/io.wit")),
    ("deps/random.wit", include_str!("../../../../wit/deps/random.wit")),
    ("deps/sockets.wit", include_str!("../../../../wit/deps/sockets.wit")),
    ("host.wit", include_str!("../../../../wit/host.wit")),
    ("prompts.wit", include_str!("../../../../wit/prompts.wit")),
    ("resources.wit", include_str!("../../../../wit/resources.wit")),
    ("tools.wit", include_str!("../../../../wit/tools.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../../wit/worlds.wit")),
];

/// The world of the templates.
pub const WORLD: &str = "tools-wasi-plugin";

/// The C bindings of a world: a header, a source, and an object that carries the component's type.
///
/// # Errors
/// If there is no such world.
pub fn c_bindings(world: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    bindings(wit_bindgen_c::Opts::default().build().as_mut(), world)
}

/// The files that a generator makes of a world.
fn bindings(generator: &mut dyn WorldGenerator, world: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (dependencies, own): (Vec<_>, Vec<_>) = WIT.iter().partition(|(name, _)| name.starts_with("deps/"));
    let dependencies = dependencies.into_iter().map(|file| parsed([file])).collect::<Result<_, _>>()?;
    let mut resolve = Resolve::default();
    let package = resolve.push_groups(parsed(own)?, dependencies).context("cannot resolve the contract")?;
    let world = resolve
        .select_world(&[package], Some(world))
        .with_context(|| format!("the contract has no world `{world}`"))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect())
}

/// The package that these files contain.
fn parsed<'a>(
    files: impl IntoIterator<Item = &'a (&'static str, &'static str)>,
) -> anyhow::Result<UnresolvedPackageGroup> {
    let mut sources = SourceMap::default();
    for (name, text) in files {
        sources.push(std::path::Path::new(name), *text);
    }
    sources.parse().map_err(|(_, error)| anyhow::anyhow!("cannot read the contract: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wit_bindgen_rust::{Opts, WithOption};

    #[test]
    fn every_file_of_the_contract_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit");
        let names = |at: &str| {
            let entries = std::fs::read_dir(folder.join(at)).expect("the contract");
            let names =
                entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain"));
            names.filter(|name| name.ends_with(".wit")).map(|name| format!("{at}{name}")).collect::<Vec<_>>()
        };
        let mut there = [names(""), names("deps/")].concat();
        there.sort();
        assert_eq!(WIT.map(|(name, _)| name.to_owned()).to_vec(), there);
    }

    #[test]
    fn bindings_for_c_are_a_header_a_source_and_an_object() {
        let files = c_bindings("tools-plugin").expect("bindings");
        let mut names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["tools_plugin.c", "tools_plugin.h", "tools_plugin_component_type.o"]);
        let object = files.iter().find(|(name, _)| name.ends_with(".o")).expect("an object");
        assert!(object.1.starts_with(b"\0asm"), "that a linker of wasm takes");
        assert!(c_bindings("no-such-world").is_err());
    }

    /// The Rust bindings of the world of an interface. All but `tools` share the types and the host of `tools`.
    fn rust_bindings(interface: &str) -> String {
        let module = "toolyard_plugin::bindings";
        let shared = |name| {
            let path = format!("crate::bindings::toolyard::plugin::{name}");
            (format!("toolyard:plugin/{name}@0.1.0"), WithOption::Path(path))
        };
        let own = if interface == "tools" {
            Opts { default_bindings_module: Some(module.to_owned()), ..Opts::default() }
        } else {
            Opts {
                default_bindings_module: Some(format!("{module}::{interface}")),
                export_macro_name: Some(format!("export_{interface}")),
                with: vec![shared("types"), shared("host")],
                ..Opts::default()
            }
        };
        let mut generator = Opts { pub_export_macro: true, ..own }.build();
        let files = bindings(&mut generator, &format!("{interface}-plugin")).expect("bindings");
        let [(_, text)] = files.try_into().expect("one file");
        "// Made from `wit/` by `UPDATE_DOCS=1 cargo test -p toolyard-workshop --lib bindings`.\n".to_owned()
            + &String::from_utf8(text).expect("text")
    }

    #[test]
    fn the_rust_library_has_the_bindings_of_the_contract() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins/sdk/src/bindings");
        for interface in ["tools", "resources", "prompts", "completion"] {
            let path = folder.join(interface).with_extension("rs");
            let wanted = rust_bindings(interface);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &wanted).expect("written");
            }
            let there = std::fs::read_to_string(&path).expect("the bindings");
            assert!(there == wanted, "{}: UPDATE_DOCS=1 rewrites the bindings", path.display());
        }
    }
}

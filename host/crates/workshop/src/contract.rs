//! The contract with plugins that this program was built with: its WIT package, and the C bindings that are
//! generated from it.

use anyhow::Context as _;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::{Resolve, SourceMap};

/// The files of the WIT package, by name.
pub const WIT: [(&str, &str); 7] = [
    ("completion.wit", include_str!("../../../../wit/completion.wit")),
    ("host.wit", include_str!("../../../../wit/host.wit")),
    ("prompts.wit", include_str!("../../../../wit/prompts.wit")),
    ("resources.wit", include_str!("../../../../wit/resources.wit")),
    ("tools.wit", include_str!("../../../../wit/tools.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../../wit/worlds.wit")),
];

/// The world of a plugin that offers tools.
pub const WORLD: &str = "tools-plugin";

/// The C bindings of a world: a header, a source, and an object that carries the component's type.
///
/// # Errors
/// If there is no such world.
pub fn c_bindings(world: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut sources = SourceMap::default();
    for (name, text) in WIT {
        sources.push(std::path::Path::new(name), text);
    }
    let group = sources.parse().map_err(|(_, error)| anyhow::anyhow!("cannot read the contract: {error}"))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).context("cannot resolve the contract")?;
    let world = resolve
        .select_world(&[package], Some(world))
        .with_context(|| format!("the contract has no world `{world}`"))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files)?;
    Ok(files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_the_contract_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .expect("the contract")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("plain"))
            .filter(|name| name.ends_with(".wit"))
            .collect();
        there.sort();
        assert_eq!(WIT.map(|(name, _)| name.to_owned()).to_vec(), there);
    }

    #[test]
    fn bindings_for_c_are_a_header_a_source_and_an_object() {
        let files = c_bindings(WORLD).expect("bindings");
        let mut names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["tools_plugin.c", "tools_plugin.h", "tools_plugin_component_type.o"]);
        let object = files.iter().find(|(name, _)| name.ends_with(".o")).expect("an object");
        assert!(object.1.starts_with(b"\0asm"), "that a linker of wasm takes");
        assert!(c_bindings("no-such-world").is_err());
    }
}

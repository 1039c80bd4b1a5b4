//! A file's kind, imports and exports, found without compiling, so that most refusals are cheap.

use crate::component::componentize;
use crate::component::magic::{WasmKind, magic};
use crate::component::wasi_functions;
use crate::error::Refusal;
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentType, ComponentTypeRef,
    InstanceTypeDeclaration, Parser, Payload, TypeBounds,
};

/// A component that exports one of these four implements the contract.
pub(crate) const TOOLS: &str = "toolyard:plugin/tools@0.1.0";
pub(crate) const RESOURCES: &str = "toolyard:plugin/resources@0.1.0";
pub(crate) const PROMPTS: &str = "toolyard:plugin/prompts@0.1.0";
pub(crate) const COMPLETION: &str = "toolyard:plugin/completion@0.1.0";

/// The import names of the draft of `wasi:logging`. Components were built against it with and
/// without a version.
pub(crate) const LOGGING: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// The names that a component imports and exports.
#[derive(Debug, Default, Clone)]
pub(crate) struct Surface {
    /// The imports that need a provider. An interface that holds only types needs none: the
    /// component contains it in full.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// Whether it does not implement the contract but exports functions, which may become tools.
    pub is_plain: bool,
    /// Whether it exports types and nothing else, as a WIT package does.
    pub is_types_alone: bool,
}

/// Finds the kind of `file` and checks that it is complete. Refuses a file that cannot be a plugin.
pub(crate) fn kind(file: &str, bytes: &[u8]) -> Result<WasmKind, Refusal> {
    let kind = magic(bytes)?;
    whole(bytes)?;
    if kind == WasmKind::TypedModule && !componentize::has_type(bytes) {
        let stem = file.strip_suffix(".wasm").unwrap_or(file).to_owned();
        return Err(Refusal::CoreModule { file: file.to_owned(), stem });
    }
    Ok(kind)
}

/// Inspects the bytes of a component and refuses those that cannot be a plugin.
pub(crate) fn inspect(bytes: &[u8]) -> Result<Surface, Refusal> {
    let mut surface = surface(bytes)?;
    let is_ours = |name: &str| {
        [TOOLS, RESOURCES, PROMPTS, COMPLETION]
            .iter()
            .any(|ours| ours.strip_suffix('0').is_some_and(|stem| name.starts_with(stem)))
    };
    if !surface.exports.iter().any(|name| is_ours(name)) {
        let near = surface.exports.iter().find(|name| {
            ["tools", "resources", "prompts", "completion"].iter().any(|interface| {
                name.strip_prefix("toolyard:plugin/").is_some_and(|rest| rest.starts_with(interface))
            })
        });
        if let Some(found) = near {
            return Err(Refusal::OtherVersion { found: found.clone() });
        }
        if surface.is_types_alone {
            return Err(Refusal::WitPackage { exports: surface.exports });
        }
        if !surface.is_plain {
            return Err(Refusal::NoExports { exports: surface.exports });
        }
    } else {
        surface.is_plain = false;
    }
    let names: Vec<String> = surface.imports.iter().filter(|name| !is_offered(name)).cloned().collect();
    if names.is_empty() { Ok(surface) } else { Err(Refusal::Imports { names }) }
}

/// Follows the sections to the end of the file. A truncated file ends within one.
fn whole(bytes: &[u8]) -> Result<(), Refusal> {
    let truncated = Err(Refusal::Truncated { at: bytes.len() as u64 });
    let mut at = 8;
    while at < bytes.len() {
        at += 1; // The section id; the parser reports an invalid one.
        let mut size = 0_u64;
        let mut shift = 0;
        loop {
            let Some(&byte) = bytes.get(at) else {
                return truncated;
            };
            at += 1;
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(Refusal::Invalid("a section's size is not a number".to_owned()));
            }
        }
        if size > (bytes.len() - at) as u64 {
            return truncated;
        }
        at += size as usize;
    }
    Ok(())
}

fn surface(bytes: &[u8]) -> Result<Surface, Refusal> {
    let mut found = Surface { is_types_alone: true, ..Surface::default() };
    let mut depth = 0_u32;
    // For each type of the component, by its index: whether it is an instance that holds only
    // types.
    let mut types = Vec::new();
    let invalid = |error: wasmparser::BinaryReaderError| Refusal::Invalid(error.to_string());
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(invalid)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    let import = import.map_err(invalid)?;
                    match import.ty {
                        ComponentTypeRef::Instance(index) if types.get(index as usize) == Some(&true) => {
                            continue;
                        }
                        ComponentTypeRef::Type(_) => types.push(false),
                        _ => {}
                    }
                    found.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentTypeSection(declared) if depth == 0 => {
                for declared in declared {
                    types.push(is_types_alone(&declared.map_err(invalid)?));
                }
            }
            Payload::ComponentAliasSection(aliases) if depth == 0 => {
                for alias in aliases {
                    let is_type = matches!(
                        alias.map_err(invalid)?,
                        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
                            | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. }
                    );
                    types.extend(is_type.then_some(false));
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    let export = export.map_err(invalid)?;
                    let name = export.name.name;
                    let has_functions =
                        matches!(export.kind, ComponentExternalKind::Func | ComponentExternalKind::Instance);
                    found.is_plain |= has_functions && !name.starts_with("wasi:");
                    types.extend((export.kind == ComponentExternalKind::Type).then_some(false));
                    found.is_types_alone &= export.kind == ComponentExternalKind::Type;
                    found.exports.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
    found.is_types_alone &= !found.exports.is_empty();
    Ok(found)
}

/// Whether it is an instance that holds only types, none of which needs a provider.
fn is_types_alone(declared: &ComponentType) -> bool {
    let ComponentType::Instance(declarations) = declared else {
        return false;
    };
    declarations.iter().all(|declaration| match declaration {
        InstanceTypeDeclaration::Export { ty, .. } => {
            matches!(ty, ComponentTypeRef::Type(TypeBounds::Eq(_)))
        }
        InstanceTypeDeclaration::CoreType(_)
        | InstanceTypeDeclaration::Type(_)
        | InstanceTypeDeclaration::Alias(_) => true,
    })
}

/// Whether the linker provides an interface of this name. Linking checks whether its functions
/// match.
pub(crate) fn is_offered(name: &str) -> bool {
    if LOGGING.contains(&name) {
        return true;
    }
    let Some((path, version)) = name.split_once('@') else {
        return false;
    };
    if let Some(interface) = path.strip_prefix("toolyard:plugin/") {
        return matches!(interface, "host" | "types") && version.starts_with("0.1.");
    }
    version.starts_with("0.2.") && path.strip_prefix("wasi:").is_some_and(wasi_functions::has_interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8], says: &str) {
        let refusal = kind("f.wasm", bytes).and_then(|_| inspect(bytes)).expect_err(says);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }

    #[test]
    fn what_it_is_not_is_told_apart() {
        refused(b"", "empty");
        refused(b"hello", "it is text");
        refused(b"(component)", "text format");
        refused(b"\xff\xfe\xfd", "00 61 73 6d");
        refused(b"\0asm", "byte 4");
        refused(
            b"\0asm\x01\0\0\0",
            "toolyard componentize f.wasm --wit DIR --world WORLD -o f.component.wasm",
        );
        refused(b"\0asm\x77\0\0\0", "version or kind");
        refused(b"\0asm\x0d\0\x01\0\x00\x7f", "ends in the middle");
        refused(b"\0asm\x0d\0\x01\0", "exports nothing");
        let package = wat::parse_str("(component (type $a (component)) (export \"a:b/c\" (type $a)))");
        refused(&package.expect("parses"), "is a WIT package");
        let later = wat::parse_str(
            "(component (import \"wasi:clocks/monotonic-clock@0.3.0\" (instance $i (export \"now\" (func)))) (export \"a:b/c\" (instance $i)))",
        );
        refused(&later.expect("parses"), "needs WASI 0.3");
    }
}

//! The imports and exports of a component, for the configuration of its artifact.

use crate::error::Problem;
use wasmparser::{ComponentExternalKind, ComponentTypeRef, Parser, Payload};

/// The names of a component's outermost imports and exports, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct World {
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl World {
    pub fn of(component: &[u8]) -> Result<Self, Problem> {
        let malformed = |error| Problem::malformed("the component", error);
        if Parser::is_core_wasm(component) {
            let why = "it is a core module; make a component of it (wasm-tools component new)";
            return Err(Problem::malformed("the component", why));
        }
        let mut world = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload.map_err(malformed)? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        let import = import.map_err(malformed)?;
                        if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                            world.imports.push(import.name.name.to_owned());
                        }
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        let export = export.map_err(malformed)?;
                        if export.kind != ComponentExternalKind::Type {
                            world.exports.push(export.name.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(world)
    }
}

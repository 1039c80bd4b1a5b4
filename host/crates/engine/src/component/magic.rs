//! Detects the kind of a WebAssembly file from its first eight bytes.

use crate::error::Refusal;

/// A kind of file that may be a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WasmKind {
    Component,
    /// A core module that declares its world and can be turned into a component.
    TypedModule,
}

/// Finds the kind of a file from its beginning.
pub(crate) fn magic(bytes: &[u8]) -> Result<WasmKind, Refusal> {
    const MAGIC: &[u8] = b"\0asm";
    if bytes.is_empty() {
        return Err(Refusal::Empty);
    }
    if !bytes.starts_with(&MAGIC[..MAGIC.len().min(bytes.len())]) {
        let text = std::str::from_utf8(&bytes[..bytes.len().min(1024)]).ok().map(str::trim_start);
        return Err(Refusal::NotWasm(match text {
            Some(text) if text.starts_with("(component") || text.starts_with("(module") => {
                "it is WebAssembly's text format; turn it into bytes with `wasm-tools parse`"
            }
            Some(_) => "it is text",
            None => "it does not begin with the bytes 00 61 73 6d",
        }));
    }
    match bytes.get(4..8) {
        None => Err(Refusal::Truncated { at: bytes.len() as u64 }),
        Some([0x0d, 0, 1, 0]) => Ok(WasmKind::Component),
        Some([1, 0, 0, 0]) => Ok(WasmKind::TypedModule),
        Some([old @ ..0x0d, 0, 1, 0]) => Err(Refusal::Invalid(format!(
            "it has the old format {old:#04x}; build it again with newer tools"
        ))),
        Some(_) => Err(Refusal::NotWasm("it is of a version or kind that this host does not know")),
    }
}

//! Variants of a component that differ in an ignored custom section: the same to a caller, but with different
//! digests.

use std::path::Path;

/// Variant `number` of the component.
pub fn variant(component: &[u8], number: usize) -> Vec<u8> {
    let section = custom_section("toolyard-load", format!("{number:08}").as_bytes());
    [component, &section].concat()
}

/// Writes `count` variants into a folder, each with a prefix for its tools: `p0`, `p1` and so on.
pub fn plugins(folder: &Path, component: &Path, count: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let component = std::fs::read(component)?;
    for number in 0..count {
        std::fs::write(folder.join(format!("add{number}.wasm")), variant(&component, number))?;
        std::fs::write(folder.join(format!("add{number}.toml")), format!("prefix = \"p{number}\"\n"))?;
    }
    Ok(())
}

/// A section that is ignored but changes the digest. Lengths are below 128 here, so that one byte of LEB128
/// is enough.
fn custom_section(name: &str, payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u8::try_from(bytes).ok().filter(|byte| *byte < 128).expect("a short section");
    let mut section = vec![0, length(1 + name.len() + payload.len()), length(name.len())];
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(payload);
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_section_has_its_lengths() {
        assert_eq!(custom_section("ab", b"cde"), [0, 6, 2, b'a', b'b', b'c', b'd', b'e']);
    }
}

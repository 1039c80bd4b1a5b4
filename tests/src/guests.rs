//! Paths of the built components.

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_path_buf()
}

/// The folder with the shipped plugins.
///
/// # Panics
/// If they have not been built.
pub fn dist() -> PathBuf {
    built(root().join("plugins/dist"), "make plugins")
}

/// The folder with the shipped plugin that tries out clients.
fn extra() -> PathBuf {
    built(root().join("plugins/extra"), "make plugins")
}

/// A shipped plugin's component.
pub fn plugin(name: &str) -> PathBuf {
    let folder = if name == "probe" { extra() } else { dist() };
    built(folder.join(format!("{name}.wasm")), "make plugins")
}

/// Makes a plugin folder with all shipped plugins within `folder`.
///
/// # Panics
/// If it cannot be made.
pub fn all_plugins(folder: &Path) -> PathBuf {
    let all = folder.join("plugins");
    for from in [dist(), extra()] {
        for entry in std::fs::read_dir(from).expect("a folder").flatten() {
            let to = all.join(entry.file_name());
            match entry.path().is_dir() {
                true => std::fs::create_dir_all(to).expect("made"),
                false => {
                    std::fs::create_dir_all(&all).expect("made");
                    std::fs::copy(entry.path(), to).expect("copied");
                }
            }
        }
    }
    all
}

/// A fixture guest's component.
///
/// # Panics
/// If it has not been built.
pub fn fixture(name: &str) -> PathBuf {
    built(root().join(format!("target/fixtures/{name}.wasm")), "make fixtures")
}

/// The binary: `TOOLYARD_BIN`, or the release build.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("TOOLYARD_BIN")
        .map_or_else(|| root().join("target/release/toolyard"), PathBuf::from);
    built(path, "make build")
}

/// A folder for a `PATH`, made within `folder`: it contains the binary under the name that pages use.
///
/// # Panics
/// If it cannot be made.
pub fn folder_with_toolyard(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).expect("made");
    std::os::unix::fs::symlink(binary(), bin.join("toolyard")).expect("linked");
    bin
}

/// The version of the product.
///
/// # Panics
/// If its manifest has none.
pub fn version() -> &'static str {
    let manifest = include_str!("../../host/Cargo.toml");
    let version = |line: &'static str| line.strip_prefix("version = \"")?.strip_suffix('"');
    manifest.lines().find_map(version).expect("a version")
}

/// The binary with fail points: `TOOLYARD_FAILPOINTS_BIN`, or the release build.
pub fn binary_with_fail_points() -> PathBuf {
    let path = std::env::var_os("TOOLYARD_FAILPOINTS_BIN")
        .map_or_else(|| root().join("target/release/toolyard-failpoints"), PathBuf::from);
    built(path, "make failpoints")
}

fn built(path: PathBuf, how: &str) -> PathBuf {
    assert!(path.exists(), "{} is not there: run `{how}` first", path.display());
    path
}

/// The guest `hostile_resources` with this kind of attack.
pub fn hostile_resources(choice: u8) -> Vec<u8> {
    chosen("hostile_resources", b"hostile-resources-no", choice)
}

/// The guest `hostile_lists` with this listing.
pub fn hostile_lists(choice: u8) -> Vec<u8> {
    chosen("hostile_lists", b"hostile-list-no-", choice)
}

/// A fixture guest with this digit after the mark.
fn chosen(name: &str, mark: &[u8], choice: u8) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture(name)).expect("built");
    let at = bytes.windows(mark.len()).position(|window| window == mark).expect("it has the mark");
    bytes[at + mark.len()] = b'0' + choice;
    bytes
}

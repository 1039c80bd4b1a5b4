//! Files that pages use. Their addresses contain their digests, so that browsers may keep them for ever.

use crate::session::hex;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

/// A file.
pub(crate) struct Asset {
    /// The address of the file, below the root.
    pub path: String,
    pub kind: &'static str,
    pub body: &'static [u8],
}

impl Asset {
    fn new(name: &str, kind: &'static str, body: &'static [u8]) -> Self {
        let digest = hex(&Sha256::digest(body)[..4]);
        let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
        Self { path: format!("/asset/{stem}.{digest}.{suffix}"), kind, body }
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console.css", "text/css; charset=utf-8", include_bytes!("../assets/console.css"))
});
pub(crate) static MORPH: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("idiomorph.min.js", SCRIPT, include_bytes!("../assets/idiomorph.min.js")));
pub(crate) static CODE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console.js", SCRIPT, include_bytes!("../assets/console.js")));
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")));

/// The file at this address.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    [&STYLE, &MORPH, &CODE, &ICON].into_iter().map(|asset| &**asset).find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_at_their_addresses_and_are_small() {
        assert!(find("/asset/console.css").is_none());
        for (asset, most) in [(&*STYLE, 14_000), (&*MORPH, 11_000), (&*CODE, 8_000), (&*ICON, 2_000)] {
            assert!(find(&asset.path).is_some_and(|found| std::ptr::eq(found, asset)), "{}", asset.path);
            assert!(asset.body.len() <= most, "{}", asset.path);
        }
    }
}

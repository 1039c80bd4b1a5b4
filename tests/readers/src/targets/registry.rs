//! Manifests, indexes and challenges of registries, docker configurations, layout tars and addresses of
//! plugins: none makes its reader panic, and the text of an address gives the address.

use toolyard_registry::{Reference, Source, layout, readers};

const MAX_COMPONENT: u64 = 1 << 16;

pub(super) fn check(data: &[u8]) {
    readers::manifest(data);
    readers::docker_config(data, "ghcr.io");
    let _ = std::hint::black_box(layout::read(data, MAX_COMPONENT));
    let Ok(text) = std::str::from_utf8(data) else { return };
    readers::challenge(text);
    if let Ok(reference) = text.parse::<Reference>() {
        assert_eq!(reference.to_string().parse::<Reference>().ok(), Some(reference));
    }
    if let Ok(source) = text.parse::<Source>() {
        assert_eq!(source.to_string().parse::<Source>().ok(), Some(source));
    }
}

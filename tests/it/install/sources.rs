//! Components from a web server.

use super::Place;
use crate::network::{authority, secure_site};
use toolyard_tests::registry::digest;

#[tokio::test]
async fn a_component_of_a_web_server_needs_its_digest() {
    let place = Place::new();
    let component = place.versioned(1);
    let digest = digest(&component);
    let (issuer, certificate) = authority("Known");
    place.write("ca.pem", certificate);
    let port = secure_site(&issuer, "localhost", component.leak()).await;
    let url = format!("https://localhost:{port}/tools/versioned.wasm");
    let registry = format!("[registries.\"localhost:{port}\"]\nca = \"ca.pem\"\n");
    let add = |more: &[&str]| {
        let args = [&["add", &url, "--config", "toolyard.toml"], more].concat();
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (config, more, code, part) in [
        (&*registry, &[][..], 1, "by --sha256, or its signature by --bundle"),
        (&registry, &["--sha256", &format!("sha256:{}", "0".repeat(64))], 1, "--sha256 says"),
        ("", &["--sha256", &digest], 1, "certificate"),
        (&registry, &["--sha256", &digest], 0, "fetched"),
    ] {
        place.write("toolyard.toml", config);
        let args = add(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = place.expect(code, &args).await;
        assert!(said.contains(part), "{part}:\n{said}");
        assert_eq!(place.at("plugins/versioned.wasm").exists(), code == 0);
    }
    assert!(place.read("plugins/toolyard.lock").contains(&url));
}

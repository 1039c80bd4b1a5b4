//! Registries that demand a password, and components from a web server.

use super::Place;
use crate::command_line::{err, out};
use crate::network::{authority, secure_site};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::process::Stdio;
use tokio::io::AsyncWriteExt as _;
use toolyard_tests::guests;
use toolyard_tests::registry::{RegistryServer, USER};

/// Runs `toolyard login` with this password on stdin.
async fn login(place: &Place, registry: &str, password: &str) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(guests::binary());
    command.args(["login", registry, "--username", USER.0, "--password-stdin"]).env("HOME", &place.folder);
    let command = command.env_remove("DOCKER_CONFIG").env_remove("REGISTRY_AUTH_FILE");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(format!("{password}\n").as_bytes()).await.expect("writes");
    drop(stdin);
    let done = child.wait_with_output().await.expect("ends");
    (done.status.code(), out(&done) + &err(&done))
}

#[tokio::test]
async fn after_a_login_a_private_registry_takes_and_gives_plugins() {
    let Some(registry) = RegistryServer::start_private() else { return };
    let place = Place::new();
    place.write("pushed.wasm", place.versioned(1));
    let address = registry.address("acme/versioned:1");
    let refused = place.expect(1, &["push", "pushed.wasm", &address]).await;
    assert!(refused.contains("toolyard login"), "{refused}");

    let (code, said) = login(&place, &registry.host(), "wrong").await;
    assert_eq!(code, Some(1), "{said}");
    assert!(!place.at(".docker/config.json").exists(), "a wrong password is not kept");
    let (code, said) = login(&place, &registry.host(), USER.1).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("logged in at") && said.contains("base64"), "{said}");
    assert!(!said.contains(USER.1), "{said}");
    assert!(place.read(".docker/config.json").contains(&registry.host()));

    place.expect(0, &["push", "pushed.wasm", &address]).await;
    place.expect(0, &["add", &address]).await;
    assert!(place.at("plugins/versioned.wasm").exists());
}

#[tokio::test]
async fn a_component_of_a_web_server_needs_its_digest() {
    let place = Place::new();
    let component = place.versioned(1);
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(&component) {
        let _ = write!(digest, "{byte:02x}");
    }
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

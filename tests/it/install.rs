//! Plugins by address: added, updated, held, accepted, verified, restored and removed, with a real registry and a host
//! that runs.

mod lock;
mod sources;

use crate::command_line::{err, out};
use crate::console::Sender;
use p256::ecdsa::SigningKey;
use p256::pkcs8::{EncodePublicKey as _, LineEnding};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;
use toolyard_tests::host::Setup;
use toolyard_tests::registry::RegistryServer;
use toolyard_tests::wait::eventually;
use toolyard_tests::{Host, guests};

/// A folder with a plugin folder, a data folder and public keys.
struct Place {
    folder: PathBuf,
    _owned: Option<tempfile::TempDir>,
}

impl Place {
    fn new() -> Self {
        let owned = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(owned.path().join("plugins")).expect("makes");
        Self { folder: owned.path().to_owned(), _owned: Some(owned) }
    }

    /// The folder of a host.
    fn of(host: &Host) -> Self {
        Self { folder: host.folder().to_owned(), _owned: None }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.at(path), bytes).expect("writes");
    }

    async fn run_by(&self, program: &Path, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(program);
        command
            .args(args)
            .args(["--plugins", "plugins", "--data", "data"])
            .stdin(std::process::Stdio::null());
        command.env("HOME", &self.folder).envs(variables.iter().copied()).current_dir(&self.folder);
        command.output().await.expect("runs")
    }

    async fn run(&self, args: &[&str]) -> Output {
        self.run_by(&guests::binary(), &[], args).await
    }

    /// Runs a command that must end with this code; returns stdout and stderr.
    async fn expect(&self, code: i32, args: &[&str]) -> String {
        let done = self.run(args).await;
        assert_eq!(done.status.code(), Some(code), "{args:?}:\n{}{}", out(&done), err(&done));
        out(&done) + &err(&done)
    }

    /// Writes the public key of a publisher.
    fn write_key(&self, name: &str) {
        let pem = private_key(name).verifying_key().to_public_key_pem(LineEnding::LF).expect("PEM");
        self.write(&format!("{name}.pub"), pem);
    }

    /// The component `versioned_v1` or `versioned_v2`, in this folder.
    fn versioned(&self, version: u8) -> Vec<u8> {
        std::fs::read(guests::fixture(&format!("versioned_v{version}"))).expect("a fixture")
    }

    /// The same component with another description of its tool `slow_version`.
    fn with_description(&self, version: u8, description: &str) -> Vec<u8> {
        let before = "A fixture.";
        assert_eq!(before.len(), description.len(), "the text is replaced in place");
        let mut bytes = self.versioned(version);
        let mut replaced = 0;
        for at in 0..bytes.len() - before.len() {
            if bytes[at..].starts_with(before.as_bytes()) {
                bytes[at..at + before.len()].copy_from_slice(description.as_bytes());
                replaced += 1;
            }
        }
        assert!(replaced > 0, "the component has the description");
        bytes
    }
}

/// The private key of a publisher.
fn private_key(name: &str) -> SigningKey {
    SigningKey::from_slice(&[name.as_bytes()[0]; 32]).expect("a key")
}

/// Publishes a component that this publisher signs.
async fn publish(registry: &RegistryServer, address: &str, component: &[u8], name: &str) {
    registry.publish(address, component, &json!({}), &private_key(name)).await;
}

/// A host that runs on an empty plugin folder, with the public key of a publisher in its folder.
async fn host() -> (Host, Place) {
    let setup = Setup::new().set("admin.listen", "127.0.0.1:0").set("console.listen", "127.0.0.1:0");
    let host = setup.start().await;
    let place = Place::of(&host);
    place.write_key("acme");
    (host, place)
}

async fn version_of(host: &Host) -> String {
    let session = toolyard_tests::Session::open(host.port()).await;
    let called = session.request("tools/call", json!({"name": "version", "arguments": {}})).await;
    called["result"]["content"][0]["text"].as_str().unwrap_or("none").to_owned()
}

/// Waits until a call of the tool `version` answers this.
async fn until_version(host: &Host, expected: &str) {
    eventually(expected, || async { (version_of(host).await == expected).then_some(()) }).await;
}

/// Waits until the metric of versions that wait for a person has this value.
async fn until_held(host: &Host, expected: u64) {
    eventually("the metric of held versions", || async {
        let held = host.metric("toolyard_plugins{state=\"held\"}").await;
        (held == Some(expected)).then_some(())
    })
    .await;
}

fn audited(place: &Place, action: &str) -> Option<Value> {
    let log = place.read("data/audit.jsonl");
    let mut entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries.find(|entry| entry["action"] == action)
}

#[tokio::test]
async fn a_published_plugin_is_added_with_its_signer_pinned_and_served_at_once() {
    let Some(registry) = RegistryServer::start() else { return };
    let (host, place) = host().await;
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    let said = place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    for line in [
        "fetched    oci://127.0.0.1",
        "signed by  key SHA256:",
        "tools      version",
        "granted    nothing",
        "toolyard.lock",
    ] {
        assert!(said.contains(line), "{line}:\n{said}");
    }
    until_version(&host, "v1").await;
    assert!(place.expect(0, &["verify"]).await.contains("versioned.wasm  ok"));
    let entry = audited(&place, "plugin.accepted").expect("an entry");
    assert_eq!((&entry["principal"], &entry["plugin"]), (&json!("operator"), &json!("versioned.wasm")));

    // The same code by another name, and a second time.
    let taken = place.expect(1, &["add", &address, "--key", "acme.pub"]).await;
    assert!(taken.contains("`toolyard update versioned`"), "{taken}");
    let collides = place.expect(1, &["add", &address, "--name", "other"]).await;
    assert!(collides.contains("has the name of a tool of versioned.wasm; --prefix"), "{collides}");
    place.expect(0, &["add", &address, "--name", "other", "--prefix", "o"]).await;
    // Removed again, with everything that belongs to it.
    place.expect(0, &["remove", "other"]).await;
    place.expect(0, &["remove", "versioned"]).await;
    until_version(&host, "none").await;
    let mut left: Vec<_> = std::fs::read_dir(place.at("plugins"))
        .expect("lists")
        .flatten()
        .map(|file| file.file_name())
        .collect();
    left.sort();
    assert_eq!(left, [".toolyard-turn", "toolyard.lock"]);
    assert!(!place.read("plugins/toolyard.lock").contains("[[plugin]]"));
    assert!(audited(&place, "plugin.removed").is_some());
}

#[tokio::test]
async fn a_version_whose_description_changed_is_held_until_it_is_accepted() {
    let Some(registry) = RegistryServer::start() else { return };
    let (host, place) = host().await;
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    until_version(&host, "v1").await;
    assert!(place.expect(0, &["update"]).await.contains("unchanged"));
    // The same definitions: taken.
    publish(&registry, &address, &place.versioned(2), "acme").await;
    let before = place.read("plugins/toolyard.lock");
    assert!(place.expect(0, &["update", "--dry-run"]).await.contains("would become"));
    assert_eq!(place.read("plugins/toolyard.lock"), before);
    assert!(place.expect(0, &["update"]).await.contains("updated"));
    until_version(&host, "v2").await;
    // The rug pull.
    publish(&registry, &address, &place.with_description(1, "\u{202e}Evil!.."), "acme").await;
    let before = place.read("plugins/toolyard.lock");
    let held = place.expect(3, &["update", "versioned"]).await;
    for part in ["slow_version", "A fixture.", "\\u{202e}Evil!..", "toolyard accept versioned"] {
        assert!(held.contains(part), "{part}:\n{held}");
    }
    assert_eq!(place.read("plugins/toolyard.lock"), before);
    assert_eq!(version_of(&host).await, "v2");
    assert!(audited(&place, "plugin.held").is_some());
    until_held(&host, 1).await;
    let (_, page) = Sender::logged_in(&host).await.get("/tools/versioned.wasm").await;
    for part in [&*address, "key SHA256:", "toolyard accept versioned"] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    assert!(place.expect(3, &["verify"]).await.contains("a new version is held"));
    // Exactly the version that was read, or none.
    let digest = held.split("toolyard accept versioned@").nth(1).and_then(|rest| rest.split('`').next());
    let other = format!("versioned@sha256:{}", "0".repeat(64));
    let refused = place.expect(1, &["accept", &other]).await;
    assert!(refused.contains("nothing has changed"), "{refused}");
    assert_eq!(version_of(&host).await, "v2");
    let accepted = place.expect(0, &["accept", &format!("versioned@{}", digest.expect("a digest"))]).await;
    assert!(accepted.contains("slow_version") && accepted.contains("accepted"), "{accepted}");
    until_version(&host, "v1").await;
    until_held(&host, 0).await;
    place.expect(0, &["verify"]).await;
    assert!(place.expect(0, &["update"]).await.contains("unchanged"));
    // The publisher withdraws what is held, and publishes the old version again.
    let evil = place.with_description(1, "\u{202e}Evil!..");
    publish(&registry, &address, &place.with_description(1, "Harmless.."), "acme").await;
    place.expect(3, &["update"]).await;
    publish(&registry, &address, &evil, "acme").await;
    place.expect(0, &["update"]).await;
    place.expect(0, &["verify"]).await;
}

#[tokio::test]
async fn an_older_version_is_held_also_if_it_says_the_same_of_itself() {
    let Some(registry) = RegistryServer::start() else { return };
    let place = Place::new();
    place.write_key("acme");
    let address = registry.address("acme/versioned:1");
    let publish = async |version: u8, named: &str| {
        let annotations = json!({"org.opencontainers.image.version": named});
        registry.publish(&address, &place.versioned(version), &annotations, &private_key("acme")).await;
    };
    publish(1, "1.9.0").await;
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    publish(2, "1.10.0").await;
    assert!(place.expect(0, &["update"]).await.contains("updated"));
    publish(1, "1.9.0").await;
    let held = place.expect(3, &["update"]).await;
    assert!(held.contains("it is the older version 1.9.0; the plugin is 1.10.0"), "{held}");
}

#[tokio::test]
async fn another_signer_is_refused_until_a_person_pins_it() {
    let Some(registry) = RegistryServer::start() else { return };
    let place = Place::new();
    place.write_key("acme");
    place.write_key("other");
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    // Nothing is left behind by a wrong key.
    let wrong = place.expect(1, &["add", &address, "--key", "other.pub"]).await;
    assert!(wrong.contains("key"), "{wrong}");
    assert!(!place.at("plugins/versioned.wasm").exists() && !place.at("plugins/toolyard.lock").exists());
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    let locked = place.read("plugins/toolyard.lock");
    publish(&registry, &address, &place.versioned(2), "other").await;
    let refused = place.expect(1, &["update"]).await;
    assert!(refused.contains("pins the signer SHA256:"), "{refused}");
    assert_eq!(place.read("plugins/toolyard.lock"), locked);
    let accepted = place.expect(0, &["accept", "versioned", "--key", "other.pub"]).await;
    assert!(accepted.contains("signed by"), "{accepted}");
    assert!(place.read("plugins/toolyard.lock").contains("file = \"other.pub\""));
    place.expect(0, &["verify"]).await;
    // Other bytes without a signature do not take the signer away.
    let locked = place.read("plugins/toolyard.lock");
    place.write("plugins/versioned.wasm", place.versioned(1));
    let refused = place.expect(1, &["accept", "versioned"]).await;
    assert!(refused.contains("toolyard install versioned") && refused.contains("--unsigned"), "{refused}");
    assert_eq!(place.read("plugins/toolyard.lock"), locked);
    place.expect(0, &["accept", "versioned", "--unsigned"]).await;
    assert!(place.read("plugins/toolyard.lock").contains("signer = \"none\""));
    // A policy that demands a signature of a source.
    place.write("toolyard.toml", "[[plugins.signers]]\nfrom = ['oci://127.0.0.1:*']\nkeys = ['acme.pub']\n");
    let (other, config) = (Place::new(), place.at("toolyard.toml"));
    let config = config.to_str().expect("text");
    other.expect(1, &["--config", config, "add", &address]).await;
    publish(&registry, &address, &place.versioned(2), "acme").await;
    assert!(other.expect(0, &["--config", config, "add", &address]).await.contains("signed by  key"));
}

#[tokio::test]
async fn a_machine_without_a_network_adds_what_another_one_fetched() {
    let Some(registry) = RegistryServer::start() else { return };
    let place = Place::new();
    place.write_key("acme");
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    place.expect(0, &["pull", &address, "-o", "versioned.tar"]).await;
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    drop(registry);
    let other = Place::new();
    let tar = place.at("versioned.tar");
    let key = place.at("acme.pub");
    let args = ["add", tar.to_str().expect("text"), "--key", key.to_str().expect("text")];
    other.expect(0, &args).await;
    other.expect(0, &["verify"]).await;
    let digest = |place: &Place| {
        let lock = place.read("plugins/toolyard.lock");
        lock.lines().find(|line| line.starts_with("manifest = ")).expect("a manifest").to_owned()
    };
    assert_eq!(digest(&place), digest(&other), "the file has the same image");
}

#[tokio::test]
async fn a_folder_is_restored_from_its_lock_file_by_digests() {
    let Some(registry) = RegistryServer::start() else { return };
    let place = Place::new();
    place.write_key("acme");
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    // The tag moves, and the files that a team does not commit are gone.
    publish(&registry, &address, &place.versioned(2), "acme").await;
    let lock = place.read("plugins/toolyard.lock");
    let component = std::fs::read(place.at("plugins/versioned.wasm")).expect("reads");
    std::fs::remove_file(place.at("plugins/versioned.wasm")).expect("removes");
    assert!(place.expect(3, &["verify"]).await.contains("toolyard install"));
    place.expect(0, &["install"]).await;
    assert_eq!(std::fs::read(place.at("plugins/versioned.wasm")).expect("reads"), component);
    assert_eq!(place.read("plugins/toolyard.lock"), lock);
    assert!(place.expect(0, &["install"]).await.contains("as locked"));
    std::fs::remove_file(place.at("plugins/versioned.wasm.provenance.json")).expect("removes");
    let unknown = place.expect(1, &["install"]).await;
    assert!(unknown.contains("--key"), "{unknown}");
    place.expect(0, &["install", "--key", "acme.pub"]).await;
    place.expect(0, &["verify"]).await;
}

#[tokio::test]
async fn without_a_terminal_each_use_needs_a_grant() {
    let place = Place::new();
    let fetch = guests::plugin("fetch");
    let fetch = fetch.to_str().expect("text");
    let undecided = place.expect(3, &["add", fetch]).await;
    assert!(undecided.contains("sends HTTP requests") && undecided.contains("--grant http="), "{undecided}");
    assert!(!place.at("plugins/fetch.wasm").exists() && !place.at("plugins/toolyard.lock").exists());
    place.expect(2, &["add", fetch, "--grant", "everything"]).await;
    let said = place.expect(0, &["add", fetch, "--grant", "http=*.example.com", "--ask"]).await;
    assert!(said.contains("granted    http *.example.com, if the person agrees"), "{said}");
    assert!(place.read("plugins/toolyard.lock").contains("\"http *.example.com, if the person agrees\""));
    place.expect(0, &["verify"]).await;
    place.expect(0, &["remove", "fetch", "--keep-manifest"]).await;
    assert!(place.read("plugins/fetch.toml").contains("*.example.com"));
    // The manifest that was kept grants it.
    place.expect(0, &["add", fetch]).await;
    let wrong = place.expect(1, &["add", fetch, "--name", "b", "--sha256", &"0".repeat(64)]).await;
    assert!(wrong.contains("--sha256 says"), "{wrong}");
}

/// P3: each file moves by a renaming of its own, and the host may look between any two.
#[tokio::test]
async fn an_update_that_is_killed_is_one_step_for_a_host_that_runs() {
    let Some(registry) = RegistryServer::start() else { return };
    let (host, place) = host().await;
    let address = registry.address("acme/versioned:1");
    publish(&registry, &address, &place.versioned(1), "acme").await;
    place.expect(0, &["add", &address, "--key", "acme.pub"]).await;
    until_version(&host, "v1").await;
    let mut version = 1;
    for point in ["staged", "committed", "step-0", "step-1", "step-2", "done"] {
        let before = format!("v{version}");
        version = 3 - version;
        publish(&registry, &address, &place.versioned(version), "acme").await;
        let at = format!("install.{point}");
        let program = guests::binary_with_fail_points();
        let killed = place.run_by(&program, &[("TOOLYARD_FAILPOINT", &at)], &["update"]).await;
        assert_eq!(killed.status.code(), None, "{point}: {}{}", out(&killed), err(&killed));
        if point == "staged" {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            assert_eq!(version_of(&host).await, before);
            version = 3 - version;
        } else {
            until_version(&host, &format!("v{version}")).await;
        }
        let log = host.log();
        assert!(!log.contains("plugin.refused") && !log.contains("plugin.previous_kept"), "{point}: {log}");
        // Moves the rest of the files.
        place.expect(0, &["verify"]).await;
    }
}

#[tokio::test]
async fn a_command_that_waits_for_another_says_so_and_can_be_stopped() {
    let place = Place::new();
    place.write("versioned.wasm", place.versioned(1));
    place.expect(0, &["add", "versioned.wasm"]).await;
    let turn = std::fs::File::options().write(true).open(place.at("plugins/.toolyard-turn")).expect("opens");
    turn.lock().expect("is free");
    let program = guests::binary();
    let args = ["-s", "INT", "3", program.to_str().expect("text"), "update"];
    let waiting = place.run_by(Path::new("timeout"), &[], &args).await;
    let said = err(&waiting);
    assert!(said.contains("another command (process ") && said.contains("waiting for it"), "{said}");
    assert_eq!(waiting.status.code(), Some(124), "it ends at SIGINT: {said}");
    turn.unlock().expect("unlocks");
    place.expect(0, &["update"]).await;
}

//! Guests that try to reach more than a granted folder: they replace another folder, or their
//! manifest grants paths of the host or of the kernel.

use super::stage::{SECRET, Stage, write_keys};
use serde_json::json;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;
use toolyard_tests::host::install_as;
use toolyard_tests::{Setup, ends, guests, until};

/// The content of a file that the guest of another plugin may not read.
const INJECTED: &str = "a secret of another plugin";

/// Folders beside those of the host. Each attack uses its own.
fn make(root: &Path) {
    for folder in
        ["srv/work/in", "srv/outside", "srv/own/in", "srv/shared", "logs", "keys/old", "secrets", "conf"]
    {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(root.join(folder)).expect("makes");
    }
    for (file, text) in [
        ("srv/outside/note", SECRET),
        ("srv/work/in/note", "note"),
        ("srv/own/in/note", "note"),
        ("secrets/token", INJECTED),
    ] {
        std::fs::write(root.join(file), text).expect("writes");
    }
    write_keys(&root.join("keys/file"));
}

#[tokio::test]
async fn grants() {
    let setup = Setup::new();
    let root = setup.plugins().parent().expect("a folder around it").to_owned();
    make(&root);
    let audit = root.join("logs/audit.jsonl");
    let config = format!("[encryption]\nkey-file = \"../keys/file\"\n[audit]\nfile = {audit:?}\n");
    std::fs::write(root.join("conf/host.toml"), config).expect("writes");
    let setup = setup.args(&["--config", "conf/host.toml"]).manifest(
        "keeper",
        "prefix = \"keeper\"\n[secrets]\nTOKEN = { file = \"../secrets/token\", expose = false }\n",
    );
    install_as(&guests::fixture("hostile_files"), &setup.plugins(), "keeper.wasm");
    let stage = Stage::open(setup).await;
    attacks!(stage;
        link_where_an_inner_folder_is_granted, nest_grants_in_one_manifest,
        put_another_folder_where_one_is_granted,
        read_the_secrets_the_keys_and_the_files_of_the_host, write_what_the_next_start_reads,
    );
    stage.at_rest().await;
}

async fn logged(stage: &Stage, parts: &[&str]) {
    until(&format!("the log to say {parts:?}"), || async {
        stage.host.log().lines().any(|line| parts.iter().all(|part| line.contains(part)))
    })
    .await;
}

/// Reads this path while the host scans its plugin folder several times, and never gets the secret.
async fn never_reads(stage: &Stage, plugin: &str, path: &str) {
    for _ in 0..25 {
        let arguments = json!({"what": "read", "path": path, "other": ""});
        let told = stage.answer(&format!("{plugin}_file"), arguments).await.to_string();
        assert!(!told.contains("ALLOWED") && !told.contains(SECRET), "{plugin} {path}: {told}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// One plugin may write the folder around another plugin's folder, and puts a link there.
async fn link_where_an_inner_folder_is_granted(stage: &Stage) {
    let (work, inner) = (stage.at("srv/work"), stage.at("srv/work/in"));
    stage.install("inner", &[("/in", &inner, "read")]);
    stage.served("inner").await;
    stage.install("outer", &[("/work", &work, "write")]);
    stage.served("outer").await;
    // The host refuses the inner plugin, though it was there before.
    stage.refused("inner", "which the plugin outer.wasm may write (`fs.\"/work\"`)").await;
    stage.allowed("outer", "delete", "/work/in/note", "").await;
    for target in ["../outside", "../../../../../../../../proc/self"] {
        stage.allowed("outer", "remove", "/work/in", "").await;
        stage.allowed("outer", "raw-symlink", "in", target).await;
        for path in ["/in/note", "/in/environ"] {
            never_reads(stage, "inner", path).await;
        }
        stage.allowed("outer", "delete", "/work/in", "").await;
        stage.allowed("outer", "make", "/work/in", "").await;
    }
    stage.remove("outer");
    // The host does not mistake the folder that the guest left there for the granted one.
    logged(stage, &["event=\"plugin.refused\" plugin=\"inner.wasm\"", "is not the one that was granted"])
        .await;
    stage.remove("inner");
}

/// One plugin may write a folder and read one inside it.
async fn nest_grants_in_one_manifest(stage: &Stage) {
    let (work, inner) = (stage.at("srv/work"), stage.at("srv/work/in"));
    stage.install("both", &[("/in", &inner, "read"), ("/work", &work, "write")]);
    stage.refused("both", "which the same plugin may write (`fs.\"/work\"`)").await;
    // A guest that may only read there replaces nothing; nor does a guest inside the folder itself.
    stage.install("both", &[("/in", &inner, "write"), ("/again", &inner, "read"), ("/work", &work, "read")]);
    stage.served("both").await;
    stage.remove("both");
}

/// A local user who owns the surrounding folder puts another folder there.
async fn put_another_folder_where_one_is_granted(stage: &Stage) {
    let (folder, moved) = (stage.at("srv/own/in"), stage.at("srv/own/moved"));
    stage.install("pinned", &[("/in", &folder, "read")]);
    stage.served("pinned").await;
    std::fs::rename(&folder, &moved).expect("moves");
    std::fs::create_dir(&folder).expect("makes");
    std::fs::write(folder.join("note"), SECRET).expect("writes");
    never_reads(stage, "pinned", "/in/note").await;
    stage.refused("pinned", "is not the one that was granted").await;
    // Saving the unchanged manifest confirms nothing.
    stage.install("pinned", &[("/in", &folder, "read")]);
    never_reads(stage, "pinned", "/in/note").await;
    // A changed manifest confirms that the operator means this folder.
    stage.install("pinned", &[("/there", &folder, "read")]);
    stage.served("pinned").await;
    stage.allowed("pinned", "read", "/there/note", "").await;
    stage.remove("pinned");
}

async fn read_the_secrets_the_keys_and_the_files_of_the_host(stage: &Stage) {
    let root = stage.at("");
    let data = stage.host.data().canonicalize().expect("is there");
    let (log, kept) = ("has the audit log of this host in it", "has the data of this host in it");
    let secret = "has the file of a secret in it (`secrets.TOKEN` of keeper.toml)";
    for (name, path, mode, says) in [
        ("secrets", root.join("secrets"), "read", secret),
        ("keys", root.join("keys"), "read", "has the keys of `encryption.key-file` in it"),
        ("conf", root.join("conf"), "read", "has the configuration file of this host in it"),
        ("data", data.clone(), "read", kept),
        ("code", data.join("compiled"), "read", kept),
        ("logs-read", root.join("logs"), "read", log),
        ("logs-write", root.join("logs"), "write", log),
    ] {
        stage.install(name, &[("/d", &path, mode)]);
        stage.refused(name, says).await;
        stage.remove(name);
    }
    // The neighbouring folder contains nothing secret.
    stage.install("old", &[("/d", &root.join("keys/old"), "write")]);
    stage.served("old").await;
    stage.remove("old");
}

/// The host reads neither a program nor a configuration from a place where a guest could have written it.
async fn write_what_the_next_start_reads(stage: &Stage) {
    let program = guests::binary().canonicalize().expect("is there");
    let folder = program.parent().expect("a folder");
    stage.install("program", &[("/d", folder, "write")]);
    stage.refused("program", "has this program in it").await;
    stage.remove("program");
    // If a host starts without a `toolyard.toml` in its folder, its next start would read one there.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let shared = stage.at("srv/shared");
    let manifest = format!("[fs]\n\"/d\" = {{ path = {shared:?}, mode = \"write\" }}\n");
    std::fs::write(elsewhere.path().join("a.toml"), manifest).expect("writes");
    install_as(&guests::fixture("hostile_files"), elsewhere.path(), "a.wasm");
    let mut tools = tokio::process::Command::new(guests::binary());
    tools.args(["tools", "--data"]).arg(stage.at("tools-data")).arg("--plugins").arg(elsewhere.path());
    let output = tools.current_dir(&shared).output().await.expect("it runs");
    ends(&output, 1, "has the configuration file of this host in it");
}

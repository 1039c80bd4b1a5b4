//! Other users of the machine: the host trusts no file that they can write, and uses no file that they put in
//! place of its own. The test itself plays these users, unless that needs a real second user.

use super::stage::Stage;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::{Host, Session, guests};

const OVERRIDE: &str = "data.others-may-write";

#[tokio::test]
async fn users() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage;
        open_the_data_folder_to_everybody, put_a_database_there_first,
        put_machine_code_in_the_place_of_the_cache, put_a_link_or_another_file_where_the_audit_log_is,
        componentize_what_never_ends,
    );
    stage.at_rest().await;
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("changes the mode");
}

/// The output of a command that ends by itself.
async fn run(folder: &Path, args: &[&str]) -> Output {
    let running = tokio::process::Command::new(guests::binary())
        .args(args)
        .current_dir(folder)
        .kill_on_drop(true)
        .output();
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").expect("it runs")
}

/// Starts a host that must refuse to start, and returns its message.
async fn does_not_start(folder: &Path, more: &[&str]) -> String {
    let args = ["serve", "--listen", "127.0.0.1:0", "--plugins", "plugins", "--data", "data"];
    let output = run(folder, &[&args[..], more].concat()).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    said
}

/// A folder with an empty plugin folder and a data folder.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for made in [&data, &folder.path().join("plugins")] {
        std::fs::create_dir(made).expect("makes");
    }
    set_mode(&data, 0o700);
    (folder, data)
}

async fn open_the_data_folder_to_everybody(_: &Stage) {
    let (folder, data) = place();
    for (mode, who) in [(0o777, "everybody on this machine can write"), (0o770, "the group")] {
        set_mode(&data, mode);
        let said = does_not_start(folder.path(), &[]).await;
        assert!(said.contains("the data folder") && said.contains(who) && said.contains(OVERRIDE), "{said}");
        // A command that only reads refuses too.
        let listed = run(folder.path(), &["tasks", "list", "--data", "data", "--plugins", "plugins"]).await;
        assert!(!listed.status.success() && String::from_utf8_lossy(&listed.stderr).contains(who));
        assert!(!data.join("toolyard.sqlite").exists());
    }
    set_mode(&data, 0o700);
    for name in ["detached", "nodes"] {
        std::fs::create_dir(data.join(name)).expect("makes");
        set_mode(&data.join(name), 0o777);
        let said = does_not_start(folder.path(), &[]).await;
        assert!(said.contains(name) && said.contains(OVERRIDE), "{said}");
        std::fs::remove_dir(data.join(name)).expect("removes");
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, Some(65534), None).expect("root may");
        let said = does_not_start(folder.path(), &[]).await;
        assert!(said.contains("it belongs to the user 65534") && said.contains("chown"), "{said}");
    }
}

/// The host adopts a database that exists before its first start, unless another user could have written it.
async fn put_a_database_there_first(_: &Stage) {
    let (folder, data) = place();
    for name in ["toolyard.sqlite", "toolyard.sqlite-wal", "toolyard.sqlite-shm"] {
        let file = data.join(name);
        std::fs::write(&file, "").expect("writes");
        set_mode(&file, 0o666);
        let said = does_not_start(folder.path(), &[]).await;
        assert!(said.contains(name) && said.contains("could have changed tasks and keys"), "{said}");
        set_mode(&file, 0o600);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65534), None).expect("root may");
            let said = does_not_start(folder.path(), &[]).await;
            assert!(said.contains("it belongs to the user 65534"), "{said}");
        }
        std::fs::remove_file(&file).expect("removes");
        symlink("/etc/hostname", &file).expect("links");
        let said = does_not_start(folder.path(), &[]).await;
        assert!(said.contains("is not a regular file"), "{said}");
        std::fs::remove_file(&file).expect("removes");
    }
}

/// The operator has opened the data folder to others. They rename the cache while the host runs, and store
/// another component's code under the key of a good component.
async fn put_machine_code_in_the_place_of_the_cache(_: &Stage) {
    let key = |cache: &Path| {
        let names = std::fs::read_dir(cache).expect("lists").flatten().map(|entry| entry.file_name());
        let mut keys = names.filter_map(|name| name.to_str()?.strip_suffix(".cwasm").map(str::to_owned));
        keys.next().expect("some code")
    };
    // The code of two components, compiled by hosts of this version.
    let mut compiled = Vec::new();
    for component in ["add", "versioned_v1"] {
        let (folder, data) = place();
        install_as(&guests::fixture(component), &folder.path().join("plugins"), "some.wasm");
        let listed = run(folder.path(), &["tools", "--plugins", "plugins", "--data", "data"]).await;
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let cache = data.join("compiled");
        compiled.push((key(&cache), cache, folder));
    }
    let [(good, ..), (evil, from, _)] = &compiled[..] else { panic!("two of them") };
    let setup = Setup::new().set(OVERRIDE, "true");
    let data = setup.plugins().parent().expect("a folder").join("data");
    let host = setup.start().await;
    set_mode(&data, 0o777);
    let cache = data.join("compiled");
    std::fs::rename(&cache, data.join("moved")).expect("moves");
    std::fs::create_dir(&cache).expect("makes");
    for ending in ["cwasm", "json"] {
        let [from, to] =
            [(from, evil), (&cache, good)].map(|(folder, key)| folder.join(format!("{key}.{ending}")));
        std::fs::copy(from, to).expect("copies");
    }
    install_as(&guests::fixture("add"), &host.plugins(), "add.wasm");
    let tools = served(&host).await;
    let left: Vec<_> = std::fs::read_dir(&cache).expect("lists").flatten().collect();
    // Tests share the code that their hosts have compiled; this code must not become part of it.
    std::fs::remove_dir_all(&cache).expect("removes");
    assert_eq!(tools, ["add"], "the code of another component was loaded");
    assert_eq!(left.len(), 2, "nothing is written there either: {left:?}");
}

/// The names of the tools, once the host serves any.
async fn served(host: &Host) -> Vec<String> {
    let session = Session::open(host.port()).await;
    toolyard_tests::eventually("a tool to be served", || async {
        let names = session.tool_names().await;
        (!names.is_empty()).then_some(names)
    })
    .await
}

async fn put_a_link_or_another_file_where_the_audit_log_is(_: &Stage) {
    let (folder, data) = place();
    let (log, target) = (data.join("audit.jsonl"), folder.path().join("target"));
    std::fs::write(&target, "before\n").expect("writes");
    set_mode(&target, 0o600);
    symlink("../target", &log).expect("links");
    let said = does_not_start(folder.path(), &[]).await;
    assert!(said.contains("audit.jsonl is no regular file"), "{said}");
    assert_eq!(std::fs::read_to_string(&target).expect("there"), "before\n");
    std::fs::remove_file(&log).expect("removes");
    std::fs::write(&log, "").expect("writes");
    set_mode(&log, 0o666);
    let said = does_not_start(folder.path(), &[]).await;
    assert!(said.contains("could change what the audit log says") && said.contains(OVERRIDE), "{said}");
    std::fs::remove_file(&log).expect("removes");
    // Nor does the host write the audit log into a folder in which every user can rename it.
    let open = folder.path().join("open");
    std::fs::create_dir(&open).expect("makes");
    set_mode(&open, 0o777);
    let file = format!("audit.file={}", open.join("audit.jsonl").display());
    let said = does_not_start(folder.path(), &["--set", &file]).await;
    assert!(said.contains("everybody on this machine can write"), "{said}");
}

async fn componentize_what_never_ends(_: &Stage) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let (folder, _) = place();
    mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("makes a pipe");
    let sparse = std::fs::File::create(folder.path().join("sparse")).expect("makes");
    sparse.set_len(20 << 30).expect("has no blocks");
    for (input, says) in [
        ("/dev/zero", "is not a regular file"),
        ("pipe", "is not a regular file"),
        (".", "is not a regular file"),
        ("sparse", "is larger than"),
    ] {
        let output = run(folder.path(), &["componentize", input, "--output", "out.wasm"]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{input}: {said}");
    }
}

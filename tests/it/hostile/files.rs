//! Guests that try to reach, change or block files that no manifest grants them.

use super::stage::{SECRET, Stage};
use serde_json::json;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use toolyard_tests::host::install_as;
use toolyard_tests::{Setup, guests};

/// The guest under four names: one may write the folder, one may read it, one may write one folder and read
/// another, and one has no grant.
const PLUGINS: [(&str, &str); 4] = [
    ("writer", "[fs]\n\"/data\" = { path = \"./data\", mode = \"write\" }\n"),
    ("reader", "[fs]\n\"/data\" = { path = \"./data\", mode = \"read\" }\n"),
    (
        "both",
        "[fs]\n\"/data\" = { path = \"./data\", mode = \"write\" }\n\
         \"/other\" = { path = \"./other\", mode = \"read\" }\n",
    ),
    ("nothing", ""),
];

#[tokio::test]
async fn files() {
    let setup = Setup::new();
    let plugins = setup.plugins();
    for folder in ["data", "data/sub", "other"] {
        std::fs::create_dir(plugins.join(folder)).expect("makes");
    }
    for (file, text) in
        [("secret", SECRET), ("data/note", "note"), ("data/sub/note", "note"), ("other/note", SECRET)]
    {
        std::fs::write(plugins.join(file), text).expect("writes");
    }
    for (name, manifest) in PLUGINS {
        install_as(&guests::fixture("hostile_files"), &plugins, &format!("{name}.wasm"));
        std::fs::write(plugins.join(format!("{name}.toml")), format!("prefix = \"{name}\"\n{manifest}"))
            .expect("writes");
    }
    let stage = Stage::open(setup).await;
    attacks!(stage;
        climb_by_dots, name_absolute_paths, follow_links_out, make_links_and_follow_them,
        put_slashes_behind_links, link_across_folders, rename_across_folders, rename_while_opening,
        open_files_of_the_process, wait_on_a_pipe, open_devices, use_odd_names, list_names_that_are_no_text,
        hold_files_in_numbers, hold_listings_of_a_huge_folder,
    );
    let kept = |file: &str| std::fs::read_to_string(plugins.join(file)).expect("still there");
    assert_eq!((kept("secret").as_str(), kept("other/note").as_str()), (SECRET, SECRET));
    stage.at_rest().await;
}

fn data(stage: &Stage) -> PathBuf {
    stage.host.plugins().join("data")
}

async fn climb_by_dots(stage: &Stage) {
    let paths = ["/data/../secret", "/data/sub/../../secret", "/data/./.././secret", "../secret", "/secret"];
    stage.all_denied("writer", &["read", "write", "delete", "stat"], &paths, "overwritten").await;
    let paths = ["../secret", "sub/../../secret", "..", "../", "./..", "../data/../secret"];
    stage.all_denied("writer", &["raw-open", "raw-stat", "raw-truncate", "raw-times"], &paths, "").await;
    stage.denied("writer", "raw-rename", "note", "../stolen").await;
    stage.denied("writer", "raw-link", "../secret", "mine").await;
    stage.denied("writer", "raw-make", "../made", "").await;
}

async fn name_absolute_paths(stage: &Stage) {
    let secret = stage.host.plugins().join("secret");
    let secret = secret.to_str().expect("plain");
    let paths = [secret, "/etc/passwd", "/", "/proc/1/environ", "//data/../etc/passwd"];
    stage.all_denied("writer", &["read", "raw-open"], &paths, "").await;
    stage.all_denied("nothing", &["read"], &paths, "").await;
}

async fn follow_links_out(stage: &Stage) {
    let secret = stage.host.plugins().join("secret");
    for (name, target) in [
        ("up", Path::new("../secret")),
        ("away", &secret),
        ("above", Path::new("..")),
        ("root", Path::new("/")),
    ] {
        symlink(target, data(stage).join(name)).expect("links");
    }
    symlink("loop", data(stage).join("loop")).expect("links");
    let paths = ["/data/up", "/data/away", "/data/above/secret", "/data/root/etc/passwd", "/data/loop"];
    let accesses = ["read", "write", "append", "truncate", "list"];
    stage.all_denied("writer", &accesses, &paths, "overwritten").await;
    stage.denied("writer", "list", "/data/above", "").await;
}

async fn make_links_and_follow_them(stage: &Stage) {
    for (n, target) in ["../secret", "..", "sub/../../secret"].into_iter().enumerate() {
        // It does not matter whether the host refuses to make the link: the link leads nowhere.
        let name = format!("/data/own{n}");
        stage.attempt("writer", "link", &name, target).await;
        stage.all_denied("writer", &["read", "list"], &[&name, &format!("{name}/secret")], "").await;
    }
    stage.denied("writer", "link", "/data/absolute", "/etc/passwd").await;
    stage.denied("writer", "raw-symlink", "absolute", "/etc/passwd").await;
}

/// RUSTSEC-2026-0269: the host does not follow a link out of the folder because of a trailing slash.
async fn put_slashes_behind_links(stage: &Stage) {
    let paths = ["above/", "above//", "above/.", "above/./", "above/..", "root/", "sub/../above/", "own1/"];
    let accesses = ["raw-open", "raw-folder", "raw-stat", "raw-times", "raw-make", "raw-remove"];
    stage.all_denied("writer", &accesses, &paths, "").await;
    for path in paths {
        let secret = format!("{path}/secret");
        stage.all_denied("writer", &["raw-open", "raw-truncate", "raw-delete"], &[&secret], "").await;
        stage.denied("writer", "raw-rename", "note", &format!("{path}/stolen")).await;
        stage.denied("writer", "raw-link", "note", &format!("{path}/stolen")).await;
        stage.denied("writer", "raw-symlink", &format!("{path}/made"), "x").await;
    }
    assert!(!stage.host.plugins().join("stolen").exists() && !stage.host.plugins().join("made").exists());
}

async fn link_across_folders(stage: &Stage) {
    stage.denied("both", "hard-link", "/other/note", "/data/mine").await;
    stage.denied("both", "hard-link", "/data/note", "/other/planted").await;
    stage.denied("both", "hard-link", "/data/up", "/other/planted").await;
    stage.allowed("both", "read", "/other/note", "").await;
    stage.denied("both", "write", "/other/note", "overwritten").await;
}

async fn rename_across_folders(stage: &Stage) {
    stage.denied("both", "rename", "/other/note", "/data/stolen").await;
    stage.denied("both", "rename", "/data/note", "/other/planted").await;
    stage.denied("both", "rename", "/data/sub", "/data/sub/deeper").await;
}

/// A folder turns into a link to the outside and back, while other guests open files in it.
async fn rename_while_opening(stage: &Stage) {
    let steps = |what: &str, path: &str, times: u64| json!({"what": what, "path": path, "other": "..", "times": times});
    let swap = stage.said("writer_file", steps("swap", "/data/turn", 4_000));
    let spy = stage.said("reader_file", steps("spy", "/data/turn/secret", 6_000));
    let other = stage.said("both_file", steps("spy", "/data/turn/../secret", 6_000));
    let (swapped, spied, other) = tokio::join!(swap, spy, other);
    assert_eq!((swapped.as_str(), spied.as_str(), other.as_str()), ("ALLOWED ()", "ALLOWED 0", "ALLOWED 0"));
}

async fn open_files_of_the_process(stage: &Stage) {
    symlink("/proc/self", data(stage).join("self")).expect("links");
    let paths =
        ["/proc/self/environ", "/proc/self/mem", "/data/self/environ", "/data/self/fd/0", "/data/self/root"];
    stage.all_denied("reader", &["read"], &paths, "").await;
    stage.all_denied("reader", &["read", "list"], &["/dev/fd/0", "/dev/stdin", "/dev/fd"], "").await;
}

/// The pipe has no writer, so opening it would block for ever. Enough blocked opens would occupy all threads
/// that the host has for file access.
async fn wait_on_a_pipe(stage: &Stage) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let pipe = data(stage).join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("makes a pipe");
    let _listener = std::os::unix::net::UnixListener::bind(data(stage).join("socket")).expect("binds");
    for _ in 0..10 {
        let accesses = ["read", "write", "append", "truncate", "list"];
        stage.all_denied("writer", &accesses, &["/data/pipe"], "x").await;
        let accesses = ["raw-open", "raw-times", "raw-folder", "raw-create"];
        stage.all_denied("writer", &accesses, &["pipe"], "").await;
    }
    stage.denied("writer", "read", "/data/socket", "").await;
    // The guest can list and delete the pipe, like any other name.
    let listed = stage.allowed("writer", "list", "/data", "").await;
    assert!(listed.contains("\"pipe\""), "{listed}");
    stage.allowed("writer", "delete", "/data/pipe", "").await;
}

/// The host refuses devices even in a granted folder, if this test may make one.
async fn open_devices(stage: &Stage) {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let device = data(stage).join("device");
    if mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 5)).is_ok() {
        let accesses = ["read", "write", "append", "truncate"];
        stage.all_denied("writer", &accesses, &["/data/device"], "x").await;
        std::fs::remove_file(&device).expect("removes");
    }
}

async fn use_odd_names(stage: &Stage) {
    let (long, deep) = ("x".repeat(100_000), "a/".repeat(5_000));
    let names = ["note\0", "\0", "", "no\0te", long.as_str(), deep.as_str()];
    let accesses = ["raw-open", "raw-stat", "raw-make", "raw-delete", "raw-truncate"];
    stage.all_denied("writer", &accesses, &names, "").await;
    for name in names {
        stage.denied("writer", "raw-rename", "note", name).await;
    }
    // These names are unusual, but harmless.
    for name in ["-rf", "\u{202e}gpj", " ", "a\nb", "\\..\\secret", "%2e%2e"] {
        stage.allowed("writer", "write", &format!("/data/{name}"), "x").await;
        stage.allowed("writer", "delete", &format!("/data/{name}"), "").await;
    }
}

async fn list_names_that_are_no_text(stage: &Stage) {
    let odd = data(stage).join("odd");
    std::fs::create_dir(&odd).expect("makes");
    for name in [&b"\xff\xfe"[..], b"b\xc0", b"good"] {
        std::fs::write(odd.join(std::ffi::OsStr::from_bytes(name)), "x").expect("writes");
    }
    let listed = stage.allowed("reader", "list", "/data/odd", "").await;
    assert!(!listed.contains('\u{fffd}'), "no name is made up: {listed}");
    stage.denied("reader", "raw-stat", "odd/\u{fffd}\u{fffd}", "").await;
    assert_eq!(stage.allowed("reader", "read", "/data/odd/good", "").await, "ALLOWED \"x\"");
}

async fn hold_files_in_numbers(stage: &Stage) {
    let hold =
        || stage.said("reader_file", json!({"what": "hold-files", "path": "/data/note", "times": 240}));
    let held = futures::future::join_all((0..12).map(|_| hold())).await;
    assert!(held.iter().all(|held| held == "ALLOWED 240"), "{held:?}");
}

/// A listing takes memory of the host, so the host must not hold all of it at once.
async fn hold_listings_of_a_huge_folder(stage: &Stage) {
    let huge = data(stage).join("huge");
    std::fs::create_dir(&huge).expect("makes");
    for n in 0..30_000 {
        std::fs::File::create(huge.join(format!("{n:0>100}"))).expect("makes");
    }
    assert_eq!(stage.allowed("reader", "count", "/data/huge", "").await, "ALLOWED 30000");
    let before = stage.host.usage().peak;
    let hold = json!({"what": "hold-lists", "path": "/data/huge", "times": 120});
    assert_eq!(stage.said("reader_file", hold).await, "ALLOWED 120");
    let grown = stage.host.usage().peak.saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes for 120 listings of 30,000 names of 100 bytes");
}

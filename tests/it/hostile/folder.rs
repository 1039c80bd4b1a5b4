//! The plugin folder: files that keep the host from scanning it, delay other plugins, appear without the operator's
//! consent, or list the name of another plugin's tool to intercept its calls or to displace it.

use super::stage::Stage;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::host::{install_as, install_bytes, set_mode};
use toolyard_tests::{Host, Session, Setup, guests, text, until};

/// The compile-time limit for a slow component.
const COMPILE_TIME: &str = "plugins.compile-time=30s";
/// The refusal of a slow component.
const TOO_SLOW: &str = "took longer than 30s to compile";

#[tokio::test]
async fn folder() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage;
        hold_up_the_other_plugins, fill_the_folder_with_copies,
        leave_no_descriptor_for_the_folder, write_into_an_open_folder, have_a_missing_folder_looked_for,
        take_a_name_at_a_restart,
    );
    stage.at_rest().await;
}

/// The component `add` with a custom section, which makes it a different component.
fn variant(comment: &[u8]) -> Vec<u8> {
    commented(std::fs::read(guests::fixture("add")).expect("built"), comment)
}

/// Appends a custom section without meaning.
fn commented(mut component: Vec<u8>, comment: &[u8]) -> Vec<u8> {
    component.push(0);
    component.extend(super::loading::length(comment.len() + 2));
    component.extend(b"\x01x");
    component.extend(comment);
    component
}

/// The names of all tools.
async fn tools(host: &Host) -> BTreeSet<String> {
    Session::open(host.port()).await.tool_names().await.into_iter().collect()
}

async fn until_served(host: &Host, tool: &str) {
    until(tool, || async { tools(host).await.contains(tool) }).await;
}

/// The end of a line of the log about a refused plugin.
fn refused(file: &str, why: &str) -> String {
    format!("event=\"plugin.refused\" plugin=\"{file}\" reason={file}: {why}")
}

async fn until_refused(host: &Host, file: &str, why: &str) {
    host.logs(&refused(file, why)).await;
}

/// Whether a compiler is running: it reads a file with a hidden name.
fn is_compiling(data: &Path) -> bool {
    let listed = std::fs::read_dir(data.join("compiled")).into_iter().flatten().flatten();
    listed.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with('.'))
}

/// A component that takes minutes to compile, and little memory: a loop with many back edges, each of which
/// carries many values.
fn slow(comment: &[u8]) -> Vec<u8> {
    const WAYS: usize = 1_000;
    const VALUES: usize = 800;
    let targets: String = (0..WAYS).map(|way| format!("{way} ")).collect();
    let add = |way: usize| {
        let (one, other) = (way % VALUES, (way * 7 + 1) % VALUES);
        format!("end local.get {one} local.get {other} i64.add local.set {one} br $again ")
    };
    let ways: String = (0..WAYS).map(add).collect();
    let function = format!(
        "(func (result i64) (local {}) loop $again {} i32.const 0 i32.load br_table {targets} {ways} end i64.const 0)",
        "i64 ".repeat(VALUES),
        "block ".repeat(WAYS),
    );
    commented(super::loading::plugin(&format!("(memory 1){}", function.repeat(500))), comment)
}

/// All slow components together take longer than an honest one, however slow the machine is: each takes its 30 s.
async fn hold_up_the_other_plugins(_: &Stage) {
    let wait = ["--set", COMPILE_TIME, "--set", "plugins.start-wait=2s"];
    let mut host = Setup::probe().args(&wait).start().await;
    // More than the host has slots for compilers.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let bytes = slow(&host.port().to_le_bytes());
    let slow_ones = cores.min(8) * 2 + 1;
    for number in 0..slow_ones {
        let bytes = commented(bytes.clone(), &[number as u8]);
        install_bytes(host.plugins(), &format!("a-slow-{number}.wasm"), &bytes);
    }
    let have_ended =
        |host: &Host| (0..slow_ones).all(|n| host.log().contains(&refused(&format!("a-slow-{n}.wasm"), "")));
    until("a compiler", || async { is_compiling(&host.data()) }).await;
    let begun = Instant::now();
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "honest.wasm");
    until_served(&host, "version").await;
    assert!(!have_ended(&host), "served after all others, after {:?}", begun.elapsed());
    eprintln!("served after {:?}", begun.elapsed());
    // The host does not compile a copy of a component that is already compiling, and the copy delays nothing.
    install_bytes(host.plugins(), "b-copy.wasm", &commented(bytes.clone(), &[0]));
    install_bytes(host.plugins(), "c-honest.wasm", &variant(&host.port().to_le_bytes()));
    until_served(&host, "add").await;
    assert!(!have_ended(&host), "served after all others, after {:?}", begun.elapsed());
    // If the file of a compiling component is removed, the host forgets the component at once.
    for number in 1..slow_ones {
        std::fs::remove_file(host.plugins().join(format!("a-slow-{number}.wasm"))).expect("a removal");
    }
    // The start does not wait for the compilation, and serves everything that was ready before.
    host.kill().await;
    let mut host = host.another().await;
    assert!(!host.log().contains(&refused("a-slow-0.wasm", "")), "the start waited for it: {}", host.log());
    let served = tools(&host).await;
    for tool in ["echo", "version", "add"] {
        assert!(served.contains(tool), "{tool} is ready: {served:?}");
    }
    assert!(host.log().contains("a-slow-0.wasm"), "the start says what it does not wait for: {}", host.log());
    // The host refuses it in the end, and its copy too, without a second compilation.
    until_refused(&host, "a-slow-0.wasm", TOO_SLOW).await;
    until_refused(&host, "b-copy.wasm", TOO_SLOW).await;
    install_bytes(host.plugins(), "d-slow.wasm", &commented(bytes, &[0]));
    let begun = Instant::now();
    until_refused(&host, "d-slow.wasm", TOO_SLOW).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "the refusal is remembered");
    host.signal(rustix::process::Signal::TERM);
    host.ended().await;
}

async fn fill_the_folder_with_copies(_: &Stage) {
    let host = Setup::probe().start().await;
    // The host loads so many, and has two before the copies come.
    let most = getrlimit(Resource::Nofile).maximum.map_or(2_000, |most| most / 4).min(2_000);
    let file = |number: u64| format!("a{number:04}.wasm");
    install_as(&guests::fixture("add"), &host.plugins(), "own.wasm");
    until_served(&host, "add").await;
    let before = host.usage().descriptors;
    let bytes = variant(b"copy");
    for number in 0..most + 800 {
        std::fs::write(host.plugins().join(file(number)), &bytes).expect("a write");
    }
    host.logs("event=\"plugin.too_many_files\"").await;
    let (last, next) = (file(most - 3), file(most - 2));
    until_refused(&host, &next, &format!("is one of 802 components beyond the {most} that this host loads"))
        .await;
    until_refused(&host, &last, &format!("the tool `add` is offered by both own.wasm and {last}")).await;
    let more = host.usage().descriptors.saturating_sub(before);
    assert!(more < 20, "all copies are one component: {more} more descriptors");
    // The plugins that served before still do, also after a restart, though others come first by name.
    let restarted = host.another().await;
    for host in [&host, &restarted] {
        let served = tools(host).await;
        assert!(served.contains("echo") && served.contains("add"), "{served:?}");
    }
    assert!(["probe.wasm", "own.wasm"].iter().all(|file| !restarted.log().contains(&refused(file, ""))));
    for number in 0..most + 800 {
        std::fs::remove_file(host.plugins().join(file(number))).expect("a removal");
    }
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "later.wasm");
    until_served(&host, "version").await;
}

async fn leave_no_descriptor_for_the_folder(_: &Stage) {
    use rustix::process::{Rlimit, prlimit};
    let host = Setup::new().with(&[guests::plugin("probe"), guests::fixture("add")]).start().await;
    until_served(&host, "add").await;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(3), maximum };
    let former = prlimit(Some(host.pid()), Resource::Nofile, limit).expect("ours");
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "later.wasm");
    std::fs::remove_file(host.plugins().join("add.wasm")).expect("a removal");
    host.logs("event=\"plugin.removed\" plugin=\"add.wasm\"").await;
    prlimit(Some(host.pid()), Resource::Nofile, former).expect("ours");
    until_served(&host, "version").await;
    until("its end", || async { !tools(&host).await.contains("add") }).await;
}

async fn write_into_an_open_folder(_: &Stage) {
    let host = Host::with_probe().await;
    let folder = host.plugins();
    set_mode(&folder, 0o777);
    install_as(&guests::fixture("versioned_v1"), &folder, "version.wasm");
    host.logs("is not read: everybody on this machine can write to it").await;
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        install_as(&guests::fixture("add"), &folder, "add.wasm");
        std::fs::write(folder.join("version.toml"), "[fs]\n\"/r\" = { path = \"/root\", mode = \"write\" }")
            .expect("a write");
        for name in ["add.wasm", "version.toml"] {
            chown(folder.join(name), Some(65534), None).expect("root may");
        }
    }
    assert!(tools(&host).await.contains("echo"), "what was loaded before goes on");
    set_mode(&folder, 0o755);
    host.logs("event=\"plugin.folder_recovered\"").await;
    if !is_root {
        return until_served(&host, "version").await;
    }
    for host in [&host, &host.another().await] {
        until_refused(host, "add.wasm", "belongs to the user 65534").await;
        host.logs("the manifest version.toml: belongs to the user 65534").await;
        let served = tools(host).await;
        assert!(!served.contains("add") && !served.contains("version"), "{served:?}");
    }
    chown(folder.join("add.wasm"), Some(0), None).expect("root may");
    std::fs::remove_file(folder.join("version.toml")).expect("a removal");
    until_served(&host, "add").await;
    until_served(&host, "version").await;
}

/// The number of bytes that the host has read so far.
fn bytes_read(host: &Host) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", host.pid().as_raw_nonzero())).expect("ours");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("the kernel says it");
    line.trim().parse().expect("a number")
}

async fn have_a_missing_folder_looked_for(_: &Stage) {
    const SIZE: usize = 20 << 20;
    let host = Setup::probe().set("plugins.rescan", "50ms").start().await;
    install_bytes(host.plugins(), "add.toml", b"[fs]\n\"/data\" = { path = \"./later\", mode = \"read\" }");
    install_bytes(host.plugins(), "add.wasm", &variant(&vec![0; SIZE]));
    until_refused(&host, "add.wasm", "the manifest add.toml line 2").await;
    let before = bytes_read(&host);
    let begun = Instant::now();
    until("many looks", || async { begun.elapsed() > Duration::from_secs(2) }).await;
    let read = bytes_read(&host) - before;
    assert!(read < SIZE as u64, "the component was read again: {read} bytes");
    std::fs::create_dir(host.plugins().join("later")).expect("makes");
    until_served(&host, "add").await;
}

async fn has_all(host: &Host, of_probe: &BTreeSet<String>) {
    let served = tools(host).await;
    assert!(served.is_superset(of_probe), "{served:?}");
    let result = Session::open(host.port()).await.call("echo", json!({"text": "mine"})).await;
    assert_eq!(text(&result), "mine", "echo is that of probe");
}

async fn take_a_name_at_a_restart(_: &Stage) {
    let mut host = Host::with_probe().await;
    let of_probe = tools(&host).await;
    // A plugin that lists `echo`, which is a tool of `probe`, and `other`.
    install_bytes(host.plugins(), "aecho.wasm", &guests::hostile_lists(3));
    until_served(&host, "other").await;
    has_all(&host, &of_probe).await;
    assert!(host.log().contains("event=\"plugin.name_left_out\""), "{}", host.log());
    host.kill().await;
    let host = host.another().await;
    has_all(&host, &of_probe).await;
    assert!(tools(&host).await.contains("other"), "only the one tool is left out");
    assert!(host.log().contains("offered by both probe.wasm and aecho.wasm"), "{}", host.log());
    host.refuses(&["tools"], 1, "left out: aecho.wasm: the tool `echo`").await;
}

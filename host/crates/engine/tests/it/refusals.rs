//! Each kind of invalid file is reported in a sentence that names the fault.

use crate::kit::{Folder, engine, guest, settings, why};
use std::time::Duration;
use toolyard_engine::{ImportUse, Settings};
use toolyard_task::wire::TaskSupport;

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("parses")
}

#[tokio::test]
async fn files_that_are_no_plugins() {
    let folder = Folder::new();
    let big = vec![0; 300 << 10];
    let add = guest("add");
    let other_version =
        component(r#"(component (instance $i) (export "toolyard:plugin/tools@0.2.0" (instance $i)))"#);
    let wrong_types =
        component(r#"(component (instance $i) (export "toolyard:plugin/tools@0.1.0" (instance $i)))"#);
    let imports = component(
        r#"(component (import "wasi:http/incoming-handler@0.2.0" (instance (export "f" (func))))
            (import "my:own/thing@1.0.0" (instance (export "f" (func))))
            (instance $i) (export "toolyard:plugin/tools@0.1.0" (instance $i)))"#,
    );
    let exports = component(r#"(component (instance $i) (export "my:own/thing@1.0.0" (instance $i)))"#);
    let mut damaged = add.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let files: [(&str, &[u8], &str); 7] = [
        ("old.wasm", b"\0asm\x0a\0\x01\0", "the old format 0x0a; build it again"),
        ("large.wasm", &big, "larger than the 262144 bytes"),
        ("version.wasm", &other_version, "built for `toolyard:plugin/tools@0.2.0`"),
        ("types.wasm", &wrong_types, "list-tools"),
        ("imports.wasm", &imports, "`wasi:http/incoming-handler@0.2.0` and `my:own/thing@1.0.0`"),
        ("exports.wasm", &exports, "no function that can be a tool"),
        ("damaged.wasm", &damaged, "damaged.wasm"),
    ];
    for (name, bytes, _) in &files {
        folder.put(name, bytes);
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.file("link.wasm")).expect("links");
    std::fs::create_dir(folder.file("folder.wasm")).expect("makes");
    // These files are ignored.
    folder.put(".hidden.wasm", b"x");
    folder.put("~temporary.wasm", b"x");
    folder.put("half.wasm.tmp", b"x");
    folder.put("readme.txt", b"x");
    let engine = engine(&Settings { max_component_bytes: 256 << 10, ..settings() });
    let snapshot = folder.load(&engine).await;
    assert!(snapshot.catalog.is_empty());
    assert_eq!(snapshot.plugins.len(), files.len() + 2);
    for (name, _, says) in files {
        let why = why(&snapshot, name);
        assert!(why.starts_with(&format!("{name}: ")) && why.contains(says), "{why}");
    }
    assert!(why(&snapshot, "link.wasm").contains("symbolic link"));
    assert!(why(&snapshot, "folder.wasm").contains("not a regular file"));
}

#[tokio::test]
async fn components_whose_tools_are_wrong() {
    let folder = Folder::with(&[("trap.wasm", "list_trap"), ("spin.wasm", "list_spin")]);
    let engine = engine(&Settings { list_time: Duration::from_millis(100), ..settings() });
    let snapshot = folder.load(&engine).await;
    for (file, says) in [
        ("trap.wasm", "`list-tools` failed: The function `list-tools` trapped"),
        ("spin.wasm", "`list-tools` took longer than 100ms"),
    ] {
        let why = why(&snapshot, file);
        assert!(why.contains(says), "{why}");
    }
}

#[tokio::test]
async fn manifests_that_are_wrong() {
    let engine = engine(&settings());
    for (manifest, says) in [
        (&b"[tools.ad]\nenabled = true"[..], "`tools.ad`: the plugin has no such tool; the nearest is `add`"),
        (b"\xff", "UTF-8"),
        (b"[limits]\nmemory = \"64KiB\"", "MiB of memory, and `limits.memory` is 64.0 KiB"),
    ] {
        let folder = Folder::with(&[("add.wasm", "add")]);
        folder.put("add.toml", manifest);
        let why = why(&folder.load(&engine).await, "add.wasm");
        assert!(why.contains(says), "{why}");
    }
}

#[tokio::test]
async fn a_check_reports_what_a_folder_would_load() {
    let folder = Folder::with(&[("probe.wasm", "probe")]);
    folder.put(
        "probe.toml",
        b"prefix = \"p\"\n[limits]\nmemory = \"16MiB\"\n[env]\nA = \"1\"\n[tools.echo]\ntask-support = \"optional\"",
    );
    let engine = engine(&settings());
    let found = engine.check(&folder.file("probe.wasm")).await.expect("a plugin");
    assert_eq!(found.tools.len(), 12);
    let echo = found.tools.iter().find(|tool| tool.name == "p_echo").expect("echo");
    assert!(echo.description.is_some());
    let support = (echo.declared_task_support, echo.task_support);
    assert_eq!(support, (TaskSupport::Forbidden, TaskSupport::Optional), "the manifest overrides the tool");
    assert_eq!((found.limits.memory, found.size), (16 << 20, guest("probe").len() as u64));
    assert_eq!(
        (found.grants.env.as_slice(), found.manifest.is_some(), found.enabled),
        (["A".to_owned()].as_slice(), true, true)
    );
    assert!(found.exports.iter().any(|name| name == "toolyard:plugin/tools@0.1.0"), "{:?}", found.exports);
    assert!(found.imports.iter().any(|name| name == "toolyard:plugin/host@0.1.0"), "{:?}", found.imports);
    assert_eq!(
        (found.grants.imports_used, found.grants.granted),
        (vec![ImportUse::Environment], vec![ImportUse::Environment])
    );
    folder.put("files.toml", b"[http]\nallow = [\"api.example.com:8080\"]");
    folder.put("files.wasm", &guest("files"));
    let files = engine.check(&folder.file("files.wasm")).await.expect("a plugin");
    folder.put("fetch.wasm", &guest("fetch"));
    let fetch = engine.check(&folder.file("fetch.wasm")).await.expect("a plugin");
    for (found, uses, not) in
        [(&files, ImportUse::Files, ImportUse::Http), (&fetch, ImportUse::Http, ImportUse::Files)]
    {
        let used = &found.grants.imports_used;
        assert!(used.contains(&uses) && !used.contains(&not), "{used:?}");
    }
    assert_eq!(files.grants.granted, [ImportUse::Http]);
    assert_eq!(files.grants.hosts, ["api.example.com:8080"]);
    folder.put("text.wasm", b"hello");
    for (file, says) in [("text.wasm", "it is text"), ("none.wasm", "no such file")] {
        let error = engine.check(&folder.file(file)).await.expect_err(file).to_string();
        assert!(error.starts_with(&format!("{file}: ")) && error.contains(says), "{error}");
    }
}

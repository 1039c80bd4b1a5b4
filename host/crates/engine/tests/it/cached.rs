//! Machine code on disk is used if it is valid, and compiled again otherwise.

use crate::kit::{Folder, call, engine, guest, ok, report, settings, state};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use toolyard_engine::{Engine, PluginState, Settings};

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// Loads the folder with a new engine. Returns whether the code was in the cache.
async fn load(folder: &Folder, settings: &Settings) -> bool {
    let engine = engine(settings);
    let snapshot = folder.load(&engine).await;
    assert_eq!(state(&snapshot, "add.wasm"), &PluginState::Serving);
    assert_eq!(ok(&call(&snapshot.catalog, "add", "{\"a\":1,\"b\":2}").await), "3");
    report(&snapshot, "add.wasm").compiled_in.is_none()
}

#[tokio::test]
async fn code_is_kept_and_damaged_code_is_made_again() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let cache = home.path().join("deep/cache");
    let settings = Settings { cache: Some(cache.clone()), ..settings() };
    assert!(!load(&folder, &settings).await);
    assert_eq!(std::fs::metadata(&cache).expect("made").permissions().mode() & 0o777, 0o700);
    assert!(load(&folder, &settings).await, "found");
    for ending in ["cwasm", "json"] {
        let [path] = &files(&cache, ending)[..] else { panic!("one file") };
        let whole = std::fs::read(path).expect("reads");
        for damaged in [&whole[..whole.len() / 2], b"", b"\0asm", &[whole.as_slice(), b"x"].concat()] {
            std::fs::write(path, damaged).expect("writes");
            assert!(!load(&folder, &settings).await, "{ending} of {} bytes", damaged.len());
        }
        let mut flipped = std::fs::read(path).expect("reads");
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        std::fs::write(path, flipped).expect("writes");
        // A flipped byte in the JSON may leave the code valid.
        let found = load(&folder, &settings).await;
        assert!(!found || ending == "json");
        std::fs::remove_file(path).expect("removes");
        assert!(!load(&folder, &settings).await);
        assert!(load(&folder, &settings).await);
    }
    // An offer that is damaged or gone is listed again; the code stays.
    let [path] = &files(&cache, "offer")[..] else { panic!("one file") };
    let whole = std::fs::read(path).expect("reads");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], b"", &flipped] {
        std::fs::write(path, damaged).expect("writes");
        assert!(load(&folder, &settings).await);
        assert_eq!(std::fs::read(path).expect("reads"), whole, "{} bytes", damaged.len());
    }
    assert!(files(&cache, "wasm").is_empty(), "no files are left behind");
}

#[tokio::test]
async fn beyond_its_bound_the_code_that_was_used_longest_ago_goes() {
    let home = tempfile::tempdir().expect("a folder");
    let settings = Settings { cache: Some(home.path().to_owned()), ..settings() };
    let folder = Folder::with(&[("add.wasm", "add")]);
    // Without contents on the disk, but with a length.
    let large = |name: &str, used: Option<u64>| {
        let path = home.path().join(name);
        let file = std::fs::File::create(&path).expect("makes");
        file.set_len(5 << 30).expect("grows");
        if let Some(used) = used {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(used)).expect("sets");
        }
        path
    };
    let (oldest, older) = (large("oldest.cwasm", Some(1)), large("older.cwasm", Some(2)));
    assert!(!load(&folder, &settings).await);
    assert!(!oldest.exists() && older.exists());
    let newest = large("newest.cwasm", None);
    // It is used again, so it is newer than the other one.
    assert!(load(&folder, &settings).await);
    let other = Folder::with(&[("some.wasm", "versioned_v1")]);
    other.load(&engine(&settings)).await;
    assert!(!older.exists() && newest.exists());
    assert!(load(&folder, &settings).await, "it was kept");
}

#[tokio::test]
async fn a_folder_that_others_can_write_to_is_not_used() {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).expect("sets");
    let settings = Settings { cache: Some(home.path().to_owned()), ..settings() };
    let error = Engine::start(&settings).expect_err("refused").to_string();
    assert!(error.contains("others may write to it"), "{error}");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).expect("sets");
    let link = home.path().join("link");
    std::os::unix::fs::symlink(home.path(), &link).expect("links");
    assert!(Engine::start(&Settings { cache: Some(link), ..settings }).is_err());
}

#[tokio::test]
async fn what_others_could_have_put_there_is_not_loaded() {
    let home = tempfile::tempdir().expect("a folder");
    let compile = async |guest: &str, name: &str| {
        let folder = Folder::with(&[("some.wasm", guest)]);
        let cache = home.path().join(name);
        folder.load(&engine(&Settings { cache: Some(cache.clone()), ..settings() })).await;
        let [code] = &files(&cache, "cwasm")[..] else { panic!("one file") };
        code.clone()
    };
    let (good, evil) = (compile("add", "good").await, compile("versioned_v1", "evil").await);
    // Another folder at the path of the one that the engine holds.
    let cache = home.path().join("cache");
    let settings = Settings { cache: Some(cache.clone()), ..settings() };
    let held = engine(&settings);
    std::fs::rename(&cache, home.path().join("moved")).expect("moves");
    std::fs::create_dir(&cache).expect("makes");
    let under = |ending: &str| cache.join(good.with_extension(ending).file_name().expect("a name"));
    for ending in ["cwasm", "json"] {
        std::fs::copy(evil.with_extension(ending), under(ending)).expect("copies");
    }
    let folder = Folder::with(&[("add.wasm", "add")]);
    let snapshot = folder.load(&held).await;
    assert_eq!(ok(&call(&snapshot.catalog, "add", "{\"a\":1,\"b\":2}").await), "3");
    assert!(report(&snapshot, "add.wasm").compiled_in.is_some(), "compiled again, in the held folder");
    assert_eq!(std::fs::read_dir(&cache).expect("lists").count(), 2);
    // A file that other users may write, and a link, in the engine's own folder.
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o700)).expect("sets");
    std::fs::copy(&good, under("cwasm")).expect("copies");
    std::fs::copy(good.with_extension("json"), under("json")).expect("copies");
    assert!(load(&folder, &settings).await, "found");
    for ending in ["cwasm", "json"] {
        std::fs::set_permissions(under(ending), std::fs::Permissions::from_mode(0o666)).expect("sets");
        assert!(!load(&folder, &settings).await, "{ending} that others may write");
        std::fs::rename(under(ending), home.path().join(ending)).expect("moves");
        std::os::unix::fs::symlink(home.path().join(ending), under(ending)).expect("links");
        assert!(!load(&folder, &settings).await, "a link to {ending}");
        assert!(load(&folder, &settings).await, "the file is the engine's own again");
    }
}

#[tokio::test]
async fn machine_code_in_the_plugin_folder_is_never_loaded() {
    let folder = Folder::new();
    let engine = wasmtime::Engine::default();
    let code = engine.precompile_component(&guest("add")).expect("compiles");
    folder.put("code.wasm", &code);
    folder.put("code.cwasm", &code);
    let snapshot = folder.load(&crate::kit::engine(&settings())).await;
    assert_eq!(snapshot.plugins.len(), 1);
    assert!(crate::kit::why(&snapshot, "code.wasm").contains("not WebAssembly"));
}

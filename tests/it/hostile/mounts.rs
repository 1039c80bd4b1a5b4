//! Guests that try to reach more than a granted folder through mounts of this machine: a second path to the
//! data of the host, and filesystems that are mounted in their folder afterwards.

use super::stage::{SECRET, Stage, write_keys};
use serde_json::json;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use toolyard_tests::host::install_as;
use toolyard_tests::mounts::Mounts;
use toolyard_tests::{Setup, guests, until};

/// A volume that holds the folders of the host. They are mounted where the host expects them, as the folders
/// of a volume are in a container. Beside them are folders that guests may be granted.
fn make(root: &Path, mounts: &mut Mounts) {
    for folder in "vol/data/sub vol/plugins vol/shared/in vol/other data srv/shared srv/work/inner \
                    srv/work/late/deep srv/outside/sub srv/holds/in keys secrets conf"
        .split(' ')
    {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root.join(folder)).expect("makes");
    }
    for (files, text) in [
        ("vol/other/note vol/shared/in/note srv/work/note srv/holds/in/note", "note"),
        ("srv/work/one srv/work/second", "under"),
        ("srv/outside/note srv/outside/sub/note secrets/token", SECRET),
        ("srv/holds/file", ""),
    ] {
        files.split(' ').for_each(|file| std::fs::write(root.join(file), text).expect("writes"));
    }
    for (target, link) in [
        ("late", "srv/work/way"),
        ("../../inner/note", "srv/work/late/deep/back"),
        ("inner/note", "srv/work/near"),
        ("note", "srv/outside/link"),
    ] {
        symlink(target, root.join(link)).expect("links");
    }
    write_keys(&root.join("keys/file"));
    for (what, at) in [
        ("vol/plugins", "plugins"),
        ("vol/data", "data"),
        ("vol/shared", "srv/shared"),
        ("vol/other", "srv/work/inner"),
        ("vol/other/note", "srv/work/one"),
    ] {
        mounts.bind(&root.join(what), &root.join(at));
    }
}

#[tokio::test]
async fn mounts() {
    let Some(mut mounts) = Mounts::of("hostile::mounts::mounts") else { return };
    let setup = Setup::new();
    let root = setup.plugins().parent().expect("a folder around it").to_owned();
    make(&root, &mut mounts);
    let config = "[encryption]\nkey-file = \"../keys/file\"\n";
    std::fs::write(root.join("conf/host.toml"), config).expect("writes");
    // The host scans its plugins when the test asks it to, and at no other time.
    let setup = setup.args(&["--config", "conf/host.toml"]).set("plugins.rescan", "1h").manifest(
        "keeper",
        "prefix = \"keeper\"\n[secrets]\nTOKEN = { file = \"../secrets/token\", expose = false }\n",
    );
    install_as(&guests::fixture("hostile_files"), &setup.plugins(), "keeper.wasm");
    let stage = Stage::open(setup).await;
    let stage = Mounted { mounts: Mutex::new(mounts), stage };
    attacks!(stage;
        reach_the_host_through_a_second_mount, grant_a_folder_with_the_host_mounted_in_it,
        use_what_was_mounted_before, enter_what_is_mounted_later, take_another_mount_for_a_checked_one,
        read_the_kernel_where_it_is_mounted_later,
    );
    let Mounted { mounts, stage } = stage;
    stage.at_rest().await;
    drop(mounts);
}

/// A stage on which the test can mount filesystems. If an attack fails, the mounts are removed first.
struct Mounted {
    mounts: Mutex<Mounts>,
    stage: Stage,
}

impl Deref for Mounted {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Mounted {
    fn mounts(&self) -> MutexGuard<'_, Mounts> {
        self.mounts.lock().expect("no attack has failed")
    }

    fn bind(&self, what: &str, at: &str) {
        let (what, at) = (self.at(what), self.at(at));
        self.mounts().bind(&what, &at);
    }

    fn unmount(&self, at: &str) {
        let at = self.at(at);
        self.mounts().unmount(&at);
    }

    /// Installs the guest under this name, with a manifest that grants this folder.
    fn grant(&self, name: &str, path: &str, mode: &str) {
        self.install(name, &[("/d", &self.at(path), mode)]);
    }

    /// Makes the host scan its plugins.
    fn look(&self) {
        std::fs::write(self.host.plugins().join("look"), "").expect("writes");
    }
}

/// A manifest grants the volume, by the path of its own mount.
async fn reach_the_host_through_a_second_mount(stage: &Mounted) {
    for (name, path, says) in [
        ("volume", "vol", "holds the plugins themselves"),
        ("plugins", "vol/plugins", "holds the plugins themselves"),
        ("data", "vol/data", "has the data of this host in it"),
        ("sub", "vol/data/sub", "has the data of this host in it"),
        ("mounted", "data/sub", "has the data of this host in it"),
    ] {
        for mode in ["read", "write"] {
            let name = format!("{name}-{mode}");
            stage.grant(&name, path, mode);
            stage.refused(&name, says).await;
            stage.remove(&name);
        }
    }
    // The rest of the volume does not belong to the host.
    stage.grant("other", "vol/other", "write");
    stage.served("other").await;
    stage.allowed("other", "read", "/d/note", "").await;
    stage.remove("other");
}

/// A manifest grants a folder in which a folder of the host is mounted.
async fn grant_a_folder_with_the_host_mounted_in_it(stage: &Mounted) {
    let mut count = 0;
    for (in_folder, as_file, says) in [
        ("data vol/data/sub", "data/toolyard.sqlite", "has the data of this host in it"),
        ("plugins vol", "vol/plugins/keeper.toml", "holds the plugins themselves"),
        ("keys", "keys/file", "has the keys of `encryption.key-file` in it"),
        ("", "conf/host.toml", "has the configuration file of this host in it"),
        ("secrets", "secrets/token", "has the file of a secret in it (`secrets.TOKEN` of keeper.toml)"),
        ("vol/other", "vol/other/note", ""),
    ] {
        let in_folder = in_folder.split_terminator(' ').map(|what| (what, "srv/holds/in"));
        for (what, at) in in_folder.chain([(as_file, "srv/holds/file")]) {
            stage.bind(what, at);
            count += 1;
            let name = format!("holder{count}");
            stage.grant(&name, "srv/holds", "read");
            match says {
                "" => stage.served(&name).await,
                _ => stage.refused(&name, says).await,
            }
            stage.remove(&name);
            stage.unmount(at);
        }
    }
    let (folder, lower) = (stage.at("srv/holds/in"), stage.at("vol"));
    let options = format!("lowerdir={}:{}", stage.at("srv/outside").display(), lower.display());
    if stage.mounts().try_mount(&["-t", "overlay", "-o", &options], "overlay", &folder) {
        stage.grant("overlaid", "srv/holds", "read");
        stage.refused("overlaid", "holds the plugins themselves").await;
        stage.remove("overlaid");
        stage.unmount("srv/holds/in");
    }
}

/// Mounts that were there at the check are part of the folder.
async fn use_what_was_mounted_before(stage: &Mounted) {
    stage.grant("worker", "srv/work", "write");
    stage.served("worker").await;
    for path in ["inner/note", "one", "near", "inner/../inner/note", "way/deep/back", "./inner/./note"] {
        assert_eq!(stage.allowed("worker", "read", &format!("/d/{path}"), "").await, "ALLOWED \"note\"");
        stage.allowed("worker", "raw-stat", path, "").await;
        stage.allowed("worker", "raw-times", path, "").await;
    }
    assert_eq!(stage.allowed("worker", "list", "/d/inner", "").await, "ALLOWED [\"note\"]");
    for (what, path, other) in [
        ("write", "/d/inner/new", "text"),
        ("raw-rename", "inner/new", "inner/newer"),
        ("raw-link", "inner/newer", "inner/twice"),
        ("raw-symlink", "inner/link", "newer"),
        ("read-link", "/d/inner/link", ""),
        ("raw-truncate", "inner/link", ""),
        ("raw-make", "inner/sub", ""),
        ("raw-create", "inner/sub/file", ""),
        ("raw-delete", "inner/sub/file", ""),
        ("raw-folder", "inner/sub/", ""),
        ("raw-remove", "inner/sub", ""),
        ("raw-delete", "inner/link", ""),
        ("raw-delete", "inner/twice", ""),
        ("raw-delete", "inner/newer", ""),
        ("write", "/d/one", "note"),
    ] {
        stage.allowed("worker", what, path, other).await;
    }
    // No path leads out of it.
    let paths = ["inner/../../outside/note", "inner/../..", "../work/note", "inner/../../work/note"];
    let accesses = ["raw-open", "raw-stat", "raw-truncate", "raw-times", "raw-delete", "raw-make"];
    stage.all_denied("worker", &accesses, &paths, "").await;
}

/// Filesystems that are mounted afterwards show nothing, whatever the guest does with them.
async fn enter_what_is_mounted_later(stage: &Mounted) {
    let folder = stage.allowed("worker", "list", "/d/late", "").await;
    assert_eq!(folder, "ALLOWED [\"deep\"]");
    stage.bind("srv/outside", "srv/work/late");
    stage.bind("srv/outside/note", "srv/work/second");
    let raw: Vec<&str> =
        "raw-open raw-folder raw-truncate raw-create raw-stat raw-times raw-make raw-delete \
                          raw-remove raw-symlink"
            .split(' ')
            .collect();
    for path in "late/note late/ late/. late/sub late/sub/note late/link late/new way/note way/ \
                 late/../note inner/../late/note inner/../way/sub/note late/sub/../../inner/note \
                 second second/"
        .split(' ')
    {
        stage.all_denied("worker", &raw, &[path], "target").await;
        let accesses = ["read", "write", "append", "list", "stat", "read-link"];
        stage.all_denied("worker", &accesses, &[&format!("/d/{path}")], "overwritten").await;
        for (from, to) in [(path, "stolen"), ("note", path), (path, "inner/stolen"), ("inner/note", path)] {
            stage.denied("worker", "raw-rename", from, to).await;
            stage.denied("worker", "raw-link", from, to).await;
        }
    }
    let accesses = ["raw-stat", "raw-open", "raw-folder", "raw-times"];
    stage.all_denied("worker", &accesses, &["late", "way"], "").await;
    let kept = |path: &str| std::fs::read_to_string(stage.at("srv/outside").join(path)).expect("there");
    assert_eq!((kept("note").as_str(), kept("sub/note").as_str()), (SECRET, SECRET));
    let names = std::fs::read_dir(stage.at("srv/outside")).expect("there").count();
    assert_eq!(names, 3, "nothing was made there");
    // After a new check the mount is part of the folder; without the mount, so are the files that it had
    // covered.
    stage.look();
    let read = async |path: &str| stage.attempt("worker", "read", path, "").await;
    until("the mount to be granted", || async { read("/d/late/note").await.contains(SECRET) }).await;
    stage.allowed("worker", "read", "/d/way/../late/sub/note", "").await;
    stage.unmount("srv/work/late");
    stage.unmount("srv/work/second");
    stage.allowed("worker", "list", "/d/late/deep", "").await;
    stage.allowed("worker", "read", "/d/second", "").await;
}

/// The kernel may give the number of a removed mount to the next one.
async fn take_another_mount_for_a_checked_one(stage: &Mounted) {
    stage.bind("srv/outside", "srv/work/inner");
    stage.all_denied("worker", &["read", "list"], &["/d/inner/note"], "").await;
    stage.unmount("srv/work/inner");
    stage.allowed("worker", "read", "/d/inner/note", "").await;
    stage.unmount("srv/work/inner");
    for _ in 0..20 {
        stage.bind("srv/outside", "srv/work/inner");
        stage.denied("worker", "read", "/d/inner/note", "").await;
        stage.unmount("srv/work/inner");
    }
    // Over the folder itself, where a path with `..` would reach it; the host refuses the run.
    stage.bind("srv/outside", "srv/work");
    let arguments = json!({"what": "raw-open", "path": "late/../note"});
    let told = stage.failure("worker_file", arguments).await;
    assert!(told.contains("moved, replaced or removed (`fs.\"/d\"`)"), "{told}");
    stage.unmount("srv/work");
    stage.bind("vol/other", "srv/work/inner");
    stage.look();
    let read = async |path: &str| stage.attempt("worker", "read", path, "").await;
    until("what is mounted to be granted", || async { read("/d/inner/note").await.starts_with("ALLOWED") })
        .await;
}

async fn read_the_kernel_where_it_is_mounted_later(stage: &Mounted) {
    if !stage.mounts().bind_of_machine("/proc", &stage.at("srv/work/late")) {
        return;
    }
    let paths =
        ["/d/late/self/environ", "/d/late/1/environ", "/d/late/version", "/d/late/self/root/etc/passwd"];
    stage.all_denied("worker", &["read", "stat", "list", "append"], &paths, "").await;
    stage.look();
    stage.refused("worker", "has a folder of the kernel in it (proc at").await;
    stage.unmount("srv/work/late");
    stage.look();
    stage.served("worker").await;
    stage.remove("worker");
}

//! The components of journals, beside a SQLite file and in its copies.

use crate::keys::{NEW, Place as _, journal};
use toolyard_store::sqlite::backup;
use toolyard_task::{Digest, StoreError};

#[tokio::test]
async fn a_damaged_component_is_noticed_and_replaced() {
    use sha2::{Digest as _, Sha256};
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.open(&[]).await;
    let body = b"\0asm".repeat(9);
    let digest = Digest(Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect());
    store.put_component(&digest, body.clone().into()).await.expect("is kept");
    let at = folder.path().join("components");
    assert_eq!(std::fs::metadata(&at).expect("is there").permissions().mode() & 0o777, 0o700);
    std::fs::write(at.join(&digest.0), &body[1..]).expect("damages");
    let damaged = store.component(&digest).await;
    assert!(matches!(damaged, Err(StoreError::Corrupt(_))), "{damaged:?}");
    store.put_component(&digest, body.clone().into()).await.expect("is kept");
    assert_eq!(store.component(&digest).await.expect("reads").as_deref(), Some(&body[..]));
    let files = std::fs::read_dir(&at).expect("reads").count();
    assert_eq!(files, 1, "nothing is left over");
}

#[tokio::test]
async fn a_copy_names_the_components_of_its_journals() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.open(&[NEW]).await;
    let named = |at: &str| {
        let to = folder.path().join(at);
        backup::copy(folder.path(), &to).expect("copies");
        backup::components(&to).expect("reads")
    };
    assert_eq!(named("none"), Vec::<String>::new());
    let (id, chunks) = journal(&*store, 3).await;
    journal(&*store, 1).await;
    assert_eq!(named("two"), ["ab".repeat(32)]);
    // The copy is a store with its journals.
    let restored = tempfile::tempdir().expect("a folder");
    std::fs::copy(folder.path().join("two"), restored.path().join("toolyard.sqlite")).expect("copies");
    let restored = restored.open(&[NEW]).await;
    assert_eq!(restored.chunks(id, 0, u64::MAX).await.expect("reads"), chunks);
    // A name that leads out of the folder.
    folder.run("UPDATE journal SET component = '../toolyard.toml'").await;
    assert_eq!(named("changed"), Vec::<String>::new());
}

//! Lock files: none makes the parser panic, none is slow, and a file that was read is written again as it was, and can
//! be changed.

use toolyard_trust::Digest;
use toolyard_trust::lock::{Entry, Lock, Signer};

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(mut lock) = Lock::parse(text) else { return };
    let entries: Vec<Entry> = lock.entries().cloned().collect();
    let again = Lock::parse(&lock.to_text()).expect("the text of a lock file");
    assert!(again.entries().eq(&entries), "another text: {lock}");
    let added = Entry {
        file: "zz.wasm".to_owned(),
        source: "file:zz.wasm".to_owned(),
        manifest: None,
        digest: Digest::of(b""),
        signer: Signer::None { accepted: "2026-11-24".to_owned() },
        settings: None,
        grants: Vec::new(),
        definitions: Vec::new(),
    };
    if lock.entry(&added.file).is_none() {
        lock.set(added);
    }
    entries.iter().for_each(|entry| lock.set(entry.clone()));
    let again = Lock::parse(&lock.to_text()).expect("the text of a changed lock file");
    assert!(again.entry("zz.wasm").is_some());
    assert!(entries.iter().all(|entry| again.entry(&entry.file) == Some(entry)), "an entry is lost: {lock}");
}

use super::{HEADER, HEADER_DIGEST, Header, StoreKind, copy, is_plain, pack, unpack};
use std::fs;
use std::io;
use tar::{Builder, EntryType};
use tempfile::TempDir;

/// A folder with two members, and their names.
fn members() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("names")).expect("a folder");
    let names = ["store", "names/one.json"].map(str::to_owned).to_vec();
    fs::write(folder.path().join(&names[0]), vec![7; 3_000]).expect("writes");
    fs::write(folder.path().join(&names[1]), "{}").expect("writes");
    (folder, names)
}

fn packed() -> Vec<u8> {
    let (folder, names) = members();
    let header = Header::new("0.0.0".into(), "now".into(), StoreKind::Sqlite, 8);
    let mut tar = Vec::new();
    pack(header, folder.path(), &names, &mut tar).expect("packs");
    tar
}

/// The error when this tar is unpacked; `None` if there is none.
fn refused(tar: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    unpack(tar, folder.path(), |_| Ok(())).err().map(|error| format!("{error:#}"))
}

#[test]
fn the_members_come_back_byte_for_byte() {
    let (folder, back, tar) = (members().0, tempfile::tempdir().expect("a folder"), packed());
    let header = unpack(tar.as_slice(), back.path(), |_| Ok(())).expect("unpacks");
    assert_eq!((header.store, header.schema), (StoreKind::Sqlite, 8));
    assert_eq!(header.names().collect::<Vec<_>>(), ["store", "names/one.json"]);
    for name in header.names() {
        assert_eq!(fs::read(back.path().join(name)).ok(), fs::read(folder.path().join(name)).ok(), "{name}");
    }
}

#[test]
fn a_header_that_is_not_accepted_unpacks_nothing() {
    let (folder, tar) = (tempfile::tempdir().expect("a folder"), packed());
    let refused = unpack(tar.as_slice(), folder.path(), |_| anyhow::bail!("not this one"));
    assert_eq!(refused.expect_err("is refused").to_string(), "not this one");
    assert_eq!(fs::read_dir(folder.path()).expect("reads").count(), 0);
}

#[test]
fn a_file_that_ends_early_is_refused_wherever_it_ends() {
    let tar = packed();
    // The last kibibyte marks the end, and holds nothing.
    for length in (0..tar.len() - 1_024).step_by(100) {
        assert!(refused(&tar[..length]).is_some(), "{length} of {}", tar.len());
    }
}

#[test]
fn a_changed_byte_of_a_member_or_of_the_header_is_refused() {
    let tar = packed();
    let mut entries = tar::Archive::new(tar.as_slice());
    for entry in entries.entries().expect("is a tar") {
        let entry = entry.expect("is a member");
        let begin = entry.raw_file_position();
        for at in (begin..begin + entry.size()).step_by(97) {
            let mut changed = tar.clone();
            changed[at as usize] ^= 1;
            assert!(refused(&changed).is_some(), "byte {at}");
        }
    }
}

/// A tar with these members after a header that lists `listed`.
fn made(listed: &serde_json::Value, members: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let header = serde_json::json!({
        "format": 1, "toolyard": "0", "at": "now", "store": "sqlite", "schema": 8, "members": listed,
    });
    with_header(&header.to_string(), members)
}

fn with_header(text: &str, members: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let line = format!("{}  {HEADER}\n", digest(text.as_bytes()));
    let mut tar = Builder::new(Vec::new());
    let first =
        [(HEADER, EntryType::Regular, text.as_bytes()), (HEADER_DIGEST, EntryType::Regular, line.as_bytes())];
    for (name, kind, bytes) in first.iter().chain(members) {
        let mut header = tar::Header::new_gnu();
        // As a hostile program writes it, and `set_path` does not.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        tar.append(&header, *bytes).expect("writes");
    }
    tar.into_inner().expect("writes")
}

fn digest(bytes: &[u8]) -> String {
    copy(bytes, io::sink()).expect("reads").1
}

fn listed(name: &str, bytes: &[u8]) -> serde_json::Value {
    serde_json::json!([{"name": name, "bytes": bytes.len(), "sha256": digest(bytes)}])
}

#[test]
fn links_paths_and_members_that_the_header_does_not_list_are_refused() {
    let (one, file) = (listed("store", b"x"), EntryType::Regular);
    assert_eq!(refused(&made(&one, &[("store", file, b"x")])), None);
    for name in ["../store", "/store", "a/../b", "a/b/c", "./store", ".store", "a//b", "", "a\u{0}", "ä"] {
        assert!(!is_plain(name), "{name}");
        let said = refused(&made(&listed(name, b"x"), &[(name, file, b"x")])).expect("is refused");
        assert!(said.contains("cannot be the name of a member"), "{name}: {said}");
    }
    for (members, says) in [
        (vec![("store", EntryType::Symlink, &b"x"[..])], "has no file `store`"),
        (vec![("store", EntryType::Link, b"x")], "has no file `store`"),
        (vec![("store", EntryType::Directory, b"x")], "has no file `store`"),
        (vec![("store", EntryType::XHeader, b"x")], "has no file `store`"),
        (vec![("other", file, b"x")], "has no file `store`"),
        (vec![("store", file, b"xy")], "another size"),
        (vec![("store", file, b"y")], "not as it was written"),
        (vec![("store", file, b"x"), ("more", file, b"x")], "more members"),
        (vec![], "ends early"),
    ] {
        let said = refused(&made(&one, &members)).expect("is refused");
        assert!(said.contains(says), "{members:?}: {said}");
    }
    let twice = serde_json::json!([one[0], one[0]]);
    assert!(refused(&made(&twice, &[])).expect("is refused").contains("lists a member twice"));
}

#[test]
fn a_later_format_and_a_file_that_is_no_backup_are_refused() {
    let said = refused(&with_header(r#"{"format":2,"else":[]}"#, &[])).expect("is refused");
    assert!(said.contains("format 2"), "{said}");
    for text in ["", "{}", "[]", r#"{"format":1}"#] {
        assert!(refused(&with_header(text, &[])).expect("is refused").contains("cannot read"), "{text}");
    }
    assert!(refused(b"SQLite format 3\0").is_some() && refused(&[]).is_some());
    // A header is small, whatever its size says.
    let long = " ".repeat(2 << 20);
    assert!(refused(&with_header(&long, &[])).expect("is refused").contains("too long"));
}

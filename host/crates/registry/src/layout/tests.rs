use super::*;
use crate::artifact::{Artifact, SUGGESTED_MANIFEST};
use tar::{Archive, Builder, EntryType, Header};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

const MAX_COMPONENT: u64 = 1 << 20;
/// The smallest component.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn artifact() -> Artifact {
    let mut artifact = Artifact::new(COMPONENT.to_vec()).expect("an artifact");
    let mut manifest: serde_json::Value = serde_json::from_slice(&artifact.manifest).expect("JSON");
    manifest["annotations"] = serde_json::json!({ SUGGESTED_MANIFEST: "[http]" });
    artifact.manifest = manifest.to_string().into_bytes();
    artifact.annotations.insert(SUGGESTED_MANIFEST.to_owned(), "[http]".to_owned());
    let simple = |number: u8| Signature::SimpleSigning { payload: vec![number], signature: vec![48, number] };
    let bundle = |number: u8| Signature::Bundle(vec![b'{', b'}', number]);
    artifact.signatures = vec![bundle(1), bundle(2), simple(1), simple(2)];
    artifact
}

fn written(artifact: &Artifact) -> Vec<u8> {
    let mut tar = Vec::new();
    write(artifact, Some("1"), &mut tar).expect("written");
    tar
}

/// The files of a tar with their names.
fn members(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = Archive::new(tar);
    let entries = archive.entries().expect("a tar").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).expect("read");
        (String::from_utf8_lossy(&entry.path_bytes()).into_owned(), bytes)
    });
    entries.collect()
}

fn packed(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in members {
        append(&mut builder, EntryType::Regular, name, bytes);
    }
    builder.into_inner().expect("a tar")
}

/// Appends a member whose name is not checked.
fn append(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, bytes: &[u8]) {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, bytes).expect("appended");
}

fn refusal(tar: &[u8]) -> String {
    read(tar, MAX_COMPONENT).expect_err("refused").to_string()
}

/// A change of the members of a tar.
type Change = fn(&mut Vec<(String, Vec<u8>)>);

/// The members of the layout after this change.
fn changed(change: Change) -> Vec<(String, Vec<u8>)> {
    let mut members = members(&written(&artifact()));
    change(&mut members);
    members
}

fn change_index(members: &mut [(String, Vec<u8>)], change: impl FnOnce(&mut serde_json::Value)) {
    let index = members.iter_mut().find(|(name, _)| name == INDEX).expect("an index");
    let mut value = serde_json::from_slice(&index.1).expect("JSON");
    change(&mut value);
    index.1 = value.to_string().into_bytes();
}

#[test]
fn equal_artifacts_give_equal_tars() {
    let tar = written(&artifact());
    assert_eq!(tar, written(&artifact()));
    assert_eq!(
        Digest::of(&tar).to_string(),
        "sha256:426aa7a225ca3b604a699427a95190a8d4195529c74c272d02ada7daf4a24606"
    );
}

/// Folders are skipped, and so are files of other programs.
#[test]
fn members_are_read_in_any_order_and_with_a_dot_in_front() {
    let mut members = members(&written(&artifact()));
    members.reverse();
    members.iter_mut().for_each(|(name, _)| name.insert_str(0, "./"));
    members.push(("./ingest/x".to_owned(), b"of another program".to_vec()));
    let mut builder = Builder::new(Vec::new());
    for folder in ["./", "blobs/sha256/"] {
        append(&mut builder, EntryType::Directory, folder, b"");
    }
    members.iter().for_each(|(name, bytes)| append(&mut builder, EntryType::Regular, name, bytes));
    let tar = builder.into_inner().expect("a tar");
    assert_eq!(read(&tar[..], MAX_COMPONENT).expect("read"), artifact());
}

#[test]
fn links_devices_and_names_that_leave_the_folder_are_refused() {
    let kinds = [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo];
    let kinds = kinds.map(|kind| (kind, "index.json", "`index.json` is neither a file nor a folder"));
    let names = ["../index.json", "/etc/passwd", "blobs/../../x", "blobs\\..\\x", "./../x"];
    let names = names.map(|name| (EntryType::Regular, name, "leaves the folder"));
    for (kind, name, says) in kinds.into_iter().chain(names) {
        let mut builder = Builder::new(Vec::new());
        append(&mut builder, kind, name, b"");
        let text = refusal(&builder.into_inner().expect("a tar"));
        assert!(text.contains(says), "{name}: {text}");
    }
}

#[test]
fn sizes_and_numbers_of_members_are_bounded_before_they_are_read() {
    let mut header = Header::new_gnu();
    header.set_path("blobs/sha256/x").expect("a name");
    header.set_entry_type(EntryType::Regular);
    header.set_size(1 << 40);
    header.set_cksum();
    let text = refusal(header.as_bytes());
    assert!(text.contains("the tar is larger than"), "{text}");
    let members: Vec<_> = (0..600).map(|number| (format!("x{number}"), Vec::new())).collect();
    assert!(refusal(&packed(&members)).ends_with("it has more than 512 members"));
    let error = read(&written(&artifact())[..], 7).expect_err("refused").to_string();
    assert!(error.contains("the component is larger than 7 bytes"), "{error}");
}

#[test]
fn a_tar_that_is_cut_off_is_refused() {
    let tar = written(&artifact());
    for length in [1, 100, 511, 512, 513, 1_100, 2_000, tar.len() / 2] {
        read(&tar[..length], MAX_COMPONENT).expect_err("refused");
    }
}

#[test]
fn a_tar_that_is_no_whole_layout_is_refused() {
    let cases: [(Change, &str); 9] = [
        (
            |members| members.retain(|(name, _)| name != MARK),
            "it has no member `oci-layout`, so it is not an OCI image layout",
        ),
        (|members| members.retain(|(name, _)| name != INDEX), "it has no index.json"),
        (|members| members.retain(|(name, _)| !name.starts_with(BLOBS)), "is missing"),
        (|members| members.push((format!("./{INDEX}"), b"{}".to_vec())), "it has two members `index.json`"),
        (|members| members.push((format!("./{MARK}"), b"{}".to_vec())), "it has two members `oci-layout`"),
        (
            |members| members[0].1 = br#"{"imageLayoutVersion":"2.0.0"}"#.to_vec(),
            "its layout has the version 2.0.0",
        ),
        (
            |members| change_index(members, |index| index["manifests"][0]["size"] = 1.into()),
            "the manifest does not have the size that its descriptor says",
        ),
        (
            |members| {
                let mut blobs = members.iter_mut().filter(|(name, _)| name.starts_with(BLOBS));
                blobs.next().expect("a blob").1.push(0);
            },
            "; the registry or a proxy before it altered it",
        ),
        (
            |members| members.push(("blobs/sha256/xyz".to_owned(), Vec::new())),
            "`blobs/sha256/xyz` is not named by a digest",
        ),
    ];
    for (change, says) in cases {
        let text = refusal(&packed(&changed(change)));
        assert!(text.ends_with(says), "{text}");
    }
    refusal(b"PK\x03\x04 this is a zip file");
    refusal(b"");
}

#[test]
fn an_index_with_two_components_is_refused() {
    let both = changed(|both| {
        let other = Artifact::new(COMPONENT.to_vec()).expect("an artifact");
        both.extend(members(&written(&other)).into_iter().filter(|(name, _)| name.starts_with(BLOBS)));
        both.sort();
        both.dedup();
        let entry = crate::carrier::describe("application/vnd.oci.image.manifest.v1+json", &other.manifest);
        change_index(both, |index| index["manifests"].as_array_mut().expect("entries").push(entry));
    });
    assert!(refusal(&packed(&both)).ends_with("its index names 2 components; expected one"));
}

#[test]
fn signatures_about_another_manifest_are_ignored() {
    let members = changed(|members| {
        change_index(members, |index| {
            let entries = index["manifests"].as_array_mut().expect("entries");
            let tagged = entries.last_mut().expect("the signatures of cosign 2");
            tagged["annotations"][TAG] = format!("sha256-{}.sig", "0".repeat(64)).into();
            entries.remove(1);
        });
    });
    let signatures = read(&packed(&members)[..], MAX_COMPONENT).expect("read").signatures;
    assert_eq!(signatures, artifact().signatures[1..2]);
}

//! The lock file.

use crate::signed::{component, manifest};
use proptest::prelude::*;
use serde_json::json;
use toolyard_trust::Digest;
use toolyard_trust::definition::{Definition, Kind};
use toolyard_trust::lock::{Entry, Lock, LockError, MAX_LOCK, Signer};

fn fetch() -> Definition {
    let value = json!({"description": "Fetches a page.", "inputSchema": {"type": "object"}});
    Definition { kind: Kind::Tool, name: "fetch".to_owned(), value }
}

pub fn entry(file: &str) -> Entry {
    Entry {
        file: file.to_owned(),
        source: "oci://ghcr.io/acme/fetch:1.2.0".to_owned(),
        manifest: Some(manifest()),
        digest: component(),
        signer: Signer::Key { fingerprint: "SHA256:02QjZASd".to_owned(), file: Some("acme.pub".to_owned()) },
        grants: vec!["env LANG".to_owned(), "http *.wikipedia.org".to_owned()],
        settings: Some(vec!["limits.memory = \"64MiB\"".to_owned()]),
        definitions: vec![fetch()],
    }
}

pub fn unsigned(file: &str) -> Entry {
    Entry {
        source: "file:/tmp/hash.wasm".to_owned(),
        manifest: None,
        signer: Signer::None { accepted: "2026-11-24".to_owned() },
        grants: Vec::new(),
        settings: None,
        definitions: Vec::new(),
        ..entry(file)
    }
}

pub fn lock(entries: &[Entry]) -> Lock {
    let mut lock = Lock::empty();
    entries.iter().cloned().for_each(|entry| lock.set(entry));
    lock
}

/// The text of a lock file with one entry, after replacing a part of it.
fn replaced(from: &str, to: &str) -> String {
    let text = lock(&[entry("fetch.wasm")]).to_text();
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to)
}

fn refused(text: &str) -> String {
    Lock::parse(text).expect_err(text).to_string()
}

fn files(lock: &Lock) -> Vec<&str> {
    lock.entries().map(|entry| entry.file.as_str()).collect()
}

#[test]
fn entries_are_read_as_they_were_written() {
    let prompt = Definition { kind: Kind::Prompt, ..fetch() };
    let identity = Signer::Identity { identity: "https://x/*".to_owned(), issuer: "https://y".to_owned() };
    let entries = [
        Entry { definitions: vec![fetch(), prompt], ..entry("a.wasm") },
        unsigned("b.wasm"),
        Entry { signer: identity, ..entry("c.wasm") },
        Entry { signer: Signer::Key { fingerprint: "SHA256:x".to_owned(), file: None }, ..entry("d.wasm") },
    ];
    let read = Lock::parse(&lock(&entries).to_text()).unwrap();
    assert_eq!(read.entries().cloned().collect::<Vec<_>>(), entries);
    assert_eq!(read.entry("c.wasm"), Some(&entries[2]));
    assert_eq!(read.entry("e.wasm"), None);
}

#[test]
fn the_order_of_changes_does_not_matter_and_a_removed_entry_takes_its_definitions() {
    let entries = ["a.wasm", "b.wasm", "c.wasm"].map(entry);
    let text = lock(&entries).to_text();
    let mut reversed = entries.clone();
    reversed.reverse();
    assert_eq!(lock(&reversed).to_text(), text);
    let mut changed = lock(&reversed);
    changed.set(unsigned("b.wasm"));
    changed.set(entries[1].clone());
    assert!(changed.remove("a.wasm"));
    changed.set(entries[0].clone());
    assert_eq!(changed.to_text(), text);
    let mut lock = lock(&[entry("fetch.wasm"), unsigned("hash.wasm")]);
    assert!(lock.remove("fetch.wasm"));
    assert!(!lock.remove("fetch.wasm"));
    assert_eq!(files(&lock), ["hash.wasm"]);
    assert!(!lock.to_text().contains("fetch"), "{lock}");
    assert!(lock.remove("hash.wasm"));
    assert_eq!(lock.to_text(), Lock::empty().to_text());
}

#[test]
fn grants_and_definitions_are_sorted() {
    let mut shuffled = entry("fetch.wasm");
    let zip = Definition { name: "zip".to_owned(), ..fetch() };
    shuffled.definitions = vec![Definition { kind: Kind::Prompt, ..fetch() }, zip, fetch()];
    shuffled.grants = ["http b", "env A", "http b"].map(str::to_owned).to_vec();
    let lock = lock(&[shuffled]);
    let entry = lock.entry("fetch.wasm").unwrap();
    assert_eq!(entry.grants, ["env A", "http b"]);
    let names: Vec<_> = entry.definitions.iter().map(|one| (one.kind, one.name.as_str())).collect();
    assert_eq!(names, [(Kind::Tool, "fetch"), (Kind::Tool, "zip"), (Kind::Prompt, "fetch")]);
    assert_eq!(Lock::parse(&lock.to_text()).unwrap().entry("fetch.wasm"), Some(entry));
}

#[test]
fn a_long_list_of_grants_has_a_line_for_each() {
    let grants: Vec<_> = (0..5).map(|host| format!("http host-{host}.some.where.example")).collect();
    let lock = lock(&[Entry { grants, ..entry("fetch.wasm") }]);
    assert!(lock.to_text().contains("grants = [\n    \"http host-0.some.where.example\",\n    \""), "{lock}");
    assert!(lock.to_text().contains("host-4.some.where.example\",\n]\n"), "{lock}");
    assert!(Lock::parse(&lock.to_text()).is_ok());
}

#[test]
fn comments_unknown_keys_and_unchanged_values_stay_as_they_were_written() {
    let text = replaced("source =", "note = \"ours\" # asked Kim\nsource =")
        .replace("name = \"fetch\"", "name = \"fetch\" # the only one\nreviewed = 2026-11-24")
        .replace("[[plugin]]", "# Kim's\n[[plugin]]")
        .replace("version = 1", "version = 1\nowner = \"web team\"")
        + "\n[later]\nkey = 1\n[later.more]\nkey = 2\n";
    let mut lock = Lock::parse(&text).unwrap();
    assert_eq!(lock.to_text(), text);
    lock.set(Entry { digest: Digest::of(b"new"), ..entry("fetch.wasm") });
    lock.set(unsigned("a.wasm"));
    for kept in [
        "note = \"ours\" # asked Kim\n",
        "name = \"fetch\" # the only one\n",
        "reviewed = 2026-11-24\n",
        "# Kim's\n[[plugin]]\nfile = \"fetch.wasm\"\n",
        "owner = \"web team\"\n",
    ] {
        assert!(lock.to_text().contains(kept), "{kept} is not in {lock}");
    }
    assert!(lock.to_text().ends_with("}'''\n\n[later]\nkey = 1\n[later.more]\nkey = 2\n"), "{lock}");
    let read = Lock::parse(&lock.to_text()).unwrap();
    assert_eq!(files(&read), ["a.wasm", "fetch.wasm"]);
    assert_eq!(read.entry("fetch.wasm").unwrap().digest, Digest::of(b"new"));
    let text = replaced("grants = [\"env LANG\", ", "grants = [ # two\n  'env LANG',\n  ");
    let mut lock = Lock::parse(&text).unwrap();
    lock.set(entry("fetch.wasm"));
    assert!(lock.to_text().contains("grants = [ # two\n  'env LANG',\n  \"http"), "{lock}");
}

#[test]
fn keys_that_no_longer_apply_go() {
    let mut lock = lock(&[unsigned("fetch.wasm")]);
    lock.set(entry("fetch.wasm"));
    assert!(!lock.to_text().contains("accepted ="), "{lock}");
    lock.set(unsigned("fetch.wasm"));
    for gone in ["manifest", "[[plugin.tool]]", "key ="] {
        assert!(!lock.to_text().contains(gone), "{gone} is in {lock}");
    }
}

#[test]
fn definitions_show_hidden_characters_and_keep_their_value() {
    let description = "it's ''' the end\u{202e} \u{e0041}\u{7f} \u{1b}[2J \\ \" \r\n''";
    let definition = Definition { value: json!({"description": description}), ..fetch() };
    let lock = lock(&[Entry { definitions: vec![definition.clone()], ..entry("fetch.wasm") }]);
    let text = lock.to_text();
    assert!(text.contains(r"it's '\u0027\u0027 the end\u202e \udb40\udc41\u007f \u001b[2J"), "{text}");
    assert_eq!(Lock::parse(&text).unwrap().entry("fetch.wasm").unwrap().definitions, [definition]);
}

#[test]
fn line_ends_of_windows_and_white_space_in_a_definition_do_not_matter() {
    assert!(Lock::parse(&replaced("{\n  \"desc", "{ \"desc")).is_ok());
    let text = lock(&[entry("fetch.wasm"), unsigned("hash.wasm")]).to_text();
    let mut lock = Lock::parse(&text.replace('\n', "\r\n")).unwrap();
    assert_eq!(lock.entry("fetch.wasm"), Some(&entry("fetch.wasm")));
    lock.set(unsigned("a.wasm"));
    let read = Lock::parse(&lock.to_text()).unwrap();
    assert_eq!(files(&read), ["a.wasm", "fetch.wasm", "hash.wasm"]);
    assert_eq!(read.entry("fetch.wasm"), Some(&entry("fetch.wasm")));
}

#[test]
fn doubles_edited_definitions_and_other_versions_are_refused_with_what_to_do() {
    let text = lock(&[entry("fetch.wasm")]).to_text();
    let from = |start: &str| &text[text.find(start).unwrap()..];
    let sha256 = fetch().digest().hex();
    let edited = "toolyard.lock: the definition of the tool \"fetch\" of fetch.wasm does not have the sha256 beside \
        it, so one of them was edited; restore the file from version control";
    for (text, says) in [
        (
            format!("{text}\n{}", from("[[plugin]]")),
            "toolyard.lock has two entries for fetch.wasm; remove the one that you did not accept",
        ),
        (
            format!("{text}\n{}", from("[[plugin.tool]]")),
            "toolyard.lock: fetch.wasm has two definitions of the tool \"fetch\"; remove the entry and run toolyard accept",
        ),
        (
            replaced("{\n  \"desc", "{\n  \"description\": \"Fetches nothing.\",\n  \"desc"),
            "toolyard.lock: definition of \"fetch.wasm\" is not JSON in which each key occurs once; correct it, or \
             remove the entry and run toolyard accept",
        ),
        (replaced("Fetches a page.", "Fetches the page."), edited),
        (replaced(&sha256, &"0".repeat(64)), edited),
        (
            replaced("version = 1", "version = 2"),
            "toolyard.lock has version 2, and this Toolyard reads version 1; update Toolyard",
        ),
    ] {
        assert_eq!(refused(&text), says);
    }
    for text in [String::new(), replaced("version = 1", ""), replaced("version = 1", "version = \"1\"")] {
        assert_eq!(Lock::parse(&text).unwrap_err(), LockError::Version);
    }
    assert_eq!(Lock::parse("version = 0").unwrap_err(), LockError::Version);
    assert!(refused("version = 1\nplugin = []\n").contains("[[plugin]]"));
    assert!(refused("version = 1\n[plugin]\n").contains("[[plugin]]"));
    let text = lock(&[unsigned("a.wasm")]).to_text();
    assert!(refused(&format!("{text}tool = []\n")).contains("[[plugin.tool]]"));
    assert!(refused(&format!("{text}prompt = 1\n")).contains("[[plugin.prompt]]"));
    let error = refused("version = 1\n\n<<<<<<< ours\n");
    assert!(error.starts_with("toolyard.lock, line 3: "), "{error}");
    assert!(!refused("version = 1\n\u{1b}[2J\n").contains('\u{1b}'));
}

#[test]
fn names_that_are_not_plain_files_and_digests_of_other_forms_are_refused() {
    let digest = component().to_string();
    assert_eq!(
        refused(&replaced(&format!("\ndigest = \"{digest}\""), "\ndigest = \"sha256:00\"")),
        "toolyard.lock: digest of \"fetch.wasm\" is not sha256: and 64 lower-case hexadecimal digits; correct it, or \
         remove the entry and run toolyard accept"
    );
    let text = replaced(&manifest().to_string(), "sha256:0");
    assert!(refused(&text).contains("manifest of \"fetch.wasm\""));
    assert!(refused(&replaced(&fetch().digest().hex(), "00")).contains("sha256 of \"fetch.wasm\""));
    let long = format!("{}.wasm", "a".repeat(251));
    let paths = "../fetch.wasm|/etc/fetch.wasm|sub/fetch.wasm|sub\\\\fetch.wasm|C:fetch.wasm|.fetch.wasm|..wasm|.wasm";
    let others =
        "|fetch|fetch.toml|fetch.wasm |fetch\\u0000.wasm|fetch\\n.wasm|fetch\\u202e.wasm|fetch\\u200b.wasm";
    for name in paths.split('|').chain(others.split('|')).chain([long.as_str()]) {
        let text = replaced("file = \"fetch.wasm\"", &format!("file = \"{name}\""));
        let error = Lock::parse(&text).unwrap_err();
        assert!(matches!(error, LockError::FileName { .. }), "{name}: {error}");
        assert!(!error.to_string().contains(['\n', '\0', '\u{202e}']), "{error}");
    }
    assert_eq!(
        refused(&replaced("file = \"fetch.wasm\"", "file = \"../x.wasm\"")),
        "toolyard.lock names the file \"../x.wasm\", but a name in it is that of a .wasm file in the plugin folder; \
         correct or remove the entry"
    );
    for name in ["My_Tool 2.wasm", "é.wasm", "a.b.wasm"] {
        assert!(Lock::parse(&replaced("\"fetch.wasm\"", &format!("\"{name}\""))).is_ok(), "{name}");
    }
}

#[test]
fn missing_keys_and_values_of_other_types_are_refused_by_name() {
    for key in ["file", "source", "digest", "signer", "grants", "name", "sha256", "definition"] {
        let text = replaced(&format!("\n{key} = "), &format!("\nx-{key} = "));
        let error = refused(&text);
        assert!(error.contains(&format!("{key} of")) && error.contains("is missing"), "{error}");
    }
    assert!(refused(&lock(&[unsigned("a.wasm")]).to_text().replace("accepted", "x")).contains("accepted of"));
    let signer = "{ key = \"SHA256:02QjZASd\", file = \"acme.pub\" }";
    for (from, to, word) in [
        (signer, "\"some\"", "signer"),
        (signer, "{ key = 1 }", "signer"),
        (signer, "{ identity = \"a\" }", "signer"),
        (signer, "{ key = \"a\", identity = \"a\", issuer = \"b\" }", "signer"),
        (signer, "\"none\"", "accepted"),
        ("[\"env LANG\"", "[1", "grants"),
        ("source = \"", "source = 1 #\"", "source"),
        ("'''\n{", "'''\n", "definition"),
    ] {
        let error = refused(&replaced(from, to));
        assert!(error.contains(&format!("{word} of \"fetch.wasm\"")), "{to}: {error}");
    }
    let dates = "|yesterday|2026-13-01|2026-00-01|2026-01-32|2026-1-1|2026-11-24T00:00:00Z|２０２６-11-24";
    for date in dates.split('|') {
        let text = lock(&[unsigned("a.wasm")]).to_text().replace("2026-11-24", date);
        assert!(refused(&text).contains("is not a date like 2026-11-24"), "{date}");
    }
}

#[test]
fn a_large_file_is_refused_before_it_is_parsed_and_so_is_deep_nesting() {
    let text = format!("{}\n", "#".repeat(MAX_LOCK));
    assert_eq!(Lock::parse(&text).unwrap_err(), LockError::TooLarge(MAX_LOCK + 1));
    let definition = Definition { value: "x".repeat(MAX_LOCK).into(), ..fetch() };
    let lock = lock(&[Entry { definitions: vec![definition], ..entry("fetch.wasm") }]);
    assert!(Lock::parse(&lock.to_text()).is_err());
    let deep = format!("version = 1\nx = {}", "[".repeat(100_000));
    assert!(matches!(Lock::parse(&deep), Err(LockError::Syntax { .. })));
    let json = "[".repeat(100_000);
    let text = replaced("'''\n{", &format!("'''\n{json}{{"));
    assert!(refused(&text).contains("definition of"));
}

proptest! {
    #[test]
    fn any_entry_is_read_as_it_was_written(
        texts in prop::collection::vec(any::<String>(), 8),
        name in "[a-zA-Z0-9é' _-]{1,20}",
    ) {
        let definition = |name: &String, kind, value: &String| {
            Definition { kind, name: name.clone(), value: json!({value: [value, {"x": name}], "y": 1.5}) }
        };
        let mut entry = Entry {
            source: texts[0].clone(),
            signer: Signer::Key { fingerprint: texts[1].clone(), file: Some(texts[2].clone()) },
            grants: vec![texts[3].clone(), texts[4].clone()],
            definitions: vec![definition(&texts[5], Kind::Tool, &texts[6]), definition(&texts[5], Kind::Prompt, &texts[7])],
            ..entry(&format!("{name}.wasm"))
        };
        entry.grants.sort();
        entry.grants.dedup();
        let text = lock(&[entry.clone(), unsigned("zz.wasm")]).to_text();
        let read = Lock::parse(&text).unwrap();
        prop_assert_eq!(read.entry(&entry.file), Some(&entry));
        prop_assert_eq!(read.to_text(), text);
    }
}

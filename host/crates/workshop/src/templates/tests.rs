//! Checks that the table of files agrees with the template folders.

use super::*;
use crate::case::{Case, SUFFIX};
use crate::project::{FILE, Project};
use std::fmt::Write as _;

/// Libraries that projects get a copy of: the language, their path from the root, and their path in a
/// project.
const LIBRARIES: [(&str, &str, &str); 1] = [("rust", "plugins/sdk", "toolyard-plugin")];

/// Not part of a copied library: build output and tests.
const LEFT_OUT: [&str; 3] = ["target", "tests", "Cargo.lock"];

/// The files below a folder, sorted; a link to a file counts as a file.
fn below(folder: &Path, at: &str, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder.join(at)) else { return };
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().into_string().expect("plain"), entry.file_type().expect("a kind")))
        .collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, kind) in names {
        let path = if at.is_empty() { name } else { format!("{at}/{name}") };
        if LEFT_OUT.contains(&path.as_str()) {
            continue;
        }
        if kind.is_dir() {
            below(folder, &path, found);
        } else if folder.join(&path).is_file() {
            found.push(path);
        }
    }
}

/// The longest line of the table.
const MAX_LINE: usize = 110;

fn table() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut out =
        "//! The files of the templates. Made by `UPDATE_TEMPLATES=1 cargo test -p toolyard-workshop`.\n\n\
         files! {\n"
            .to_owned();
    for language in &LANGUAGES {
        let own = format!("host/templates/{}", language.name);
        let libraries = LIBRARIES.iter().filter(|(of, ..)| *of == language.name);
        let libraries = libraries.map(|(_, from, to)| (*from, format!("{to}/")));
        for (from, to) in std::iter::once((own.as_str(), String::new())).chain(libraries) {
            // A library alone is not a project.
            if !root.join(&own).is_dir() {
                continue;
            }
            let mut files = Vec::new();
            below(&root.join(from), "", &mut files);
            // Writing to a String does not fail.
            let _ = writeln!(out, "    {:?}, from {from:?}, to {to:?}:", language.name);
            let mut line = " ".repeat(7);
            for word in files.iter().map(|file| format!(" {file:?}")) {
                if line.len() + word.len() > MAX_LINE {
                    let _ = writeln!(out, "{line}");
                    line = " ".repeat(7);
                }
                line.push_str(&word);
            }
            let _ = writeln!(out, "{line};");
        }
    }
    out + "}\n"
}

#[test]
fn the_table_has_the_files_of_the_templates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/templates/files.rs");
    let table = table();
    if std::env::var_os("UPDATE_TEMPLATES").is_some() {
        std::fs::write(&path, &table).expect("written");
    }
    let there = std::fs::read_to_string(&path).expect("the table");
    assert!(
        there == table,
        "the files of the templates have changed: UPDATE_TEMPLATES=1 writes the table again"
    );
}

#[test]
fn every_template_makes_a_project_with_a_manifest_and_cases() {
    let engines = |language: &'static Language| language.engines.iter().copied().map(Some).chain([None]);
    for (language, engine) in languages().flat_map(|language| engines(language).map(move |e| (language, e))) {
        let folder = tempfile::tempdir().expect("a folder");
        let files = language.project("my-tool", engine);
        let files = files.unwrap_or_else(|error| panic!("{} {engine:?}: {error}", language.name));
        write(folder.path(), &files).expect("written");
        let name = language.name;
        let project = Project::open(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(project.name, "my-tool", "{name}");
        for needed in [FILE, "README.md", ".gitignore", "wit/worlds.wit", "plugin/my-tool.toml"] {
            assert!(folder.path().join(needed).is_file(), "{name}: {needed}");
        }
        for watched in &project.watch {
            assert!(folder.path().join(watched).exists(), "{name}: {}", watched.display());
        }
        let cases = files.iter().filter(|(path, _)| path.ends_with(SUFFIX));
        let read = cases.map(|(path, text)| {
            let text = String::from_utf8(text.clone()).expect("text");
            Case::of_text(&text).unwrap_or_else(|error| panic!("{name}: {path}: {error}"))
        });
        assert!(read.count() > 0, "{name}: it has no case");
        let placeholder = files
            .iter()
            .find(|(path, text)| path.contains("{{name") || String::from_utf8_lossy(text).contains("{{name"));
        assert_eq!(placeholder.map(|(path, _)| path), None, "{name}");
    }
    let folders = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates"));
    let folders = folders.expect("the templates").flatten().filter(|entry| entry.path().is_dir()).count();
    assert_eq!(languages().count(), folders, "each folder is a language");
}

#[test]
fn a_name_is_put_in_its_places() {
    assert_eq!(filled("{{name}}/{{name_snake}}_x", "my-tool"), "my-tool/my_tool_x");
    let c = LANGUAGES.iter().find(|language| language.is_called("c")).expect("C");
    let files = c.project("my-tool", None).expect("a project");
    assert!(files.iter().any(|(path, _)| path == "gen/tools_wasi_plugin.h"), "what is made for it is there");
    assert!(c.project("My Tool", None).is_err());
}

#[test]
fn the_files_for_an_engine_replace_the_usual_ones() {
    let js = LANGUAGES.iter().find(|language| language.is_called("js")).expect("JavaScript");
    let package = |engine| {
        let files = js.project("my-tool", engine).expect("a project");
        assert!(!files.iter().any(|(path, _)| path.starts_with(ENGINES)), "{engine:?}");
        let (_, text) = files.into_iter().find(|(path, _)| path == "package.json").expect("a package");
        String::from_utf8(text).expect("text")
    };
    assert!(package(Some("quickjs")).contains("componentize-qjs"));
    assert!(package(None).contains("componentize-js") && package(None) == package(Some("starlingmonkey")));
    assert!(js.check_engine("v8").expect_err("refused").contains("starlingmonkey and quickjs"));
    let c = LANGUAGES.iter().find(|language| language.is_called("c")).expect("C");
    assert!(c.check_engine("quickjs").expect_err("refused").contains("js and ts"));
}

#[test]
fn nothing_is_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("b"), "mine").expect("written");
    let files = ["a", "b"].map(|name| (name.to_owned(), b"new".to_vec()));
    let error = write(folder.path(), &files).expect_err("refused").to_string();
    assert!(error.contains("b already exists"), "{error}");
    assert!(!folder.path().join("a").exists(), "nothing was written");
}

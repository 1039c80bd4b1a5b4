//! `list_files`.

use std::path::Path;
use std::time::UNIX_EPOCH;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::ToolResult;

use crate::glob::Glob;
use crate::place::{Fault, Place};
use crate::walk::{self, Entry, Kind};

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The folder, such as docs/drafts.
    #[serde(default)]
    #[schemars(length(max = 1_024))]
    path: String,
    /// Also the folders below.
    #[serde(default)]
    recursive: bool,
    /// Only these paths: *.txt in every folder, or src/**/*.{rs,toml}.
    #[schemars(length(max = 256))]
    glob: Option<String>,
    /// Also names that begin with a dot.
    #[serde(default)]
    hidden: bool,
    /// The most entries.
    #[serde(default = "default_entries")]
    #[schemars(range(min = 1, max = 2_000))]
    limit: usize,
}

fn default_entries() -> usize {
    200
}

/// The structured result.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Listed {
    /// The folder.
    path: String,
    entries: Vec<ListedEntry>,
    /// Whether entries were left out.
    more: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ListedEntry {
    path: String,
    kind: Kind,
    /// The size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// The time of the last change, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<u64>,
}

/// Lists a folder.
pub fn list(root: &Path, list: &List) -> Result<ToolResult<Listed>, Fault> {
    let place = Place::of(root, &list.path)?;
    let glob = list.glob.as_deref().map(Glob::new).transpose()?;
    let found = walk::walk(root, &place, list.recursive, list.hidden)?;
    let wanted: Vec<&Entry> = found
        .entries
        .iter()
        .filter(|entry| glob.as_ref().is_none_or(|glob| glob.wants(&entry.path)))
        .collect();
    let shown = &wanted[..wanted.len().min(list.limit)];
    let mut text = String::new();
    for entry in shown {
        text.push_str(&line(entry));
    }
    if shown.is_empty() {
        text.push_str(&match &list.glob {
            Some(glob) => format!("Nothing in {} fits {glob}.\n", place.name()),
            None => format!("There is nothing in {}.\n", place.name()),
        });
    }
    let left = wanted.len() - shown.len();
    if left > 0 {
        text.push_str(&format!("{left} more are not shown; ask with a glob, a path or a higher limit.\n"));
    }
    if found.cut {
        text.push_str(&format!(
            "Only {} entries were looked at; ask for a folder further down.\n",
            walk::MOST
        ));
    }
    if found.closed > 0 {
        text.push_str(&format!("{} folders could not be looked into.\n", found.closed));
    }
    let entries = shown.iter().map(|entry| ListedEntry::of(entry)).collect();
    let listed = Listed { path: place.shown, entries, more: left > 0 || found.cut };
    Ok(ToolResult::new().text(text).structured(listed))
}

fn line(entry: &Entry) -> String {
    match entry.kind {
        Kind::File => format!("{} ({} bytes)\n", entry.path, entry.size),
        Kind::Folder => format!("{}/\n", entry.path),
        Kind::Link | Kind::Other => format!("{} ({})\n", entry.path, entry.kind.word()),
    }
}

impl ListedEntry {
    fn of(entry: &Entry) -> Self {
        let since = entry.modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        Self {
            path: entry.path.clone(),
            kind: entry.kind,
            size: (entry.kind == Kind::File).then_some(entry.size),
            modified: since.map(|since| since.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolyard_plugin::{Content, IntoResult};

    use super::*;
    use crate::testing::folder;

    fn listed(root: &Path, arguments: Value) -> (String, Value) {
        let list: List = serde_json::from_value(arguments).expect("arguments");
        let result = super::list(root, &list).expect("listed").into_result().expect("it can be written");
        let Content::Text(block) = &result.content[0] else { panic!("a text") };
        let object = serde_json::from_str(&result.structured_content.expect("there")).expect("JSON");
        (block.text.clone(), object)
    }

    #[test]
    fn what_is_left_out_is_said() {
        let names = ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"];
        let root = folder(&names.map(|name| (name, &b"four"[..])));
        std::fs::create_dir(root.path().join("sub")).expect("makes");
        let (text, object) = listed(root.path(), json!({ "limit": 2 }));
        assert_eq!(
            text,
            "0.txt (4 bytes)\n1.txt (4 bytes)\n4 more are not shown; ask with a glob, a path or a higher limit.\n"
        );
        assert_eq!((&object["more"], &object["entries"][1]["size"]), (&json!(true), &json!(4)));
        assert!(object["entries"][0]["modified"].is_u64());
        let (text, object) = listed(root.path(), json!({ "glob": "s*" }));
        assert_eq!((text.as_str(), &object["more"]), ("sub/\n", &json!(false)));
        let (text, _) = listed(root.path(), json!({ "path": "sub" }));
        assert_eq!(text, "There is nothing in sub.\n");
        let (text, _) = listed(root.path(), json!({ "glob": "*.rs", "recursive": true }));
        assert_eq!(text, "Nothing in the granted folder fits *.rs.\n");
    }
}

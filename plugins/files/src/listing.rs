//! `list_files`.

use std::path::Path;
use std::time::UNIX_EPOCH;

use contract::{ToolResult, result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::declaration;
use crate::glob::Glob;
use crate::place::{Fault, Place};
use crate::walk::{self, Entry, Kind};

/// The arguments.
#[derive(Debug, Deserialize)]
pub struct List {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    glob: Option<String>,
    #[serde(default)]
    hidden: bool,
    #[serde(default = "declaration::default_entries")]
    limit: usize,
}

/// What is in a folder.
pub fn list(root: &Path, list: &List) -> Result<ToolResult, Fault> {
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
    let entries: Vec<Value> = shown.iter().map(|entry| object(entry)).collect();
    let more = left > 0 || found.cut;
    Ok(result::structured(text, &json!({ "path": place.shown, "entries": entries, "more": more })))
}

fn line(entry: &Entry) -> String {
    match entry.kind {
        Kind::File => format!("{} ({} bytes)\n", entry.path, entry.size),
        Kind::Folder => format!("{}/\n", entry.path),
        Kind::Link | Kind::Other => format!("{} ({})\n", entry.path, entry.kind.word()),
    }
}

fn object(entry: &Entry) -> Value {
    let mut object = json!({ "path": entry.path, "kind": entry.kind.word() });
    if entry.kind == Kind::File {
        object["size"] = entry.size.into();
    }
    let since = entry.modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    if let Some(since) = since {
        object["modified"] = since.as_secs().into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(root: &Path, arguments: Value) -> (String, Value) {
        let list: List = serde_json::from_value(arguments).expect("arguments");
        let result = super::list(root, &list).expect("listed");
        let contract::Content::Text(block) = &result.content[0] else { panic!("a text") };
        let object = serde_json::from_str(&result.structured_content.expect("there")).expect("JSON");
        (block.text.clone(), object)
    }

    #[test]
    fn what_is_left_out_is_said() {
        let root = tempfile::tempdir().expect("a folder");
        for n in 0..5 {
            std::fs::write(root.path().join(format!("{n}.txt")), "four").expect("writes");
        }
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

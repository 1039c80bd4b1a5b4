//! `search_files`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use regex_lite::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::ToolResult;

use crate::glob::Glob;
use crate::place::{Fault, Place};
use crate::reading;
use crate::walk::{self, Entry, Kind};

/// Larger files are not searched, in bytes.
const LARGEST: u64 = 8 << 20;
/// Longer lines are shortened, in characters.
const LONGEST_LINE: usize = 240;
/// The number of files between two progress reports.
const STEP: usize = 16;

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Search {
    /// The text to search for, literally.
    #[schemars(length(min = 1, max = 500))]
    query: Option<String>,
    /// A regular expression for a line; use it instead of query.
    #[schemars(length(min = 1, max = 500))]
    regex: Option<String>,
    /// The folder, such as docs/drafts.
    #[serde(default)]
    #[schemars(length(max = 1_024))]
    path: String,
    /// Only these paths: *.txt in every folder, or src/**/*.{rs,toml}.
    #[schemars(length(max = 256))]
    glob: Option<String>,
    /// Whether case matters.
    #[serde(default)]
    case_sensitive: bool,
    /// Also names that begin with a dot.
    #[serde(default)]
    hidden: bool,
    /// The most lines.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 1_000))]
    max_results: usize,
}

fn default_results() -> usize {
    50
}

/// The matches.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Found {
    matches: Vec<Match>,
    /// The number of files searched.
    searched: usize,
    /// The number of files that were too large or not text.
    skipped: usize,
    /// Whether there may be more matches.
    more: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Match {
    path: String,
    #[schemars(range(min = 1))]
    line: usize,
    /// The line, shortened if it is long.
    text: String,
}

/// Searches the files. `step` receives the number of files done and the total, and returns whether to stop.
pub fn search(
    root: &Path,
    search: &Search,
    step: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<ToolResult<Found>, Fault> {
    let place = Place::of(root, &search.path)?;
    let glob = search.glob.as_deref().map(Glob::new).transpose()?;
    let wanted = pattern(search)?;
    let below = walk::walk(root, &place, true, search.hidden)?;
    let is_wanted =
        |entry: &&Entry| entry.kind == Kind::File && glob.as_ref().is_none_or(|glob| glob.wants(&entry.path));
    let files: Vec<&Entry> = below.entries.iter().filter(is_wanted).collect();
    let mut found = Found { more: below.cut, skipped: below.closed, ..Found::default() };
    for (index, file) in files.iter().enumerate() {
        if index % STEP == 0 && step(index, files.len()) {
            return Err(Fault("The search was stopped.".to_owned()));
        }
        match search_one(root, file, &wanted, search.max_results, &mut found) {
            Ok(true) => found.searched += 1,
            // It is not text, is too large, or was removed meanwhile.
            Ok(false) | Err(_) => found.skipped += 1,
        }
        if found.more && found.matches.len() >= search.max_results {
            break;
        }
    }
    if !files.is_empty() {
        step(files.len(), files.len());
    }
    Ok(ToolResult::new().text(shown(&place, &found)).structured(found))
}

fn pattern(search: &Search) -> Result<Regex, Fault> {
    let pattern = match (&search.query, &search.regex) {
        (Some(query), None) => regex_lite::escape(query),
        (None, Some(regex)) => regex.clone(),
        _ => return Err(Fault("Give either `query`, which is text, or `regex`, an expression.".to_owned())),
    };
    let built = RegexBuilder::new(&pattern).case_insensitive(!search.case_sensitive).build();
    built.map_err(|error| {
        Fault(format!("The expression cannot be used: {error}. Or search for text by `query`."))
    })
}

/// Searches one file. Returns whether it could be searched.
fn search_one(
    root: &Path,
    file: &Entry,
    wanted: &Regex,
    most: usize,
    found: &mut Found,
) -> std::io::Result<bool> {
    if file.size > LARGEST {
        return Ok(false);
    }
    let mut reader = BufReader::new(File::open(root.join(&file.path))?);
    if !reading::is_text(reader.fill_buf()?) {
        return Ok(false);
    }
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if !wanted.is_match(text) {
            continue;
        }
        if found.matches.len() == most {
            found.more = true;
            break;
        }
        found.matches.push(Match { path: file.path.clone(), line: number, text: cut(text) });
    }
    Ok(true)
}

fn cut(line: &str) -> String {
    let mut characters = line.trim().chars();
    let mut cut: String = characters.by_ref().take(LONGEST_LINE).collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    cut
}

fn shown(place: &Place, found: &Found) -> String {
    let Found { matches, searched, skipped, more } = found;
    let mut text: String =
        matches.iter().map(|Match { path, line, text }| format!("{path}:{line}: {text}\n")).collect();
    if matches.is_empty() {
        text.push_str(&format!("Nothing found in {searched} files of {}.\n", place.name()));
    }
    if *more {
        text.push_str("There is more; ask with a higher maxResults, a glob, or a folder further down.\n");
    }
    if *skipped > 0 {
        text.push_str(&format!("Not searched, because too large or no text: {skipped} files.\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::folder;

    fn found(root: &Path, arguments: Value) -> Result<Value, Fault> {
        let search: Search = serde_json::from_value(arguments).expect("arguments");
        let result = super::search(root, &search, &mut |_, _| false)?;
        Ok(json!(result.value()))
    }

    #[test]
    fn text_and_expressions_are_found_by_line() {
        let root =
            folder(&[("a.txt", b"Shop\r\n  milk (1+1)\n"), ("sub/b.rs", b"MILK\n"), (".hidden", b"milk")]);
        let all = found(root.path(), json!({ "query": "milk" })).expect("searched");
        let hit = |path: &str, line: u64, text: &str| json!({ "path": path, "line": line, "text": text });
        assert_eq!(all["matches"], json!([hit("a.txt", 2, "milk (1+1)"), hit("sub/b.rs", 1, "MILK")]));
        assert_eq!((&all["searched"], &all["more"]), (&json!(2), &json!(false)));
        let one = |arguments| found(root.path(), arguments).expect("searched")["matches"].clone();
        assert_eq!(one(json!({ "query": "(1+1)" })), json!([hit("a.txt", 2, "milk (1+1)")]));
        assert_eq!(one(json!({ "regex": "^shop$" })), json!([hit("a.txt", 1, "Shop")]));
        assert_eq!(one(json!({ "query": "milk", "caseSensitive": true, "glob": "*.rs" })), json!([]));
        assert_eq!(one(json!({ "query": "milk", "path": "sub" })), json!([hit("sub/b.rs", 1, "MILK")]));
        assert_eq!(one(json!({ "query": "milk", "hidden": true })).as_array().map(Vec::len), Some(3));
        for wrong in [json!({}), json!({ "query": "a", "regex": "b" })] {
            assert!(found(root.path(), wrong).expect_err("wrong").0.contains("either"));
        }
        assert!(found(root.path(), json!({ "regex": "(" })).expect_err("wrong").0.contains("cannot be used"));
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let large = vec![b'x'; LARGEST as usize + 1];
        let long = "x".repeat(1_000);
        let root = folder(&[("a", long.as_bytes()), ("b", b"x\nx\n"), ("c", &large), ("d", b"x\0")]);
        let all = found(root.path(), json!({ "query": "x" })).expect("searched");
        assert_eq!((&all["searched"], &all["skipped"]), (&json!(2), &json!(2)));
        let text = all["matches"][0]["text"].as_str().expect("a text");
        assert_eq!(text.chars().count(), LONGEST_LINE + 1);
        let few = found(root.path(), json!({ "query": "x", "maxResults": 2 })).expect("searched");
        assert_eq!((few["matches"].as_array().map(Vec::len), &few["more"]), (Some(2), &json!(true)));
    }

    #[test]
    fn progress_counts_the_files_and_a_stop_is_obeyed() {
        let names: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
        let root = folder(&names.iter().map(|name| (name.as_str(), &b"x"[..])).collect::<Vec<_>>());
        let search: Search = serde_json::from_value(json!({ "query": "y" })).expect("arguments");
        let mut seen = Vec::new();
        let mut step = |done, of| {
            seen.push((done, of));
            false
        };
        super::search(root.path(), &search, &mut step).expect("searched");
        assert_eq!(seen, [(0, 40), (16, 40), (32, 40), (40, 40)]);
        assert!(super::search(root.path(), &search, &mut |_, _| true).is_err());
    }
}

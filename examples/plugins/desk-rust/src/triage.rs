//! Reads and moves files, asks the user with a form, and reports progress.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::{Answer, Context, Error, NoArguments, ToolResult, ask_each, effects, progress};

/// The path of the folder in the manifest.
const INBOX: &str = "/inbox";

/// One field of the form.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Keep,
    Later,
    Trash,
}

impl Choice {
    fn folder(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Later => "later",
            Self::Trash => "trash",
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Triage {
    moved: Vec<Moved>,
}

#[derive(Serialize, JsonSchema)]
struct Moved {
    file: String,
    /// The folder in the inbox.
    to: String,
}

pub fn triage(_: NoArguments) -> Result<ToolResult<Triage>, Error> {
    let names = names(Path::new(INBOX)).context("reading the inbox")?;
    if names.is_empty() {
        return Ok(ToolResult::new().text("the inbox is empty").structured(Triage { moved: Vec::new() }));
    }
    let answer = ask_each::<Choice>("triage", "What shall become of these files?", &names)?;
    let Answer::Accepted(choices) = answer else {
        return Err(Error::new("nothing was sorted: you gave no answer"));
    };
    effects()?; // from here on, the host never runs this call again
    let mut moved = Vec::new();
    for (name, choice) in &choices {
        let (file, to) = (format!("{name}.txt"), choice.folder());
        let target = format!("{INBOX}/{to}/{file}");
        if fs::exists(&target)? {
            return Err(Error::new(format!("{target} exists already; {file} stays in the inbox")));
        }
        fs::create_dir_all(format!("{INBOX}/{to}"))?;
        fs::rename(format!("{INBOX}/{file}"), target).context(format!("moving {file}"))?;
        moved.push(Moved { file, to: to.to_owned() });
        progress(moved.len() as f64, choices.len() as f64, &format!("{name}: {to}"));
    }
    let text = format!("{} files sorted", moved.len());
    Ok(ToolResult::new().text(text).structured(Triage { moved }))
}

/// The names of the text files in a folder, sorted, without `.txt`.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".txt").filter(|_| entry.path().is_file()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

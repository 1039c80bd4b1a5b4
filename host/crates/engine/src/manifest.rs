//! The manifest `name.toml` beside `name.wasm`: what the operator grants and
//! sets. Absent means nothing granted and every default.
//!
//! Nothing in it is ever silently ignored: unknown keys are errors, and so are
//! sections that this version does not carry out yet.

mod read;

use crate::error::ManifestError;
use crate::grant::{self, FolderMode, NamedFolder};
use crate::settings::Limits;
use read::{Entry, Section};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::Rate;
use toolyard_task::wire::{RawJson, TaskSupport};

/// The largest manifest, in bytes.
pub(crate) const MAX_BYTES: u64 = 256 << 10;
/// Addresses are 32 bits wide.
const MOST_MEMORY: u64 = 4 << 30;
/// What a table of the pool holds.
const MOST_ELEMENTS: u64 = 100_000;

/// A manifest, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub enabled: bool,
    pub prefix: Option<String>,
    pub limits: Limits,
    pub concurrency: Option<u32>,
    pub env: Arc<[(String, String)]>,
    pub folders: Vec<NamedFolder>,
    pub poll_interval: Option<Duration>,
    pub immediate_response: Option<String>,
    pub tools: BTreeMap<String, ToolOverride>,
}

/// What it says of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolOverride {
    pub enabled: Option<bool>,
    pub task_support: Option<TaskSupport>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub annotations: Option<RawJson>,
    pub rate: Option<Rate>,
}

impl Manifest {
    /// The manifest of a plugin that has none.
    pub fn absent(defaults: &Limits) -> Self {
        Self {
            enabled: true,
            prefix: None,
            limits: defaults.clone(),
            concurrency: None,
            env: Arc::new([]),
            folders: Vec::new(),
            poll_interval: None,
            immediate_response: None,
            tools: BTreeMap::new(),
        }
    }

    /// Reads `text`, the contents of `file`.
    pub fn parse(file: &str, text: &str, defaults: &Limits) -> Result<Self, ManifestError> {
        let mut manifest = Self::absent(defaults);
        read::sections(file, text, |root| manifest.read(&root))?;
        Ok(manifest)
    }

    fn read(&mut self, root: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] =
            &["enabled", "prefix", "limits", "fs", "http", "env", "secrets", "task", "tools"];
        for entry in root.entries() {
            match entry.key() {
                "enabled" => self.enabled = entry.boolean()?,
                "prefix" => self.prefix = Some(prefix(&entry)?),
                "limits" => self.read_limits(&entry.section()?)?,
                "env" => self.env = environment(&entry.section()?)?,
                "task" => self.read_task(&entry.section()?)?,
                "tools" => {
                    for tool in entry.section()?.entries() {
                        self.tools.insert(tool.key().to_owned(), tool_override(&tool.section()?)?);
                    }
                }
                "fs" => self.folders = folders(&entry.section()?)?,
                "http" | "secrets" => return Err(entry.not_yet()),
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        Ok(())
    }

    fn read_limits(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] = &["memory", "cpu", "wall", "concurrency", "output", "table", "hostcall"];
        let limits = &mut self.limits;
        for entry in section.entries() {
            match entry.key() {
                "memory" => limits.memory = entry.size(64 << 10, MOST_MEMORY)?,
                "cpu" => limits.cpu = entry.duration()?,
                "wall" => limits.wall = entry.duration()?,
                "concurrency" => self.concurrency = Some(entry.number(1, u64::from(u32::MAX))? as u32),
                "output" => limits.output = entry.size(1 << 10, 1 << 30)?,
                "table" => limits.table = entry.number(1, MOST_ELEMENTS)?,
                "hostcall" => limits.hostcall = entry.size(1 << 10, 1 << 30)?,
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        Ok(())
    }

    fn read_task(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] = &["durability", "poll-interval", "immediate-response"];
        for entry in section.entries() {
            match entry.key() {
                "durability" => match entry.text()? {
                    // A run that was cut off is failed, and said to have been, in
                    // either case; running it again is the dispatcher's business.
                    "none" | "rerun" => {}
                    "resume" => {
                        return Err(entry.error(
                            "\"resume\" is not supported by this version yet; use \"none\" or \"rerun\""
                                .to_owned(),
                        ));
                    }
                    _ => return Err(entry.expected("\"none\" or \"rerun\"")),
                },
                "poll-interval" => self.poll_interval = Some(entry.duration()?),
                "immediate-response" => self.immediate_response = Some(entry.text_of(4 << 10)?),
                "inline-for" => return Err(entry.not_yet()),
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        Ok(())
    }
}

fn tool_override(section: &Section<'_>) -> Result<ToolOverride, ManifestError> {
    const KEYS: &[&str] = &["enabled", "task-support", "description", "annotations", "title", "rate"];
    let mut tool = ToolOverride::default();
    for entry in section.entries() {
        match entry.key() {
            "enabled" => tool.enabled = Some(entry.boolean()?),
            "task-support" => {
                tool.task_support = Some(match entry.text()? {
                    "forbidden" => TaskSupport::Forbidden,
                    "optional" => TaskSupport::Optional,
                    "required" => TaskSupport::Required,
                    _ => return Err(entry.expected("\"forbidden\", \"optional\" or \"required\"")),
                });
            }
            "title" => tool.title = Some(entry.text_of(1 << 10)?),
            "description" => tool.description = Some(entry.text_of(64 << 10)?),
            "annotations" => tool.annotations = Some(RawJson::of(&entry.section()?.json())),
            "rate" => {
                let rate = entry.text()?.parse();
                tool.rate = Some(rate.map_err(|_| entry.expected("a rate such as \"10/s\" or \"600/min\""))?);
            }
            "limits" => return Err(entry.not_yet()),
            _ => return Err(entry.unknown(KEYS)),
        }
    }
    Ok(tool)
}

fn prefix(entry: &Entry<'_>) -> Result<String, ManifestError> {
    let prefix = entry.text()?;
    let fits = (1..=64).contains(&prefix.len()) && crate::describe::is_name(prefix);
    if fits {
        Ok(prefix.to_owned())
    } else {
        Err(entry.expected("1 to 64 characters of `A-Z a-z 0-9 _ . -`"))
    }
}

fn folders(section: &Section<'_>) -> Result<Vec<NamedFolder>, ManifestError> {
    const KEYS: &[&str] = &["path", "mode"];
    const MOST: usize = 64;
    let folder = |entry: Entry<'_>| {
        let guest = entry.key();
        if !grant::is_guest_path(guest) {
            return Err(entry.error(
                "is not an absolute path without `.`, `..` and empty parts, such as \"/data\"".to_owned(),
            ));
        }
        let (mut path, mut mode) = (None, None);
        for member in entry.section()?.entries() {
            match member.key() {
                "path" => match member.text_of(4 << 10)? {
                    text if text.is_empty() || text.contains('\0') => {
                        return Err(member.expected("the path of a folder, such as \"./data\""));
                    }
                    text => path = Some((text, member.line())),
                },
                "mode" => {
                    mode = Some(match member.text()? {
                        "read" => FolderMode::Read,
                        "write" => FolderMode::Write,
                        _ => return Err(member.expected("\"read\" or \"write\"")),
                    });
                }
                _ => return Err(member.unknown(KEYS)),
            }
        }
        let (path, line) = path.ok_or_else(|| entry.error("has no `path`".to_owned()))?;
        let mode =
            mode.ok_or_else(|| entry.error("has no `mode`, which is \"read\" or \"write\"".to_owned()))?;
        Ok(NamedFolder { guest: guest.to_owned(), path, mode, line })
    };
    let folders = section.entries().map(folder).collect::<Result<Vec<_>, _>>()?;
    match section.entries().nth(MOST) {
        Some(entry) => Err(entry.error(format!("is one folder too many; {MOST} are the most"))),
        None => Ok(folders),
    }
}

fn environment(section: &Section<'_>) -> Result<Arc<[(String, String)]>, ManifestError> {
    let variable = |entry: Entry<'_>| {
        let name = entry.key().to_owned();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(entry.error("is not a name for an environment variable".to_owned()));
        }
        let value = entry.text_of(32 << 10)?;
        if value.contains('\0') { Err(entry.expected("text without NUL")) } else { Ok((name, value)) }
    };
    section.entries().map(variable).collect()
}

#[cfg(test)]
mod tests;

//! The errors of the engine: why it does not start, and why it does not load a file of the plugin
//! folder. The messages are written for the operator of the folder. They name the file, the problem
//! and, where it is known, the remedy.

use std::time::Duration;
use toolyard_manifest::ManifestError;
use toolyard_task::wire::visible;
use toolyard_task::wire::visible::clip;

/// The maximum number of characters of a refusal that are shown.
const MAX_SHOWN_CHARS: usize = 4_000;
/// The maximum number of characters of a name in a refusal.
const MAX_NAME_CHARS: usize = 200;

/// Why the engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// wasmtime refuses the configuration or the machine.
    #[error("cannot start wasmtime: {0}")]
    Wasmtime(String),
    /// No folder for machine code is available that only this user can write to.
    #[error("cannot use the folder for machine code {path}: {why}")]
    Cache {
        /// The folder.
        path: String,
        /// Why it cannot be used.
        why: String,
    },
    /// The thread that advances the epoch cannot be started.
    #[error("cannot start the epoch thread")]
    Thread(#[source] std::io::Error),
}

/// Why the engine does not load a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}", shown(.why))]
pub struct LoadError {
    /// The file's name.
    pub file: String,
    /// Why it is not loaded.
    pub why: Refusal,
}

/// The reason why a plugin is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file is a symbolic link.
    #[error("is a symbolic link; put the file itself into the folder")]
    Symlink,
    /// The file is a directory, a pipe or the like.
    #[error("is not a regular file")]
    NotAFile,
    /// The file has no bytes.
    #[error("is empty; it may still be on its way")]
    Empty,
    /// Every user of this machine can change it.
    #[error(
        "can be changed by everybody on this machine, who could grant themselves anything; remove that \
         permission (`chmod o-w`), or set `plugins.others-may-write` if that is intended"
    )]
    Writable,
    /// Another user owns it.
    #[error(
        "belongs to the user {0}, who could grant themselves anything; give it to root, to the user of this host or to \
         the owner of the folder (`chown`), or set `plugins.others-may-write` if that is intended"
    )]
    ForeignOwner(u32),
    /// The folder has more components than the host loads.
    #[error(
        "is one of {excess} components beyond the {limit} that this host loads from a folder; remove some"
    )]
    TooManyFiles {
        /// The limit.
        limit: usize,
        /// The number of components beyond the limit.
        excess: usize,
    },
    /// The operator requires digests, and this one is not listed.
    #[error("has the digest {0}, which is not among those that `plugins.require-digest` lists")]
    Unlisted(String),
    /// The lock file does not allow it.
    #[error("{0}")]
    Locked(String),
    /// The file is larger than the limit.
    #[error("is larger than the {limit} bytes that a component may have")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The file does not begin with the WebAssembly magic bytes.
    #[error("is not WebAssembly: {0}")]
    NotWasm(&'static str),
    /// The file ends too early.
    #[error("ends in the middle, at byte {at}; it may still be on its way, or its copy was cut off")]
    Truncated {
        /// The length of the file, in bytes.
        at: u64,
    },
    /// The file is a core module without the type of a component.
    #[error(
        "is a core module that does not say which world it is made for; name the world with \
         `toolyard componentize {file} --wit DIR --world WORLD -o {stem}.component.wasm`"
    )]
    CoreModule {
        /// The file's name.
        file: String,
        /// The file's name without `.wasm`.
        stem: String,
    },
    /// The file is a core module that cannot be turned into a component.
    #[error("is a core module of which no component can be made: {0}")]
    Componentize(String),
    /// The file is not a valid component.
    #[error("is not a valid component: {0}")]
    Invalid(String),
    /// The component exports nothing that can be a tool.
    #[error(
        "exports neither functions nor `toolyard:plugin/tools@0.1.0`, `resources`, `prompts` or `completion` \
         of that package; it exports {}",
        listed(exports)
    )]
    NoExports {
        /// The names of its exports.
        exports: Vec<String>,
    },
    /// The file is a WIT package in binary form.
    #[error("is a WIT package: it describes {}, and has no program in it", listed(exports))]
    WitPackage {
        /// The names of what it describes.
        exports: Vec<String>,
    },
    /// The component exports functions, but none of them can be a tool.
    #[error("exports no function that can be a tool: {}", reasons(.0))]
    NoFunctions(Vec<Skipped>),
    /// The component is built for another version of the contract.
    #[error("is built for `{found}`; this host has `toolyard:plugin@0.1.0`")]
    OtherVersion {
        /// The export that names the other version.
        found: String,
    },
    /// The exports of the component do not have the types of the contract.
    #[error("does not fit the contract: {0}")]
    Contract(String),
    /// The component imports interfaces that this host does not provide.
    #[error("imports what this host does not offer: {}{}", listed(names), of_wasi(names))]
    Imports {
        /// The names of these imports.
        names: Vec<String>,
    },
    /// The component needs more memories, tables or instances than one run may have.
    #[error("needs more than a run can have: {0}")]
    Resources(String),
    /// The component could not be compiled.
    #[error("could not be compiled: {0}")]
    Compile(String),
    /// The component could not be compiled for a reason outside the file; a retry may succeed.
    #[error("could not be compiled: {0}")]
    NoCompiler(String),
    /// The component took too long to compile.
    #[error("took longer than {0:?} to compile (`plugins.compile-time`)")]
    CompileTime(Duration),
    /// `list-tools` or `list-prompts` failed.
    #[error("`{function}` failed: {why}")]
    List {
        /// The name of the function.
        function: &'static str,
        /// How it failed.
        why: String,
    },
    /// `list-tools` or `list-prompts` took too long.
    #[error("`{function}` took longer than {limit:?}")]
    ListTime {
        /// The name of the function.
        function: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The plugin has no tools and offers nothing else.
    #[error("`list-tools` gave no tools")]
    Toolless,
    /// The plugin has more tools than the limit allows.
    #[error("has {0} tools; 256 are the most")]
    TooManyTools(usize),
    /// A tool's name does not follow TL-3.
    #[error("the tool name {0:?} is not made of 1 to 128 characters of `A-Z a-z 0-9 _ . -`")]
    ToolName(String),
    /// Two of its tools have the same name.
    #[error("two tools are called `{0}`")]
    DuplicateTool(String),
    /// A tool's declaration is malformed.
    #[error("the tool `{tool}`: {what}")]
    Tool {
        /// The tool.
        tool: String,
        /// The error in the declaration.
        what: String,
    },
    /// The plugin has more prompts than the limit allows.
    #[error("`list-prompts` gave {0} prompts; 256 are the most")]
    TooManyPrompts(usize),
    /// A prompt's name is not valid.
    #[error("the prompt name {0:?} is not made of 1 to 128 characters of `A-Z a-z 0-9 _ . -`")]
    PromptName(String),
    /// Two of its prompts have the same name.
    #[error("two prompts are called `{0}`")]
    DuplicatePrompt(String),
    /// A prompt's declaration is malformed.
    #[error("the prompt `{prompt}`: {what}")]
    Prompt {
        /// The prompt.
        prompt: String,
        /// The error in the declaration.
        what: String,
    },
    /// The manifest of the plugin is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Another plugin offers a tool or a prompt of the same name.
    #[error(
        "the {kind} `{name}` is offered by both {first} and {second}, and {first} had it before; give one of \
         them a `prefix`, or remove {first}"
    )]
    Collision {
        /// `tool` or `prompt`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file that already has the name.
        first: String,
        /// The file that also claims it.
        second: String,
    },
    /// The load was cancelled before it finished.
    #[error("was not loaded, because its load was cancelled")]
    Interrupted,
    /// A tool that resumes needs its component to be kept, which failed.
    #[error("its tools resume, and the store does not keep the component: {0}")]
    NotKept(String),
    /// The engine failed; this is a bug in the host.
    #[error("the engine failed while loading it: {0}")]
    Internal(String),
}

/// A function of a component that cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The function, such as `a:b/math@1.0.0#add`.
    pub function: String,
    /// Why it cannot be a tool.
    pub why: String,
}

impl Refusal {
    /// Whether a retry with the same file may succeed.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::NoCompiler(_) | Self::Interrupted | Self::NotKept(_))
    }

    /// Whether this refusal applies to every file with the same bytes and is small enough to
    /// remember. Finding it again may take a compilation.
    pub(crate) const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Compile(_)
                | Self::CompileTime(_)
                | Self::Componentize(_)
                | Self::Contract(_)
                | Self::Resources(_)
                | Self::List { .. }
                | Self::ListTime { .. }
                | Self::Toolless
                | Self::TooManyTools(_)
                | Self::DuplicateTool(_)
                | Self::Tool { .. }
                | Self::TooManyPrompts(_)
                | Self::DuplicatePrompt(_)
                | Self::Prompt { .. }
        )
    }
}

/// The text of a refusal, safe to print: it may quote a component, and the quoted text could
/// contain terminal control sequences. A manifest is written by the operator, and its errors have
/// several lines.
fn shown(why: &Refusal) -> String {
    // Names in a component can be as long as the component itself, and the log repeats this text at
    // each change.
    let text = clip(&why.to_string(), MAX_SHOWN_CHARS);
    match why {
        Refusal::Manifest(_) => visible::text(&text).into_owned(),
        _ => visible::line(&text).into_owned(),
    }
}

/// "`a`, `b` and `c`"; a long list is cut.
fn reasons(skipped: &[Skipped]) -> String {
    const MAX_SHOWN: usize = 5;
    let mut shown: Vec<String> = skipped
        .iter()
        .take(MAX_SHOWN)
        .map(|skipped| format!("`{}`: {}", clip(&skipped.function, MAX_NAME_CHARS), skipped.why))
        .collect();
    if skipped.len() > MAX_SHOWN {
        shown.push(format!("and {} more", skipped.len() - MAX_SHOWN));
    }
    if shown.is_empty() { "it exports none".to_owned() } else { shown.join("; ") }
}

/// A later WASI than the one of this host, if the imports are of it.
fn of_wasi(names: &[String]) -> &'static str {
    let is_later = |name: &String| name.starts_with("wasi:") && name.contains("@0.3.");
    if names.iter().any(is_later) { "; the component needs WASI 0.3, and this host has WASI 0.2" } else { "" }
}

fn listed(names: &[String]) -> String {
    const MAX_SHOWN: usize = 12;
    let mut shown: Vec<String> =
        names.iter().take(MAX_SHOWN).map(|name| format!("`{}`", clip(name, MAX_NAME_CHARS))).collect();
    if names.len() > MAX_SHOWN {
        shown.push(format!("{} more", names.len() - MAX_SHOWN));
    }
    match shown.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

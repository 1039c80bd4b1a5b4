//! Why the engine does not start, and why a file of the plugin folder is not
//! loaded. The sentences are for whoever looks after the folder: they name the
//! file, what is wrong with it and, where it is known, what to do.

use std::time::Duration;
use toolyard_manifest::ManifestError;
use toolyard_task::wire::error::clip;
use toolyard_task::wire::visible;

/// The most characters of a refusal that are shown.
const MAX_SHOWN_CHARS: usize = 4_000;
/// The most characters of a name in one.
const MAX_NAME_CHARS: usize = 200;

/// Why the engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// wasmtime refuses the configuration or the machine.
    #[error("wasmtime does not start: {0}")]
    Wasmtime(String),
    /// There is no folder for machine code that only we can write to.
    #[error("the folder for machine code {path} cannot be used: {why}")]
    Cache {
        /// The folder.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The thread that counts the epochs cannot be started.
    #[error("the epoch thread does not start")]
    Thread(#[source] std::io::Error),
}

/// Why a file is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}", shown(.why))]
pub struct LoadError {
    /// The file's name.
    pub file: String,
    /// What is wrong with it.
    pub why: Refusal,
}

/// What is wrong with a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is a symbolic link.
    #[error("is a symbolic link; put the file itself into the folder")]
    Symlink,
    /// It is a directory, a pipe or the like.
    #[error("is not a regular file")]
    NotAFile,
    /// It has no bytes.
    #[error("is empty; it may still be on its way")]
    Empty,
    /// Everybody on this machine can change it.
    #[error(
        "can be changed by everybody on this machine, who could grant themselves anything; take that away \
         (`chmod o-w`), or set `plugins.others-may-write` if it is meant"
    )]
    Writable,
    /// Another user owns it.
    #[error(
        "belongs to the user {0}, who could grant themselves anything; give it to root, to the user of this host or to \
         the owner of the folder (`chown`), or set `plugins.others-may-write` if it is meant"
    )]
    ForeignOwner(u32),
    /// The folder has more components than may be loaded.
    #[error(
        "is one of {excess} components beyond the {limit} that this host loads from a folder; take some away, or raise \
         `plugins.max-files`"
    )]
    TooManyFiles {
        /// The limit.
        limit: usize,
        /// How many there are beyond it.
        excess: usize,
    },
    /// The operator requires digests, and this is none of them.
    #[error("has the digest {0}, which is not among those that `plugins.require-digest` lists")]
    Unlisted(String),
    /// It is larger than the limit.
    #[error("is larger than the {limit} bytes that a component may have")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It does not begin as WebAssembly does.
    #[error("is not WebAssembly: {0}")]
    NotWasm(&'static str),
    /// It ends too early.
    #[error("ends in the middle, at byte {at}; it may still be on its way, or its copy was cut off")]
    Truncated {
        /// The length of what is there.
        at: u64,
    },
    /// It is a core module without the type of a component.
    #[error(
        "is a core module that does not say which world it is made for; name the world with \
         `toolyard componentize {file} --wit DIR --world WORLD -o {stem}.component.wasm`"
    )]
    CoreModule {
        /// The file's name.
        file: String,
        /// The name without `.wasm`.
        stem: String,
    },
    /// It is a core module of which no component can be made.
    #[error("is a core module of which no component can be made: {0}")]
    Componentize(String),
    /// It is no valid component.
    #[error("is not a valid component: {0}")]
    Invalid(String),
    /// It exports nothing that could be a tool.
    #[error(
        "exports neither functions nor `toolyard:plugin/tools@0.1.0`, `resources`, `prompts` or `completion` \
         of that package; it exports {}",
        listed(exports)
    )]
    NoExports {
        /// What it exports.
        exports: Vec<String>,
    },
    /// It exports functions, none of which can be a tool.
    #[error("exports no function that can be a tool: {}", reasons(.0))]
    NoFunctions(Vec<Skipped>),
    /// It is built for another version of the contract.
    #[error("is built for `{found}`; this host has `toolyard:plugin@0.1.0`")]
    OtherVersion {
        /// What it exports.
        found: String,
    },
    /// What it exports does not have the types of the contract.
    #[error("does not fit the contract: {0}")]
    Contract(String),
    /// It imports what this host does not have.
    #[error("imports what this host does not offer: {}", listed(names))]
    Imports {
        /// The imports.
        names: Vec<String>,
    },
    /// It needs more memories, tables or instances than a run can have.
    #[error("needs more than a run can have: {0}")]
    Resources(String),
    /// It could not be compiled.
    #[error("could not be compiled: {0}")]
    Compile(String),
    /// It could not be compiled for a reason outside of it, which may pass.
    #[error("could not be compiled: {0}")]
    NoCompiler(String),
    /// It took too long to compile.
    #[error("took longer than {0:?} to compile (`plugins.compile-time`)")]
    CompileTime(Duration),
    /// `list-tools` or `list-prompts` failed.
    #[error("`{function}` failed: {why}")]
    List {
        /// Which.
        function: &'static str,
        /// How.
        why: String,
    },
    /// `list-tools` or `list-prompts` took too long.
    #[error("`{function}` took longer than {limit:?}")]
    ListTime {
        /// Which.
        function: &'static str,
        /// What it may take.
        limit: Duration,
    },
    /// It has no tools, and nothing else.
    #[error("`list-tools` gave no tools")]
    Toolless,
    /// It has too many.
    #[error("has {0} tools; 256 are the most")]
    TooManyTools(usize),
    /// A tool's name does not fit TL-3.
    #[error("the tool name {0:?} is not made of 1 to 128 characters of `A-Z a-z 0-9 _ . -`")]
    ToolName(String),
    /// Two of its tools have one name.
    #[error("two tools are called `{0}`")]
    DuplicateTool(String),
    /// What it says of a tool is malformed.
    #[error("the tool `{tool}`: {what}")]
    Tool {
        /// The tool.
        tool: String,
        /// What is wrong.
        what: String,
    },
    /// It has too many prompts.
    #[error("`list-prompts` gave {0} prompts; 256 are the most")]
    TooManyPrompts(usize),
    /// A prompt's name is not one.
    #[error("the prompt name {0:?} is not made of 1 to 128 characters of `A-Z a-z 0-9 _ . -`")]
    PromptName(String),
    /// Two of its prompts have one name.
    #[error("two prompts are called `{0}`")]
    DuplicatePrompt(String),
    /// What it says of a prompt is malformed.
    #[error("the prompt `{prompt}`: {what}")]
    Prompt {
        /// The prompt.
        prompt: String,
        /// What is wrong.
        what: String,
    },
    /// Its manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Another plugin has a tool, or a prompt, of the same name.
    #[error(
        "the {kind} `{name}` is offered by both {first} and {second}, and {first} had it before; give one of \
         them a `prefix`, or remove {first}"
    )]
    Collision {
        /// `tool` or `prompt`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file that has it.
        first: String,
        /// The file that wants it too.
        second: String,
    },
    /// The load was called off before its end.
    #[error("was not loaded to the end, because the load was called off")]
    Interrupted,
    /// The engine failed; this is a fault of ours.
    #[error("the engine failed while loading it: {0}")]
    Internal(String),
}

/// A function of a component that cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The function, such as `a:b/math@1.0.0#add`.
    pub function: String,
    /// Why.
    pub why: String,
}

impl Refusal {
    /// Whether another try may succeed with the same file.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::NoCompiler(_) | Self::Interrupted)
    }

    /// Whether every file with the same bytes is refused for this, and it is small enough to be
    /// remembered: finding it out again may take a compilation.
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

/// A refusal quotes a component, and the quoted text could steer the terminal that shows it. A
/// manifest is the operator's own, and its errors have several lines.
fn shown(why: &Refusal) -> String {
    // The names in a component can be as long as it is, and the log says this at each change.
    let text = clip(&why.to_string(), MAX_SHOWN_CHARS);
    match why {
        Refusal::Manifest(_) => visible::text(&text).into_owned(),
        _ => visible::line(&text).into_owned(),
    }
}

/// "`a`, `b` and `c`"; long lists are cut.
fn reasons(skipped: &[Skipped]) -> String {
    const MOST: usize = 5;
    let mut shown: Vec<String> = skipped
        .iter()
        .take(MOST)
        .map(|skipped| format!("`{}`: {}", clip(&skipped.function, MAX_NAME_CHARS), skipped.why))
        .collect();
    if skipped.len() > MOST {
        shown.push(format!("and {} more", skipped.len() - MOST));
    }
    if shown.is_empty() { "it exports none".to_owned() } else { shown.join("; ") }
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let mut shown: Vec<String> =
        names.iter().take(MOST).map(|name| format!("`{}`", clip(name, MAX_NAME_CHARS))).collect();
    if names.len() > MOST {
        shown.push(format!("{} more", names.len() - MOST));
    }
    match shown.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

//! What the host decides about the engine. A library reads neither environment
//! nor configuration: the host fills these structs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use toolyard_manifest::Limits;
use toolyard_schema::Bounds;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// How components become machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// In this process. Cranelift cannot be interrupted there, so neither time
    /// nor memory of a compilation is bounded: for tests and trusted folders.
    InProcess,
    /// In a child process that can be limited and killed: this program is run
    /// with these arguments, followed by those of
    /// [`compile_child`](crate::compile_child).
    Child {
        /// The program, normally this very binary.
        program: PathBuf,
        /// What leads it to [`compile_child`](crate::compile_child), such as
        /// the name of a hidden subcommand.
        args: Vec<String>,
    },
}

/// A file or folder that no guest may be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// The path. It need not exist yet.
    pub path: PathBuf,
    /// Its description in the error that refuses a folder.
    pub what: &'static str,
    /// Which folders are refused on its account.
    pub scope: Scope,
}

/// Which folders are refused because of something that is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that are it or hold it.
    Around,
    /// And those that lie in it.
    Whole,
    /// Those that are it or hold it, if the guest may write in them.
    Changes,
}

/// What the host decides about the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where machine code is kept between starts. The engine creates it with
    /// mode 0700 and uses none that others can write to. `None` keeps it for
    /// this process only.
    pub cache: Option<PathBuf>,
    /// How components become machine code.
    pub compiler: Compiler,
    /// Reads a variable of the host's environment, for the secrets that manifests
    /// name. There are none by default.
    pub variable: fn(&str) -> Option<OsString>,
    /// What a run may use unless its manifest says otherwise.
    pub limits: Limits,
    /// How many runs may be under way at once, if the machine allows it; see
    /// [`Engine::capacity`](crate::Engine::capacity).
    pub max_runs: u32,
    /// Memory for all runs together, in bytes; three quarters of what the machine,
    /// or the container, has, if absent.
    pub guest_memory: Option<u64>,
    /// How many guests compute at once: threads of the runtime that they run on.
    pub turns: u32,
    /// How long the compilation of one component may take.
    pub compile_time: Duration,
    /// How much memory it may use, in bytes ([`Compiler::Child`] only).
    pub compile_memory: u64,
    /// The largest component file, in bytes.
    pub max_component_bytes: u64,
    /// How many components of a folder are loaded.
    pub max_files: usize,
    /// The largest JSON Schema of a tool, in bytes.
    pub max_schema_bytes: usize,
    /// How deep such a schema may nest.
    pub max_schema_depth: usize,
    /// How long `list-tools` may take, by the processor and by the clock.
    pub list_time: Duration,
    /// The file that records which plugin has which name of a tool or prompt; `None` keeps the
    /// names in memory alone.
    pub names: Option<PathBuf>,
    /// Whether this process may change that file, as a host does, or only reads it.
    pub deals_names: bool,
    /// The paths that no guest may be granted, besides the plugins and their manifests.
    pub private: Vec<Protected>,
    /// The digests of the components that may be loaded; any may, if absent.
    pub require_digest: Option<BTreeSet<String>>,
    /// Whether a folder is used that everybody on this machine can write to, and a component or a
    /// manifest that everybody or another owner can change.
    pub others_may_write: bool,
    /// How often the folder is looked at even if nothing was heard of it.
    pub rescan: Duration,
    /// How long a file must keep its size and time before it is loaded.
    pub settle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: None,
            compiler: Compiler::InProcess,
            variable: |_| None,
            limits: Limits::default(),
            max_runs: 1_000,
            guest_memory: None,
            turns: std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32),
            compile_time: Duration::from_secs(60),
            compile_memory: 2 * GIB,
            max_component_bytes: 64 * MIB,
            max_files: 2_000,
            max_schema_bytes: 256 * KIB as usize,
            max_schema_depth: 32,
            list_time: Duration::from_secs(5),
            names: None,
            deals_names: false,
            private: Vec::new(),
            require_digest: None,
            others_may_write: false,
            rescan: Duration::from_secs(2),
            settle: Duration::from_millis(100),
        }
    }
}

impl Settings {
    pub(crate) fn schema_bounds(&self) -> Bounds {
        Bounds { bytes: self.max_schema_bytes, depth: self.max_schema_depth }
    }
}

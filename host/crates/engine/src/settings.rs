//! The settings of the engine. A library reads neither the environment nor the configuration: the
//! host fills these structs.

use crate::lock::LockReader;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toolyard_manifest::Limits;
use toolyard_schema::Bounds;
use toolyard_task::Digest;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The most components that are loaded from a folder; the host lowers it to a quarter of its descriptors. Each
/// loaded component keeps a descriptor and its compiled code, and no client uses thousands of tools.
pub const MAX_FILES: usize = 2_000;

/// How the engine compiles components to machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// In this process. Cranelift cannot be interrupted here, so neither the time nor the memory of
    /// a compilation is bounded. For tests and trusted folders.
    InProcess,
    /// In a child process that can be limited and killed. The host starts the program with these
    /// arguments, followed by those of [`compile_child`](crate::compile_child).
    Child {
        /// The program, normally this binary itself.
        program: PathBuf,
        /// The arguments that select [`compile_child`](crate::compile_child), such as the name of a
        /// hidden subcommand.
        args: Vec<String>,
    },
}

/// Whether to run machine code that is compiled quickly: without optimisation, and with the allocator of
/// registers that takes one pass. A large component compiles in less than half the time, and runs slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuickCode {
    /// Only optimised code is run.
    Never,
    /// Quick code is run if the cache has no other. A component without any is optimised.
    IfCached,
    /// Quick code is run until the component is optimised, for a client that waits for the first list of tools.
    Meanwhile,
    /// A component without optimised code is compiled quickly, for an author who waits after each change.
    Make,
}

/// A file or folder that must not be granted to a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// The path. It need not exist yet.
    pub path: PathBuf,
    /// The description of the path in the error that refuses a folder.
    pub what: &'static str,
    /// Which folders are refused because of it.
    pub scope: Scope,
}

/// Which folders are refused because of a protected path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The path itself and folders that contain it.
    Around,
    /// As `Around`, and also folders inside the path.
    Whole,
    /// The path itself and folders that contain it, but only if the guest may write to them.
    Changes,
}

/// The commands that print secrets, by name: the program and its arguments.
pub type SecretCommands = BTreeMap<String, Vec<String>>;

/// The settings of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder that keeps machine code between starts. The engine creates it with mode 0700 and
    /// refuses a folder that other users can write to. `None` keeps machine code for this process
    /// only.
    pub cache: Option<PathBuf>,
    /// How components are compiled to machine code.
    pub compiler: Compiler,
    /// Whether code that was compiled quickly will do.
    pub quick_code: QuickCode,
    /// Reads a variable of the host's environment, for the secrets that manifests name. By default
    /// it finds none.
    pub variable: fn(&str) -> Option<OsString>,
    /// The commands that print secrets, for manifests that name them.
    pub secret_commands: Arc<SecretCommands>,
    /// Whether a secret that is not there gets another value, to try a plugin without its secrets.
    pub stand_ins: bool,
    /// The limits of a run, unless its manifest sets others.
    pub limits: Limits,
    /// The maximum number of concurrent runs, if the machine allows it; see
    /// [`Engine::capacity`](crate::Engine::capacity).
    pub max_runs: u32,
    /// Memory for all runs together, in bytes. `None` means three quarters of the memory of the
    /// machine or the container.
    pub guest_memory: Option<u64>,
    /// How many guests compute at once: the number of runtime threads that they run on.
    pub turns: u32,
    /// The time limit for the compilation of one component.
    pub compile_time: Duration,
    /// The memory limit for a compilation, in bytes ([`Compiler::Child`] only).
    pub compile_memory: u64,
    /// The maximum size of a component file, in bytes.
    pub max_component_bytes: u64,
    /// The maximum number of components that are loaded from a folder.
    pub max_files: usize,
    /// The maximum size of a tool's JSON Schema, in bytes.
    pub max_schema_bytes: usize,
    /// The maximum nesting depth of a tool's JSON Schema.
    pub max_schema_depth: usize,
    /// The limit for `list-tools`, for both processor time and wall-clock time.
    pub list_time: Duration,
    /// The file that records which plugin owns which tool or prompt name. `None` keeps the names in
    /// memory only.
    pub names: Option<PathBuf>,
    /// Whether this process may change the `names` file, as a host does. If not, it only reads it.
    pub deals_names: bool,
    /// Paths that must not be granted to a guest, in addition to the plugins and their manifests.
    pub private: Vec<Protected>,
    /// The digests of the components that may be loaded. `None` allows any component.
    pub require_digest: Option<BTreeSet<String>>,
    /// The version of the host, for journals.
    pub host_version: &'static str,
    /// Reads the lock file of the folder. `None` ignores it.
    pub lock: Option<Arc<dyn LockReader>>,
    /// Whether to accept a folder that every user of this machine can write to, and a component or
    /// a manifest that every user or another owner can change.
    pub others_may_write: bool,
    /// How long after a load components with quick code begin to be optimised: the first calls come first.
    pub optimize_after: Duration,
    /// How often to rescan the folder when no change was reported.
    pub rescan: Duration,
    /// How long a file's size and modification time must stay unchanged before it is loaded.
    pub settle: Duration,
}

impl Settings {
    /// Whether a component with this digest may be loaded.
    pub(crate) fn allows(&self, digest: &Digest) -> bool {
        self.require_digest.as_ref().is_none_or(|listed| listed.contains(&digest.0))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: None,
            compiler: Compiler::InProcess,
            quick_code: QuickCode::Never,
            variable: |_| None,
            secret_commands: Arc::default(),
            stand_ins: false,
            limits: Limits::default(),
            max_runs: 1_000,
            guest_memory: None,
            turns: std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32),
            compile_time: Duration::from_secs(60),
            compile_memory: 2 * GIB,
            max_component_bytes: 64 * MIB,
            max_files: MAX_FILES,
            max_schema_bytes: 256 * KIB as usize,
            max_schema_depth: 32,
            list_time: Duration::from_secs(5),
            names: None,
            deals_names: false,
            private: Vec::new(),
            require_digest: None,
            host_version: env!("CARGO_PKG_VERSION"),
            lock: None,
            others_may_write: false,
            optimize_after: Duration::from_secs(10),
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

//! Compiles components to machine code and turns core modules into components, preferably in a
//! child process.
//!
//! Cranelift cannot be interrupted, and a component can be crafted to take minutes and gigabytes.
//! Therefore a child of the same program compiles, under limits that the kernel enforces, and at low priority once
//! the host serves clients. The parent kills it when its time is up.

use crate::component::cache::Scratch;
use crate::component::compile_turn::CompileTurn;
use crate::component::componentize::componentize;
use crate::component::magic::{WasmKind, magic};
use crate::component::toolchain::{Toolchain, config, journal_config, quick_config};
use crate::error::Refusal;
use crate::settings::Compiler;
use rustix::process::{Resource, Rlimit, Signal};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use toolyard_manifest::Unit;
use wasmtime::component::Component;

/// Address space of the child beyond the compilation's limit: the program itself, its stacks, and
/// the allocator's reservation for each thread.
const CHILD_BASE: u64 = 1 << 30;
/// The number of the child's threads.
const CHILD_THREADS: u32 = 2;
/// The nice value of the child once the host serves: clients' calls come first.
const NICE: &str = "10";
/// How many bytes of the child's error output are kept.
const MAX_COMPLAINT_BYTES: u64 = 4 << 10;

/// How a component is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    Optimized,
    Quick,
    /// Optimized, for runs with a journal.
    Journalled,
}

impl CodeKind {
    const ALL: [Self; 3] = [Self::Optimized, Self::Quick, Self::Journalled];

    /// The child's last argument.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Optimized => "optimize",
            Self::Quick => "quick",
            Self::Journalled => "journal",
        }
    }

    /// The beginning of its keys in the cache.
    pub const fn key(self) -> &'static [u8] {
        match self {
            Self::Optimized => b"toolyard-4\0",
            Self::Quick => b"toolyard-q\0",
            Self::Journalled => b"toolyard-j\0",
        }
    }

    fn config(self) -> wasmtime::Config {
        match self {
            Self::Optimized => config(),
            Self::Quick => quick_config(),
            Self::Journalled => journal_config(),
        }
    }
}

/// Whether code came from the cache or was compiled.
pub(crate) enum Source {
    Cache,
    Compiled(Duration),
}

/// Gets the code of a component from the cache, or compiles it. Blocks until then.
pub(crate) fn code(
    tools: Toolchain<'_>,
    turn: &mut CompileTurn,
    bytes: &[u8],
    (key, kind): (&str, CodeKind),
) -> Result<(Component, Source), Refusal> {
    if let Some(kept) = tools.cache.load(tools.wasm, key) {
        return Ok((kept, Source::Cache));
    }
    let began = Instant::now();
    let output = tools.cache.scratch("cwasm");
    match &tools.settings.compiler {
        Compiler::InProcess => {
            let code = precompiled(bytes, kind).map_err(Refusal::Compile)?;
            output.write(&code).map_err(|error| Refusal::NoCompiler(error.to_string()))?;
        }
        Compiler::Child { program, args } => {
            in_child(tools, turn, (program, args), (bytes, kind), &output)?.map_err(Refusal::Compile)?
        }
    }
    let component = tools.cache.keep(tools.wasm, key, &output).map_err(Refusal::NoCompiler)?;
    Ok((component, Source::Compiled(began.elapsed())))
}

/// Gets the component that a core module becomes, from the cache or by making it. Blocks until
/// then.
pub(crate) fn component(
    tools: Toolchain<'_>,
    turn: &mut CompileTurn,
    module: &[u8],
    key: &str,
) -> Result<Vec<u8>, Refusal> {
    if let Some(component) = tools.cache.load_component(key) {
        return Ok(component);
    }
    let component = match &tools.settings.compiler {
        Compiler::InProcess => componentize(module, None).map_err(Refusal::Componentize)?,
        Compiler::Child { program, args } => {
            let output = tools.cache.scratch("wasm");
            in_child(tools, turn, (program, args), (module, CodeKind::Optimized), &output)?
                .map_err(Refusal::Componentize)?;
            output.read().map_err(Refusal::NoCompiler)?
        }
    };
    tools.cache.keep_component(key, &component);
    Ok(component)
}

/// The machine code of a component.
fn precompiled(bytes: &[u8], kind: CodeKind) -> Result<Vec<u8>, String> {
    let code = wasmtime::Engine::new(&kind.config()).and_then(|engine| engine.precompile_component(bytes));
    code.map_err(|error| format!("{error:#}"))
}

/// Runs the compiler in a child process, which is killed when the turn must end. The inner error is
/// the child's own message.
fn in_child(
    tools: Toolchain<'_>,
    turn: &mut CompileTurn,
    (program, args): (&Path, &[String]),
    (bytes, kind): (&[u8], CodeKind),
    output: &Scratch<'_>,
) -> Result<Result<(), String>, Refusal> {
    let failed = |error: std::io::Error| Refusal::NoCompiler(format!("the compiler does not start: {error}"));
    let settings = tools.settings;
    let input = tools.cache.scratch("wasm");
    input.write(bytes).map_err(failed)?;
    let mut command = Command::new(program);
    let folder = tools.cache.handle();
    // SAFETY: only one system call happens between `fork` and `exec`.
    unsafe {
        // Through the handle, because another folder may be at its path by now.
        command.pre_exec(move || Ok(rustix::process::fchdir(&*folder)?));
    }
    let mut child = command
        .args(args)
        .arg(&input.name)
        .arg(&output.name)
        .arg(settings.compile_memory.to_string())
        .arg((settings.compile_time.as_secs() + 1).to_string())
        .arg(kind.as_str())
        .arg(if turn.is_awaited { "0" } else { NICE })
        // The host's environment may hold secrets, so the child does not inherit it.
        .env_clear()
        .env("RAYON_NUM_THREADS", CHILD_THREADS.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let deadline = Instant::now() + settings.compile_time;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        let is_late = Instant::now() >= deadline;
        if is_late || turn.must_end() {
            // The child may have ended on its own just now; then the kill fails, which is harmless.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(if is_late {
                Refusal::CompileTime(settings.compile_time)
            } else {
                Refusal::Interrupted
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(Ok(()));
    }
    let mut complaint = String::new();
    if let Some(stderr) = child.stderr.take() {
        // Output that is not UTF-8 or cannot be read is ignored.
        let _ = stderr.take(MAX_COMPLAINT_BYTES).read_to_string(&mut complaint);
    }
    let complaint = complaint.trim();
    if status.signal() == Some(Signal::KILL.as_raw()) {
        // Not one of the child's own limits: the kernel kills any process this way when memory runs
        // out.
        return Err(Refusal::NoCompiler(
            "the compiler was killed by another process or the kernel".to_owned(),
        ));
    }
    Ok(Err(if status.code() == Some(1) && !complaint.is_empty() {
        complaint.to_owned()
    } else {
        format!(
            "the compiler ended with {status}, perhaps at its limit of {} (`plugins.compile-memory`)",
            Unit::Bytes.show(settings.compile_memory)
        )
    }))
}

/// Runs as the child process that [`Compiler::Child`] starts: compiles one component to machine
/// code, or turns one core module into a component.
///
/// `arguments` are the last six of the command line: the input path and the output path, both in
/// the child's working directory, the memory limit in bytes, the limit of processor time in seconds,
/// `optimize`, `quick` or `journal`, and the nice value. Errors go to standard error.
#[must_use]
pub fn compile_child(arguments: &[OsString]) -> ExitCode {
    match compile_limited(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            // If this fails, the parent still learns of the error from the exit code.
            let _ = writeln!(std::io::stderr(), "{complaint}");
            ExitCode::from(1)
        }
    }
}

fn compile_limited(arguments: &[OsString]) -> Result<(), String> {
    let [input, output, memory, seconds, kind, nice] = arguments else {
        return Err("expected: INPUT OUTPUT MEMORY SECONDS KIND NICE".to_owned());
    };
    let Some(kind) = CodeKind::ALL.into_iter().find(|known| kind == known.as_str()) else {
        return Err(format!("KIND is one of {}", CodeKind::ALL.map(CodeKind::as_str).join(", ")));
    };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u64>().ok());
    let (Some(memory), Some(seconds), Some(nice)) = (number(memory), number(seconds), number(nice)) else {
        return Err("MEMORY, SECONDS and NICE are numbers".to_owned());
    };
    let limit = |resource, most: u64| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| format!("the limits of the compiler cannot be set: {error}"))
    };
    limit(Resource::As, memory.saturating_add(CHILD_BASE))?;
    limit(Resource::Cpu, seconds.saturating_mul(u64::from(CHILD_THREADS)))?;
    limit(Resource::Core, 0)?;
    // Both are optional: the child compiles without them.
    let _ = rustix::process::nice(i32::try_from(nice).unwrap_or(19));
    // Elsewhere the limits end a child that has lost its host.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));

    let bytes = std::fs::read(input).map_err(|error| format!("cannot read the component: {error}"))?;
    let made = match magic(&bytes) {
        Ok(WasmKind::TypedModule) => componentize(&bytes, None)?,
        // wasmtime reports the error of input that is neither.
        Ok(WasmKind::Component) | Err(_) => precompiled(&bytes, kind)?,
    };
    // The parent takes this file over or removes it.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(output).and_then(|mut file| file.write_all(&made));
    written.map_err(|error| format!("cannot write the code: {error}"))
}

//! Makes a component ready to run: compiles it, links it, and lists its tools and prompts.

use crate::component::cache::{self, ComponentOffer};
use crate::component::compile::{self, CodeKind, Source};
use crate::component::compile_turn::CompileTurn;
use crate::component::describe;
use crate::component::exports::Exports;
use crate::component::inspect;
use crate::component::magic::WasmKind;
use crate::component::prompts;
use crate::convert::typed::Functions;
use crate::error::Refusal;
use crate::limits::memory_limiter::{MAX_MEMORIES, MAX_TABLES};
use crate::limits::run_budget::Amounts;
use crate::run::engine::Engine;
use crate::run::invoke;
use crate::run::loaded::{JournalledCode, LoadedComponent};
use crate::settings::QuickCode;
use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;
use tokio::runtime::Handle;
use toolyard_task::Digest;
use wasmtime::component::Component;

/// The digest of a component's bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(cache::hex(&Sha256::digest(bytes)))
}

/// Makes a component ready. Blocks during the compilation and while `runtime` drives the guest's
/// listing functions. [`Refusal::Interrupted`] means that the turn ended first. With `optimized`, no quick
/// code will do.
pub(crate) fn load(
    engine: &Engine,
    (runtime, turn): (&Handle, &mut CompileTurn),
    (file, bytes): (&str, &[u8]),
    digest: Digest,
    optimized: bool,
) -> Result<LoadedComponent, Refusal> {
    let kind = inspect::kind(file, bytes)?;
    let (key, code_kind) = code_key(engine, &digest, optimized);
    let made = match kind {
        WasmKind::Component => None,
        WasmKind::TypedModule => Some(compile::component(engine.toolchain(), turn, bytes, &key)?),
    };
    let binary = made.as_deref().unwrap_or(bytes);
    let surface = inspect::inspect(binary)?;
    let (component, source) = compile::code(engine.toolchain(), turn, binary, (&key, code_kind))?;
    let needs = resources(&component)?;
    let exports = Exports::of(&component)?;
    let pre =
        engine.linker.instantiate_pre(&component).map_err(|error| Refusal::Contract(format!("{error:#}")))?;
    let (offer, is_new) = match engine.cache.offer(&digest) {
        Some(offer) => (offer, false),
        None => {
            let file = file.into();
            let listed = runtime.block_on(async {
                tokio::select! {
                    listed = invoke::list(engine, &pre, &exports, &file) => listed,
                    () = turn.cancelled() => Err(Refusal::Interrupted),
                }
            })?;
            let tools = describe::describe(listed.tools.0)?;
            (ComponentOffer { tools, prompts: prompts::describe(listed.prompts.0)? }, true)
        }
    };
    let (functions, declared) = if surface.is_plain {
        Functions::of(&engine.wasm, &component, binary, &engine.settings)?
    } else if offer.tools.is_empty() && !exports.has_more_than_tools() {
        return Err(Refusal::Toolless);
    } else {
        (Functions::default(), describe::declare(offer.tools.clone(), &engine.settings)?)
    };
    let prompts = prompts::declare(offer.prompts.clone())?;
    if is_new {
        engine.cache.keep_offer(&digest, &offer);
    }
    let compiled_in = match source {
        Source::Cache => None,
        Source::Compiled(time) => Some(time),
    };
    let size = bytes.len() as u64;
    Ok(LoadedComponent {
        digest,
        size,
        surface,
        pre,
        exports,
        functions,
        needs,
        declared,
        prompts,
        compiled_in,
        is_quick: code_kind == CodeKind::Quick,
        journalled: OnceLock::new(),
    })
}

/// Makes a component ready for runs with a journal, unless it is. Blocks during the compilation.
///
/// # Errors
/// As [`load`], which was successful with these bytes.
pub(crate) fn load_journalled(
    engine: &Engine,
    turn: &mut CompileTurn,
    (file, bytes): (&str, &[u8]),
    component: &LoadedComponent,
) -> Result<(), Refusal> {
    if component.journalled.get().is_some() {
        return Ok(());
    }
    let linker = engine.journal_linker().map_err(|why| Refusal::Internal(why.to_owned()))?;
    let tools = engine.toolchain();
    let key = engine.cache.key(tools.wasm, &component.digest.0, CodeKind::Journalled.key());
    let made = match inspect::kind(file, bytes)? {
        WasmKind::Component => None,
        WasmKind::TypedModule => Some(compile::component(tools, turn, bytes, &key)?),
    };
    let binary = made.as_deref().unwrap_or(bytes);
    let (code, _) = compile::code(tools, turn, binary, (&key, CodeKind::Journalled))?;
    let exports = Exports::of(&code)?;
    let pre = linker.instantiate_pre(&code).map_err(|error| Refusal::Contract(format!("{error:#}")))?;
    let functions = match component.surface.is_plain {
        true => Functions::of(tools.wasm, &code, binary, &engine.settings)?.0,
        false => Functions::default(),
    };
    // Another load of the same component may have been first.
    drop(component.journalled.set(JournalledCode { pre, exports, functions }));
    Ok(())
}

/// Whether the cache has code that would run.
pub(crate) fn has_code(engine: &Engine, digest: &Digest) -> bool {
    engine.cache.has(&code_key(engine, digest, false).0)
}

/// The key of the code to run, and its kind if it has to be made.
fn code_key(engine: &Engine, digest: &Digest, optimized: bool) -> (String, CodeKind) {
    let key = |kind: CodeKind| (engine.cache.key(&engine.wasm, &digest.0, kind.key()), kind);
    let best = key(CodeKind::Optimized);
    let quick = key(CodeKind::Quick);
    let runs_quick = !optimized
        && match engine.settings.quick_code {
            QuickCode::Never => false,
            QuickCode::IfCached => engine.cache.has(&quick.0),
            QuickCode::Make | QuickCode::Meanwhile => true,
        };
    if runs_quick && !engine.cache.has(&best.0) { quick } else { best }
}

/// The resources that an instance needs.
///
/// # Errors
/// If the pool cannot hold one instance.
fn resources(component: &Component) -> Result<Amounts, Refusal> {
    let Some(needed) = component.resources_required() else {
        return Err(Refusal::Resources("it imports core modules, so its needs are unknown".to_owned()));
    };
    if needed.num_memories as usize > MAX_MEMORIES {
        return Err(Refusal::Resources(format!(
            "{} memories; {MAX_MEMORIES} are the most",
            needed.num_memories
        )));
    }
    if needed.num_tables as usize > MAX_TABLES {
        return Err(Refusal::Resources(format!("{} tables; {MAX_TABLES} are the most", needed.num_tables)));
    }
    Ok(Amounts::of(&needed))
}

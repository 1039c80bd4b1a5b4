//! `toolyard new`: writes a plugin project that builds unchanged.

use crate::project::check_name;
use crate::templates;
use std::path::{Path, PathBuf};
use toolyard_cli::{WrongUsage, say};

/// `toolyard new`: writes a project of this name and language, and prints what to do next. `engine` is that of
/// a language with several. It writes into a new folder with the project's name unless `folder` names another;
/// no existing file is replaced.
///
/// # Errors
/// [`WrongUsage`] if the name is no valid project name, or there is no template for the language or the engine; else if a
/// file exists already or cannot be written.
pub fn create(
    name: &str,
    language: Option<&str>,
    engine: Option<&str>,
    folder: Option<&Path>,
) -> anyhow::Result<()> {
    check_name(name).map_err(WrongUsage)?;
    let known = || templates::languages().map(|language| language.name).collect::<Vec<_>>().join(", ");
    let said = language
        .map(str::to_lowercase)
        .ok_or_else(|| WrongUsage(format!("--lang is missing; the languages are {}", known())))?;
    let language = templates::languages()
        .find(|language| language.is_called(&said))
        .ok_or_else(|| WrongUsage(format!("there is no template for `{said}`; there are {}", known())))?;
    if let Some(engine) = engine {
        language.check_engine(engine).map_err(WrongUsage)?;
    }
    let folder = folder.map_or_else(|| PathBuf::from(name), Path::to_path_buf);
    templates::write(&folder, &language.project(name, engine)?)?;
    let shown = folder.display();
    say!("{shown} is a plugin project; its README.md says what is what. Next:");
    say!("  toolyard test {shown}   # builds it and runs its cases");
    say!("  toolyard dev {shown}    # serves it, builds and reloads it on every change, and shows its calls");
    Ok(())
}

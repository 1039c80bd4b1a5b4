//! The files that `toolyard new` writes: those of a language's template, its library, and the
//! contract.

/// Makes the table of files: the language, the path in a project, and the text.
macro_rules! files {
    ($($language:literal, from $from:literal, to $to:literal: $($path:literal)*;)*) => {
        pub const FILES: &[(&str, &str, &str)] = &[
            $($(($language, concat!($to, $path), include_str!(concat!("../../../../../", $from, "/", $path))),)*)*
        ];
    };
}

mod files;

use crate::contract::{self, WIT, WORLD};
use crate::project::check_name;
use std::collections::BTreeMap;
use std::path::Path;

/// A language for which there is a template.
pub struct Language {
    /// The name.
    pub name: &'static str,
    /// Whether its projects get the C bindings, in `gen/`. They are generated, not copied.
    has_c_bindings: bool,
    /// The engines that it runs on, the usual one first. The files in `engines/NAME/` of the template are for
    /// another one, and replace those of the template.
    engines: &'static [&'static str],
}

/// The folder of a template with the files for other engines.
const ENGINES: &str = "engines/";
const JAVASCRIPT: &[&str] = &["starlingmonkey", "quickjs"];

/// The languages, in the order in which they are offered.
const LANGUAGES: [Language; 6] = [
    Language { name: "rust", has_c_bindings: false, engines: &[] },
    Language { name: "c", has_c_bindings: true, engines: &[] },
    Language { name: "js", has_c_bindings: false, engines: JAVASCRIPT },
    Language { name: "ts", has_c_bindings: false, engines: JAVASCRIPT },
    Language { name: "python", has_c_bindings: false, engines: &[] },
    Language { name: "go", has_c_bindings: false, engines: &[] },
];

/// The languages for which this program has files.
pub fn languages() -> impl Iterator<Item = &'static Language> {
    LANGUAGES.iter().filter(|language| of(language.name).next().is_some())
}

fn of(language: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    files::FILES.iter().filter(move |(of, ..)| *of == language).map(|(_, path, text)| (*path, *text))
}

impl Language {
    /// Whether this is one of the language's names.
    pub fn is_called(&self, name: &str) -> bool {
        let other = match self.name {
            "js" => "javascript",
            "ts" => "typescript",
            "python" => "py",
            "go" => "golang",
            "rust" => "rs",
            name => name,
        };
        name == self.name || name == other
    }

    /// Whether there is a template for this engine.
    ///
    /// # Errors
    /// A sentence that names the engines.
    pub fn check_engine(&self, engine: &str) -> Result<(), String> {
        match self.engines {
            [] => Err(format!("{} has no choice of engines; --engine is for js and ts", self.name)),
            engines if engines.contains(&engine) => Ok(()),
            engines => Err(format!("there is no engine `{engine}`; there are {}", engines.join(" and "))),
        }
    }

    /// The files of a project with this name, by their paths in the project. `engine` is one that
    /// [`check_engine`](Self::check_engine) accepts; `None` is the usual one.
    ///
    /// # Errors
    /// If the name is not valid, or the bindings cannot be made.
    pub fn project(&self, name: &str, engine: Option<&str>) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        check_name(name).map_err(anyhow::Error::msg)?;
        let other = engine.map(|engine| format!("{ENGINES}{engine}/"));
        let others =
            of(self.name).filter_map(|(path, text)| Some((path.strip_prefix(other.as_deref()?)?, text)));
        let usual = of(self.name).filter(|(path, _)| !path.starts_with(ENGINES));
        let files: BTreeMap<&str, &str> = usual.chain(others).collect();
        let mut project: Vec<(String, Vec<u8>)> = files
            .into_iter()
            .map(|(path, text)| (filled(path, name), filled(text, name).into_bytes()))
            .collect();
        project.extend(WIT.iter().map(|(name, text)| (format!("wit/{name}"), text.as_bytes().to_vec())));
        if self.has_c_bindings {
            let bindings = contract::c_bindings(WORLD)?;
            project.extend(bindings.into_iter().map(|(name, bytes)| (format!("gen/{name}"), bytes)));
        }
        Ok(project)
    }
}

/// A text of a template for a project with this name.
fn filled(text: &str, name: &str) -> String {
    text.replace("{{name}}", name).replace("{{name_snake}}", &name.replace('-', "_"))
}

/// Writes files into a folder that contains none of them.
///
/// # Errors
/// The first file that exists already, or cannot be written. If one exists, none is written.
pub fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
    use anyhow::Context as _;
    for (name, _) in files {
        let path = folder.join(name);
        // A link in the folder could lead out of it.
        let above = path.ancestors().skip(1).take_while(|above| *above != folder);
        if let Some(above) = above.filter(|above| above.is_symlink()).last() {
            anyhow::bail!("{} is a symbolic link; nothing was written", above.display());
        }
        if path.symlink_metadata().is_ok() {
            anyhow::bail!(
                "{} already exists; nothing was written; name another folder by --dir",
                path.display()
            );
        }
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        let cannot = || format!("cannot write {}", path.display());
        std::fs::create_dir_all(path.parent().unwrap_or(folder)).with_context(cannot)?;
        let mut file = std::fs::File::create_new(&path).with_context(cannot)?;
        std::io::Write::write_all(&mut file, bytes).with_context(cannot)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

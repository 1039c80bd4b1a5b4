//! `project.toml`: how to make a project's component.

use crate::case::text_of;
use crate::fields::Fields;
use std::path::{Path, PathBuf};
use toolyard_cli::WrongUsage;

/// The name of the file.
pub const FILE: &str = "project.toml";
/// The folder with the manifest and the component: an ordinary plugin folder.
pub const PLUGIN: &str = "plugin";
/// The folder in which this program keeps its notes about a project.
pub const NOTES: &str = ".toolyard";

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The folder of the project, absolute.
    pub(crate) folder: PathBuf,
    /// The name of the project, which is also the name of its component.
    pub(crate) name: String,
    /// Commands that fetch what the build needs, once.
    pub(crate) setup: Vec<String>,
    /// Commands that make the component.
    pub(crate) build: Vec<String>,
    /// The file that these commands make.
    pub(crate) component: PathBuf,
    /// The sources of the component: files and folders.
    pub(crate) watch: Vec<PathBuf>,
}

impl Project {
    /// Whether this folder contains a project.
    pub(crate) fn is_at(folder: &Path) -> bool {
        folder.join(FILE).is_file()
    }

    /// Reads the project in this folder.
    ///
    /// # Errors
    /// If there is no project, or its file is wrong: the error, and its key.
    pub fn open(folder: &Path) -> Result<Self, WrongUsage> {
        Self::read(folder).map_err(WrongUsage)
    }

    /// As [`Project::open`], for a project that changes while it is served.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let file = folder.join(FILE);
        let within = |error: String| format!("{}: {error}", file.display());
        if !file.is_file() {
            return Err(format!(
                "{} is not a plugin project: there is no {FILE} in it; `toolyard new NAME` makes one",
                folder.display()
            ));
        }
        let folder = std::path::absolute(folder).map_err(|error| within(error.to_string()))?;
        text_of(&file).and_then(|text| Self::of_text(folder, &text)).map_err(within)
    }

    fn of_text(folder: PathBuf, text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut fields = Fields::new("", table, &["name", "setup", "build", "component", "watch"])?;
        let name = fields.read::<String>("name")?.ok_or("`name` is missing: the name of the component")?;
        check_name(&name).map_err(|error| format!("`name`: {error}"))?;
        let setup = fields.read("setup")?.unwrap_or_default();
        let build: Vec<String> = fields.read("build")?.unwrap_or_default();
        let component: Option<String> = fields.read("component")?;
        let component = component.ok_or("`component` is missing: the file that the build makes")?;
        if build.is_empty() {
            return Err("`build` is missing: the commands that make the component".to_owned());
        }
        let watch: Vec<String> = fields.read("watch")?.unwrap_or_default();
        if let Some(empty) = watch.iter().chain([&component]).find(|path| path.is_empty()) {
            return Err(format!("`{empty}` is no path"));
        }
        Ok(Self {
            folder,
            name,
            setup,
            build,
            component: component.into(),
            watch: watch.into_iter().map(PathBuf::from).collect(),
        })
    }

    /// The plugin folder, which contains the manifest and, once built, the component.
    pub fn plugin(&self) -> PathBuf {
        self.folder.join(PLUGIN)
    }

    /// The component in the plugin folder.
    pub(crate) fn shipped(&self) -> PathBuf {
        self.plugin().join(format!("{}.wasm", self.name))
    }
}

/// Checks that this is a valid project name: it names files, a package, and often a tool.
///
/// # Errors
/// The expected form of a name.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-');
    match fits {
        true => Ok(()),
        false => Err(format!(
            "a name is 1 to {MAX_NAME_BYTES} of a-z, 0-9 and `-`, and begins with a letter; `{name}` is none"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        "name = 'hello'\nsetup = ['a']\nbuild = ['b', 'c']\ncomponent = 'dist/x.wasm'\nwatch = ['src']";

    fn read(text: &str) -> Result<Project, String> {
        Project::of_text("/p".into(), text)
    }

    #[test]
    fn every_key_is_read() {
        let project = read(WHOLE).expect("a project");
        assert_eq!((project.setup.len(), project.build.len(), project.watch.len()), (1, 2, 1));
        assert_eq!(project.shipped(), Path::new("/p/plugin/hello.wasm"));
        assert!(read("name = 'a'\nbuild = ['b']\ncomponent = 'c'").expect("enough").watch.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (was, is, says) in [
            ("name = 'hello'\n", "", "`name` is missing"),
            ("name = 'hello'", "name = 'Hello'", "`name`: a name is 1 to 64"),
            ("build = ['b', 'c']", "build = 'b'", "`build`: invalid type: string \"b\", expected a sequence"),
            ("build = ['b', 'c']", "", "`build` is missing"),
            ("component = 'dist/x.wasm'", "", "`component` is missing"),
            ("watch =", "wacth =", "unknown key `wacth`; did you mean `watch`?"),
            ("'src'", "''", "is no path"),
            ("'hello'", "'hello", "TOML parse error"),
        ] {
            let error = read(&WHOLE.replace(was, is)).expect_err(says);
            assert!(error.contains(says), "{is}: {error}");
        }
    }

    #[test]
    fn names_are_those_of_files_and_packages() {
        for name in ["a", "my-tool-2", &"x".repeat(64)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "2a", "-a", "A", "a_b", "a b", "a/b", "..", "ä", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}

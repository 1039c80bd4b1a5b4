//! The machine as `connect` sees it: the system, the folders of the user, and the programs on the PATH.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An operating system. Paths are written in its style, so that tests cover all of them on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux and other systems with the XDG folders.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl System {
    /// The system that this program was built for.
    pub const fn current() -> Self {
        if cfg!(target_os = "windows") {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }

    /// A path below a folder.
    pub fn join<'a>(self, folder: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
        let separator = if self == Self::Windows { '\\' } else { '/' };
        let mut path = folder.trim_end_matches(separator).to_owned();
        for part in parts {
            path.push(separator);
            path.push_str(part);
        }
        path
    }

    /// Whether a path does not depend on the current folder.
    pub fn is_absolute(self, path: &str) -> bool {
        let bytes = path.as_bytes();
        match self {
            Self::Linux | Self::MacOs => path.starts_with('/'),
            Self::Windows => {
                let has_drive = bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
                path.starts_with("\\\\") || (has_drive && matches!(bytes[2], b'\\' | b'/'))
            }
        }
    }
}

/// The variables that move configuration files.
const VARIABLES: [&str; 5] =
    ["XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR"];

/// The programs that are looked up on the PATH.
const PROGRAMS: [&str; 7] = ["toolyard", "claude", "code", "codex", "cursor", "gemini", "zed"];

/// The places of the files and programs of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The operating system.
    pub system: System,
    /// The home folder.
    pub home: String,
    /// The current folder, which `--project` means.
    pub project: String,
    /// The variables that move configuration files, if they are set.
    pub variables: BTreeMap<String, String>,
    /// The programs that were found on the PATH, by name.
    pub programs: BTreeMap<String, PathBuf>,
    /// Folders of Claude Desktop from the Microsoft Store: `%LOCALAPPDATA%\Packages\Claude_*`.
    pub claude_packages: Vec<String>,
}

impl Environment {
    /// Looks at this machine. `variable` reads an environment variable.
    ///
    /// # Errors
    /// If the home folder or the current folder has a name that is not UTF-8.
    pub fn find(
        variable: impl Fn(&str) -> Option<OsString>,
        home: &Path,
        project: &Path,
    ) -> Result<Self, String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| format!("{}: the name of the folder is not UTF-8", path.display()))
        };
        let set = |name: &&str| {
            let value = variable(name)?.into_string().ok()?;
            (!value.is_empty()).then(|| ((*name).to_owned(), value))
        };
        let variables: BTreeMap<_, _> = VARIABLES.iter().filter_map(set).collect();
        let system = System::current();
        let path = variable("PATH").unwrap_or_default();
        // A relative folder of the PATH may be a foreign project.
        let folders: Vec<PathBuf> =
            std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
        let found =
            PROGRAMS.iter().filter_map(|name| Some(((*name).to_owned(), program(system, name, &folders)?)));
        Ok(Self {
            system,
            home: text(home)?,
            project: text(project)?,
            claude_packages: claude_packages(&variables),
            programs: found.collect(),
            variables,
        })
    }

    /// The path by which clients should start this program: its name on the PATH, which stays the same after an
    /// upgrade, if that is this program; else the program's own path.
    pub fn stable_program(&self, own: &Path) -> PathBuf {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let on_path =
            self.programs.get("toolyard").filter(|found| real(found).is_some_and(|it| Some(it) == real(own)));
        on_path.map_or_else(|| own.to_owned(), Clone::clone)
    }
}

/// The program of this name in the first folder that has it.
fn program(system: System, name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let file = if system == System::Windows { format!("{name}.exe") } else { name.to_owned() };
    folders.iter().map(|folder| folder.join(&file)).find(|path| is_executable(path))
}

/// Whether this user may run the file.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn claude_packages(variables: &BTreeMap<String, String>) -> Vec<String> {
    let Some(local) = variables.get("LOCALAPPDATA") else { return Vec::new() };
    let entries = std::fs::read_dir(Path::new(local).join("Packages")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.path().to_str().map(str::to_owned));
    let is_claude = |path: &String| {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("Claude_"))
    };
    let mut found: Vec<String> = names.filter(is_claude).collect();
    found.sort();
    found
}

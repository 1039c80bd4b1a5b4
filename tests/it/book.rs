//! Executes the first chapters of the book exactly as written: runs each `sh` block, writes each block with
//! `file=`, and expects the output that a `text` block shows.
//!
//! `make examples` installs everything that the chapters need. If it could not install the tools of a
//! language, the test skips that language too, and prints so.

use crate::clients::runs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolyard_tests::guests::{folder_with_toolyard, root};

/// The content of a fenced block.
enum Block {
    /// A script to run.
    Run(String),
    /// A file to write.
    File(PathBuf, String),
    /// The expected output of the block before; `…` matches anything.
    Printed(String),
}

/// A comment in the page; the test does not run the block that follows it.
const NOT_RUN: &str = "<!-- not run:";

/// Reads the blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    let mut is_run = true;
    while let Some(line) = lines.next() {
        is_run &= !line.starts_with(NOT_RUN);
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let body = body.join("\n") + "\n";
        if let Some((_, path)) = info.split_once(" file=") {
            blocks.push(Block::File(path.into(), body));
        } else if info == "sh" && is_run {
            blocks.push(Block::Run(body));
        } else if info == "text" {
            blocks.push(Block::Printed(body));
        }
        is_run = true;
    }
    blocks
}

/// Whether `line` matches `wanted`, where `…` matches anything.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = wanted.split('…').collect();
    for (index, part) in parts.iter().enumerate() {
        let Some(at) = rest.find(part) else { return false };
        if index == 0 && at > 0 {
            return false;
        }
        rest = &rest[at + part.len()..];
    }
    wanted.ends_with('…') || rest.is_empty()
}

/// A machine with everything that the chapter asks for.
struct Reader {
    path: OsString,
    rustflags: String,
}

impl Reader {
    fn new(home: &Path) -> Self {
        let tools = root().join("target/toolchains");
        let first = [folder_with_toolyard(home), tools.join("bin"), tools.join("npm/node_modules/.bin")];
        let old = std::env::var_os("PATH").expect("a path");
        let path = std::env::join_paths(first.into_iter().chain(std::env::split_paths(&old))).expect("paths");
        let flags = Command::new(root().join("plugins/wasip2-target.sh")).output().expect("it runs");
        assert!(flags.status.success(), "{flags:?}");
        Self { path, rustflags: String::from_utf8(flags.stdout).expect("UTF-8").trim_end().to_owned() }
    }

    /// Runs a block in a folder; returns its output and its last working folder.
    fn run(&self, folder: &Path, home: &Path, block: &str) -> (String, PathBuf) {
        let tools = root().join("target/toolchains");
        let end = home.join(".end");
        let script = format!("exec 2>&1\n{block}pwd >'{}'\n", end.display());
        let mut bash = Command::new("bash");
        bash.args(["-euc", &script]).current_dir(folder).env("PATH", &self.path);
        bash.env("CARGO_ENCODED_RUSTFLAGS", &self.rustflags).env("TOOLYARD_DATA", home.join("data"));
        bash.env("ZIG_GLOBAL_CACHE_DIR", tools.join("zig-cache"));
        bash.env("GOCACHE", tools.join("go-cache")).env("GOPATH", tools.join("go-path"));
        let ran = bash.output().expect("bash starts");
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{}\n{block}\n{printed}", ran.status);
        let ended = std::fs::read_to_string(&end).expect("it came to its end");
        (printed, ended.trim_end().into())
    }
}

fn follow(language: &str) {
    let why = root().join(format!("target/examples/{language}.skipped"));
    if let Ok(why) = std::fs::read_to_string(why) {
        let is_excused = language == "go" || std::env::var_os("CI").is_none();
        assert!(is_excused, "{language}: {why}");
        eprintln!("SKIPPED: the chapter on {language} was not followed: {why}");
        return;
    }
    let page = root().join(format!("host/docs/getting-started/first-plugin/{language}.md"));
    let page = std::fs::read_to_string(page).expect("a chapter");
    let home = tempfile::tempdir().expect("a folder");
    let machine = tempfile::tempdir().expect("a folder");
    let reader = Reader::new(machine.path());
    let mut folder = home.path().to_path_buf();
    let mut printed = String::new();
    let (mut runs, mut shown) = (0, 0);
    for block in blocks(&page) {
        match block {
            Block::Run(block) => {
                (printed, folder) = reader.run(&folder, home.path(), &block);
                runs += 1;
            }
            Block::File(path, text) => {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                std::fs::write(path, text).expect("written");
            }
            Block::Printed(text) => {
                let mut lines = printed.lines();
                for wanted in text.lines() {
                    let is_there = lines.any(|line| is_like(line, wanted));
                    assert!(is_there, "no `{wanted}` (in this order) in:\n{printed}");
                }
                shown += 1;
            }
        }
    }
    assert!(runs >= 4 && shown >= 3, "the chapter has {runs} steps, of which {shown} show what they print");
}

runs! {
    the_first_plugin_in_rust => async { follow("rust") };
    #[ignore = "nightly: languages"]
    the_first_plugin_in_c => async { follow("c") };
    #[ignore = "nightly: languages"]
    the_first_plugin_in_javascript => async { follow("javascript") };
    the_first_plugin_in_typescript => async { follow("typescript") };
    #[ignore = "nightly: languages"]
    the_first_plugin_in_python => async { follow("python") };
    #[ignore = "nightly: languages"]
    the_first_plugin_in_go => async { follow("go") };
}

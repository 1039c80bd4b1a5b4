//! `toolyard generate`: completions and man pages, for packages of this program.

use anyhow::Context as _;
use clap::{Args, Command, ValueEnum as _};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of `generate`.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder that gets `completions` and `man`.
    dir: PathBuf,
}

/// Writes the completions of all shells, and a man page for each command.
pub fn run(options: &Options, cli: Command) -> anyhow::Result<ExitCode> {
    generate(&options.dir, cli).with_context(|| {
        format!("cannot write the completions and man pages to {}", options.dir.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn generate(dir: &Path, mut cli: Command) -> std::io::Result<()> {
    let (completions, man) = (dir.join("completions"), dir.join("man"));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&man)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut cli, "toolyard", &completions)?;
    }
    clap_mangen::generate_to(cli, man)
}

#[cfg(test)]
mod tests {
    use crate::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_visible_command_is_completed_and_has_a_man_page() {
        let dir = tempfile::tempdir().expect("a folder");
        super::generate(dir.path(), Cli::command()).expect("written");
        let read = |name: String| std::fs::read_to_string(dir.path().join(name)).expect("written");
        let files = ["toolyard.bash", "_toolyard", "toolyard.fish", "toolyard.elv", "_toolyard.ps1"];
        let completions = files.map(|file| read(format!("completions/{file}")));
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = dir.path().join(format!("man/toolyard-{name}.1"));
            assert_eq!(page.exists(), !command.is_hide_set(), "{name}");
            for (file, text) in files.iter().zip(&completions).filter(|_| !command.is_hide_set()) {
                assert!(text.contains(name), "{name} in {file}");
            }
        }
        assert!(read("man/toolyard.1".to_owned()).contains("durable tasks"));
    }
}

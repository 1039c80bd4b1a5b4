//! `toolyard generate`: completions and man pages, for packages of this program.

use crate::config::Flags;
use anyhow::Context as _;
use clap::{Args, Command, ValueEnum as _};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::path::{Path, PathBuf};

/// The options of `generate`.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder that gets `completions` and `man`.
    dir: PathBuf,
}

/// Writes the completions of all shells, and a man page for each command.
pub fn run(_: &Flags, options: &Options, cli: Command) -> anyhow::Result<()> {
    generate(&options.dir, cli)
        .with_context(|| format!("cannot write the completions and man pages to {}", options.dir.display()))
}

fn generate(dir: &Path, mut cli: Command) -> std::io::Result<()> {
    let (completions, man) = (dir.join("completions"), dir.join("man"));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&man)?;
    // `toolyard help NAME` prints the help of NAME, which has a page of its own. This comes first, because
    // completions need `help`.
    let mut without_help = cli.clone().disable_help_subcommand(true);
    without_help.build();
    write_pages(without_help, &man)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut cli, "toolyard", &completions)?;
    }
    Ok(())
}

fn write_pages(command: Command, man: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(command.clone(), man)?;
    }
    // Subcommands have no version of their own.
    let program = concat!("toolyard ", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(program).manual("Toolyard").generate_to(man)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Cli;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    #[test]
    fn every_visible_command_is_completed_and_has_a_man_page() {
        let dir = tempfile::tempdir().expect("a folder");
        super::generate(dir.path(), Cli::command()).expect("written");
        let read = |name: String| std::fs::read_to_string(dir.path().join(name)).expect("written");
        let files = ["toolyard.bash", "_toolyard", "toolyard.fish", "toolyard.elv", "_toolyard.ps1"];
        let completions = files.map(|file| read(format!("completions/{file}")));
        let mut pages = BTreeSet::new();
        let mut found = vec![("toolyard".to_owned(), Cli::command())];
        while let Some((page, command)) = found.pop() {
            for (file, text) in files.iter().zip(&completions) {
                assert!(text.contains(command.get_name()), "{page} in {file}");
            }
            let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
            found.extend(visible.map(|command| (format!("{page}-{}", command.get_name()), command.clone())));
            pages.insert(format!("{page}.1"));
        }
        assert!(pages.contains("toolyard-tasks-list.1"), "{pages:?}");
        let written = std::fs::read_dir(dir.path().join("man")).expect("written");
        let written = written.map(|file| file.expect("a page").file_name().into_string().expect("text"));
        assert_eq!(written.collect::<BTreeSet<_>>(), pages);
        assert!(read("man/toolyard.1".to_owned()).contains("durable tasks"));
    }
}

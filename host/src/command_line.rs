//! Help and errors of the command line: groups of commands, global options in one place, and tips.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use toolyard_cli::nearest::nearest;
use toolyard_cli::output;

/// The exit code of wrong usage.
const WRONG: u8 = 2;

/// The command line with its commands in groups, each a heading with the number of its commands. clap itself has one
/// list.
pub fn grouped(cli: Command, groups: &[(&str, usize)]) -> Command {
    let (heading, name) = (cli.get_styles().get_header(), cli.get_styles().get_literal());
    let mut commands = cli.get_subcommands();
    let mut help = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, count) in groups {
        help.push_str(&format!("\n{heading}{group}:{heading:#}\n"));
        for command in commands.by_ref().take(*count).filter(|command| !command.is_hide_set()) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            help.push_str(&format!("  {name}{:<12}{name:#}  {about}\n", command.get_name()));
        }
    }
    help.push_str(&format!("\n{heading}Global options:{heading:#}\n{{options}}{{after-help}}"));
    let globals = cli.get_arguments().filter(|arg| arg.is_global_set());
    let globals: Vec<Arg> = globals.map(|arg| arg.clone().hide(true)).collect();
    drop(commands);
    cli.mut_subcommands(|command| without_globals(command, &globals)).help_template(help)
}

/// A command that takes the global options, and shows them neither in its help nor in the usage of its errors: clap
/// would show those that variables of the environment set.
fn without_globals(command: Command, globals: &[Arg]) -> Command {
    let command = command.args(globals).after_help("Global options: toolyard --help");
    command.mut_subcommands(|command| without_globals(command, globals))
}

/// Prints the help, the version, or why the arguments `args` are wrong.
pub fn explain(error: Error, command: Command, args: Vec<OsString>) -> ExitCode {
    // clap prints the help itself, unless a variable of the environment sets an option.
    if error.kind() == ErrorKind::MissingSubcommand
        && let Err(help) = command.clone().try_get_matches_from(args.into_iter().chain(["--help".into()]))
    {
        output::tell_text(&help.render().to_string());
        return ExitCode::from(WRONG);
    }
    let error = with_tip(error, &command);
    // Nothing can be done if the terminal is gone.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(WRONG) } else { ExitCode::SUCCESS }
}

/// Adds the tips that clap does not have, and removes those that name hidden commands.
fn with_tip(mut error: Error, command: &Command) -> Error {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let usage = text(ContextKind::Usage);
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand if usage.contains("toolyard [OPTIONS]") => {
            let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
            match &*text(ContextKind::InvalidSubcommand) {
                "list" | "ls" => Some("`toolyard tools` lists the tools".to_owned()),
                "version" => Some("`toolyard --version` prints the version".to_owned()),
                word => nearest(word, visible.map(Command::get_name))
                    .map(|near| format!("a similar command exists: `{near}`")),
            }
        }
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_none() => {
            match text(ContextKind::InvalidArg) {
                _ if usage.contains("toolyard call ") => Some(
                    "give the arguments of the tool as one JSON object: '{\"program\": \".a\"}'".to_owned(),
                ),
                folder if Path::new(&folder).is_dir() => {
                    Some(format!("name the folder by `--plugins {folder}`"))
                }
                _ => return error,
            }
        }
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = tip.map(|tip| ContextValue::StyledStrs(vec![tip.into()]));
    error.insert(ContextKind::Suggested, tips.unwrap_or(ContextValue::None));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, command};
    use clap::CommandFactory as _;

    fn said(line: &str) -> String {
        let args = shlex::split(&format!("toolyard {line}")).expect("words");
        let error = command().try_get_matches_from(args).expect_err("an error");
        with_tip(error, &command()).render().to_string()
    }

    #[test]
    fn the_help_has_four_groups_and_only_it_has_the_global_options() {
        let help = said("--help");
        assert_eq!(help.matches("\nCommands to ").count(), 4, "{help}");
        for command in Cli::command().get_subcommands() {
            let listed = help.contains(&format!("\n  {} ", command.get_name()));
            assert_eq!(listed, !command.is_hide_set(), "{help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(help.contains("--plugins <DIR>"), "{help}");
        for line in ["serve --help", "help serve", "tasks --help", "tasks list --help"] {
            let help = said(line);
            assert!(!help.contains("--plugins <DIR>") && !help.contains("--set"), "{help}");
            assert!(help.ends_with("Global options: toolyard --help\n"), "{help}");
        }
    }

    #[test]
    fn global_options_are_accepted_after_each_command() {
        for line in ["--data d tasks list", "tasks --data d list", "tasks list --data d"] {
            let args = shlex::split(&format!("toolyard {line}")).expect("words");
            let cli = <Cli as clap::FromArgMatches>::from_arg_matches(&command().get_matches_from(args));
            assert_eq!(cli.expect("valid").flags.data.as_deref(), Some(Path::new("d")), "{line}");
        }
    }

    #[test]
    fn wrong_words_have_tips() {
        for (line, says) in [
            ("list", "tip: `toolyard tools` lists the tools"),
            ("version", "tip: `toolyard --version` prints the version"),
            ("help srve", "tip: a similar command exists: `serve`"),
            ("srve", "tip: a similar command exists: `serve`"),
            ("tasks lst", "similar subcommand"),
            ("serve .", "tip: name the folder by `--plugins .`"),
            ("serve --plugin .", "'--plugins'"),
            ("call jq --program .a", "as one JSON object: '{\"program\": \".a\"}'"),
            ("call jq a b", "as one JSON object"),
            ("call jq --jsn", "'--json'"),
        ] {
            let text = said(line);
            assert!(text.contains(says), "{line}: {text}");
        }
        for line in ["compile", "background-hos", "token"] {
            let text = said(line);
            assert!(!text.contains("compile-component") && !text.contains("background-host"), "{text}");
        }
        // As with variables of the environment, which clap takes for arguments.
        let text = said("token --data d");
        assert!(text.contains("Usage: toolyard token <NAME>"), "{text}");
    }
}

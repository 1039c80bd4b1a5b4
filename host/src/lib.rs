//! Toolyard: a folder of WebAssembly tools, served over MCP.
//!
//! This package contains flags, configuration, assembly and signals. The libraries under `crates/` do the
//! work. It is a library so that the two programs, `toolyard` and `toolyard-failpoints`, are one line each.

mod assemble;
mod audit;
mod backup;
mod command;
mod command_line;
mod config;
mod console;
mod health;
mod http_client;
mod install;
mod lock;
mod lock_file;
mod log;
mod metrics;
mod outsiders;
mod plugin_folder;
mod prompt;
mod protect;
mod reload;
mod service_user;
mod signals;
mod spinner;
mod start_checks;
mod system;
mod traces;
mod verified;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use config::Flags;
use install::{UNDECIDED, Undecided};
use std::process::{ExitCode, Termination};
use toolyard_cli::{WrongUsage, tell};

/// The system's allocator does not return the memory of large guest results: after hours, the host would hold
/// several times what it needs at rest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  toolyard serve --plugins ./tools              serve the folder at http://127.0.0.1:7420/mcp
  toolyard stdio --plugins ./tools              the same over stdin and stdout
  toolyard check tool.wasm                      what a component offers and needs
  toolyard add oci://ghcr.io/acme/fetch:1.2.0   fetch a plugin, verify it, and pin it
  toolyard call csv_profile '{\"text\":\"a\\n1\"}'   run one tool from the shell
  toolyard new hello --lang python              a plugin project that builds unchanged
  toolyard test hello                           build it and run its recorded cases
  toolyard dev hello                            serve it, reload it on change, show its calls
  toolyard connect claude-code                  add it to an MCP client
  toolyard tasks list                           what clients have under way

Exit codes: 0 done, 1 failed (of a server: calls had to be cut at its end),
2 wrong usage, 3 a person has to decide (a held plugin, a grant), 128 + n ended by signal n (130: Ctrl-C).
host/docs/reference/settings.md lists every setting.";

/// A folder of WebAssembly tools, each sandboxed, served over MCP as plain calls
/// and as durable tasks.
#[derive(Parser)]
#[command(name = "toolyard", bin_name = "toolyard", version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Command,
}

/// Makes the enum of the commands, the groups of the help, and the function that runs the chosen command, each in its
/// module.
macro_rules! commands {
    ($($heading:literal: { $($(#[$about:meta])* $name:ident in $module:ident $(with $more:expr)?,)+ })+) => {
        #[derive(Subcommand)]
        enum Command {
            $($($(#[$about])* $name(command::$module::Options),)+)+
        }

        /// The headings of the help, each with the number of its commands.
        const GROUPS: &[(&str, usize)] = &[$(($heading, [$(stringify!($name)),+].len())),+];

        fn run_command(cli: &Cli) -> anyhow::Result<ExitCode> {
            match &cli.command {
                $($(Command::$name(options) => {
                    command::$module::run(&cli.flags, options $(, $more)?).map(Termination::report)
                })+)+
            }
        }
    };
}

commands! {
    "Commands to serve and use tools": {
        /// Serve the plugin folder over Streamable HTTP, at /mcp.
        Serve in serve,
        /// Serve the plugin folder over stdin and stdout.
        Stdio in stdio,
        /// Add the host to an MCP client, or list the clients that are found.
        Connect in connect,
        /// List what the plugin folder offers.
        Tools in tools,
        /// Run one tool from the shell.
        Call in call,
    }
    "Commands to write tools": {
        /// Write a plugin project that builds unchanged.
        New in new,
        /// Build a plugin project, and report what its component offers.
        Build in build,
        /// Serve a plugin project; build and reload it on change.
        Dev in dev,
        /// Run the recorded cases of a plugin project or folder.
        Test in test,
        /// Validate a plugin: its tools, its imports and its grants.
        Check in check,
        /// Make a component from a core module.
        Componentize in componentize,
        /// Write the contract with plugins into a folder: WIT, or bindings for C.
        Wit in wit,
    }
    "Commands to install plugins": {
        /// Fetch a plugin from a registry or a file, verify it, and pin it.
        Add in add,
        /// Remove a plugin from the folder.
        Remove in remove,
        /// Fetch new versions of plugins; hold those that offer or reach more.
        Update in update,
        /// Take a version that is held, or pin a component of the folder.
        Accept in accept,
        /// Compare the plugin folder with toolyard.lock.
        Verify in verify,
        /// Restore the plugin folder from toolyard.lock.
        Install in install,
        /// Fetch a plugin into an OCI image layout, for use without a network.
        Pull in pull,
    }
    "Commands to operate a host": {
        /// Show whether the host of this configuration is ready, and its load.
        Status in status,
        /// Print a login link for the console of the host that runs.
        Console in console,
        /// Check the configuration, and print the settings in force.
        Config in config,
        /// Check the files of clients, the folders and the address of this host.
        Doctor in doctor,
        /// Make a token for a client, to be allowed in the configuration.
        Token in token,
        /// Explain what the access rules of the configuration allow.
        Rules in rules,
        /// List and cancel the stored tasks, and move them between stores.
        Tasks in tasks,
        /// List, approve and deny calls that wait for an approval (`confirm`).
        Approvals in approvals,
        /// List and revoke the permissions that people gave when asked.
        Grants in grants,
        /// Erase what the store holds of a principal, such as tasks and sessions.
        Erase in erase,
        /// Write a consistent copy of the store into one file, while hosts run.
        Backup in backup,
        /// Make a store from a file that `backup` wrote.
        Restore in restore,
        /// List the hosts that share a PostgreSQL database.
        Hosts in hosts,
        /// Write completions for shells and man pages (used by packages).
        #[command(hide = true)]
        Generate in generate with Cli::command(),
        /// Compile a component (used by the host itself).
        #[command(hide = true)]
        CompileComponent in compile,
        /// Run the tasks of `stdio --detach` (used by the host itself).
        #[command(hide = true)]
        BackgroundHost in background,
    }
}

fn command() -> clap::Command {
    command_line::grouped(Cli::command(), GROUPS)
}

/// Runs the command that the arguments of the process name. Returns its exit code.
pub fn run() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let parsed = command().try_get_matches_from(&args);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return command_line::explain(error, command(), args),
    };
    #[cfg(feature = "failpoints")]
    if let Ok(text) = std::env::var("TOOLYARD_FAILPOINT") {
        toolyard_failpoint::arm(&text).expect("TOOLYARD_FAILPOINT");
    }
    let owner = if is_personal(&cli.command) { Ok(()) } else { service_user::become_owner(&cli.flags) };
    let done = owner.and_then(|()| run_command(&cli));
    match done {
        Ok(code) => code,
        Err(error) => {
            tell!("toolyard: {error:#}");
            let has = |is: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(is);
            ExitCode::from(match () {
                () if has(|cause| cause.is::<WrongUsage>()) => 2,
                () if has(|cause| cause.is::<Undecided>()) => UNDECIDED,
                () => 1,
            })
        }
    }
}

/// Whether a command works on files of the person who runs it, and on none of the host.
const fn is_personal(command: &Command) -> bool {
    use Command::{Build, Componentize, Connect, Generate, New, Token, Wit};
    matches!(command, Build(_) | Componentize(_) | Connect(_) | Generate(_) | New(_) | Token(_) | Wit(_))
}

#[cfg(test)]
mod tests;

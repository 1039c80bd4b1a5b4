//! Toolyard: a folder of WebAssembly tools, served over MCP.
//!
//! This package contains flags, configuration, assembly and signals. The libraries under `crates/` do the
//! work. It is a library so that the two programs, `toolyard` and `toolyard-failpoints`, are one line each.

mod assemble;
mod audit;
mod backup;
mod command;
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
mod start_checks;
mod system;
mod traces;
mod verified;

use clap::{CommandFactory as _, Parser, Subcommand};
use config::Flags;
use install::{UNDECIDED, Undecided};
use std::process::ExitCode;
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
#[command(name = "toolyard", version, about, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Command,
}

/// Makes the enum of the commands, and the function that runs the chosen one, each in its module.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident in $module:ident $(with $more:expr)?,)+) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$about])* $name(command::$module::Options),)+
        }

        fn run_command(cli: &Cli) -> anyhow::Result<ExitCode> {
            match &cli.command {
                $(Command::$name(options) => command::$module::run(&cli.flags, options $(, $more)?),)+
            }
        }
    };
}

commands! {
    /// Serve the plugin folder over Streamable HTTP, at /mcp.
    Serve in serve,
    /// Serve the plugin folder over stdin and stdout.
    Stdio in stdio,
    /// Validate a plugin: its tools, its imports, and the grants that it would need.
    Check in check,
    /// Make a component from a core module.
    Componentize in componentize,
    /// Fetch a plugin from a registry or a file, verify it, and pin it.
    Add in add,
    /// Take a plugin out of the folder.
    Remove in remove,
    /// Fetch new versions of plugins; those that change what a tool says or reaches are held.
    Update in update,
    /// Take a version that is held, or pin a component of the folder.
    Accept in accept,
    /// Compare the plugin folder with toolyard.lock.
    Verify in verify,
    /// Restore the plugin folder from toolyard.lock.
    Install in install,
    /// Fetch a plugin into an OCI image layout, for machines without a network.
    Pull in pull,
    /// Publish a plugin in a registry, signed if a key is given.
    Push in push,
    /// Make a key pair to sign plugins with.
    Keygen in keygen,
    /// List what the plugin folder offers.
    Tools in tools,
    /// Run one tool from the shell.
    Call in call,
    /// Write a plugin project that builds unchanged.
    New in new,
    /// Build a plugin project, and report what its component offers.
    Build in build,
    /// Serve a plugin project; build and reload it on change, and show what happens.
    Dev in dev,
    /// Run the recorded cases of a plugin project or folder.
    Test in test,
    /// Write the contract with plugins into a folder: WIT, or bindings for C.
    Wit in wit,
    /// Add the host to the configuration of an MCP client, or list the clients that are found.
    Connect in connect,
    /// Print a login link for the console of the host that runs.
    Console in console,
    /// Say how the host of this configuration is: whether it answers and is ready, and what it does.
    Status in status,
    /// Check the configuration, and print the settings in force.
    Config in config,
    /// Check the configuration of clients, the folders and the address of this host.
    Doctor in doctor,
    /// List and cancel the stored tasks, and move them between stores.
    Tasks in tasks,
    /// Write a consistent copy of the store into one file, while hosts run.
    Backup in backup,
    /// Make a store from a file that `backup` wrote.
    Restore in restore,
    /// List the hosts that share a PostgreSQL database, and the components that they lack.
    Hosts in hosts,
    /// List and revoke the permissions that people gave when asked.
    Grants in grants,
    /// List, approve and deny calls that wait for an approval (`confirm`).
    Approvals in approvals,
    /// Erase what the store holds of a principal: tasks, records of runs, sessions and permissions.
    Erase in erase,
    /// Explain what the access rules of the configuration allow.
    Rules in rules,
    /// Make a token for a client, to be allowed in the configuration.
    Token in token,
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

/// Runs the command that the arguments of the process name. Returns its exit code.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
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
    use Command::{Build, Componentize, Connect, Generate, Keygen, New, Token, Wit};
    matches!(
        command,
        Build(_) | Componentize(_) | Connect(_) | Generate(_) | Keygen(_) | New(_) | Token(_) | Wit(_)
    )
}

#[cfg(test)]
mod tests;

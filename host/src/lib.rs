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
mod install;
mod lock;
mod lock_file;
mod log;
mod metrics;
mod outsiders;
mod plugin_folder;
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

#[derive(Subcommand)]
enum Command {
    /// Serve the plugin folder over Streamable HTTP, at /mcp.
    Serve(command::serve::Options),
    /// Serve the plugin folder over stdin and stdout.
    Stdio(command::stdio::Options),
    /// Validate a plugin: its tools, its imports, and the grants that it would need.
    Check(command::check::Options),
    /// Make a component from a core module.
    Componentize(command::componentize::Options),
    /// Fetch a plugin from a registry or a file, verify it, and pin it.
    Add(command::add::Options),
    /// Take a plugin out of the folder.
    Remove(command::remove::Options),
    /// Fetch new versions of plugins; those that change what a tool says or reaches are held.
    Update(command::update::Options),
    /// Take a version that is held, or pin a component of the folder.
    Accept(command::accept::Options),
    /// Compare the plugin folder with toolyard.lock.
    Verify(command::verify::Options),
    /// Restore the plugin folder from toolyard.lock.
    Install(command::install::Options),
    /// Fetch a plugin into an OCI image layout, for machines without a network.
    Pull(command::pull::Options),
    /// Publish a plugin in a registry, signed if a key is given.
    Push(command::push::Options),
    /// Make a key pair to sign plugins with.
    Keygen(command::keygen::Options),
    /// List what the plugin folder offers.
    Tools(command::tools::Options),
    /// Run one tool from the shell.
    Call(command::call::Options),
    /// Write a plugin project that builds unchanged.
    New(command::new::Options),
    /// Build a plugin project, and report what its component offers.
    Build(command::build::Options),
    /// Serve a plugin project; build and reload it on change, and show what happens.
    Dev(command::dev::Options),
    /// Run the recorded cases of a plugin project or folder.
    Test(command::test::Options),
    /// Write the contract with plugins into a folder: WIT, or bindings for C.
    Wit(command::wit::Options),
    /// Add the host to the configuration of an MCP client, or list the clients that are found.
    Connect(command::connect::Options),
    /// Print a login link for the console of the host that runs.
    Console(command::console::Options),
    /// Say how the host of this configuration is: whether it answers and is ready, and what it does.
    Status(command::status::Options),
    /// Check the configuration, and print the settings in force.
    Config(command::config::Options),
    /// Check the configuration of clients, the folders and the address of this host.
    Doctor(command::doctor::Options),
    /// List and cancel the stored tasks, and move them between stores.
    Tasks(command::tasks::Options),
    /// Write a consistent copy of the store into one file, while hosts run.
    Backup(command::backup::Options),
    /// Make a store from a file that `backup` wrote.
    Restore(command::restore::Options),
    /// List the hosts that share a PostgreSQL database, and the components that they lack.
    Hosts(command::hosts::Options),
    /// List and revoke the permissions that people gave when asked.
    Grants(command::grants::Options),
    /// List, approve and deny calls that wait for an approval (`confirm`).
    Approvals(command::approvals::Options),
    /// Erase what the store holds of a principal: tasks, records of runs, sessions and permissions.
    Erase(command::erase::Options),
    /// Explain what the access rules of the configuration allow.
    Rules(command::rules::Options),
    /// Make a token for a client, to be allowed in the configuration.
    Token(command::token::Options),
    /// Write completions for shells and man pages (used by packages).
    #[command(hide = true)]
    Generate(command::generate::Options),
    /// Compile a component (used by the host itself).
    #[command(hide = true)]
    CompileComponent(command::compile::Options),
    /// Run the tasks of `stdio --detach` (used by the host itself).
    #[command(hide = true)]
    BackgroundHost(command::background::Options),
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

fn run_command(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Serve(options) => command::serve::run(&cli.flags, options),
        Command::Stdio(options) => command::stdio::run(&cli.flags, options),
        Command::Check(options) => command::check::run(&cli.flags, options),
        Command::Componentize(options) => command::componentize::run(options),
        Command::Add(options) => command::add::run(&cli.flags, options),
        Command::Remove(options) => command::remove::run(&cli.flags, options),
        Command::Update(options) => command::update::run(&cli.flags, options),
        Command::Accept(options) => command::accept::run(&cli.flags, options),
        Command::Verify(options) => command::verify::run(&cli.flags, options),
        Command::Install(options) => command::install::run(&cli.flags, options),
        Command::Pull(options) => command::pull::run(&cli.flags, options),
        Command::Push(options) => command::push::run(&cli.flags, options),
        Command::Keygen(options) => command::keygen::run(options),
        Command::Tools(options) => command::tools::run(&cli.flags, options),
        Command::Call(options) => command::call::run(&cli.flags, options),
        Command::New(options) => command::new::run(options),
        Command::Build(options) => command::build::run(&cli.flags, options),
        Command::Dev(options) => command::dev::run(&cli.flags, options),
        Command::Test(options) => command::test::run(&cli.flags, options),
        Command::Wit(options) => command::wit::run(options),
        Command::Connect(options) => command::connect::run(&cli.flags, options),
        Command::Console(options) => command::console::run(&cli.flags, options),
        Command::Status(options) => command::status::run(&cli.flags, options),
        Command::Config(options) => command::config::run(&cli.flags, options),
        Command::Doctor(options) => command::doctor::run(&cli.flags, options),
        Command::Tasks(options) => command::tasks::run(&cli.flags, options),
        Command::Backup(options) => command::backup::run(&cli.flags, options),
        Command::Restore(options) => command::restore::run(&cli.flags, options),
        Command::Hosts(options) => command::hosts::run(&cli.flags, options),
        Command::Grants(options) => command::grants::run(&cli.flags, options),
        Command::Approvals(options) => command::approvals::run(&cli.flags, options),
        Command::Erase(options) => command::erase::run(&cli.flags, options),
        Command::Rules(options) => command::rules::run(&cli.flags, options),
        Command::Token(options) => command::token::run(options),
        Command::Generate(options) => command::generate::run(options, Cli::command()),
        Command::CompileComponent(options) => Ok(command::compile::run(options)),
        Command::BackgroundHost(options) => command::background::run(&cli.flags, options),
    }
}

#[cfg(test)]
mod tests;

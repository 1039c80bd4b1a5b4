//! Toolyard: a folder of WebAssembly tools, served over MCP.
//!
//! This package contains flags, configuration, assembly and signals. The libraries under `crates/` do the
//! work. It is a library so that the two programs, `toolyard` and `toolyard-failpoints`, are one line each.

mod assemble;
mod audit;
mod command;
mod config;
mod console;
mod health;
mod log;
mod plugin_folder;
mod protect;
mod signals;
mod system;
mod traces;

use clap::{CommandFactory as _, Parser, Subcommand};
use config::Flags;
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
  toolyard call csv_profile '{\"text\":\"a\\n1\"}'   run one tool from the shell
  toolyard new hello --lang python              a plugin project that builds unchanged
  toolyard test hello                           build it and run its recorded cases
  toolyard dev hello                            serve it, reload it on change, show its calls
  toolyard connect claude-code                  add it to an MCP client
  toolyard tasks list                           what clients have under way

Exit codes: 0 done, 1 failed (of a server: calls had to be cut at its end),
2 wrong usage, 128 + n ended by signal n (130: Ctrl-C).
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
    /// Check the configuration of clients, the folders and the address of this host.
    Doctor(command::doctor::Options),
    /// List and cancel the stored tasks, and move them between stores.
    Tasks(command::tasks::Options),
    /// List the hosts that share a PostgreSQL database, and the components that they lack.
    Hosts(command::hosts::Options),
    /// List and revoke the permissions that people gave when asked.
    Grants(command::grants::Options),
    /// List, approve and deny calls that wait for an approval (`confirm`).
    Approvals(command::approvals::Options),
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
        toolyard_store::failpoint::arm(&text).expect("TOOLYARD_FAILPOINT");
    }
    let done = match &cli.command {
        Command::Serve(options) => command::serve::run(&cli.flags, options),
        Command::Stdio(options) => command::stdio::run(&cli.flags, options),
        Command::Check(options) => command::check::run(&cli.flags, options),
        Command::Componentize(options) => command::componentize::run(options),
        Command::Tools(options) => command::tools::run(&cli.flags, options),
        Command::Call(options) => command::call::run(&cli.flags, options),
        Command::New(options) => command::new::run(options),
        Command::Build(options) => command::build::run(&cli.flags, options),
        Command::Dev(options) => command::dev::run(&cli.flags, options),
        Command::Test(options) => command::test::run(&cli.flags, options),
        Command::Wit(options) => command::wit::run(options),
        Command::Connect(options) => command::connect::run(&cli.flags, options),
        Command::Console(options) => command::console::run(&cli.flags, options),
        Command::Doctor(options) => command::doctor::run(&cli.flags, options),
        Command::Tasks(options) => command::tasks::run(&cli.flags, options),
        Command::Hosts(options) => command::hosts::run(&cli.flags, options),
        Command::Grants(options) => command::grants::run(&cli.flags, options),
        Command::Approvals(options) => command::approvals::run(&cli.flags, options),
        Command::Rules(options) => command::rules::run(&cli.flags, options),
        Command::Token(options) => command::token::run(options),
        Command::Generate(options) => command::generate::run(options, Cli::command()),
        Command::CompileComponent(options) => Ok(command::compile::run(options)),
        Command::BackgroundHost(options) => command::background::run(&cli.flags, options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            tell!("toolyard: {error:#}");
            let wrong_usage = error.chain().any(|cause| cause.is::<WrongUsage>());
            ExitCode::from(if wrong_usage { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests;

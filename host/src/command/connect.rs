//! `toolyard connect`: adds the host to the configuration of an MCP client.

use super::{WrongUsage, configure};
use crate::config::Flags;
use anyhow::Context as _;
use clap::Args;
use toolyard_cli::bail_usage;
use toolyard_cli::nearest::nearest;
use toolyard_connect::{CLIENTS, DEFAULT_NAME, Environment, Launch, Server};

/// The options of `connect`.
#[derive(Debug, Args)]
pub struct Options {
    /// The client: claude-desktop, claude-code, cursor, vscode, codex, gemini or zed. [default: list the clients
    /// that are found on this machine]
    client: Option<String>,
    /// Connect over HTTP to the endpoint of a running host, such as http://127.0.0.1:7420/mcp.
    #[arg(long, value_name = "URL", requires = "client")]
    http: Option<String>,
    /// Have the client start the host over stdin and stdout, which is the default.
    #[arg(long, requires = "client")]
    stdio: bool,
    /// The environment variable of the client with the bearer token. The token itself is not written.
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    token_env: Option<String>,
    /// Change the file of the project in the current folder instead of the user's file.
    #[arg(long, requires = "client")]
    project: bool,
    /// The name of the entry.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Take the entry out.
    #[arg(long, requires = "client")]
    remove: bool,
    /// Show the change, and write nothing.
    #[arg(long, requires = "client")]
    dry_run: bool,
}

/// Changes the client's file, or lists the clients.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<()> {
    let environment = environment()?;
    let planned = |server| toolyard_connect::Options {
        name: options.name.clone(),
        project: options.project,
        remove: options.remove,
        server,
    };
    let Some(name) = &options.client else {
        let url = format!("http://{}/mcp", configure(flags, None)?.listen);
        let http = || Server::Http { url: url.clone(), token_env: None };
        let server = stdio(flags, &environment, false).unwrap_or_else(|_| http());
        toolyard_connect::list(&environment, &url, &planned(server));
        return Ok(());
    };
    let client = toolyard_connect::client(name).ok_or_else(|| WrongUsage(unknown(name)))?;
    let planned = planned(match &options.http {
        Some(_) if options.stdio => {
            bail_usage!("--stdio and --http exclude each other; leave one out");
        }
        Some(url) => Server::Http { url: url.clone(), token_env: options.token_env.clone() },
        None => stdio(flags, &environment, options.remove)?,
    });
    toolyard_connect::connect(client, &environment, &planned, options.dry_run)
}

/// The folders and programs of this user.
pub fn environment() -> anyhow::Result<Environment> {
    let home = std::env::home_dir().context("this user has no home folder; set HOME")?;
    let project = std::env::current_dir().context("cannot find the current folder")?;
    Environment::find(|name| std::env::var_os(name), &home, &project).map_err(anyhow::Error::msg)
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    match nearest(name, names.iter().copied()) {
        Some(nearest) => format!("unknown client `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown client `{name}`; the clients are {}", names.join(", ")),
    }
}

/// The server of this program with its configuration, as a client starts it. To remove an entry, the program alone is needed.
fn stdio(flags: &Flags, environment: &Environment, removes: bool) -> anyhow::Result<Server> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let program = environment.stable_program(&own);
    if removes {
        return Ok(Server::Stdio { program: program.display().to_string(), args: Vec::new() });
    }
    let config = configure(flags, None)?;
    let launch = Launch {
        program: &program,
        plugins: &config.plugins,
        config: config.file.exists().then_some(config.file.as_path()),
        data: flags.data.as_deref(),
        store: flags.store.as_deref(),
        log: flags.log.as_deref(),
        set: &flags.set,
        can_detach: config.store.is_seen_by_other_processes(),
    };
    Ok(launch.server(environment.system).map_err(|refusal| WrongUsage(refusal.to_string()))?)
}

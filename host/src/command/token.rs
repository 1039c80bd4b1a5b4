//! `toolyard token`: makes a token for a client. Only its output contains the token.

use crate::config::Flags;
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use toolyard_cli::{bail_usage, output, say, tell};
use toolyard_console::Role;
use toolyard_dispatch::Timestamp;
use toolyard_transport::auth::is_scope;
use toolyard_trust::Digest;

/// The options of `token`.
#[derive(Debug, Args)]
pub struct Options {
    /// The name of its bearer; logs and rules show it as `token:NAME`.
    name: String,
    /// A scope of the token; may be repeated.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The time at which the token expires, such as 2027-01-01T00:00:00Z.
    #[arg(long, value_name = "MOMENT")]
    expires: Option<String>,
    /// The bearer is you: the principal of stdio, with its tasks.
    #[arg(long, conflicts_with_all = ["scopes", "expires"])]
    local: bool,
    /// The bearer is a person who logs in to the console.
    #[arg(long, conflicts_with_all = ["scopes", "expires", "local"])]
    console: bool,
    /// The role of this person: viewer, approver or admin.
    #[arg(long, value_name = "ROLE", requires = "console", default_value = "viewer")]
    role: String,
}

/// The prefix of every token, so that scanners for leaked secrets recognize it.
const PREFIX: &str = "toolyard_";

/// Prints the token on stdout, and its configuration stanza on stderr.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<()> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain(&options.name) || options.name.len() > 64 {
        let name = &options.name;
        bail_usage!("expected a name of up to 64 letters, digits and signs, not `{name}`");
    }
    if let Some(scope) = options.scopes.iter().find(|scope| !is_scope(scope)) {
        bail_usage!("expected a scope without spaces, quotes and backslashes, not `{scope}`");
    }
    if let Some(moment) = options.expires.as_deref().filter(|text| Timestamp::around(text).is_none()) {
        bail_usage!("expected a time such as 2027-01-01T00:00:00Z, not `{moment}`");
    }
    if Role::of_name(&options.role).is_none() {
        bail_usage!("expected the role viewer, approver or admin, not `{}`", options.role);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).context("cannot get random numbers from this machine")?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    say!("{token}");
    let whom = if options.console { "person" } else { "client" };
    tell!("\nGive the token to the {whom}; it is not shown again. In toolyard.toml write:\n");
    output::tell_text(&stanza(options, &token));
    Ok(())
}

fn stanza(options: &Options, token: &str) -> String {
    let digest = Digest::of(token.as_bytes()).hex();
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    if options.console {
        let (name, role) = (quoted(&options.name), &options.role);
        return format!("[[console.users]]\nname = {name}\ntoken-sha256 = \"{digest}\"\nrole = \"{role}\"\n");
    }
    let mut stanza = format!("[[auth.tokens]]\nname = {}\nsha256 = \"{digest}\"\n", quoted(&options.name));
    if !options.scopes.is_empty() {
        let scopes: Vec<_> = options.scopes.iter().map(quoted).collect();
        stanza.push_str(&format!("scopes = [{}]\n", scopes.join(", ")));
    }
    if options.local {
        stanza.push_str("local = true\n");
    }
    if let Some(moment) = &options.expires {
        stanza.push_str(&format!("expires = {}\n", quoted(moment)));
    }
    stanza
}

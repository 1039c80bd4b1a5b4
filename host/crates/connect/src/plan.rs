//! The decision how a client's file changes. Nothing here reads or writes anything.

use crate::client::{Client, Command};
use crate::entry::{Server, fields, is_ours};
use crate::environment::{Environment, System};
use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::value::Value;
use similar::TextDiff;
use std::path::PathBuf;

/// The largest configuration file that is read, in bytes. Claude Code keeps its history in the same file.
pub const MAX_BYTES: u64 = 10 << 20;

/// The options of `toolyard connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name of the entry.
    pub name: String,
    /// The file of the project in the current folder instead of the user's file.
    pub project: bool,
    /// Take the entry out.
    pub remove: bool,
    /// The server for the entry.
    pub server: Server,
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments of the program.
    pub args: Vec<String>,
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", quoted(&self.program.to_string_lossy()))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// An argument as a shell takes it.
fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@".contains(c);
    match !arg.is_empty() && arg.chars().all(is_plain) {
        true => arg.to_owned(),
        false => format!("'{}'", arg.replace('\'', r"'\''")),
    }
}

/// The action of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The file is already as it should be.
    Nothing,
    /// The file gets this content.
    Write(Vec<u8>),
    /// The client's own program changes the file.
    Run(Vec<CommandLine>),
}

/// A planned change of a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// The content from which the plan begins; `None` if the file does not exist.
    pub former: Option<Vec<u8>>,
    /// The action.
    pub action: Action,
    /// The changed lines of the file; empty if a program changes it.
    pub diff: String,
    /// The next step of a person.
    pub note: String,
}

/// Plans the change of a client's file, which has this content if it exists.
///
/// # Errors
/// If the options do not fit the client, the content does not parse, or the name belongs to another server.
pub fn plan(
    client: &Client,
    environment: &Environment,
    options: &Options,
    former: Option<&[u8]>,
) -> Result<Plan, Refusal> {
    check_options(options)?;
    let file = client.file(environment, options.project)?;
    let fields = fields(client, &options.server)?;
    let refused = |reason: String| Refusal::Content { file: file.display().to_string(), reason };
    let (mark, text) = decode(former.unwrap_or_default()).map_err(refused)?;
    let content = client.format.parse(text).map_err(refused)?;
    let entry = entry(&content, client.section, &options.name).map_err(refused)?;
    if entry.is_some_and(|entry| !is_ours(entry, &options.name, &options.server)) {
        let (file, name) = (file.display().to_string(), options.name.clone());
        return Err(Refusal::Foreign { file, name });
    }
    let is_done = match entry {
        Some(entry) => !options.remove && fields.has(entry),
        None => options.remove,
    };
    let note = if options.remove || is_done { "" } else { client.afterwards[usize::from(options.project)] };
    let mut plan = Plan {
        file: file.clone(),
        former: former.map(<[u8]>::to_vec),
        action: Action::Nothing,
        diff: String::new(),
        note: note.to_owned(),
    };
    if is_done {
        return Ok(plan);
    }
    if let Some(commands) = commands(client, environment, options, entry.is_some(), &fields) {
        plan.action = Action::Run(commands);
        return Ok(plan);
    }
    let fields = (!options.remove).then_some(&fields);
    let edited = client.format.edit(text, client.section, &options.name, fields).map_err(refused)?;
    plan.diff = diff(&file.display().to_string(), text, &edited);
    plan.action = Action::Write([mark, edited.as_bytes()].concat());
    Ok(plan)
}

/// The entry alone, as a whole file, for a person who adds it by hand.
///
/// # Errors
/// As [`plan`].
pub fn snippet(client: &Client, options: &Options) -> Result<String, Refusal> {
    check_options(options)?;
    let fields = Fields { dropped: Vec::new(), ..fields(client, &options.server)? };
    let refused = |reason| Refusal::Content { file: "a new file".to_owned(), reason };
    client.format.edit("", client.section, &options.name, Some(&fields)).map_err(refused)
}

fn check_options(options: &Options) -> Result<(), Refusal> {
    let is_name = |name: &str, extra: &str, most: usize| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
        (1..=most).contains(&name.len()) && name.chars().all(is_known)
    };
    let usage = |text: String| Err(Refusal::Usage(text));
    if !is_name(&options.name, "_-", 64) {
        return usage(format!(
            "expected 1 to 64 letters, digits, `_` and `-` as --name, not `{}`",
            options.name
        ));
    }
    let Server::Http { url, token_env } = &options.server else { return Ok(()) };
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if host.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return usage(format!("expected a URL such as http://127.0.0.1:7420/mcp as --http, not `{url}`"));
    }
    if host.contains('@') {
        return usage(
            "the URL of --http contains a password, which the file would show; use --token-env".to_owned(),
        );
    }
    match token_env {
        Some(name) if !is_name(name, "_", 128) || name.starts_with(|c: char| c.is_ascii_digit()) => usage(
            "expected the name of an environment variable as --token-env; the token itself is never written"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// The byte order mark, and the text after it.
fn decode(bytes: &[u8]) -> Result<(&[u8], &str), String> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let (mark, rest) = match bytes.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => (&[][..], bytes),
    };
    Ok((mark, std::str::from_utf8(rest).map_err(|_| "it is not UTF-8".to_owned())?))
}

/// The entry of this name, if there is one.
fn entry<'a>(content: &'a Value, section: &str, name: &str) -> Result<Option<&'a Value>, String> {
    let Value::Map(_) = content else { return Err("it is not an object".to_owned()) };
    if content.has_twice(section) {
        return Err(format!("it has `{section}` twice"));
    }
    let Some(servers) = content.get(section) else { return Ok(None) };
    let Value::Map(_) = servers else { return Err(format!("its `{section}` is not an object")) };
    if servers.has_twice(name) {
        return Err(format!("its `{section}` has `{name}` twice"));
    }
    Ok(servers.get(name))
}

/// The commands of the client's own program, if it is there and can make this change.
fn commands(
    client: &Client,
    environment: &Environment,
    options: &Options,
    exists: bool,
    fields: &Fields,
) -> Option<Vec<CommandLine>> {
    // On Windows the programs are often scripts of cmd.exe, which reads quotes differently.
    if options.project || environment.system == System::Windows {
        return None;
    }
    let program = environment.programs.get(client.program?)?;
    let run = |args: &[&str]| CommandLine {
        program: program.clone(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    };
    let name = options.name.as_str();
    let object = |extra: Option<(&str, Value)>| {
        let fields = extra.into_iter().chain(fields.set.iter().cloned());
        fields.map(|(key, value)| (key.to_owned(), json(&value))).collect::<serde_json::Map<_, _>>()
    };
    match client.command? {
        Command::ClaudeMcp => {
            let remove = run(&["mcp", "remove", name, "--scope", "user"]);
            let json = serde_json::Value::from(object(None)).to_string();
            let add = run(&["mcp", "add-json", name, &json, "--scope", "user"]);
            match (options.remove, exists) {
                (true, _) => Some(vec![remove]),
                (false, true) => None,
                (false, false) => Some(vec![add]),
            }
        }
        Command::CodeAddMcp if options.remove || exists => None,
        Command::CodeAddMcp => {
            let name = Value::Text(name.to_owned());
            let json = serde_json::Value::from(object(Some(("name", name)))).to_string();
            Some(vec![run(&["--add-mcp", &json])])
        }
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) | Value::Atom(text) => text.as_str().into(),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}

/// The changed lines. Only one line around each change is shown, since the others may contain secrets.
fn diff(file: &str, former: &str, new: &str) -> String {
    let (former, new) = (former.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let diff = TextDiff::from_lines(former.as_str(), new.as_str());
    diff.unified_diff().context_radius(1).header(file, file).missing_newline_hint(false).to_string()
}

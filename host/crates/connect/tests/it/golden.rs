//! The entry and the file of each client on each system, and edits of files that people wrote, against golden
//! files. `UPDATE_GOLDEN=1` writes the golden files.

use crate::options;
use std::path::{Path, PathBuf};
use toolyard_connect::{
    Action, CLIENTS, Client, Environment, Options, Plan, Refusal, Server, System, client, plan,
};

/// Compares a text with a golden file, or writes the file.
fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, text).expect("written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{name}: UPDATE_GOLDEN=1 writes the golden files");
}

fn environment(system: System) -> Environment {
    let (home, project) = match system {
        System::Linux => ("/home/ada", "/home/ada/work"),
        System::MacOs => ("/Users/ada", "/Users/ada/work"),
        System::Windows => (r"C:\Users\ada", r"C:\work"),
    };
    let mut environment = crate::environment(system, home, project);
    if system == System::Windows {
        environment.variables = [("APPDATA".to_owned(), r"C:\Users\ada\AppData\Roaming".to_owned())].into();
    }
    environment
}

fn stdio(system: System) -> Server {
    let (program, tools, detach) = match system {
        System::Linux => ("/usr/bin/toolyard", "/home/ada/my tools", true),
        System::MacOs => ("/opt/homebrew/bin/toolyard", "/Users/ada/my tools", true),
        System::Windows => (r"C:\Program Files\Toolyard\toolyard.exe", r"C:\Users\ada\my tools", false),
    };
    let args = ["stdio"].into_iter().chain(detach.then_some("--detach")).chain(["--plugins", tools]);
    Server::Stdio { program: program.to_owned(), args: args.map(str::to_owned).collect() }
}

fn http(token_env: Option<&str>) -> Server {
    Server::Http { url: "http://127.0.0.1:7420/mcp".to_owned(), token_env: token_env.map(str::to_owned) }
}

/// The text that a plan writes.
fn written(plan: &Plan) -> String {
    match &plan.action {
        Action::Write(content) => String::from_utf8(content.clone()).expect("text"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_client_gets_its_entry_in_its_file_on_every_system() {
    for (system, name) in [(System::Linux, "linux"), (System::MacOs, "macos"), (System::Windows, "windows")] {
        for client in &CLIENTS {
            let mut text = String::new();
            for (title, project, server) in [
                ("user, stdio", false, stdio(system)),
                ("project, stdio", true, stdio(system)),
                ("user, http", false, http(None)),
                ("user, http with a token", false, http(Some("TOOLYARD_TOKEN"))),
            ] {
                let options = Options { project, ..options(server) };
                text += &match plan(client, &environment(system), &options, None) {
                    Ok(plan) => {
                        let (file, entry) = (plan.file.display(), written(&plan));
                        format!("# {title}\nfile: {file}\n{entry}next: {}\n\n", plan.note)
                    }
                    Err(refusal) => format!("# {title}\nrefused: {refusal}\n\n"),
                };
            }
            assert_golden(&format!("{}/{name}.txt", client.name), &text);
        }
    }
}

#[test]
fn variables_and_the_store_version_of_claude_desktop_move_files() {
    let file = |name: &str, system, variables: &[(&str, &str)], packages: &[&str]| {
        let mut environment = environment(system);
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        environment.variables.extend(owned);
        environment.claude_packages = packages.iter().map(|package| (*package).to_owned()).collect();
        client(name).expect("a client").file(&environment, false)
    };
    for (client, system, variable, expected) in [
        ("codex", System::Linux, ("CODEX_HOME", "/c/"), "/c/config.toml"),
        ("claude-code", System::MacOs, ("CLAUDE_CONFIG_DIR", "/c"), "/c/.claude.json"),
        ("zed", System::Linux, ("XDG_CONFIG_HOME", "/x"), "/x/zed/settings.json"),
    ] {
        assert_eq!(file(client, system, &[variable], &[]), Ok(PathBuf::from(expected)));
    }
    let package = r"C:\Users\ada\AppData\Local\Packages\Claude_1";
    let inside = format!(r"{package}\LocalCache\Roaming\Claude\claude_desktop_config.json");
    assert_eq!(file("claude-desktop", System::Windows, &[], &[package]), Ok(PathBuf::from(inside)));
    let several = file("claude-desktop", System::Windows, &[], &[package, "D:\\Claude_2"]);
    assert!(matches!(several, Err(Refusal::SeveralPackages { .. })), "{several:?}");
}

/// Files that people wrote, by the client whose file they are.
const CASES: [(&str, &str); 9] = [
    ("comments.jsonc", "vscode"),
    ("other-servers.json", "claude-desktop"),
    ("tabs.json", "cursor"),
    ("one-line.json", "gemini"),
    ("empty-section.json", "claude-code"),
    ("trailing-comma.jsonc", "zed"),
    ("former-entry.json", "claude-code"),
    ("tables.toml", "codex"),
    ("former-entry.toml", "codex"),
];

/// Edits a text, and takes the entry out again.
fn edit(client: &Client, former: &str) -> (String, String) {
    let environment = environment(System::Linux);
    let options = options(stdio(System::Linux));
    let plan_for = |options: &Options, text: &str| plan(client, &environment, options, Some(text.as_bytes()));
    let added = written(&plan_for(&options, former).expect("a plan"));
    let again = plan_for(&options, &added).expect("a plan");
    assert_eq!((again.action, again.diff.as_str()), (Action::Nothing, ""), "a second run changes nothing");
    let remove = Options { remove: true, ..options };
    let removed = written(&plan_for(&remove, &added).expect("a plan"));
    assert_eq!(plan_for(&remove, &removed).expect("a plan").action, Action::Nothing);
    (added, removed)
}

#[test]
fn files_keep_their_comments_indentation_line_ends_and_byte_order_mark() {
    for (name, client_name) in CASES {
        let client = client(client_name).expect("a client");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cases").join(name);
        let former = std::fs::read_to_string(path).expect("a case");
        let (added, removed) = edit(client, &former);
        assert_golden(&format!("cases/{name}.added"), &added);
        assert_golden(&format!("cases/{name}.removed"), &removed);
        // Only the line ends and the mark differ from the golden files.
        let crlf = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(edit(client, &crlf(&former)), (crlf(&added), crlf(&removed)), "{name} with CR LF");
        let marked = |text: &str| format!("\u{feff}{text}");
        assert_eq!(edit(client, &marked(&former)), (marked(&added), marked(&removed)), "{name} with a mark");
        let ended = |text: &str| text.ends_with('\n');
        let (added, removed) = edit(client, former.trim_end());
        assert!(!ended(&added) && !ended(&removed), "{name} without a last line end:\n{added}");
    }
}

#[test]
fn empty_files_are_files_without_servers() {
    for client in &CLIENTS {
        for former in ["", "\n", "\u{feff}"] {
            let (added, _) = edit(client, former);
            assert!(added.contains("/usr/bin/toolyard"), "{}: {added}", client.name);
        }
    }
}

#[test]
fn files_that_cannot_be_edited_and_entries_of_others_are_refused() {
    let refusal = |name: &str, former: &[u8]| {
        let client = client(name).expect("a client");
        let options = options(stdio(System::Linux));
        plan(client, &environment(System::Linux), &options, Some(former)).expect_err("refused").to_string()
    };
    for (client, former, expected) in [
        ("cursor", &b"{ \"mcpServers\": "[..], "line 1"),
        ("cursor", b"{'mcpServers': {}}", "single-quoted"),
        ("cursor", b"[]", "not an object"),
        ("cursor", b"{\"mcpServers\": null}", "`mcpServers` is not an object"),
        ("cursor", b"{\"mcpServers\": {}, \"mcpServers\": {}}", "`mcpServers` twice"),
        ("cursor", b"{\"mcpServers\": {\"toolyard\": {}, \"toolyard\": {}}}", "`toolyard` twice"),
        ("cursor", b"\xff\xfe{\0}\0", "not UTF-8"),
        ("cursor", b"{\"mcpServers\": {\"toolyard\": 1}}", "another server"),
        ("cursor", b"{\"mcpServers\": {\"toolyard\": {\"command\": \"npx\"}}}", "another server"),
        ("cursor", b"{\"mcpServers\": {\"toolyard\": {\"url\": \"https://e.com/\"}}}", "another server"),
        ("codex", b"a = 1\nb = \"secret", "line 2"),
        ("codex", b"a = 1\r\nb = 2\n", "CR LF"),
        ("codex", b"mcp_servers = 1\n", "`mcp_servers` is not an object"),
        ("codex", b"[mcp_servers.toolyard]\ncommand = \"npx\"\n", "another server"),
    ] {
        let refusal = refusal(client, former);
        assert!(refusal.contains(expected), "{}: {refusal}", String::from_utf8_lossy(former));
        assert!(!refusal.contains("secret"), "{refusal}");
    }
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    assert!(refusal("zed", deep.as_bytes()).contains("nesting depth"));
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(refusal("codex", deep.as_bytes()).contains("cannot edit"));
    let large = vec![b' '; usize::try_from(toolyard_connect::MAX_BYTES).expect("fits") + 1];
    assert!(refusal("zed", &large).contains("larger than"));
}

#[test]
fn values_that_do_not_fit_are_wrong_usage() {
    let cursor = client("cursor").expect("a client");
    let long = "a".repeat(65);
    let named =
        ["", "a b", "a\"b", &long].map(|name| Options { name: name.to_owned(), ..options(http(None)) });
    let urls = "127.0.0.1:7420/mcp file:///mcp http:///mcp http://ada:secret@host/mcp";
    let urls = urls.split(' ').chain(["http://host/mcp\n"]);
    let at = urls.map(|url| options(Server::Http { url: url.to_owned(), token_env: None }));
    let with_token = ["Bearer toolyard_abc", "1A"].map(|token| options(http(Some(token))));
    for options in named.into_iter().chain(at).chain(with_token) {
        let refusal = plan(cursor, &environment(System::Linux), &options, None).expect_err("refused");
        assert!(refusal.is_usage() && !refusal.to_string().contains("secret"), "{options:?}: {refusal}");
    }
}

#[test]
fn an_own_entry_is_brought_up_to_date_and_keeps_other_keys() {
    let cursor = client("cursor").expect("a client");
    let updated = |server: Server, former: &str| {
        let plan = plan(cursor, &environment(System::Linux), &options(server), Some(former.as_bytes()));
        written(&plan.expect("a plan")).replace(['\n', ' '], "")
    };
    let program = r#""command":"/old/toolyard","args":[],"env":{"A":"b"},"disabled":true"#;
    let remote = r#""url":"http://localhost:1/mcp","headers":{"X":"y"}"#;
    for (server, former, expected) in [
        (
            stdio(System::Linux),
            program,
            r#""command":"/usr/bin/toolyard","args":["stdio","--detach","--plugins","/home/ada/mytools"],"env":{"A":"b"},"disabled":true"#,
        ),
        (http(None), program, r#""disabled":true,"url":"http://127.0.0.1:7420/mcp""#),
        (http(None), remote, r#""url":"http://127.0.0.1:7420/mcp","headers":{"X":"y"}"#),
    ] {
        let file = |entry: &str| format!(r#"{{"mcpServers":{{"toolyard":{{{entry}}}}}}}"#);
        assert_eq!(updated(server, &file(former)), file(expected));
    }
}

#[test]
fn the_clients_own_program_is_preferred_for_the_users_file() {
    let mut linux = environment(System::Linux);
    linux.programs = ["claude", "code"].map(|name| (name.to_owned(), format!("/bin/{name}").into())).into();
    let commands = |name: &str, environment: &Environment, options: &Options, former: Option<&str>| {
        let former = former.map(str::as_bytes);
        match plan(client(name).expect("a client"), environment, options, former).expect("a plan").action {
            Action::Run(commands) => commands.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Action::Write(_) => "writes".to_owned(),
            Action::Nothing => "nothing".to_owned(),
        }
    };
    let add = options(http(Some("T")));
    let project = Options { project: true, ..add.clone() };
    let remove = Options { remove: true, ..add.clone() };
    let own = r#"{"mcpServers":{"toolyard":{"url":"http://127.0.0.1:7420/mcp"}},"servers":{"toolyard":{"url":"http://127.0.0.1:7420/mcp"}}}"#;
    let json =
        r#"{"headers":{"Authorization":"Bearer ${T}"},"type":"http","url":"http://127.0.0.1:7420/mcp"}"#;
    let added = format!("/bin/claude mcp add-json toolyard '{json}' --scope user");
    let windows = Environment { programs: linux.programs.clone(), ..environment(System::Windows) };
    for (client, environment, options, former, expected) in [
        ("claude-code", &linux, &add, None, added.as_str()),
        ("claude-code", &linux, &remove, Some(own), "/bin/claude mcp remove toolyard --scope user"),
        ("claude-code", &linux, &remove, None, "nothing"),
        // Other keys of the entry stay.
        ("claude-code", &linux, &add, Some(own), "writes"),
        ("claude-code", &linux, &project, None, "writes"),
        ("vscode", &linux, &remove, Some(own), "writes"),
        ("claude-code", &windows, &add, None, "writes"),
    ] {
        assert_eq!(commands(client, environment, options, former), expected, "{client} {options:?}");
    }
    let code = commands("vscode", &linux, &add, None);
    assert!(code.starts_with("/bin/code --add-mcp '{\"headers\":") && code.contains("${env:T}"), "{code}");
}

//! The commands, as a shell sees them: output, errors, exit codes.

use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Output;
use tokio::process::Command;
use toolyard_tests::compiled::Compiled;
use toolyard_tests::host::{command, set_mode};
use toolyard_tests::{Setup, ends, guests, process, succeeds};

async fn run(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let _compiled = Compiled::given_to(&data);
    let mut command = Command::new(guests::binary());
    command.args(args).current_dir(folder.path()).stdin(std::process::Stdio::null());
    command.env("TOOLYARD_PLUGINS", guests::all_plugins(folder.path())).env("TOOLYARD_DATA", data);
    command.output().await.expect("the command runs")
}

/// A path as text.
fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[tokio::test]
async fn help_names_the_flag_the_variable_and_the_key() {
    let text = succeeds(&run(&["--help"]).await);
    for word in ["TOOLYARD_PLUGINS", "Exit codes", "key: plugins"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    // The environment of these commands names the folders.
    ends(&run(&[]).await, 2, "Commands to operate a host:");
    assert!(out(&run(&["--version"]).await).starts_with("toolyard "));
}

#[tokio::test]
async fn a_named_plugin_folder_that_is_not_there_is_an_error_with_its_absolute_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("there");
    std::fs::write(folder.join("file"), "").expect("written");
    let absent = format!("there is no plugin folder {}", folder.join("absent").display());
    let file = format!("{} (`plugins`) is not a folder", folder.join("file").display());
    for (command, named, says) in
        [("stdio", "absent", &absent), ("serve", "./absent", &absent), ("tools", "file", &file)]
    {
        let mut run = Command::new(guests::binary());
        run.args([command, "--plugins", named, "--data", "data", "--store", "memory"]).current_dir(&folder);
        let said = ends(&run.output().await.expect("the command runs"), 1, "");
        assert!(said.replace("/./", "/").contains(says), "{command}: {said}");
    }
}

#[tokio::test]
async fn wrong_usage_is_2_and_says_what_is_right() {
    for (args, says) in [
        (&["nonsense"][..], "unrecognized subcommand"),
        (&["call"], "TOOL"),
        (&["call", "echo", "not json"], "JSON"),
        (&["call", "echo", "[]"], "JSON object"),
        (&["call", "ecco", "{}"], "did you mean `echo`"),
        (&["call", "echo", "{}", "--plugins", "."], "it has no tools; name another folder by --plugins"),
        (&["check", "."], "`toolyard tools --plugins .` checks the plugins in it"),
        (&["add", "ghcr.io/acme/fetch:1.2.0"], "did you mean oci://ghcr.io/acme/fetch:1.2.0?"),
        (&["call", "echo", "{}", "--answers", "absent.toml"], "absent.toml"),
        (&["call", "echo", "{}", "--answer", "answer"], "KEY=JSON"),
        (&["call", "echo", "{}", "--expect", "neither"], "the name of a file or JSON"),
        (&["call", "echo", "{}", "--record", "case.toml"], "ends with .case.toml"),
        (&["tools", "--set", "tasks.ttl=1h"], "did you mean `tasks.ttl-"),
        (&["tools", "--set", "tasks.ttl-default"], "KEY=VALUE"),
        // H-4: loopback only.
        (&["serve", "--listen", "0.0.0.0:0"], "other machines"),
        (&["serve", "--store", "redis"], "sqlite, memory or postgres://"),
        (&["tools", "--config", "absent.toml"], "absent.toml"),
        (&["token", "a b"], "expected a name"),
        (&["token", "a", "--scope", "b c"], "expected a scope"),
        (&["token", "a", "--expires", "x"], "expected a time"),
        (&["token", "a", "--local", "--scope", "b"], "--scope"),
        (&["grants", "revoke"], "ID"),
        (&["grants", "revoke", "x", "--all"], "--all"),
        (&["grants", "list", "--store", "memory"], "memory"),
        (&["tools", "--log", "verbose"], "unknown level `verbose`"),
        (&["stdio", "--log", "info,debugg"], "unknown level `debugg`"),
        (&["stdio", "--detach", "--store", "memory"], "--store sqlite"),
        (&["new", "hello"], "--lang is missing"),
        (&["new", "hello", "--lang", "cobol"], "no template for `cobol`"),
        (&["new", "Hello", "--lang", "rust"], "a-z, 0-9 and `-`"),
        (&["new", "../hello", "--lang", "rust"], "a-z, 0-9 and `-`"),
        (&["wit", "bindings", "--lang", "c", "--world", "none"], "no world `none`"),
    ] {
        let output = run(args).await;
        ends(&output, 2, says);
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn call_prints_what_the_tool_gives_and_its_exit_code_says_how_it_ended() {
    assert_eq!(succeeds(&run(&["call", "echo", r#"{"text":"hello"}"#]).await), "hello\n");
    let json = succeeds(&run(&["call", "jq", r#"{"program":".a","input":{"a":1}}"#, "--json"]).await);
    let result: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(result["structuredContent"]["outputs"], json!([1]));
    let failed = run(&["call", "fail", r#"{"message":"no luck"}"#]).await;
    ends(&failed, 1, "no luck");
    assert!(failed.stdout.is_empty());
    let error = run(&["call", "protocol_error", r#"{"code":-32050,"message":"odd"}"#]).await;
    assert!(ends(&error, 1, "odd").contains("-32050"));
    // It runs as a plain call here.
    succeeds(&run(&["call", "batch", r#"{"steps":2,"ms":1}"#]).await);
}

#[tokio::test]
async fn ctrl_c_cancels_a_call() {
    let setup = Setup::probe();
    let _compiled = Compiled::given_to(&setup.folder().join("data"));
    let mut call = command("call", setup.folder(), &["spin", r#"{"ms":600000}"#]);
    call.env("TOOLYARD_LOG", "toolyard_dispatch=debug").stderr(std::process::Stdio::piped());
    let mut child = call.spawn().expect("it runs");
    let stderr = child.stderr.take().expect("piped");
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stderr));
    // The guest runs once the dispatcher logs that the call goes on.
    while !lines.next_line().await.expect("text").expect("it runs on").contains("call goes on") {}
    process::signal(&child, rustix::process::Signal::INT);
    assert_eq!(process::ended(&mut child).await.code(), Some(130));
}

#[tokio::test]
async fn tools_and_check_show_what_is_on_offer() {
    let tools = succeeds(&run(&["tools"]).await);
    for word in ["echo", "csv_profile", "jq", "required", "forbidden", "probe"] {
        assert!(tools.contains(word), "{word}:\n{tools}");
    }
    let empty = out(&run(&["tools", "--plugins", "."]).await);
    assert!(empty.contains("Copy a tool component there (NAME.wasm)"), "{empty}");
    for (plugin, says) in [
        (guests::plugin("probe"), &["echo", "batch", "wasi:cli/environment", "64 MiB"][..]),
        (guests::plugin("files"), &["opens files and folders; granted by [fs]"]),
        (
            guests::plugin("fetch"),
            &["nothing is granted by [http]", "may need   [http], if a tool sends HTTP requests"],
        ),
        (
            guests::fixture("bad_header"),
            &["warnings   mirrored: clients that come over HTTP will leave it out"],
        ),
    ] {
        let check = out(&run(&["check", plain(&plugin)]).await);
        assert!(says.iter().all(|word| check.contains(word)), "{says:?}:\n{check}");
    }
    let json = succeeds(&run(&["check", plain(&guests::plugin("probe")), "--json"]).await);
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["tools"].as_array().expect("tools").len(), 12);
    assert_eq!(report["digest"].as_str().expect("a digest").len(), 64);
    // The words of the compiler, which runs in a process of its own.
    let folder = tempfile::tempdir().expect("a folder");
    let many = folder.path().join("many.wasm");
    let locals = format!("(func {})", "(local i64)".repeat(60_000));
    std::fs::write(&many, crate::hostile::loading::plugin(&locals)).expect("writes");
    let check = run(&["check", plain(&many)]).await;
    assert!(err(&check).contains("too many locals"), "{check:?}");
    ends(&run(&["check", "absent.wasm"]).await, 1, "absent.wasm");
}

#[tokio::test]
async fn tasks_lists_shows_awaits_and_cancels() {
    let (host, session) = Setup::probe().open().await;
    let done = session.complete("wait", json!({"ms": 1})).await;
    let live = session.create("wait", json!({"ms": 600_000})).await;
    let list = host.prints(&["tasks", "list"]).await;
    assert!(list.contains(&done) && list.contains("working"), "{list}");
    let rows = host.lines(&["tasks", "list", "--json"]).await;
    assert_eq!((rows.len(), &rows[0]["tool"]), (2, &json!("wait")));
    assert!(host.prints(&["tasks", "show", &done]).await.contains("completed"));
    assert!(host.prints(&["tasks", "result", &done]).await.contains("waited 1 ms"));
    host.refuses(&["tasks", "result", "--no-wait", &live], 1, "").await;
    let (await_it, cancel_it) = (["tasks", "result", &live], ["tasks", "cancel", &live]);
    tokio::join!(host.refuses(&await_it, 1, "cancelled"), host.prints(&cancel_it));
    host.refuses(&["tasks", "cancel", &live], 1, "").await;
    host.refuses(&["tasks", "show", "nope"], 1, "nope").await;
    assert!(succeeds(&run(&["tasks", "list"]).await).contains("No tasks"));
}

#[tokio::test]
async fn serve_greets_with_its_url_its_tools_and_the_line_to_paste_or_says_that_its_port_is_taken() {
    let probe =
        ["serves http://127.0.0.1:", "/mcp", "12 from", "echo", "toolyard connect CLIENT --http http://"];
    let empty = ["no tools yet", "copy a tool component", "toolyard check"];
    for (setup, says) in [(Setup::probe(), &probe[..]), (Setup::new(), &empty)] {
        let host = setup.start().await;
        host.logs("Ctrl-C").await;
        for word in says {
            assert!(host.log().contains(word), "{word}:\n{}", host.log());
        }
        let taken = format!("127.0.0.1:{}", host.port());
        ends(&run(&["serve", "--listen", &taken]).await, 1, "cannot listen on");
    }
}

#[tokio::test]
async fn a_call_from_the_shell_asks_its_questions_there() {
    let (folder, _) = Setup::probe().into_parts();
    let typing = folder.path().join("typed");
    let call = async |extra: &[&str], typed: &str| {
        std::fs::write(&typing, typed).expect("writes");
        let mut call = command("call", folder.path(), &["ask", r#"{"question":"Which colour?"}"#]);
        call.args(extra).stdin(std::fs::File::open(&typing).expect("is there"));
        call.output().await.expect("it ends")
    };
    let answered = call(&["--ask"], "blue\n").await;
    assert_eq!(succeeds(&answered), "blue\n");
    assert!(err(&answered).contains("Which colour?"), "{answered:?}");
    assert_eq!(out(&call(&["--ask"], "").await), "declined\n");
    let unasked = call(&[], "blue\n").await;
    assert!(!unasked.status.success(), "there is no one to ask: {unasked:?}");
}

#[tokio::test]
async fn a_minimal_manifest_is_suggested_without_what_is_never_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("files.wasm");
    std::fs::copy(guests::plugin("files"), &file).expect("copies");
    let manifest = |text: &str| std::fs::write(folder.path().join("files.toml"), text).expect("writes");
    manifest("prefix = \"mine\"\n[http]\nallow = [\"a.example\"]\n[limits]\nmemory = \"8MiB\"\n");
    let text = out(&run(&["check", plain(&file)]).await);
    assert!(text.contains("granted    requests to a.example"), "{text}");
    assert!(text.contains("may need   [fs], if a tool opens files and folders"), "{text}");
    assert!(text.contains("unused     [http]: nothing in it sends HTTP requests"), "{text}");
    let suggested = out(&run(&["check", plain(&file), "--suggest"]).await);
    assert!(suggested.contains("# [fs]\n# \"/data\" = "), "{suggested}");
    let read: toml::Table = suggested.parse().expect("TOML");
    assert_eq!(read.keys().collect::<Vec<_>>(), ["limits", "prefix"], "{suggested}");
    // The suggestion is a valid manifest, and `check` accepts it.
    manifest(&suggested);
    let again = succeeds(&run(&["check", plain(&file)]).await);
    assert!(!again.contains("unused"), "{again}");
}

#[tokio::test]
async fn tools_show_every_limit_and_when_a_call_of_a_client_without_tasks_is_handed_off() {
    let shown = out(&run(&["tools", "--limits"]).await);
    for line in ["memory", "cpu", "handles", "http-time", "questions", "concurrency", "queue"] {
        assert!(shown.contains(&format!("limits.{line} ")), "{line}:\n{shown}");
    }
    assert!(shown.contains("calls.running-per-principal"), "{shown}");
    let json = out(&run(&["tools", "--limits", "--json"]).await);
    assert!(json.contains("\"memoryBytes\":67108864") && json.contains("\"wallMs\":600000"), "{json}");

    let shown = out(&run(&["tools", "--bridge", "--set", "bridge.after=30s"]).await);
    let line = |text: &str, tool: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(tool));
        line.unwrap_or_else(|| panic!("{tool}:\n{text}")).to_owned()
    };
    assert!(line(&shown, "echo").contains("never: its task support is forbidden"), "{shown}");
    assert!(line(&shown, "wait").contains("after 30s") && line(&shown, "wait").contains("keep"), "{shown}");
    let off = out(&run(&["tools", "--bridge", "--set", "bridge.enabled=false"]).await);
    assert!(line(&off, "wait").contains("never: the bridge is off"), "{off}");
    let json = out(&run(&["tools", "--bridge", "--json"]).await);
    assert!(json.contains("\"handedOffAfterMs\":45000") && json.contains("\"onClientTimeout\":\"keep\""));
}

/// P1: the image sets this address for all commands.
#[tokio::test]
async fn commands_that_do_not_listen_need_no_token_for_an_address_of_the_network() {
    let run = async |args: &[&str]| run(&[args, &["--set", "listen=0.0.0.0:0"]].concat()).await;
    let call = ["call", "csv_profile", "{\"text\": \"a\"}"];
    for args in [&["tools"][..], &["stdio"], &["tasks", "list"], &["verify"], &call] {
        succeeds(&run(args).await);
    }
    for args in [&["serve"][..], &["config", "check"]] {
        ends(&run(args).await, 2, "callers need no credentials");
    }
}

/// P2: the layout of the Debian package, whose service is another user than the root who installs plugins.
#[tokio::test]
async fn root_runs_the_commands_of_a_service_as_its_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    const SERVICE: u32 = 65_534;
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    set_mode(place.path(), 0o755);
    for (name, mode) in [("plugins", 0o755), ("data", 0o700), ("backups", 0o700)] {
        std::fs::create_dir(at(name)).expect("makes");
        set_mode(&at(name), mode);
        std::os::unix::fs::chown(at(name), Some(SERVICE), Some(SERVICE)).expect("gives away");
    }
    // The program and the plugin must be readable for it.
    for (from, to) in [(guests::binary(), "toolyard"), (guests::fixture("versioned_v1"), "versioned.wasm")] {
        std::fs::copy(from, at(to)).expect("copies");
        set_mode(&at(to), 0o755);
    }
    let config = at("toolyard.toml");
    let text = format!("plugins = {:?}\ndata = {:?}\n", at("plugins"), at("data"));
    std::fs::write(&config, text).expect("writes");
    set_mode(&config, 0o644);
    let run = async |args: &[&str]| {
        let mut command = Command::new(at("toolyard"));
        command.args(args).arg("--config").arg(&config).env_clear().current_dir(place.path());
        command.stdin(std::process::Stdio::null()).output().await.expect("the command runs")
    };
    for args in [
        &["add", plain(&at("versioned.wasm"))][..],
        &["update"],
        &["accept", "versioned"],
        &["verify"],
        &["tools"],
        &["tasks", "list"],
        &["config", "check"],
        &["backup", "-o", plain(&at("backups/all.tar"))],
        &["doctor"],
        &["remove", "versioned"],
    ] {
        ends(&run(args).await, 0, "as the user 65534");
    }
    let mut folders = vec![at("data"), at("plugins"), at("backups")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("lists").flatten() {
            let found = entry.metadata().expect("there");
            assert_eq!(found.uid(), SERVICE, "{:?}", entry.path());
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    // A file that others can change must not choose whose process this becomes.
    set_mode(&config, 0o666);
    let refused = run(&["tools"]).await;
    assert!(err(&refused).contains("belongs to the user 65534"), "{}", err(&refused));
}

#[tokio::test]
async fn a_configuration_is_checked_and_patterns_that_match_nothing_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("toolyard.toml");
    let with = async |text: &str, args: &[&str]| {
        std::fs::write(&file, text).expect("writes");
        run(&[&["--config", plain(&file)], args].concat()).await
    };
    // P7: a configuration with which `serve` would not start is not valid.
    for (text, why) in [
        ("[encryption]\nkey-file = \"none\"", "encryption.key-file"),
        ("[trace]\nendpoint = \"https://collector.example\"", "trace.endpoint"),
        ("[audit]\nfile = \"/nowhere/audit.jsonl\"", "audit.file"),
    ] {
        for args in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            ends(&with(text, args).await, 1, why);
        }
    }
    let check = async |text: &str| with(text, &["config", "check", "--print"]).await;
    let done = check("[registries.\"r.example\"]\nca = \"ca.pem\"\nplain-http = true\n").await;
    ends(&done, 0, "`ca` has no effect");
    let rules = "[tasks]\nttl-default = \"90s\"\n[[auth.tokens]]\nname = \"ci\"\nsha256 = \"00\"\n";
    let rules = rules.replace("00", &"0".repeat(64))
        + "[[rules]]\neffect = \"allow\"\ntools = [\"csv_*\", \"jqq\"]\nprincipals = [\"token:ci\", \"token:cd\"]\n";
    let done = check(&rules).await;
    let said = ends(&done, 0, "`jqq` matches no tool");
    assert!(said.contains("`token:cd` matches no token"), "{said}");
    assert!(!said.contains("csv_*") && !said.contains("token:ci`"), "{said}");
    assert!(out(&done).contains("2 warnings"), "{}", out(&done));
    let set = out(&done).lines().find(|line| line.contains("tasks.ttl-default")).map(str::to_owned);
    assert!(set.is_some_and(|line| line.contains("90s") && line.contains("toolyard.toml")), "{}", out(&done));
    ends(&check("[tasks]\nttl-defualt = \"1h\"").await, 2, "did you mean `tasks.ttl-default`");
}

use super::value::LogFormat;
use super::*;
use toolyard_trust::policy::Requirement;

fn written(text: &str) -> anyhow::Result<Config> {
    let mut written = RawConfig::default();
    written.take_file(text)?;
    written.resolve(&folders(), None, Path::new("/base"))
}

fn folders() -> Flags {
    Flags { plugins: Some("p".into()), data: Some("d".into()), ..Flags::default() }
}

fn refusal(text: &str) -> String {
    format!("{:#}", written(text).expect_err(text))
}

#[test]
fn flags_reach_another_process_as_they_are() {
    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        flags: Flags,
    }
    let given = Flags {
        config: Some("a file.toml".into()),
        plugins: Some("./p".into()),
        data: Some("/d".into()),
        store: Some("sqlite".into()),
        log: Some("debug".into()),
        set: vec!["tasks.ttl-default=2h".into(), "detach.parked=1h".into()],
    };
    for given in [given, Flags::default()] {
        let args = std::iter::once("toolyard".into()).chain(given.to_args());
        let read = <Only as clap::Parser>::try_parse_from(args).expect("flags");
        assert_eq!(format!("{:?}", read.flags), format!("{given:?}"));
    }
}

#[test]
fn a_file_sets_what_it_names_and_leaves_the_rest() {
    let text = "[tasks]\nttl-default = \"90s\"\nlive = 7\nenabled = false\n[server]\ntitle = \"Mine\"\n\
                [http]\nhosts = [\"tools.example.com\"]\norigins = [\"https://a.example\"]";
    let config = written(text).expect("valid");
    assert_eq!((config.limits.ttl_default.as_secs(), config.limits.ttl_cap.as_secs()), (90, 24 * 3600));
    assert_eq!((config.limits.live_tasks, config.limits.tasks), (7, false));
    assert_eq!(config.title.as_deref(), Some("Mine"));
}

#[test]
fn a_3_other_machines_may_call_only_with_tokens_or_by_name() {
    let listen = "listen = \"0.0.0.0:1\"\n";
    let hash = "0".repeat(64);
    for more in [
        "[auth]\nanonymous-on-network = true",
        &format!("[[auth.tokens]]\nname = \"ci\"\nsha256 = \"{hash}\""),
        "[auth]\nresource = \"https://t.example\"\n[[auth.issuers]]\nissuer = \"https://i.example\"",
    ] {
        let config = written(&format!("{listen}{more}")).expect(more);
        assert_eq!(config.listen.port(), 1);
        config.check_address().expect(more);
    }
    for more in ["", "[auth]\nanonymous-on-network = false", "[auth]\nscopes = [\"tools\"]"] {
        let config = written(&format!("{listen}{more}")).expect("only a command that listens checks it");
        let refusal = config.check_address().expect_err(more).to_string();
        assert!(refusal.contains("`anonymous-on-network = true` in [auth]"), "{refusal}");
    }
}

#[test]
fn a_configuration_with_a_dropped_key_is_valid_and_names_it_in_a_warning() {
    let mut keys = BTreeSet::new();
    for &(key, instead) in dropped::TABLE {
        assert!(keys.insert(key), "{key} is in the table twice");
        assert!(!TABLE.iter().any(|row| row.key == key) && !PLAIN_KEYS.contains(&key), "{key} is gone");
        let (table, name) = key.split_once('.').expect("a table and a name");
        // The value does not matter: an old configuration had one that was valid.
        let in_file = written(&format!("[{table}]\n{name} = \"1s\"")).expect(key);
        let flags = Flags { set: vec![format!("{key}=7")], ..folders() };
        let by_flag = Config::read(&flags, None).expect(key);
        let variable = limits::variable(key);
        let mut raw = RawConfig::default();
        raw.take_environment(|name| (name == variable).then(|| "1s".to_owned())).expect(key);
        let by_variable = raw.resolve(&folders(), None, Path::new("/base")).expect(key);
        for (config, origin) in [(in_file, ""), (by_flag, "--set"), (by_variable, &*variable)] {
            let wanted = format!("{origin}: `{key}` is no longer a setting: {instead}; remove the key");
            assert_eq!(crate::start_checks::warnings(&config), [wanted]);
        }
        for named in instead.split('`').skip(1).step_by(2) {
            let is_limit = named.strip_prefix("limits.").is_some_and(|limit| {
                format!("guest.{limit}") == key
                    && toolyard_manifest::Limits::ROWS.iter().any(|row| row.key == limit)
            });
            assert!(
                is_limit || named == "/readyz" || TABLE.iter().any(|row| row.key == named),
                "{key}: {named}"
            );
        }
    }
}

#[test]
fn a_value_or_a_key_that_does_not_fit_is_refused_with_what_was_expected() {
    for (text, says) in [
        ("[tasks]\nttl-default = \"soon\"", "expected a duration"),
        ("[tasks]\nttl-default = \"-1s\"", "expected a duration"),
        ("[guest]\nmemory = \"lots\"", "expected a size"),
        ("[tasks]\nlive = 0", "expected a whole number from 1 on"),
        ("[tasks]\nenabled = \"maybe\"", "expected true or false"),
        ("[tasks]\nlive = [1]", "not array"),
        ("store = \"redis\"", "expected sqlite, memory or postgres://"),
        ("store = \"mysql://me:secret@host/x\"", "expected sqlite, memory or postgres://"),
        ("listen = \"here\"", "expected ADDRESS:PORT"),
        ("[tasks]\nttl-default = \"48h\"", "longer than"),
        ("[tasks]\nttl-defualt = \"1h\"", "did you mean `tasks.ttl-default`"),
        ("plugin = \"x\"", "did you mean `plugins`"),
        ("[audit]\nto = \"syslog\"", "expected auto, file, stderr or off"),
        ("[audit]\nfile = \"\"", "expected a path"),
        ("[log]\nformat = \"xml\"", "`log.format`: expected text or json, not `xml`"),
        ("[admin]\nlisten = \"here\"", "expected ADDRESS:PORT"),
        ("[admin]\nlisten = \"0.0.0.0:1\"", "admin.on-network = true"),
        ("[trace]\nsample = \"1.5\"", "expected a number from 0 to 1"),
        ("tasks = [", "expected"),
        // H-2, H-3: hosts and origins are names.
        ("[http]\nhosts = [\"*\"]", "expected a host such as"),
        ("[http]\norigins = [\"*\"]", "expected an origin such as"),
        ("[http]\nhost = [\"a\"]", "unknown field `host`"),
        ("[rates]\ncalls = \"10\"", "expected a rate such as 10/s"),
        ("[[rules]]\neffect = \"allow\"", "rule 1 (rule 1): `tools`"),
        ("[[rules]]\neffect = \"allow\"\ntool = [\"*\"]", "unknown field `tool`"),
        ("[rules]\neffect = \"allow\"", "expected a sequence"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(says), "{text}: {refusal}");
    }
}

#[test]
fn the_filter_of_the_log_has_a_key_of_its_own_beside_the_format() {
    for (text, filter, format) in [
        ("", None, LogFormat::Text),
        ("log = \"debug\"", Some("debug"), LogFormat::Text),
        ("[log]\nformat = \"json\"", None, LogFormat::Json),
        ("log.format = \"json\"\nlog.filter = \"debug\"", Some("debug"), LogFormat::Json),
    ] {
        let config = written(text).expect(text);
        assert_eq!((config.log.as_deref(), config.limits.log_format), (filter, format), "{text}");
    }
    let mut raw = RawConfig::default();
    let variable = |name: &str| (name == "TOOLYARD_LOG_FORMAT").then(|| "json".to_owned());
    raw.take_environment(variable).expect("valid");
    assert_eq!(raw.limits.log_format, LogFormat::Json);
}

#[test]
fn the_admin_listener_and_traces_are_off_until_they_are_named() {
    let config = written("").expect("valid");
    assert_eq!((config.admin.listen, config.trace.endpoint), (None, None));
    let text = "[admin]\nlisten = \"0.0.0.0:7421\"\non-network = true\nnames = \"toolyard, tools.example\"\n\
                [trace]\nendpoint = \"http://127.0.0.1:4318\"\n[server]\nname = \"mine\"";
    let config = written(text).expect("valid");
    assert_eq!(config.admin.listen, Some("0.0.0.0:7421".parse().expect("an address")));
    assert_eq!(config.admin.names, ["toolyard", "tools.example"]);
    assert_eq!(config.trace.service, "mine", "as clients know it");
}

#[test]
fn every_default_in_the_table_is_valid_and_every_key_has_a_variable_of_its_own() {
    let limits = Limits::default();
    assert_eq!(limits.memory.as_u64(), 64 << 20);
    let variables: BTreeSet<_> = TABLE.iter().map(|row| limits::variable(row.key)).collect();
    assert_eq!(variables.len(), TABLE.len());
}

/// The page has the rows of the table. `UPDATE_DOCS=1` writes them.
#[test]
fn the_page_of_settings_is_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/settings.md");
    let page = std::fs::read_to_string(&file).expect("the page");
    let head = "| key | default | kind | what it does |\n| --- | --- | --- | --- |\n";
    let (before, rest) = page.split_once(head).expect("the table");
    let (_, after) = rest.split_once("\n\n").expect("the end of the table");
    let mut rows = String::new();
    for row in TABLE {
        rows.push_str(&format!("| `{}` | `{}` | {} | {} |\n", row.key, row.default, row.kind, row.sentence));
    }
    let wanted = format!("{before}{head}{rows}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &wanted).expect("the page can be written");
    }
    let page = std::fs::read_to_string(file).expect("the page");
    assert_eq!(page, wanted, "UPDATE_DOCS=1 rewrites the page");
}

#[test]
fn signers_and_registries_are_read_and_their_faults_are_named() {
    let signers =
        |keys: &str| format!("[plugins]\nfolder = \"p\"\nlock = \"enforce\"\n[[plugins.signers]]\n{keys}");
    let config = written(&signers("from = [\"oci://a/*\"]\nrequire-signature = \"always\"")).expect("valid");
    assert_eq!(config.limits.lock, LockMode::Enforce);
    assert_eq!(config.signers.for_source("oci://a/b:1").require, Requirement::Always);
    assert_eq!(config.signers.for_source("oci://b/b:1").require, Requirement::FirstUse);
    assert!(written("plugins = \"p\"").expect("a path").signers.rules.is_empty());
    for (text, says) in [
        (signers("from = []\nkeys = [\"k.pub\"]"), "`from` is empty"),
        (signers("from = [\"*\"]"), "name `keys` or `require-signature`"),
        (signers("from = [\"*\"]\nkeys = [\"absent.pub\"]"), "cannot read the public key /base/absent.pub"),
        (signers("from = [\"*\"]\nidentity = \"x\"\nissuer = \"y\""), "not supported yet"),
        (signers("from = [\"*\"]\nkey = [\"x\"]"), "unknown field `key`"),
        ("[plugins]\nlock = \"yes\"".to_owned(), "auto, enforce or off"),
        ("[plugins]\nrequire-signature = \"maybe\"".to_owned(), "none, first-use or always"),
        ("[registries.\"a.example\"]\nplain = true".to_owned(), "unknown field `plain`"),
    ] {
        assert!(refusal(&text).contains(says), "{says}: {}", refusal(&text));
    }
    let config = written("[registries.\"a.example:5000\"]\nca = \"ca.pem\"").expect("valid");
    assert_eq!(config.registries["a.example:5000"].ca.as_deref(), Some(Path::new("/base/ca.pem")));
}

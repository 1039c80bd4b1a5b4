//! Random files: an edit changes nothing outside its own entry, and random bytes cause no panic.

use proptest::prelude::*;
use std::collections::BTreeMap;
use toolyard_connect::{Action, DEFAULT_NAME, Format, Options, System, client, plan};

fn plan_for(name: &str, remove: bool, former: &[u8]) -> Option<Vec<u8>> {
    let environment = crate::environment(System::Linux, "/home/ada", "/work");
    let options = Options { remove, ..crate::options(crate::stdio()) };
    let planned = plan(client(name).expect("a client"), &environment, &options, Some(former));
    match planned.ok()?.action {
        Action::Write(content) => Some(content),
        Action::Run(_) => None,
        Action::Nothing => Some(former.to_vec()),
    }
}

/// A random text as a JSON string.
fn quoted() -> impl Strategy<Value = String> {
    "[ -~äß\u{1F980}]{0,8}"
        .prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Spaces, line ends and comments.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" // a comment, with \"quotes\" and }\n".to_owned()),
        1 => Just("/* { */".to_owned()),
    ]
}

fn object(
    key: impl Strategy<Value = String> + 'static,
    value: impl Strategy<Value = String> + 'static,
) -> impl Strategy<Value = String> {
    let member = (space(), key, space(), value, space());
    let member = member.prop_map(|(a, key, b, value, c)| (key.clone(), format!("{a}{key}{b}:{value}{c}")));
    (proptest::collection::vec(member, 0..4), any::<bool>(), space()).prop_map(|(members, trailing, end)| {
        // A repeated key on the way to the entry is refused; elsewhere it has no meaning.
        let members: BTreeMap<String, String> = members.into_iter().collect();
        let comma = if trailing && !members.is_empty() { "," } else { "" };
        format!("{{{}{comma}{end}}}", members.into_values().collect::<Vec<_>>().join(","))
    })
}

fn json() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![quoted(), Just("1.50e3".to_owned()), Just("null".to_owned()), Just("true".to_owned())];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        let list = (proptest::collection::vec(inner.clone(), 0..3), space());
        let list = list.prop_map(|(items, end)| format!("[{}{end}]", items.join(", ")));
        prop_oneof![list, object(quoted(), inner)]
    });
    let name = prop_oneof![3 => quoted(), 1 => Just("\"toolyard\"".to_owned())];
    let own = Just(r#"{"command": "/old/toolyard", "env": {"A": "b"} /* mine */ }"#.to_owned());
    let servers = object(name, prop_oneof![own, value.clone()]);
    let section = Just("\"mcpServers\"".to_owned());
    let file = prop_oneof![object(section, servers), object(quoted(), value)];
    (space(), file, space()).prop_map(|(before, file, after)| format!("{before}{file}{after}"))
}

/// Lines of TOML, with and without an own entry.
fn toml() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# a comment".to_owned()),
        Just(String::new()),
        Just(
            "[mcp_servers.toolyard]\ncommand = '/old/toolyard' # mine\n\n[mcp_servers.toolyard.env]\nA = 'b'"
                .to_owned()
        ),
        Just("[[list]]\nx = [ 1,\n 2, # two\n]".to_owned()),
        Just("[mcp_servers.\"other one\"]\nurl = \"http://x\"".to_owned()),
        quoted().prop_map(|text| format!("[table]\n{text} = {{ a = {text}, b = 1979-05-27 }}")),
    ];
    (proptest::collection::vec(line, 0..6), any::<bool>(), any::<bool>()).prop_map(|(lines, ended, crlf)| {
        let text = format!("top = '''\na'''\n{}{}", lines.join("\n"), if ended { "\n" } else { "" });
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}

/// Checks one file of a client: adding and removing keep everything else.
fn check(client: &str, format: Format, section: &str, text: &str) -> Result<(), TestCaseError> {
    let rest = |text: &str| format.parse(text).expect("it parses").without(section, DEFAULT_NAME);
    for remove in [false, true] {
        let Some(new) = plan_for(client, remove, text.as_bytes()) else { continue };
        let new = String::from_utf8(new).expect("text");
        prop_assert_eq!(rest(&new), rest(text), "{} became {}", text, new);
        let again = plan_for(client, remove, new.as_bytes());
        prop_assert_eq!(again.as_deref(), Some(new.as_bytes()), "a second run changes nothing");
        let comments =
            |text: &str| text.matches("// a comment").count() + text.matches("# a comment").count();
        // A comment in a line with the entry leaves with it.
        if !remove || format == Format::Toml {
            prop_assert_eq!(comments(&new), comments(text), "{} became {}", text, new);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn nothing_outside_the_entry_changes_in_json(text in json()) {
        check("cursor", Format::Json, "mcpServers", &text)?;
    }

    #[test]
    fn nothing_outside_the_entry_changes_in_toml(text in toml()) {
        if Format::Toml.parse(&text).is_ok() {
            check("codex", Format::Toml, "mcp_servers", &text)?;
        }
    }

    #[test]
    fn random_bytes_cause_no_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            "[\\[\\]{}\",:/*#='a1 \n\r\t]{0,60}".prop_map(String::into_bytes),
        ]
    ) {
        for (client, remove) in [("cursor", false), ("cursor", true), ("codex", false), ("codex", true)] {
            let _ = plan_for(client, remove, &bytes);
        }
    }
}

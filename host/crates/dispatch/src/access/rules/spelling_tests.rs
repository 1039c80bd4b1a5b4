//! However a value is written, a rule sees what a guest would read.

use super::tests::{alice, args, is_allowed, rules, tool};
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn denying(pattern: &str) -> AccessRules {
    denying_at("/v", pattern)
}

fn denying_at(pointer: &str, pattern: &str) -> AccessRules {
    let deny = json!({"effect": "deny", "tools": ["t"], "arguments": {pointer: pattern}});
    rules(json!([deny, {"effect": "allow", "tools": ["*"]}]))
}

fn allowing(pattern: &str) -> AccessRules {
    rules(json!([{"effect": "allow", "tools": ["t"], "arguments": {"/v": pattern}}]))
}

fn passes(authority: &AccessRules, text: &str) -> bool {
    is_allowed(&authority.allows(&alice(), tool("t"), &args(text)))
}

fn passes_typed(authority: &AccessRules, value: ArgumentValue<'static>) -> bool {
    let typed = || Some(ArgumentValue::Object(vec![("v".into(), value)]));
    let written = args(r#"{"v":"as the client wrote it"}"#);
    is_allowed(&authority.allows_typed(&alice(), tool("t"), &written, typed))
}

/// Cases that no property below contains.
#[test]
fn numbers_are_compared_by_value() {
    for (written, denied) in [
        ("22", "22\\.0"),
        ("-0", "0"),
        ("18446744073709551615.0", "18446744073709551615"),
        ("[1,[{\"x\":22.0}]]", "22"),
    ] {
        assert!(!passes(&denying(denied), &format!("{{\"v\":{written}}}")), "{written} by {denied}");
    }
    for (written, allowed) in [("22.0", "22(\\.0)?"), ("-5", "-?[0-9]+")] {
        assert!(passes(&allowing(allowed), &format!("{{\"v\":{written}}}")), "{written} by {allowed}");
    }
}

#[test]
fn what_the_host_reads_for_the_guest_is_compared_exactly() {
    let exact = |text: &str| ArgumentValue::Exact(text.to_owned());
    assert!(!passes_typed(&denying("22"), exact("22")));
    assert!(!passes_typed(&denying("22\\.0|x"), exact("22")));
    assert!(passes_typed(&denying("9007199254740992"), exact("9007199254740993")));
    assert!(passes_typed(&allowing("9007199254740993"), exact("9007199254740993")));
    let bytes = || ArgumentValue::Bytes(b"secret".to_vec());
    assert!(!passes_typed(&denying("c2VjcmV0"), bytes()));
    assert!(!passes_typed(&denying("115"), bytes()), "a byte of it");
    assert!(passes_typed(&denying("116.5|1"), bytes()));
    assert!(passes_typed(&allowing("c2VjcmV0"), bytes()));
    assert!(!passes_typed(&allowing("115"), bytes()));
    let at = denying_at("/v/1", "101");
    assert!(!passes_typed(&at, bytes()), "the second byte");
    assert!(passes_typed(&at, ArgumentValue::Bytes(b"es".to_vec())));
    // The client's own text does not matter then.
    assert!(passes_typed(&denying("as the client wrote it"), exact("1")));
}

#[test]
fn names_are_compared_as_the_most_careless_reader_does() {
    for text in [
        r#"{"V":"x"}"#,
        r#"{"v":"y","V":"x"}"#,
        r#"{"\u0056":"x"}"#,
        r#"{"v\u0000":"x"}"#,
        r#"{"v":"x\u0000y"}"#,
    ] {
        assert!(!passes(&denying("x"), text), "{text}");
        assert!(!passes(&allowing("y"), text), "{text}");
    }
    assert!(!passes(&allowing("x"), r#"{"V":"x"}"#), "there is no `v`");
    assert!(passes(&allowing("x"), r#"{"v":"x","w":"y"}"#));
    let kelvin = denying_at("/key/strasse", "x");
    assert!(!passes(&kelvin, "{\"\u{212a}ey\":{\"\u{17f}tra\u{17f}se\":\"x\"}}"));
}

#[test]
fn h_1_no_spelling_passes_by_a_rule_that_wants_an_approval() {
    let authority = rules(json!([
        {"effect": "allow", "tools": ["t"], "arguments": {"/env": "production"}, "confirm": "ask"},
        {"effect": "allow", "tools": ["t"], "arguments": {"/replicas": "100"}, "confirm": "always-deny"},
        {"effect": "allow", "tools": ["*"]},
    ]));
    for (text, rule) in [
        (r#"{"env":"production","replicas":1}"#, 0),
        (r#"{"env":"production","Env":"test","replicas":1}"#, 0),
        (r#"{"env":"production","replicas":1,"ENV":{"x":"y"}}"#, 0),
        (r#"{"env":"test","replicas":100.0}"#, 1),
        (r#"{"env":"test","replicas":1e2}"#, 1),
        (r#"{"env":"test","replicas":1}"#, 2),
    ] {
        let decision = authority.allows(&alice(), tool("t"), &args(text));
        assert!(matches!(decision, Decision::Allowed(Some(place)) if place == rule), "{text}: {decision:?}");
    }
    assert!(matches!(authority.shows(&alice(), tool("t")), Decision::Allowed(_)));
}

#[test]
fn too_many_numbers_are_ambiguous() {
    for (count, expected) in [(20_000, true), (20_001, false)] {
        let numbers = format!("{{\"v\":[{}]}}", vec!["1"; count].join(","));
        assert_eq!(passes(&denying("2"), &numbers), expected, "{count}");
        assert_eq!(passes(&allowing("1"), &numbers), expected, "{count}");
    }
    let texts = format!("{{\"v\":[{}]}}", vec!["\"1\""; 30_000].join(","));
    assert!(passes(&denying("2"), &texts), "texts are compared once each");
}

#[test]
fn rules_about_other_tools_read_no_arguments() {
    let authority = rules(json!([
        {"effect": "deny", "tools": ["other"], "arguments": {"/v": "x"}},
        {"effect": "allow", "tools": ["*"]},
    ]));
    let never = || panic!("nothing asks for it");
    // No rule reads the arguments of this tool, so ambiguous arguments make no difference.
    let decision = authority.allows_typed(&alice(), tool("t"), &args(r#"{"v":1,"v":2}"#), never);
    assert!(is_allowed(&decision));
}

/// A way to write an integer, with the exponent moved and zeros put around it.
fn spelling(of: i64, shift: i32, zeros: usize, upper: bool, plus: bool) -> String {
    let (sign, digits) = (if of < 0 { "-" } else { "" }, of.unsigned_abs().to_string());
    let letter = if upper { 'E' } else { 'e' };
    let padding = "0".repeat(zeros);
    match shift {
        0 if zeros == 0 => format!("{sign}{digits}"),
        0 => format!("{sign}{digits}.{padding}"),
        // 22 as 0.0022e4.
        1.. => {
            let fraction = format!("{}{digits}", "0".repeat((shift as usize).saturating_sub(digits.len())));
            let (whole, fraction) = fraction.split_at(fraction.len() - shift as usize);
            let whole = if whole.is_empty() { "0" } else { whole };
            let plus = if plus { "+" } else { "" };
            format!("{sign}{whole}.{fraction}{padding}{letter}{plus}{shift}")
        }
        // 22 as 2200e-2.
        _ if of == 0 => format!("{sign}0{letter}{shift}"),
        _ => format!("{sign}{digits}{}{letter}{shift}", "0".repeat(shift.unsigned_abs() as usize)),
    }
}

/// The same text in JSON, some of it as escapes.
fn escaped(text: &str, which: u64) -> String {
    let mut out = String::from("\"");
    for (place, char) in text.chars().enumerate() {
        if which >> (place % 64) & 1 == 1 || char.is_control() || matches!(char, '"' | '\\') {
            for unit in char.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        } else {
            out.push(char);
        }
    }
    out + "\""
}

/// The numbers that readers in several languages get from a text, in plain digits.
fn readings(text: &str) -> Vec<String> {
    let float: f64 = text.parse().expect("a number");
    let mut all = vec![float.to_string()];
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        all.extend(value.as_u64().map(|value| value.to_string()));
        all.extend(value.as_i64().map(|value| value.to_string()));
        all.extend(value.as_f64().map(|value| value.to_string()));
    }
    all.iter().map(|text| if text == "-0" { "0".to_owned() } else { text.clone() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_spelling_of_a_denied_integer_passes(
        value in prop_oneof![-100..100_i64, any::<i32>().prop_map(i64::from), any::<i64>()],
        shift in -8..20_i32, zeros in 0..6_usize, upper in any::<bool>(), plus in any::<bool>(),
    ) {
        let text = spelling(value, shift, zeros, upper, plus);
        let pattern = value.to_string();
        prop_assert!(!passes(&denying(&pattern), &format!("{{\"v\":{text}}}")), "{}", text);
        // Only the plain form passes a rule that allows the plain form.
        let is_allowed = passes(&allowing(&pattern), &format!("{{\"v\":{text}}}"));
        prop_assert!(!is_allowed || text == pattern, "{}", text);
    }

    /// If a reader takes a number for the denied one, it does not pass. A number that passes a rule
    /// which allows one number is that number to every reader.
    #[test]
    fn a_number_is_what_its_readers_take_it_for(
        text in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
        near in proptest::sample::select(vec!["22", "22.0", "0.1", "0", "1e15", "9007199254740992", "22.000000000000004"]),
        tail in "[0-9]{0,22}",
    ) {
        let nearly = if near.contains('.') { format!("{near}{tail}") } else { format!("{near}.0{tail}") };
        let nearly = if near.contains('e') { near.to_owned() } else { nearly };
        for text in [text, nearly] {
            for reading in readings(&text) {
                let pattern = regex::escape(&reading);
                let arguments = format!("{{\"v\":{text}}}");
                prop_assert!(!passes(&denying(&pattern), &arguments), "{} read as {}", text, reading);
                if passes(&allowing(&pattern), &arguments) {
                    prop_assert!(readings(&text).iter().all(|other| *other == reading), "{}", text);
                }
            }
        }
    }

    #[test]
    fn no_spelling_of_a_denied_text_or_name_passes(
        text in "\\PC{1,8}", name in "[a-zA-Z]{1,4}", which in any::<u64>(), other in "\\PC{1,8}",
    ) {
        let authority = denying_at(&format!("/{name}"), &regex::escape(&text));
        let value = escaped(&text, which);
        let member = escaped(&name, which.rotate_left(7));
        for arguments in [
            format!("{{{member}:{value}}}"),
            format!("{{{member}:{},{}:{value}}}", escaped(&other, which), escaped(&name, !which)),
            format!("{{{}:{value}}}", escaped(&name.to_uppercase(), which)),
            format!("{{{member}:{}}}", escaped(&format!("{text}\0{other}"), which)),
        ] {
            prop_assert!(!passes(&authority, &arguments), "{}", arguments);
        }
    }
}

use super::*;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

const VALUE: &str = "s3cr\"t/va+lue ü!";

fn redactor(value: &str) -> Redactor {
    Redactor::new(&[Secret::new("KEY", value).expect("long enough")]).expect("small").expect("some")
}

#[test]
fn a_plugin_without_secrets_pays_nothing() {
    assert!(Redactor::new(&[]).expect("nothing to build").is_none());
}

#[test]
fn every_usual_form_is_found() {
    let redactor = redactor(VALUE);
    let percent = "s3cr%22t%2Fva%2Blue%20%C3%BC%21";
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [
        VALUE.to_owned(),
        Value::from(VALUE).to_string(),
        percent.to_owned(),
        percent.to_lowercase(),
        percent.replace("%20", "+"),
        hex.to_uppercase(),
        hex,
    ] {
        let text = redactor.text(format!("before {form} after"));
        assert!(
            text.contains("[secret KEY]") && text.starts_with("before ") && text.ends_with(" after"),
            "{text}"
        );
        assert!(!text.contains("lue"), "{form}: {text}");
    }
}

#[test]
fn base64_is_found_wherever_it_begins() {
    let redactor = redactor(VALUE);
    for before in 0..7 {
        for after in 0..4 {
            let plain = format!("{}{VALUE}{}", "x".repeat(before), "y".repeat(after));
            for encoded in [STANDARD.encode(&plain), URL_SAFE.encode(&plain)] {
                let text = redactor.text(encoded);
                assert!(text.contains("[secret KEY]"), "{before} {after}: {text}");
            }
        }
    }
}

#[test]
fn bytes_for_a_journal_lead_back_to_the_same_bytes_and_compare_by_name() {
    let before = redactor(VALUE);
    for text in ["", "a", VALUE, "[toolyard secret KEY]", "[toolyard secret ", "[toolyard secret ]"] {
        let text = Bytes::from(format!("x{text}{VALUE}y[toolyard {text}"));
        let kept = before.kept(&text);
        assert!(!String::from_utf8_lossy(&kept).contains(VALUE), "{kept:?}");
        assert_eq!(before.restored(&kept), text, "{kept:?}");
    }
    let after = redactor("rotated, and longer than before");
    let basic = |value: &str| format!("Basic {}", STANDARD.encode(format!("user:{value}")));
    for form in [basic, |value: &str| format!("{{\"key\":{}}}", Value::from(value))] {
        let (old, new) = (form(VALUE), form("rotated, and longer than before"));
        assert_eq!(before.named(old.as_bytes()), after.named(new.as_bytes()));
        assert_ne!(before.named(old.as_bytes()), after.named(old.as_bytes()));
    }
    let two = format!("{VALUE}{VALUE}=a={VALUE}");
    assert_eq!(before.named(two.as_bytes()), b"[secret KEY][secret KEY]a=[secret KEY]");
}

#[test]
fn other_text_stays_as_it_is() {
    let redactor = redactor(VALUE);
    for text in ["", "s3cr", "value", "[secret OTHER]", "s3cr\"t/va+lue"] {
        assert_eq!(redactor.text(text.to_owned()), text);
    }
    let json = RawJson::parse("{ \"b\":1.50, \"a\":[\"\\u0041\"] }").expect("JSON");
    assert_eq!(redactor.json(json.clone()), json, "unchanged");
}

#[test]
fn json_stays_json_wherever_the_secret_stands() {
    let redactor = redactor("12345678");
    let json = r#"{"a":12345678,"b":["x12345678y",-12345678],"12345678":{"c":"\u00312345678"},"d":1}"#;
    let clean = redactor.json(RawJson::parse(json).expect("JSON"));
    let value: Value = clean.decode().expect("still JSON");
    assert!(!clean.as_str().contains("2345678"), "{}", clean.as_str());
    assert_eq!(value["a"], "[secret KEY]");
    assert_eq!(value["b"][0], "x[secret KEY]y");
    assert_eq!(value["[secret KEY]"]["c"], "[secret KEY]");
    assert_eq!(value["d"], 1);
}

#[test]
fn each_line_of_a_long_secret_is_one() {
    let redactor = redactor("-----BEGIN KEY-----\nMIIEvQIBADAN\nshort\n-----END KEY-----\n");
    assert_eq!(redactor.text("a MIIEvQIBADAN b short".into()), "a [secret KEY] b short");
}

#[test]
fn the_longest_of_two_secrets_wins_and_each_has_its_name() {
    let secrets = [("A", "password"), ("B", "password-and-more")];
    let secrets = secrets.map(|(name, value)| Secret::new(name, value).expect("long enough"));
    let redactor = Redactor::new(&secrets).expect("small").expect("some");
    assert_eq!(redactor.text("password password-and-more".into()), "[secret A] [secret B]");
}

#[test]
fn a_text_that_was_cut_within_a_secret_ends_before_it() {
    let redactor = redactor("abcdefghij");
    assert_eq!(redactor.cut_text("x abcdef".into()), "x [secret KEY]");
    assert_eq!(redactor.cut_text("x abc".into()), "x abc");
    assert_eq!(redactor.cut_text("abcdefghij".into()), "[secret KEY]");
}

#[test]
fn every_part_of_an_end_is_looked_at() {
    let redactor = redactor("abcdefghij");
    let leak = || RawJson::of(&serde_json::json!({ "x": "abcdefghij" }));
    let error = || RpcError { code: 1, message: "abcdefghij".into(), data: Some(leak()) };
    let result = RunEnd::Result { is_error: true, result: leak(), message: Some("abcdefghij".into()) };
    for end in [result, RunEnd::Error(error())] {
        let shown = format!("{:?}", redactor.run_end(end));
        assert!(!shown.contains("abcdef") && shown.contains("[secret KEY]"), "{shown}");
    }
    for end in [
        RetrievalEnd::Failed(error()),
        RetrievalEnd::Done(ProviderAnswer::Resources {
            entries: vec![leak()],
            next: Some("abcdefghij".into()),
        }),
        RetrievalEnd::Done(ProviderAnswer::Templates(vec![("abcdefghij".into(), leak())])),
        RetrievalEnd::Done(ProviderAnswer::Contents(Some(leak()))),
        RetrievalEnd::Done(ProviderAnswer::Prompt(leak())),
        RetrievalEnd::Done(ProviderAnswer::Completion(leak())),
    ] {
        let shown = format!("{:?}", redactor.retrieval_end(end));
        assert!(!shown.contains("abcdef") && shown.contains("[secret KEY]"), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_secret_is_left_in_any_text(
        secret in "[!-~]{8,40}",
        texts in prop::collection::vec("\\PC{0,30}", 1..4),
    ) {
        let redactor = redactor(&secret);
        let text = redactor.text(texts.join(&secret));
        prop_assert!(!redactor.finds(&text) || secret.contains("[secret KEY]") , "{text}");
        // A mark may contain a secret that is a part of the mark.
        prop_assert!(!text.contains(&secret) || "[secret KEY]".contains(&secret), "{text}");
    }

    #[test]
    fn json_stays_json(secret in "[ -~]{8,20}", name in "\\PC{0,10}", text in "\\PC{0,10}") {
        let redactor = redactor(&secret);
        let json = RawJson::of(&serde_json::json!({ name: format!("{text}{secret}{text}"), "n": [secret] }));
        let clean = redactor.json(json);
        prop_assert!(clean.decode::<Value>().is_ok(), "{}", clean.as_str());
    }
}

use super::*;

fn names(object: &str) -> Option<Vec<(String, String)>> {
    let mut seen = Vec::new();
    each(object, |member| seen.push((member.name.to_owned(), member.value.get().to_owned()))).ok()?;
    Some(seen)
}

#[test]
fn members_are_shown_as_they_are_written_those_of_one_name_too() {
    let shown = names(" { \"a\" : [ 1 ,2] ,\n\"\\u0061\":\"}\", \"a\":{\"b\":null} } ").expect("an object");
    let expected = [("\"a\"", "[ 1 ,2]"), ("\"\\u0061\"", "\"}\""), ("\"a\"", "{\"b\":null}")]
        .map(|(n, v)| (n.into(), v.into()));
    assert_eq!(shown, expected);
    assert_eq!(names("{}"), Some(Vec::new()));
    assert_eq!(names("{ \t\n}"), Some(Vec::new()));
    for other in r#"|[]|"a"|5|null|{|{"a"}|{"a":}|{1:2}|{null:2}|{"a":1,}"#.split('|') {
        assert_eq!(names(other), None, "{other:?}");
    }
}

#[test]
fn a_name_is_the_same_however_it_is_escaped() {
    let is = |text: &str, name: &str| {
        let mut answer = None;
        each(&format!("{{{text}:0}}"), |member| answer = Some(member.is(name))).expect("an object");
        answer.expect("a member")
    };
    assert!(is(r#""""#, "") && !is(r#""""#, "a"));
    for text in [r#""a/b""#, r#""a\/b""#, r#""\u0061\u002fb""#] {
        assert!(is(text, "a/b"), "{text}");
    }
    for text in [r#""A/b""#, r#""a/b ""#, r#""a""#] {
        assert!(!is(text, "a/b"), "{text}");
    }
    assert!(!is(r#""\\""#, "\\\\") && !is(r#""\ud800""#, "\u{fffd}"));
}

#[test]
fn what_is_below_is_not_read_however_deep() {
    let deep = format!("{{\"a\":{}{},\"b\":1}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(last(&deep, "b").map(RawValue::get), Some("1"));
    assert_eq!(last(r#"{"a":1,"\u0061":2}"#, "a").map(RawValue::get), Some("2"), "the last one counts");
    assert!(last(r#"{"a":1"#, "a").is_none(), "not read to its end");
}

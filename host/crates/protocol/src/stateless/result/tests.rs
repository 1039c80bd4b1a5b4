use super::*;
use serde_json::Value;

const SERVER: &str = r#"{"name":"toolyard","version":"1"}"#;
const SI: &str = r#""io.modelcontextprotocol/serverInfo""#;

fn completed(result: &str) -> String {
    let result = RawJson::trusted(result.to_owned());
    let made = complete(&result, &RawJson::trusted(SERVER));
    RawJson::parse(made.bytes()).expect("still JSON, and no name twice");
    made.as_str().to_owned()
}

/// 26J-4, 26J-5: the additions are made, and nothing else changes. Similar text, deeper or in a string, is the guest's
/// own.
#[test]
fn a_result_says_what_it_is_and_who_gave_it_and_stays_itself() {
    for (given, members, meta) in [
        ("{}", "", ""),
        ("{ \n\t}", "", ""),
        (r#"{"content":[ ], "big":9007199254740993}"#, r#""content":[ ], "big":9007199254740993,"#, ""),
        (r#"{"a":"é\u00e9\/","f":1.0}"#, r#""a":"é\u00e9\/","f":1.0,"#, ""),
        (r#"{"_meta":{"a":"}"},"content":[]}"#, r#""content":[],"#, r#","a":"}""#),
        ("{\"_meta\": { } }", "", ""),
        (
            r#"{"a":[{"resultType":"task","_meta":{"a":1}}]}"#,
            r#""a":[{"resultType":"task","_meta":{"a":1}}],"#,
            "",
        ),
        (r#"{"a":{"resultType":"x","ttlMs":1}}"#, r#""a":{"resultType":"x","ttlMs":1},"#, ""),
        (r#"{"t":"\"resultType\":0,\"_meta\":{}"}"#, r#""t":"\"resultType\":0,\"_meta\":{}","#, ""),
    ] {
        let expected = format!(r#"{{"resultType":"complete",{members}"_meta":{{{SI}:{SERVER}{meta}}}}}"#);
        assert_eq!(completed(given), expected, "{given}");
    }
}

/// 26J-4, 26J-5: a guest cannot set these, however it spells them.
#[test]
fn what_a_guest_says_of_its_own_result_is_replaced_and_never_doubled() {
    for given in [
        r#"{"resultType":"task","content":[]}"#.to_owned(),
        r#"{"result\u0054ype":"input_required","content":[],"resultType":5}"#.to_owned(),
        format!(r#"{{"_meta":{{{SI}:{{"name":"guest","version":"0"}}}},"content":[]}}"#),
        r#"{"_meta":{"io.modelcontextprotocol\u002fserverInfo":1,"io.modelcontextprotocol\/serverInfo":2},"content":[]}"#
            .to_owned(),
        format!(r#"{{"\u005fmeta":{{{SI}:0,"a":1}},"content":[],"_meta":{{"b":2,{SI}:{{}}}}}}"#),
        r#"{"_meta":null,"content":[]}"#.to_owned(),
        r#"{"_meta":"text","content":[]}"#.to_owned(),
        r#"{"_meta":["a"],"content":[]}"#.to_owned(),
    ] {
        let made = completed(&given);
        let value: Value = serde_json::from_str(&made).expect("JSON");
        assert_eq!(value["resultType"], "complete", "{made}");
        assert_eq!(value["content"], serde_json::json!([]), "{made}");
        assert_eq!(value["_meta"][META_SERVER_INFO]["name"], "toolyard", "{made}");
        assert_eq!(made.matches("serverInfo").count(), 1, "{made}");
    }
}

/// 26C-5: cacheable results say how long and for whom they are valid.
#[test]
fn what_may_be_kept_says_how_long_and_for_whom() {
    let server = RawJson::trusted(SERVER);
    let list = RawJson::trusted(r#"{"tools":[]}"#);
    let made = complete_cached(&list, &server, &Cache { ttl_ms: 0, public: false });
    let kind = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
    assert_eq!(made.as_str(), format!(r#"{{{kind},"tools":[],"_meta":{{{SI}:{SERVER}}}}}"#));
    let read = RawJson::trusted(r#"{"contents":[],"ttlMs":-1,"cacheSc\u006fpe":"public","ttlMs":"x"}"#);
    let made = complete_cached(&read, &server, &Cache { ttl_ms: 60_000, public: true });
    let value: Value = RawJson::parse(made.bytes()).expect("no name twice").decode().expect("JSON");
    assert_eq!((&value["ttlMs"], &value["cacheScope"]), (&60_000.into(), &"public".into()));
    // Without hints, those of a guest are ordinary members.
    let kept: Value = serde_json::from_str(&completed(r#"{"content":[],"ttlMs":5}"#)).expect("JSON");
    assert_eq!(kept["ttlMs"], 5);
}

/// 26T-14: a result inside of a task is complete, names no server of its own, and is
/// not tied to the task.
#[test]
fn a_result_inside_of_a_task_is_complete_and_not_tied_to_it() {
    for (given, expected) in [
        ("{}", ""),
        (r#"{"content":[ ]}"#, r#","content":[ ]"#),
        (r#"{"resultType":"task","content":[]}"#, r#","content":[]"#),
        (r#"{"_meta":{"a":1},"content":[]}"#, r#","content":[],"_meta":{"a":1}"#),
        (r#"{"_meta":{"io.modelcontextprotocol/related-task":{},"a":1}}"#, r#","_meta":{"a":1}"#),
        (r#"{"_meta":{"io.modelcontextprotocol\/related-task":{}}}"#, r#","_meta":{}"#),
    ] {
        let expected = format!(r#"{{"resultType":"complete"{expected}}}"#);
        assert_eq!(inner_complete(&RawJson::trusted(given)).as_str(), expected, "{given}");
    }
}

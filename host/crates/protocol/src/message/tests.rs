use super::*;
use crate::error::{INVALID_REQUEST, PARSE_ERROR};

fn one_or_batch(text: &str) -> Result<Incoming, DecodeError> {
    decode(&Bytes::copy_from_slice(text.as_bytes()))
}

fn one(text: &str) -> Result<Message, DecodeError> {
    match one_or_batch(text)? {
        Incoming::One(message) => Ok(message),
        Incoming::Batch(_) => panic!("a batch"),
    }
}

#[test]
fn j_1_ids_are_strings_or_integers_and_keep_their_type() {
    for (id, expected) in [
        ("0", Id::Number(0)),
        ("-7", Id::Number(-7)),
        ("9007199254740993", Id::Number(9_007_199_254_740_993)),
        ("\"\"", Id::Text(String::new())),
        ("\"7\"", Id::Text("7".into())),
    ] {
        let request = one(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert!(matches!(&request, Ok(Message::Request { id, .. }) if *id == expected), "{request:?}");
    }
    for id in ["null", "1.5", "true", "[]", "{}", "1e400"] {
        let error = one(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).expect_err(id);
        assert_eq!((error.error.code, error.id), (INVALID_REQUEST, None), "{id}");
    }
}

#[test]
fn j_5_what_is_not_json_is_a_parse_error() {
    for text in ["", "{", "{\"jsonrpc\":\"2.0\",}", "nonsense", "{} {}", "[1,"] {
        assert_eq!(one_or_batch(text).expect_err(text).error.code, PARSE_ERROR, "{text:?}");
    }
    let bad = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}");
    assert!(decode(&bad).is_err());
}

#[test]
fn what_is_json_but_not_json_rpc_is_an_invalid_request_that_names_the_id_where_it_can() {
    let none = r#"1 "x" null [] {"jsonrpc":"2.0","result":{}} {"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#;
    let seven = r#"{"id":7,"method":"ping"} {"jsonrpc":"1.0","id":7,"method":"ping"}
                   {"jsonrpc":2.0,"id":7,"method":"ping"} {"jsonrpc":"2.0","id":7}
                   {"jsonrpc":"2.0","id":7,"method":5} {"jsonrpc":"2.0","id":7,"method":"x","params":[]}
                   {"jsonrpc":"2.0","id":7,"method":"x","params":null}
                   {"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}
                   {"jsonrpc":"2.0","id":7,"method":"x","result":{}}"#;
    for (texts, id) in [(none, None), (seven, Some(Id::Number(7)))] {
        for text in texts.split_whitespace() {
            let error = one_or_batch(text).expect_err(text);
            assert_eq!((error.error.code, &error.id), (INVALID_REQUEST, &id), "{text}");
        }
    }
}

#[test]
fn parameters_share_the_memory_of_the_body() {
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"x","params": {"a": 1} }"#);
    let Ok(Incoming::One(Message::Request { params: Some(params), .. })) = decode(&body) else {
        panic!("a request");
    };
    assert_eq!(params.as_str(), r#"{"a": 1}"#);
    assert!(body.as_ptr_range().contains(&params.as_bytes().as_ptr()));
}

#[test]
fn responses_carry_a_result_or_an_error() {
    assert_eq!(
        one(r#"{"jsonrpc":"2.0","id":"s-1","result":{"ok":true}}"#),
        Ok(Message::Response { id: Id::Text("s-1".into()), outcome: Ok(RawJson::trusted(r#"{"ok":true}"#)) })
    );
    assert_eq!(
        one(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}"#),
        Ok(Message::Response { id: Id::Number(3), outcome: Err(RpcError::new(-1, "no")) })
    );
}

#[test]
fn j_6_each_member_of_a_batch_is_judged_by_itself() {
    let batch = r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 5, {"jsonrpc":"2.0","method":"n"}]"#;
    let Ok(Incoming::Batch(members)) = one_or_batch(batch) else { panic!("a batch") };
    assert!(matches!(members[0], Ok(Message::Request { .. })));
    assert_eq!(members[1].as_ref().expect_err("5").error.code, INVALID_REQUEST);
    assert!(matches!(members[2], Ok(Message::Notification { .. })));
}

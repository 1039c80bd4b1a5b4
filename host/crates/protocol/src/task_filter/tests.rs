use super::*;
use serde_json::{Value, json};

fn decode(params: &Value) -> Result<Option<TaskFilter>, RpcError> {
    TaskFilter::decode(Some(&RawJson::of(params)))
}

fn decoded(params: &Value) -> TaskFilter {
    decode(params).expect("is a filter").expect("is there")
}

/// Refused with `-32602` that names the member, in both places.
fn assert_refused(name: &str, value: &Value) {
    for params in [json!({"filter": {name: value}}), json!({name: value})] {
        let error = decode(&params).expect_err("is refused");
        assert_eq!(error.code, -32602, "{params}");
        assert!(error.message.contains(&format!("`{name}`")), "{params}: {}", error.message);
    }
}

fn time(text: &str) -> Timestamp {
    let (before, after) = Timestamp::around(text).expect("is a time");
    assert_eq!(before, after, "{text} is a whole millisecond");
    before
}

#[test]
fn f_2_every_criterion_is_read() {
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    let members = json!({
        "methods": ["tools/call", "sampling/createMessage"],
        "taskIds": ["786512e2-9e0d-44bd-8f29-789f320fe840", "no id at all"],
        "status": ["working", "input_required", "completed", "failed", "cancelled"],
        // F-5: tasks have times of whole milliseconds: later than .1205 is later than .120, earlier than .1205 is
        // earlier than .121.
        "createdAfter": "2025-11-25T10:30:00.1205Z",
        "createdBefore": "2025-11-25T10:30:00.1205Z",
        "lastUpdatedAfter": "2025-11-26T10:30:00.001Z",
        "lastUpdatedBefore": "2025-11-27T10:30:00+01:00",
        "orderBy": "createdAt",
        "order": "asc",
    });
    let expected = TaskFilter {
        methods: Some(vec!["tools/call".into(), "sampling/createMessage".into()]),
        task_ids: Some(vec!["786512e2-9e0d-44bd-8f29-789f320fe840".into(), "no id at all".into()]),
        status: Some(vec![Working, InputRequired, Completed, Failed, Cancelled]),
        created_after: Some(time("2025-11-25T10:30:00.120Z")),
        created_before: Some(time("2025-11-25T10:30:00.121Z")),
        last_updated_after: Some(time("2025-11-26T10:30:00.001Z")),
        last_updated_before: Some(time("2025-11-27T09:30:00Z")),
        order_by: OrderBy::CreatedAt,
        order: Direction::Asc,
    };
    assert_eq!(decoded(&json!({"filter": members})), expected);
    // F-4: the same names in the params themselves, and F-8: any of them is a filter.
    assert_eq!(decoded(&members), expected);
    for (name, value) in members.as_object().expect("an object") {
        assert!(decode(&json!({name: value})).expect("is a filter").is_some(), "{name}");
    }
}

#[test]
fn f_4_the_object_wins_entirely_over_the_params() {
    let params = json!({"filter": {"status": ["failed"]}, "status": 5, "order": "asc", "taskIds": []});
    let expected = TaskFilter { status: Some(vec![TaskStatus::Failed]), ..TaskFilter::default() };
    assert_eq!(decoded(&params), expected);
    assert_eq!(decoded(&json!({"filter": {}, "status": ["nonsense"]})), TaskFilter::default());
}

#[test]
fn f_8_a_filter_is_there_if_the_object_is_or_any_member_of_it() {
    assert_eq!(TaskFilter::decode(None), Ok(None));
    for params in [json!({}), json!({"cursor": "x", "_meta": {}, "limit": 5, "created_after": 7})] {
        assert_eq!(decode(&params), Ok(None), "{params}");
    }
    for params in [json!({"filter": {}}), json!({"filter": {"unknown": 5, "Status": null}})] {
        let filter = decoded(&params);
        assert_eq!(filter, TaskFilter::default(), "{params}");
        assert_eq!((filter.order_by, filter.order), (OrderBy::LastUpdatedAt, Direction::Desc));
    }
}

#[test]
fn f_5_what_is_no_criterion_is_refused_by_its_name() {
    let lists = json!([null, "working", 5, {}, [5], [null]]);
    let states = json!([[""], ["Working"], ["submitted"], ["input-required"], ["working", "Working"]]);
    let times = json!([null, 1_764_066_600_000_i64, "yesterday", ["2025-11-25T10:30:00Z"]]);
    for (names, values) in [
        ("methods taskIds status", lists),
        ("status", states),
        ("createdAfter createdBefore lastUpdatedAfter lastUpdatedBefore", times),
        ("orderBy", json!([null, "CREATEDAT", "ttl", ["createdAt"], 1])),
        ("order", json!([null, "descending", "ASC", -1])),
    ] {
        for name in names.split(' ') {
            values.as_array().expect("a list").iter().for_each(|value| assert_refused(name, value));
        }
    }
    for value in [json!(null), json!([]), json!("working"), json!(true)] {
        let error = decode(&json!({"filter": value})).expect_err("is refused");
        assert_eq!((error.code, error.message.as_str()), (-32602, "`filter` must be an object"));
    }
    let twice = RawJson::trusted(r#"{"filter":{"order":"asc","order":"desc"}}"#);
    let error = TaskFilter::decode(Some(&twice)).expect_err("is refused");
    assert!(error.code == -32602 && error.message.contains("`order`"), "{}", error.message);
    let list = TaskFilter::decode(Some(&RawJson::trusted("[1]"))).expect_err("is no object");
    assert_eq!(list.code, -32602);
}

#[test]
fn f_5_lists_are_bounded_whatever_follows() {
    let ids = |count: usize| vec!["x"; count];
    for name in ["methods", "taskIds"] {
        let params = json!({name: ids(MAX_MEMBERS)});
        assert!(decode(&params).is_ok(), "{name}");
        assert_refused(name, &json!(ids(MAX_MEMBERS + 1)));
    }
    assert_refused("status", &json!(vec!["failed"; MAX_MEMBERS + 1]));
}

#[test]
fn f_2_only_tool_calls_become_tasks() {
    let of = |methods: Value| decoded(&json!({"methods": methods})).takes_tool_calls();
    assert!(TaskFilter::default().takes_tool_calls());
    assert!(of(json!(["sampling/createMessage", "tools/call"])));
    assert!(!of(json!(["sampling/createMessage"])));
    assert!(!of(json!(["tools/CALL", "tools"])));
    assert!(!of(json!([])), "F-5: an empty list takes nothing");
}

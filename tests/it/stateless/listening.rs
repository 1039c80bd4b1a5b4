//! `subscriptions/listen` (26SUB): the host first acknowledges what it grants, and then sends these
//! notifications until the stream ends.

use super::{patient, probe, script, steps};
use crate::questions::scripted;
use rustix::process::Signal;
use serde_json::{Value, json};
use toolyard_tests::host::{Setup, install};
use toolyard_tests::stateless::{Client, TASKS, enveloped, everything, key, tasks};
use toolyard_tests::{Host, Session, Stdio, eventually, guests};

const NOBODY: &str = "786512e2-9e0d-44bd-8f29-789f320fe840";

/// A host that offers resources and tools, and a client that supports tasks.
async fn offering() -> (Host, Client) {
    let host = patient(scripted()).with(&[guests::fixture("library")]).start().await;
    let client = Client::new(host.port()).declaring(everything());
    (host, client)
}

async fn change(client: &Client, what: &str) {
    let result = client.result("tools/call", steps(json!([{"changed": what}]))).await;
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn sub_26sub_1_sub_26sub_2_what_is_granted_is_said_first_and_nothing_more_is_told() {
    let (_host, client) = offering().await;
    let uris = json!(["book:/1", "book:/2"]);
    for (wanted, granted) in [
        (json!({"toolsListChanged": true}), json!({"toolsListChanged": true})),
        (json!({"promptsListChanged": true, "toolsListChanged": false}), json!({"promptsListChanged": true})),
        (json!({"resourceSubscriptions": uris}), json!({"resourceSubscriptions": uris})),
        (
            json!({"resourcesListChanged": true, "taskIds": [NOBODY, "nonsense"]}),
            // 26T-24: the answer does not reveal whether a task exists.
            json!({"resourcesListChanged": true, "taskIds": []}),
        ),
        // 26X-11: kinds of a later revision are not an error.
        (json!({"toolsListChanged": true, "later": {"a": 1}}), json!({"toolsListChanged": true})),
    ] {
        let (_listening, acknowledged) = client.listen(wanted.clone()).await;
        let mut acknowledged = acknowledged;
        if granted.get("taskIds").is_some() {
            // No member, or an empty list.
            let none = acknowledged.as_object_mut().expect("an object").remove("taskIds");
            assert!(none.is_none_or(|none| none == json!([])));
            let mut granted = granted;
            granted.as_object_mut().expect("an object").remove("taskIds");
            assert_eq!(acknowledged, granted, "{wanted}");
        } else {
            assert_eq!(acknowledged, granted, "{wanted}");
        }
    }
    for wrong in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": []}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
        json!({"notifications": {"resourceSubscriptions": "book:/1"}}),
        json!({"notifications": {"resourceSubscriptions": [5]}}),
        json!({"notifications": {"taskIds": {}}}),
    ] {
        let reply = client.ask("subscriptions/listen", wrong.clone()).await;
        assert_eq!(reply.refusal().1, -32602, "{wrong}: {}", reply.message);
    }
}

#[tokio::test]
async fn sub_26sub_6_where_nothing_is_granted_it_is_over_at_once() {
    let (_host, client) = probe().await;
    for wanted in [
        json!({}),
        json!({"toolsListChanged": false}),
        json!({"taskIds": [NOBODY]}),
        // No plugin here offers any.
        json!({"promptsListChanged": true, "resourcesListChanged": true}),
    ] {
        let request = client.request("subscriptions/listen", json!({"notifications": wanted}));
        let (listening, _) = client.listen_by(&request.numbered(json!("l-1"))).await;
        let rest = listening.rest().await;
        assert_eq!(rest.len(), 1, "{wanted}: {rest:?}");
        assert_eq!(rest[0]["id"], "l-1");
        assert_eq!(rest[0]["result"]["resultType"], "complete");
        assert_eq!(rest[0]["result"]["_meta"][key::SUBSCRIPTION], "l-1");
    }
}

#[tokio::test]
async fn sub_26sub_3_each_kind_is_told_with_the_id_of_its_request() {
    let (host, client) = offering().await;
    let all = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["book:/1"],
    });
    let of = |id: Value, wanted: &Value| {
        client.request("subscriptions/listen", json!({"notifications": wanted})).numbered(id)
    };
    // A number and a string with the same digits are two request ids (26J-3).
    let (mut number, _) = client.listen_by(&of(json!(7), &all)).await;
    let (mut text, _) = client.listen_by(&of(json!("7"), &all)).await;
    let (mut only_tools, _) = client.listen_by(&of(json!("t"), &json!({"toolsListChanged": true}))).await;
    for (what, method) in [
        ("tools", "notifications/tools/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("book:/1", "notifications/resources/updated"),
    ] {
        change(&client, what).await;
        for (listening, id) in [(&mut number, json!(7)), (&mut text, json!("7"))] {
            let told = listening.next_of(method).await;
            assert_eq!(told["_meta"][key::SUBSCRIPTION], id, "{method}");
            if what == "book:/1" {
                assert_eq!(told["uri"], what);
            }
        }
    }
    change(&client, "book:/2").await;
    change(&client, "tools").await;
    // The stream for tools only received none of that: the tap would have failed the test otherwise.
    assert_eq!(only_tools.next_of("notifications/tools/list_changed").await["_meta"][key::SUBSCRIPTION], "t");
    // A new plugin is such a change.
    let (mut fresh, _) = client.listen(json!({"toolsListChanged": true})).await;
    install(&guests::fixture("versioned_v1"), &host.plugins());
    fresh.next_of("notifications/tools/list_changed").await;
    let tools = client.result("tools/list", json!({})).await["tools"].to_string();
    assert!(tools.contains("\"version\""), "the list exists when the notification comes");
}

#[tokio::test]
async fn sub_26sub_7_t_26t_23_t_26t_24_tasks_are_told_as_they_are_and_then_at_each_change() {
    let (_host, client) = script().await;
    let id = client
        .create(
            "script",
            json!({"steps": [{"begin": null}, {"ask": [crate::questions::form("a")]}, {"sleep": 20}]}),
        )
        .await;
    client.until(&id, "input_required").await;
    let done = client.create("script", json!({"steps": [{"begin": null}]})).await;
    let completed = client.until(&done, "completed").await;
    let (mut listening, granted) = client.listen(json!({"taskIds": [id, NOBODY, done]})).await;
    let mut ids: Vec<_> =
        granted["taskIds"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
    ids.sort_unstable();
    let mut expected = [id.as_str(), done.as_str()];
    expected.sort_unstable();
    assert_eq!(ids, expected, "those that there are");
    // One snapshot of each task, in the form of `tasks/get` (26X-2).
    let mut snapshots = Vec::new();
    for _ in 0..2 {
        snapshots.push(listening.next_of("notifications/tasks").await);
    }
    let of = |id: &str| {
        let mut told = snapshots.iter().find(|told| told["taskId"] == id).expect("a snapshot").clone();
        told.as_object_mut().expect("an object").remove("_meta");
        told
    };
    let bare = |mut task: Value| {
        let members = task.as_object_mut().expect("an object");
        members.remove("_meta");
        members.remove("resultType");
        task
    };
    assert_eq!(of(&done), bare(completed));
    assert_eq!(of(&id), bare(client.task(&id).await));
    let key = of(&id)["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a key").clone();
    client.update(&id, json!({key: crate::questions::accepted()})).await;
    let mut last = listening.next_of("notifications/tasks").await;
    while last["status"] != "completed" {
        assert_eq!(last["taskId"], id.as_str(), "no further message of the cancelled stream");
        last = listening.next_of("notifications/tasks").await;
    }
    last.as_object_mut().expect("an object").remove("_meta");
    assert_eq!(last, bare(client.task(&id).await), "the whole task, its result included");
}

#[tokio::test]
async fn t_26t_24_t_26t_6_listening_to_tasks_takes_the_extension_each_time() {
    let (host, client) = script().await;
    let id = client.create("script", json!({"steps": [{"begin": null}, {"sleep": 600_000}]})).await;
    let bare = Client::new(host.port());
    let wanted = json!({"notifications": {"taskIds": [id], "toolsListChanged": true}});
    let reply = bare.ask("subscriptions/listen", wanted.clone()).await;
    assert_eq!(reply.refusal(), (400, -32021));
    assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], json!({"extensions": {TASKS: {}}}));
    // An empty list of tasks may be acknowledged as empty or as absent; without the member, no tasks are
    // granted.
    let (_listening, granted) = bare.listen(json!({"toolsListChanged": true})).await;
    assert_eq!(granted, json!({"toolsListChanged": true}));
    // The request's own capabilities decide about open questions, as in 26T-19.
    let able = client.request("subscriptions/listen", wanted).meta(key::CAPABILITIES, tasks());
    let (mut listening, _) = client.listen_by(&able).await;
    assert_eq!(listening.next_of("notifications/tasks").await["taskId"], id.as_str());
}

#[tokio::test]
async fn sub_26sub_5_x_26x_4_who_is_stopped_says_so_with_the_response() {
    let (mut host, client) = probe().await;
    let request =
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (listening, _) = client.listen_by(&request.numbered(json!("l"))).await;
    let id = client.create("batch", json!({"steps": 1, "ms": 1})).await;
    client.until(&id, "completed").await;
    // The shutdown does not wait for listeners.
    host.signal(Signal::TERM);
    let rest = listening.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["_meta"][key::SUBSCRIPTION]), (&json!("l"), &json!("l")));
    assert!(host.ended().await.success());
}

#[tokio::test]
async fn sub_26sub_4_who_goes_away_listens_no_more() {
    let setup = super::single().set("admin.listen", "127.0.0.1:0");
    let host = setup.start().await;
    let client = Client::with_tasks(host.port());
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.listen(json!({"toolsListChanged": true})).await.0);
    }
    // 20 listeners are not calls: the one slot is free.
    let result = client.result("tools/call", steps(json!([]))).await;
    assert_eq!(result["isError"], false);
    drop(streams);
    // The host has closed their streams.
    let admin = {
        let log = host.log();
        let (before, _) = log.split_once(" has /healthz").expect("an admin listener");
        before.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).expect("a port")
    };
    eventually("the streams to be over", || async {
        let connection = toolyard_tests::http::Connection::open(admin).await;
        let answer = connection.not_mcp().send(hyper::Method::GET, "/metrics", &[], "").await;
        let numbers = String::from_utf8(answer.bytes().await.to_vec()).expect("text");
        let line = numbers
            .lines()
            .find(|line| line.starts_with("toolyard_streams ") || line.starts_with("toolyard_streams{} "));
        line.is_some_and(|line| line.ends_with(" 0")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn sub_26sub_4_a_pipe_carries_several_and_each_is_ended_by_name() {
    let mut stdio = Stdio::start(patient(scripted()).with(&[guests::fixture("library")]));
    let capabilities = everything();
    let listen = |id: Value, wanted: Value| {
        let params = enveloped(json!({"notifications": wanted}), &capabilities);
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}).to_string()
    };
    for (id, wanted) in [
        (json!("a"), json!({"toolsListChanged": true})),
        (json!("b"), json!({"toolsListChanged": true, "promptsListChanged": true})),
    ] {
        stdio.line(&listen(id.clone(), wanted.clone())).await;
        let first = stdio.read().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"][key::SUBSCRIPTION], id);
        assert_eq!(first["params"]["notifications"], wanted);
    }
    let changed = |what: &str| enveloped(steps(json!([{"changed": what}])), &capabilities);
    let heard = async |stdio: &mut Stdio, what: &str, count: usize| {
        stdio.send("tools/call", changed(what)).await;
        let mut ids = Vec::new();
        let mut answered = false;
        while !answered || ids.len() < count {
            let message = stdio.read().await;
            match message["params"]["_meta"][key::SUBSCRIPTION].as_str() {
                Some(id) => ids.push(id.to_owned()),
                None => answered = true,
            }
        }
        ids.sort();
        ids
    };
    assert_eq!(heard(&mut stdio, "tools", 2).await, ["a", "b"]);
    assert_eq!(heard(&mut stdio, "prompts", 1).await, ["b"]);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "b"}});
    stdio.line(&cancel.to_string()).await;
    // By the second notification, all earlier messages have arrived.
    heard(&mut stdio, "tools", 1).await;
    assert_eq!(heard(&mut stdio, "tools", 1).await, ["a"]);
    // The end of the input ends everything, each stream with its final message (26S-3).
    let (status, rest) = stdio.close().await;
    assert!(status.success());
    assert!(rest.lines().all(|line| !line.contains("\"b\"")), "{rest}");
}

#[tokio::test]
async fn sub_26sub_6_listening_hears_nothing_of_calls() {
    let (host, client) = script().await;
    let request =
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (mut listening, _) = client
        .listen_by(&request.meta(key::LOG_LEVEL, json!("debug")).meta("progressToken", json!("p")))
        .await;
    let talk =
        json!([{"log": {"level": "error", "data": 1}}, {"progress": {"progress": 1}}, {"changed": "tools"}]);
    client.result("tools/call", steps(talk.clone())).await;
    Session::open(host.port()).await.call("script", json!({"steps": talk})).await;
    // The tap fails the test on a notification that does not belong here.
    listening.next_of("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn sub_26sub_1_what_one_stream_may_name_is_bounded() {
    let setup: Setup = scripted().with(&[guests::fixture("library")]).set("wire.subscriptions", "3");
    let host = setup.start().await;
    let client = Client::new(host.port()).declaring(everything());
    let uris = |count: usize| (0..count).map(|n| format!("book:/{n}")).collect::<Vec<_>>();
    let (_listening, granted) = client.listen(json!({"resourceSubscriptions": uris(3)})).await;
    assert_eq!(granted["resourceSubscriptions"].as_array().map(Vec::len), Some(3));
    let wanted = json!({"notifications": {"resourceSubscriptions": uris(4)}});
    let reply = client.ask("subscriptions/listen", wanted).await;
    assert!(reply.message["error"].to_string().contains("wire.subscriptions"), "{}", reply.message);
}

//! Plain calls of clients that know no tasks: hand-off, collection, timeouts, equal calls, questions and the
//! queue.

pub mod stage;

use crate::kit::prelude::*;
use crate::kit::stateless;
use stage::{Stage, Work, hand_off, plain, text_of};
use std::num::NonZeroU32;
use toolyard_dispatch::{ListFor, StopCause, TaskSupport};
use toolyard_task::rate::{Per, Rate};

const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(20);

/// The id of the task that a result names.
fn id_of(result: &Value) -> &str {
    result["_meta"]["io.toolyard/task"]["taskId"].as_str().expect("an id")
}

/// The tool `render`, and a host that has it alone.
fn rendering(after: Duration) -> (Work, Stage) {
    let work = Work::default();
    let stage = Stage::new(after, vec![work.tool("render")]);
    (work, stage)
}

#[tokio::test]
async fn a_long_call_is_answered_by_the_task_that_it_goes_on_as_and_is_run_once_or_cancelled() {
    let (work, stage) = rendering(SOON);
    let caller = mute();
    let (text, result) = hand_off(stage.call(&caller, "render").await);
    assert_eq!(result["isError"], false);
    assert!(text.starts_with("\"render\" is still running. Nothing has failed."), "{text}");
    let id = id_of(&result).to_owned();
    assert!(text.contains(&format!("call task_wait with {{\"task_id\": \"{id}\"}}")), "{text}");
    let running = plain(stage.call_with(&caller, "task_wait", json!({"task_id": id, "seconds": 0})).await);
    assert!(running.contains("is still running"), "{running}");
    work.finish();
    let (text, result) = hand_off(stage.call_with(&caller, "task_wait", json!({"task_id": id})).await);
    assert!(text.contains("is done. Its result:"), "{text}");
    assert_eq!(result["content"][1]["text"], "rendered");
    assert_eq!((work.started(), work.dropped()), (1, 1));

    let (_, result) = hand_off(stage.call_with(&caller, "render", json!({"other": 1})).await);
    let id = id_of(&result);
    let stopped = plain(stage.call_with(&caller, "task_cancel", json!({"task_id": id})).await);
    assert!(stopped.contains("is cancelled"), "{stopped}");
    eventually("the end of the run", || work.dropped() == 2).await;
    let (text, result) = hand_off(stage.call_with(&caller, "task_wait", json!({"task_id": id})).await);
    assert!(text.contains("was cancelled") && result["isError"] == true, "{text}");
}

#[tokio::test]
async fn a_call_that_ends_in_time_is_a_plain_call_even_of_a_tool_that_requires_tasks() {
    for support in [TaskSupport::Optional, TaskSupport::Required] {
        let work = Work::default();
        let stage = Stage::new(NEVER, vec![work.run(native("render").task_support(support))]);
        let caller = mute();
        let (reply, ()) = tokio::join!(stage.call(&caller, "render"), async {
            work.begun().await;
            work.finish();
        });
        let reply = reply.expect("ran");
        assert!(support == TaskSupport::Required || matches!(reply, CallReply::Result(_)), "{reply:?}");
        assert_eq!(text_of(&reply), "rendered");
    }
}

/// Section 9 of the design: after the timeout of an SDK the call goes on, and a repeated call joins it. If the
/// client gives no reason, the age of the call decides. An anonymous client is known by its session.
#[tokio::test]
async fn a_timeout_keeps_the_call_and_the_equal_call_joins_it() {
    for (caller, cause, age) in [
        (mute(), StopCause::Timeout, 0),
        (mute(), StopCause::Unsaid, 5_000),
        (anonymous(Some("s")), StopCause::Unsaid, 30_000),
        (anonymous(Some("s")), StopCause::Timeout, 0),
    ] {
        let (work, stage) = rendering(NEVER);
        let given_up = stage.stopped_at(&caller, json!({}), (cause, age), &work).await;
        assert!(matches!(given_up, Err(Fault::Cancelled)), "{given_up:?}");
        let again = stage.call_with(&caller, "render", json!({}));
        let (joined, ()) = tokio::join!(again, async {
            tokio::time::sleep(SOON).await;
            work.finish();
        });
        assert_eq!(hand_off(joined).0, "rendered");
        assert_eq!(work.started(), 1, "it joined the kept run");
        // The result was collected, so the next equal call is a new one.
        let (anew, ()) = tokio::join!(stage.call_with(&caller, "render", json!({})), async {
            eventually("another run", || work.started() == 2).await;
            work.finish();
        });
        assert!(matches!(anew, Ok(CallReply::Result(_))), "{anew:?}");
    }
}

#[tokio::test]
async fn other_arguments_and_other_owners_join_nothing() {
    let (work, stage) = rendering(SOON);
    let caller = mute();
    stage.timed_out(&caller, &work).await;
    drop(hand_off(stage.call_with(&caller, "render", json!({"other": 1})).await));
    assert_eq!(work.started(), 2);
    let alice = stateless::signed_in("alice");
    drop(hand_off(stage.call_with(&alice, "render", json!({})).await));
    assert_eq!(work.started(), 3);
}

#[tokio::test]
async fn a_person_and_a_client_that_nobody_finds_again_stop_the_call() {
    for (caller, cause) in [
        (mute(), StopCause::Wanted),
        (mute(), StopCause::Unsaid),
        (mute(), StopCause::Disconnected),
        (stranger(), StopCause::Timeout),
    ] {
        let (work, stage) = rendering(NEVER);
        drop(stage.stopped_at(&caller, json!({}), (cause, 7_000), &work).await);
        eventually("the end of the run", || work.dropped() == 1).await;
    }
}

/// Whether its client had a timeout is a guess.
#[tokio::test]
async fn a_call_that_was_given_up_at_a_round_age_is_stopped_if_nobody_asks_for_it() {
    let work = Work::default();
    let stage = Stage::with(NEVER, vec![work.tool("render")], |settings| {
        let bridge = settings.bridge.as_mut().expect("is on");
        Arc::get_mut(bridge).expect("not shared yet").grace = SOON;
    });
    drop(stage.stopped_at(&mute(), json!({}), (StopCause::Unsaid, 5_000), &work).await);
    eventually("the end of the run", || work.dropped() == 1).await;
    drop(stage.stopped_at(&mute(), json!({}), (StopCause::Timeout, 5_000), &work).await);
    tokio::time::sleep(4 * SOON).await;
    assert_eq!((work.started(), work.dropped()), (2, 1), "it said that it had a timeout");
}

#[tokio::test]
async fn a_client_that_gave_up_at_an_age_is_answered_before_it_from_then_on() {
    for (cause, times) in [(StopCause::Timeout, 1), (StopCause::Unsaid, 2), (StopCause::Disconnected, 2)] {
        let (work, stage) = rendering(NEVER);
        for call in 0..times {
            drop(stage.stopped_at(&mute(), json!({"call": call}), (cause, 1_100), &work).await);
        }
        hand_off(stage.call_with(&mute(), "render", json!({"call": "next"})).await);
    }
    // So is one that gave up a `task_wait`.
    let (_work, stage) = rendering(SOON);
    hand_off(stage.call(&mute(), "render").await);
    let caller = mute();
    let moment = async {
        tokio::time::sleep(2 * SOON).await;
        stage.clock.advance(1_100);
    };
    let wait = ("task_wait", json!({}));
    let given_up = stage.call_stopped_by(&caller, wait, StopCause::Timeout, moment).await;
    assert!(matches!(given_up, Err(Fault::Cancelled)));
    plain(stage.call_with(&mute(), "task_wait", json!({"seconds": 50})).await);
}

#[tokio::test]
async fn the_calls_that_go_on_for_an_anonymous_session_are_bounded() {
    let (work, stage) = rendering(NEVER);
    let caller = anonymous(Some("s"));
    let timeout = (StopCause::Timeout, 0);
    let give_up = |call: u32| stage.stopped_at(&caller, json!({"call": call}), timeout, &work);
    for call in 0..8 {
        drop(give_up(call).await);
    }
    assert_eq!((work.started(), work.dropped()), (8, 0));
    drop(give_up(8).await);
    eventually("the end of the ninth run", || work.dropped() == 1).await;
    let large = json!({"text": "x".repeat(5 << 20)});
    let other = anonymous(Some("t"));
    drop(stage.stopped_at(&other, large, timeout, &work).await);
    eventually("the end of the large run", || work.dropped() == 2).await;
    // Another session joins none of them, and has a share of its own.
    drop(stage.stopped_at(&other, json!({"call": 0}), timeout, &work).await);
    assert_eq!((work.started(), work.dropped()), (11, 2));
}

#[tokio::test]
async fn a_guest_that_begins_a_task_does_not_end_the_wait_of_its_caller() {
    let begins = tool("begins", |context| async move {
        context.begin_task().await.expect("becomes one");
        done("begun and done")
    });
    let stage = Stage::new(NEVER, vec![begins]);
    let reply = stage.call(&mute(), "begins").await.expect("ran");
    assert_eq!(text_of(&reply), "begun and done");
}

/// Section 8, the end: a request that is pending when the call is handed off is still answered.
#[tokio::test]
async fn an_open_question_of_a_client_that_can_be_asked_outlives_the_hand_off() {
    let stage = Stage::new(Duration::from_millis(200), vec![tool("deploy", asks)]);
    let (caller, client) = (local_caller(), Client::default());
    let channel = Arc::new(client.clone());
    let reply = stage.call_by(&caller, ("deploy", &json!({})), channel, Arc::default()).await;
    let (text, result) = hand_off(reply);
    assert!(!text.contains("task_answer"), "{text}");
    assert_eq!(client.asked().len(), 1);
    let id = id_of(&result);
    stage.dispatch.take_response(&caller, &client.asked()[0], Ok(RawJson::trusted(YES))).await.expect("kept");
    let (_, result) = hand_off(stage.call_with(&caller, "task_wait", json!({"task_id": id})).await);
    assert!(result["content"][1]["text"].as_str().expect("a text").contains("accept"), "{result}");
    assert_eq!(client.asked().len(), 1, "asked once");
}

/// Section 11: a call that waits for its turn is a new task.
#[tokio::test]
async fn calls_that_wait_for_their_turn_say_so_when_they_are_handed_off_and_count_as_new_tasks() {
    let stage = Stage::with(SOON, vec![Work::default().tool("render")], |settings| {
        settings.admission.running_per_principal = 1;
        settings.queue_when_busy = true;
    });
    let one = Some(Rate { count: NonZeroU32::MIN, per: Per::Hour });
    let rates = Rates { creation: one, local: true, ..Rates::default() };
    stage.dispatch.enforce(Policy::new(AccessRules::default(), &rates));
    let caller = mute();
    let call = |number| stage.call_with(&caller, "render", json!({"number": number}));
    let (running, waiting, refused) = tokio::join!(call(1), call(2), call(3));
    let texts = [hand_off(running).0, hand_off(waiting).0];
    let says_so = |text: &&String| text.contains("is waiting for its turn; 1 call is running");
    assert_eq!(texts.iter().filter(says_so).count(), 1, "{texts:?}");
    assert!(matches!(refused, Err(Fault::TooOften { limit: "rates.creation", .. })), "{refused:?}");
}

#[tokio::test]
async fn lists_without_tasks_show_tools_that_everybody_can_call_and_the_host_tools() {
    let structured = native("sum")
        .output_schema(r#"{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}"#)
        .task_support(TaskSupport::Required)
        .runs(|_| async { done("3") });
    let long = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(300));
    let long = native("zip").output_schema(long.leak()).runs(|_| async { done("4") });
    let stage = Stage::new(NEVER, vec![structured, long]);
    let listed = async |caller: Caller, whom: ListFor| {
        let listed = stage.dispatch.catalog().list_tools(&caller, whom, None).await.expect("lists");
        listed.decode::<Value>().expect("JSON")["tools"].as_array().expect("tools").clone()
    };
    let terms = stage.terms();
    let unaware = listed(mute(), ListFor::Sessions(Revision::LATEST, Some(terms))).await;
    let names: Vec<_> = unaware.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["sum", "zip", "task_wait", "task_list", "task_cancel", "task_answer"]);
    assert_eq!(unaware[0]["execution"]["taskSupport"], "optional");
    assert!(unaware[0]["outputSchema"]["anyOf"].is_array(), "{}", unaware[0]);
    let branch = unaware[0]["outputSchema"]["anyOf"][1].to_string();
    assert!(branch.len() <= 90, "{branch}");
    assert_eq!(unaware[1].get("outputSchema"), None, "models pay for long ones");
    assert_eq!(unaware[2]["inputSchema"]["properties"]["seconds"]["maximum"], 50);
    let asked = listed(local_caller(), ListFor::Sessions(Revision::LATEST, Some(terms))).await;
    assert_eq!(asked.len(), 5, "a client that can be asked needs no task_answer");
    let stateless = listed(stranger(), ListFor::Stateless(Some(terms))).await;
    assert!(stateless.iter().all(|tool| tool["name"] != "task_list"), "anyone has no list");
    let aware = listed(mute(), ListFor::Sessions(Revision::LATEST, None)).await;
    assert_eq!(aware.len(), 2);
    assert!(aware[1]["outputSchema"].is_object());
    assert_eq!(aware[0]["execution"]["taskSupport"], "required");
}

#[tokio::test]
async fn a_plugins_tool_keeps_its_name_and_the_host_tool_gets_another() {
    let work = Work::default();
    let taken = tool("task_wait", |_| async { done("of the plugin") });
    let stage = Stage::new(SOON, vec![work.tool("render"), taken]);
    let caller = mute();
    assert_eq!(text_of(&stage.call(&caller, "task_wait").await.expect("ran")), "of the plugin");
    let (text, _) = hand_off(stage.call(&caller, "render").await);
    assert!(text.contains("call toolyard_task_wait with"), "{text}");
    let several = plain(stage.call_with(&caller, "toolyard_task_wait", json!({"seconds": 0})).await);
    assert!(several.contains("is still running"), "{several}");
}

#[tokio::test]
async fn host_tools_say_what_is_wrong() {
    let (_work, stage) = rendering(SOON);
    let caller = mute();
    let unknown = "786512e2-9e0d-44bd-8f29-789f320fe840";
    for (name, arguments, says) in [
        ("task_wait", json!({"task_id": unknown}), "There is no task"),
        ("task_wait", json!({"task_id": "\u{1b}[31mnone"}), "There is no task"),
        ("task_wait", json!({}), "You have no task to wait for"),
        ("task_wait", json!({"seconds": 51}), "a number from 0 to 50"),
        ("task_wait", json!({"seconds": -1}), "invalid value"),
        ("task_wait", json!({"id": unknown}), "unknown field"),
        ("task_list", json!({"status": "old"}), "live, done or all"),
        ("task_cancel", json!({}), "missing field"),
        ("task_answer", json!({"task_id": unknown, "key": "k", "action": "agree"}), "unknown variant"),
    ] {
        let result = match stage.call_with(&caller, name, arguments).await.expect("a result") {
            CallReply::Result(result) | CallReply::UnknownTask(result) => result,
            other => panic!("{name}: {other:?}"),
        };
        let result: Value = result.decode().expect("JSON");
        assert_eq!(result["isError"], true, "{name}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains(says) && !text.contains('\u{1b}'), "{name}: {text}");
    }
    let id_needed = plain(stage.call_with(&anonymous(Some("s")), "task_wait", json!({})).await);
    assert!(id_needed.contains("needs the task_id here"), "{id_needed}");
}

#[tokio::test]
async fn tasks_of_an_anonymous_session_are_found_by_id_from_everywhere_and_listed_in_their_session() {
    let (_work, stage) = rendering(SOON);
    let caller = anonymous(Some("s"));
    let (_, result) = hand_off(stage.call(&caller, "render").await);
    let id = id_of(&result);
    let other = anonymous(Some("other"));
    let found = plain(stage.call_with(&other, "task_wait", json!({"task_id": id, "seconds": 0})).await);
    assert!(found.contains("is still running"), "{found}");
    let own = plain(stage.call_with(&caller, "task_list", json!({})).await);
    let others = plain(stage.call_with(&other, "task_list", json!({})).await);
    assert!(own.contains(id) && !others.contains(id), "{own}\n{others}");
}

#[tokio::test]
async fn a_stateless_client_without_the_extension_is_bridged_and_a_hang_up_stops_it() {
    let (work, stage) = rendering(SOON);
    let caller = stateless::client();
    let call = |stage: &Stage, stop: &Arc<Stop>| {
        let mut call = stateless::call("render", Retry::default(), stop);
        let bridge = Some(stage.terms());
        call.terms = Terms::Stateless { tasks: false, bridge, retry: Retry::default() };
        call
    };
    let (text, _) = hand_off(stage.dispatch.call(&caller, call(&stage, &Arc::default())).await);
    assert!(text.contains("is still running"), "{text}");
    let stage = Stage::new(NEVER, vec![work.tool("render")]);
    let stop = Arc::new(Stop::default());
    let (reply, ()) = tokio::join!(stage.dispatch.call(&caller, call(&stage, &stop)), async {
        work.begun().await;
        stop.set_because(StopCause::Disconnected);
    });
    assert!(matches!(reply, Err(Fault::Cancelled)), "{reply:?}");
    eventually("the end of the run", || work.dropped() >= 1).await;
}

/// A second caller that joined a task is not stopped by the first.
#[tokio::test]
async fn a_stop_of_one_caller_leaves_the_other_waiting() {
    let (work, stage) = rendering(NEVER);
    let caller = mute();
    stage.timed_out(&caller, &work).await;
    let (first, second, ()) = tokio::join!(
        stage.call_with(&caller, "render", json!({})),
        stage.call_stopped_by(&caller, ("render", json!({})), StopCause::Wanted, tokio::time::sleep(SOON)),
        async {
            tokio::time::sleep(SOON * 3).await;
            work.finish();
        }
    );
    assert!(matches!(second, Err(Fault::Cancelled)), "{second:?}");
    assert_eq!(hand_off(first).0, "rendered");
    assert_eq!(work.started(), 1);
}

#[tokio::test]
async fn running_calls_become_tasks_when_their_host_leaves() {
    let (work, stage) = rendering(NEVER);
    let caller = mute();
    let (reply, ()) = tokio::join!(stage.call(&caller, "render"), async {
        work.begun().await;
        stage.dispatch.drain(SOON, DrainMode::HandOver).await;
    });
    let (text, _) = hand_off(reply);
    assert!(text.contains("is still running"), "{text}");
}

/// The index of kept tasks is rebuilt from the store.
#[tokio::test]
async fn an_equal_call_joins_a_task_of_an_earlier_process() {
    let (work, stage) = rendering(NEVER);
    let caller = mute();
    stage.timed_out(&caller, &work).await;
    work.finish();
    eventually("the end of the run", || work.dropped() == 1).await;
    let next = stage.next_process(vec![work.tool("render")]);
    assert_eq!(hand_off(next.call_with(&caller, "render", json!({})).await).0, "rendered");
    assert_eq!(work.started(), 1);
}

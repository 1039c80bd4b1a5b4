//! Results of calls, and what guests can reach.

use crate::kit::{self, Folder, Recorder, call, engine, error, ok, only, run, settings, start, tool};
use futures_util::FutureExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use toolyard_engine::Settings;
use toolyard_task::tool::{ArgumentCheck, Report, RunUsage};
use toolyard_task::wire::{Execution, RawJson, TaskSupport};
use toolyard_task::{OnClientTimeout, ReservationError, RunEnd};

#[tokio::test]
async fn a_quick_call_ends_in_its_first_poll() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let echo = tool(&catalog, "echo");
    let mut at_once = 0;
    for n in 0..200 {
        let arguments = RawJson::parse(format!("{{\"text\":\"é{n}\"}}")).expect("JSON");
        let mut run = start(&echo, arguments, Arc::new(Recorder::default()));
        let end = match (&mut run).now_or_never() {
            Some(end) => {
                at_once += 1;
                end
            }
            // The system did not schedule this thread for longer than a tick.
            None => run.await,
        };
        assert_eq!(ok(&end), format!("é{n}"));
    }
    assert!(at_once >= 100, "{at_once} of 200");
}

#[tokio::test]
async fn specs_say_what_the_component_and_the_manifest_say() {
    let engine = engine(&settings());
    let manifest = r#"
        prefix = "lab"
        [limits]
        concurrency = 2
        [task]
        poll-interval = "250ms"
        immediate-response = "Started."
        inline-for = "5s"
        bridge-after = "20s"
        on-client-timeout = "stop"
        [tools.wait]
        task-support = "forbidden"
        inline-for = "0s"
        bridge-after = "0s"
        on-client-timeout = "keep"
        description = "Sleeps."
        title = "Nap"
        annotations = { readOnlyHint = true }
        [tools.trap]
        enabled = false
    "#;
    let catalog = only(&engine, "probe", manifest).await;
    assert!(catalog.get("lab_trap").is_none() && catalog.get("echo").is_none());
    let (wait, batch) = (tool(&catalog, "lab_wait"), tool(&catalog, "lab_batch"));
    let spec = wait.spec();
    assert_eq!(spec.task_support, TaskSupport::Forbidden);
    assert_eq!(spec.description.execution, Some(Execution { task_support: TaskSupport::Forbidden }));
    assert_eq!(spec.description.description.as_deref(), Some("Sleeps."));
    assert_eq!(spec.description.title.as_deref(), Some("Nap"));
    // TL-7: hints of the operator or the plugin, and none of the host.
    assert_eq!(spec.description.annotations.as_ref().map(RawJson::as_str), Some("{\"readOnlyHint\":true}"));
    assert_eq!((spec.poll_interval_ms, spec.concurrency), (Some(250), Some(2)));
    assert_eq!(spec.immediate_response.as_deref(), Some("Started."));
    // 26T-3: the tool's setting takes precedence over the plugin's, which takes precedence over the
    // host's.
    let without = only(&engine, "probe", "").await;
    for (tool, inline_for, bridge_after, on_client_timeout) in [
        (&wait, Some(Duration::ZERO), Some(Duration::ZERO), Some(OnClientTimeout::Keep)),
        (&batch, Some(Duration::from_secs(5)), Some(Duration::from_secs(20)), Some(OnClientTimeout::Stop)),
        (&tool(&without, "wait"), None, None, None),
    ] {
        let spec = tool.spec();
        assert_eq!((spec.inline_for, spec.bridge_after), (inline_for, bridge_after), "{}", spec.name());
        assert_eq!(spec.on_client_timeout, on_client_timeout, "{}", spec.name());
    }
    assert_eq!((spec.plugin.as_str(), spec.digest.0.len()), ("guest.wasm", 64));
    assert_eq!(batch.spec().task_support, TaskSupport::Required);
    // The guest sees its own name for the tool.
    assert_eq!(ok(&call(&catalog, "lab_wait", "{\"ms\":0}").await), "waited 0 ms");
}

#[tokio::test]
async fn arguments_are_checked_against_the_schema() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let echo = tool(&catalog, "echo");
    let check = |text: &'static str| echo.check(&RawJson::trusted(text));
    assert_eq!(check("{\"text\":\"x\"}"), ArgumentCheck::Fits);
    for (text, says) in [("{}", "required"), ("{\"text\":1}", "/text"), ("{\"text\":\"\",\"y\":1}", "'y'")] {
        let ArgumentCheck::Misfit(what) = check(text) else { panic!("{text} fits") };
        assert!(what.contains("`echo`") && what.contains(says), "{what}");
    }
}

#[tokio::test]
async fn failures_of_tools_and_of_requests_are_told_apart() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    match call(&catalog, "fail", "{\"message\":\"no luck\"}").await {
        RunEnd::Result { is_error: true, message: Some(message), .. } => assert_eq!(message, "no luck"),
        other => panic!("{other:?}"),
    }
    let catalog = only(&engine(&settings()), "hostile_calls", "").await;
    match call(&catalog, "fail_at_length", "{}").await {
        RunEnd::Error(error) => {
            assert_eq!((error.code, error.message.len(), error.data), (-32601, 8192, None));
        }
        other => panic!("{other:?}"),
    }
    let catalog = only(&engine(&settings()), "script", "").await;
    match call(&catalog, "script", r#"{"steps":[{"fail":{"code":-5,"data":{"why":1}}}]}"#).await {
        RunEnd::Error(error) => assert_eq!(error.data.expect("data").as_str(), r#"{"why":1}"#),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn _26r_4_a_missing_capability_is_an_error_of_its_own_to_a_client_that_knows_it() {
    let catalog = only(&engine(&settings()), "script", "").await;
    let [named, unnamed] = [r#"{"elicitation":{}}"#, "\"nothing\""];
    let missing = async |what: &str, tells_missing| {
        let client = Recorder { tells_missing, ..Recorder::default() };
        let order = format!(r#"{{"steps":[{{"missing":{what}}}]}}"#);
        run(tool(&catalog, "script"), &order, Arc::new(client)).await
    };
    let RunEnd::Error(told) = missing(named, true).await else { panic!("a result") };
    assert_eq!(told.code, -32021);
    let data: serde_json::Value = told.data.expect("data").decode().expect("JSON");
    assert!(data["requiredCapabilities"]["elicitation"].is_object(), "{data}");
    // Other clients get the same sentence, for the model to read.
    assert_eq!(error(&missing(named, false).await), told.message);
    // If the guest names no capability, there is nothing to list as required.
    for tells_missing in [true, false] {
        assert!(error(&missing(unnamed, tells_missing).await).contains("capability"));
    }
}

#[tokio::test]
async fn malformed_results_are_errors_that_say_so() {
    let catalog = only(&engine(&settings()), "hostile_results", "").await;
    for (name, says) in [
        ("half_an_object", "`structured-content`: not valid JSON"),
        ("lie_by_type", "at `/count`"),
        ("lie_by_absence", "there is none"),
    ] {
        let what = error(&call(&catalog, name, "{}").await);
        assert!(what.contains(name) && what.contains(says), "{what}");
    }
}

#[tokio::test]
async fn nothing_of_the_machine_can_be_reached() {
    let files = [
        r#"{"what":"read","path":"/etc/passwd"}"#,
        r#"{"what":"read","path":"../../etc/passwd"}"#,
        r#"{"what":"write","path":"/tmp/escaped","other":"x"}"#,
        r#"{"what":"write","path":"escaped","other":"x"}"#,
        r#"{"what":"list","path":"/"}"#,
        r#"{"what":"list","path":"."}"#,
        r#"{"what":"stat","path":"/proc/self"}"#,
    ];
    for (guest, name, orders) in [
        ("hostile_files", "file", &files[..]),
        ("net_try", "tcp", &[r#"{"peer":"127.0.0.1:80","send":"x"}"#]),
        ("net_try", "udp", &[r#"{"peer":"127.0.0.1:80","send":"x"}"#]),
        ("net_try", "listen", &[r#"{"peer":"127.0.0.1:0"}"#]),
        ("net_try", "resolve", &[r#"{"name":"localhost"}"#]),
    ] {
        let catalog = only(&engine(&settings()), guest, "").await;
        for order in orders {
            let (seen, _) = kit::text(&call(&catalog, name, order).await);
            assert!(seen.contains("denied ") && !seen.contains("ALLOWED"), "{guest} {name} {order}: {seen}");
        }
    }
    for (manifest, environment) in [("", "{}"), ("[env]\nLANG = \"C\"", r#"{"LANG":"C"}"#)] {
        let seen = ok(&call(&*only(&engine(&settings()), "senses", manifest).await, "look", "{}").await);
        assert!(seen.contains(&format!("\"environment\":{environment}")), "{seen}");
        assert!(seen.contains("\"arguments\":[]"), "{seen}");
    }
}

#[tokio::test]
async fn writing_to_standard_output_never_fails_a_guest() {
    let catalog = only(&engine(&settings()), "stdout", "").await;
    // Far more than the limit keeps.
    assert_eq!(ok(&call(&catalog, "print", "{\"lines\":5000}").await), "printed 5000 lines");
}

#[tokio::test]
async fn guests_report_ask_and_become_tasks() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let recorder = Arc::new(Recorder::default());
    ok(&run(tool(&catalog, "count"), "{\"steps\":3,\"ms\":1}", recorder.clone()).await);
    let reports = recorder.reports.lock().expect("free").clone();
    let reached: Vec<f64> = reports
        .iter()
        .filter_map(|report| match report {
            Report::Progress(progress) => Some(progress.progress),
            _ => None,
        })
        .collect();
    assert_eq!(reached, [1.0, 2.0, 3.0], "{reports:?}");

    let answer = r#"{"action":"accept","content":{"answer":true}}"#.to_owned();
    let recorder = Arc::new(Recorder { answer: Some(answer), ..Recorder::default() });
    assert_eq!(
        ok(&run(tool(&catalog, "confirm"), "{\"question\":\"Sure?\"}", recorder.clone()).await),
        "yes"
    );
    assert!(recorder.begun.load(Ordering::SeqCst));
    assert_eq!(recorder.asked.lock().expect("free")[0].method, "elicitation/create");

    let recorder = Arc::new(Recorder::default());
    let what = error(&run(tool(&catalog, "ask"), "{\"question\":\"Sure?\"}", recorder).await);
    assert!(what.contains("not supported by this client: elicitation"), "{what}");
}

#[tokio::test]
async fn every_run_tells_once_what_it_took_however_it_ends() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let recorder = Arc::new(Recorder::default());
    ok(&run(tool(&catalog, "spin"), "{\"ms\":30}", recorder.clone()).await);
    let spent = recorder.spent.lock().expect("free").clone();
    let [spent] = spent[..] else { panic!("{spent:?}") };
    // It spins for that long in wall-clock time; other threads may run meanwhile.
    assert!(spent.wall >= Duration::from_millis(30) && spent.wall >= spent.cpu, "{spent:?}");
    assert!(!spent.cpu.is_zero(), "{spent:?}");
    assert!(spent.memory.is_some_and(|bytes| bytes >= 64 << 10), "{spent:?}");

    // It sleeps, which uses no processor time, and is dropped.
    let recorder = Arc::new(Recorder::default());
    let mut waits = start(&tool(&catalog, "wait"), RawJson::trusted("{\"ms\":60000}"), recorder.clone());
    assert!((&mut waits).now_or_never().is_none());
    assert!(recorder.spent.lock().expect("free").is_empty(), "it has not ended");
    drop(waits);
    let spent = recorder.spent.lock().expect("free").clone();
    assert!(matches!(spent[..], [RunUsage { memory: None, .. }]), "{spent:?}");

    let recorder = Arc::new(Recorder::default());
    error(&run(tool(&catalog, "trap"), "{}", recorder.clone()).await);
    assert_eq!(recorder.spent.lock().expect("free").len(), 1);
}

#[tokio::test]
async fn what_a_component_needs_is_set_aside_before_it_runs_and_growth_is_drawn_from_the_rest() {
    // Enough for the initial memory of one instance and little more.
    let engine = engine(&Settings { guest_memory: Some(3 << 20), ..settings() });
    let catalog = only(&engine, "probe", "").await;
    let echo = tool(&catalog, "echo");
    let first = echo.reserve().expect("room for one");
    let second = echo.reserve();
    let mut held = vec![first];
    held.extend(second);
    while let Ok(reservation) = echo.reserve() {
        held.push(reservation);
    }
    assert_eq!(echo.reserve().expect_err("no more"), ReservationError::Memory(3 << 20));
    assert!(held.len() < 4, "{} instances of more than a MiB each in 3 MiB", held.len());
    held.clear();
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(3 << 20));
    let said = error(&call(&catalog, "echo", &large).await);
    assert!(
        said.contains("3.0 MiB of memory that this host has for all guests")
            && said.contains("`calls.memory`"),
        "{said}"
    );
    ok(&call(&catalog, "echo", "{\"text\":\"x\"}").await);
    assert_eq!(engine.running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_runs_as_the_capacity_can_be_suspended_at_once() {
    let engine = engine(&settings());
    let folder = Folder::with(&[("probe.wasm", "probe")]);
    let catalog = folder.load(&engine).await.catalog;
    let mut waiting = Vec::new();
    for _ in 0..engine.capacity() {
        let mut run =
            start(&tool(&catalog, "wait"), RawJson::trusted("{\"ms\":60000}"), Arc::new(Recorder::default()));
        assert!((&mut run).now_or_never().is_none());
        waiting.push(run);
    }
    assert_eq!(engine.running(), engine.capacity());
    tool(&catalog, "echo").reserve().expect_err("no room");
    // New components can still list their tools.
    folder.put("add.wasm", &kit::guest("add"));
    let catalog = folder.load(&engine).await.catalog;
    drop(waiting);
    assert_eq!(ok(&call(&catalog, "add", "{\"a\":1,\"b\":2}").await), "3");
}

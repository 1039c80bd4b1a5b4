//! Attacks by components and guests on the engine alone. Each meets its refusal or limit, by name; the names are those of
//! `host/docs/reference/attacks`. Attacks on the whole process are in `tests/it/hostile`.

use crate::kit::{Folder, Recorder, call, engine, error, eventually, ok, only, run, settings, tool, why};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::Settings;
use toolyard_task::RunEnd;
use toolyard_task::tool::Report;

const CPU: &str = "processor time limit of 100ms reached (`limits.cpu`)";
const WALL: &str = "time limit of 200ms reached (`limits.wall`)";
const HANDLES: &str = "more than 256 handles at once (`limits.handles`)";
const MEMORY: &str = "memory limit of 64.0 MiB reached (`limits.memory`)";
const HOSTCALL: &str = "to the host at once (`limits.hostcall`)";

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("valid WAT")
}

/// A component that looks like a plugin until the engine checks the types of its functions.
fn plugin(imports: &str, core: &str, with: &str, instances: &str) -> Vec<u8> {
    wat(&format!(
        "(component {imports}
           (core module $m {core} (func (export \"f\")))
           (core instance $i (instantiate $m {with})) {instances}
           (func $f (canon lift (core func $i \"f\")))
           (instance $tools (export \"list-tools\" (func $f)) (export \"call\" (func $f)))
           (export \"toolyard:plugin/tools@0.1.0\" (instance $tools)))"
    ))
}

/// A component without the toolyard contract, whose functions are lifted from `f`.
fn typed(types: &str, functions: &str) -> Vec<u8> {
    wat(&format!(
        r#"(component {types}
             (core module $m (memory (export "memory") 1)
               (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
               (func (export "f") (param i32)))
             (core instance $i (instantiate $m)) {functions})"#
    ))
}

/// A module whose world is garbage.
fn garbage() -> Vec<u8> {
    let section = b"\x10component-type:x\xff\xfe\xfd";
    [b"\0asm\x01\0\0\0\0", &[section.len() as u8][..], section].concat()
}

#[tokio::test]
async fn components_that_attack_while_they_load_are_refused_by_name() {
    let core = |core: &str| plugin("", core, "", "");
    let start = |body: &str| core(&format!("(memory 1) (func $s {body}) (start $s)"));
    let hoards = plugin(
        "(type $thing (resource (rep i32))) (core func $new (canon resource.new $thing))",
        r#"(import "host" "new" (func $new (param i32) (result i32)))
           (func $s (loop $l (drop (call $new (i32.const 1))) (br $l))) (start $s)"#,
        r#"(with "host" (instance (export "new" (func $new))))"#,
        "",
    );
    let instances = plugin("", "", "", &"(core instance (instantiate $m))".repeat(150));
    // Each type contains the one before it twice.
    let doubles: String = (1..=13).map(|n| format!("(type $t{n} (tuple $t{0} $t{0}))", n - 1)).collect();
    let lifted = r#"(canon lift (core func $i "f")"#;
    let double = format!(
        r#"(func (export "f") (param "v" $t13)
             {lifted} (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))"#
    );
    let long = "a".repeat(30_000);
    let flags = format!("(type $t (flags \"{long}-a\" \"{long}-b\" \"{long}-c\"))");
    let flagged =
        format!(r#"(export $named "t" (type $t)) (func (export "f") (param "v" $named) {lifted}))"#);
    let functions: String =
        (0..300).map(|n| format!(r#"(func (export "f{n}") (param "v" u32) {lifted}))"#)).collect();
    let rows: [(&str, Vec<u8>, &str); 14] = [
        ("spin_in_the_start_function", start("(loop $l (br $l))"), "took longer than 200ms"),
        ("trap_in_the_start_function", start("unreachable"), "unreachable"),
        (
            "allocate_in_the_start_function",
            start("(loop $l (br_if $l (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))) unreachable"),
            MEMORY,
        ),
        ("huge_memory", core("(memory 65536)"), MEMORY),
        ("many_memories", core(&"(memory 1)".repeat(40)), "memories count of 40 exceeds"),
        ("huge_table", core("(table 9000000 funcref)"), "9000000"),
        ("many_tables", core(&"(table 1 funcref)".repeat(80)), "tables count of 80 exceeds"),
        ("many_instances", instances, "more than 100 core instances (`limits.instances`)"),
        ("many_handles_of_its_own", hoards, HANDLES),
        ("more_locals_than_there_are", core(&format!("(func (local {}))", "i64 ".repeat(60_000))), "locals"),
        ("world_that_is_garbage", garbage(), "no component can be made"),
        ("types_that_double", typed(&format!("(type $t0 u8) {doubles}"), &double), "more than 4000 parts"),
        ("names_without_end_in_types", typed(&flags, &flagged), "longer than 65536 bytes"),
        ("hundreds_of_functions", typed("", &functions), "300 tools; 256 are the most"),
    ];
    let folder = Folder::new();
    for (name, bytes, _) in &rows {
        folder.put(&format!("{name}.wasm"), bytes);
    }
    let settings = Settings { list_time: Duration::from_millis(200), ..settings() };
    let snapshot = folder.load(&engine(&settings)).await;
    assert!(snapshot.catalog.is_empty());
    for (name, _, says) in rows {
        let why = why(&snapshot, &format!("{name}.wasm"));
        assert!(why.contains(says), "{why}");
    }
}

/// Calls tools of a guest. Each row has the name of the attack, the tool, and what its error says.
async fn fails(guest: &str, limits: &str, rows: &[(&str, &str, &str)]) {
    let catalog = only(&engine(&settings()), guest, &format!("[limits]\n{limits}")).await;
    for (attack, tool, says) in rows {
        let what = error(&call(&catalog, tool, "{}").await);
        assert!(what.contains(says), "{attack}: {what}");
    }
}

#[tokio::test]
async fn guests_that_never_end_meet_a_limit() {
    let cpu = [
        ("spin", "compute", CPU),
        ("spin_in_bulk_memory", "fill_memory", CPU),
        ("spin_in_bulk_memory", "copy_memory", CPU),
        ("spin_in_host_calls", "call_the_host", CPU),
        ("sleep_for_nothing_for_ever", "sleep_for_nothing", CPU),
    ];
    fails("hostile_calls", "cpu = \"100ms\"", &cpu).await;
    let wall = [
        ("spin", "compute", WALL),
        ("sleep_for_ever", "sleep_for_ever", WALL),
        ("poll_for_ever", "poll_for_ever", WALL),
        ("wait_for_the_last_instant", "wait_for_the_last_instant", WALL),
    ];
    fails("hostile_calls", "wall = \"200ms\"", &wall).await;
    let catalog = only(&engine(&settings()), "hostile_calls", "[limits]\ncpu = \"100ms\"").await;
    // The guest never returns from an allocation of this size.
    let pad = "x".repeat(77_777 - r#"{"pad":""}"#.len());
    let what = error(&call(&catalog, "echo_done", &format!(r#"{{"pad":"{pad}"}}"#)).await);
    assert!(what.contains(CPU), "spin_in_realloc: {what}");
    let said = ok(&call(&catalog, "read_standard_input", "{}").await);
    assert!(said.contains("Closed"), "wait_for_standard_input: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_guests_leave_nothing_behind() {
    let engine = engine(&settings());
    let catalog = only(&engine, "hostile_calls", "").await;
    for (attack, name) in [
        ("cancel_while_computing", "compute"),
        ("cancel_while_in_bulk_memory", "fill_memory"),
        ("cancel_while_writing_output", "write_for_ever"),
        ("cancel_while_in_host_calls", "call_the_host"),
        ("cancel_while_in_host_calls", "sleep_for_nothing"),
        ("cancel_while_sleeping", "sleep_for_ever"),
        ("cancel_while_polling", "poll_for_ever"),
        ("cancel_while_polling", "wait_for_the_last_instant"),
    ] {
        let (tool, recorder) = (tool(&catalog, name), Arc::new(Recorder::default()));
        let running = tokio::spawn(run(tool.clone(), "{}", recorder.clone()));
        eventually("it runs", || (engine.running() == 1).then_some(())).await;
        recorder.stop();
        tool.interrupt();
        running.abort();
        eventually(attack, || (engine.running() == 0).then_some(())).await;
    }
}

#[tokio::test]
async fn guests_that_crash_or_take_too_much_fail_alone() {
    let rows = [
        ("read_out_of_bounds", "out_of_bounds", "trapped: out of bounds memory access"),
        ("call_with_the_wrong_signature", "wrong_signature", "trapped: indirect call type mismatch"),
        ("trap_by_unreachable", "unreachable", "trapped: wasm `unreachable`"),
        ("trap_in_post_return", "stick", "trapped: wasm `unreachable`"),
        ("exit_with_success", "exit_well", "left by `exit` with the code 0"),
        ("exit_with_failure", "exit_badly", "left by `exit` with the code 1"),
        ("exhaust_the_stack", "recurse", "call stack exhausted"),
        ("exhaust_the_stack_in_memory", "recurse_in_memory", "out of bounds memory access"),
        ("grow_memory", "grow_memory", MEMORY),
        ("allocate_for_ever", "allocate", MEMORY),
        ("hold_pollables", "hold_pollables", HANDLES),
        ("hold_streams", "hold_streams", HANDLES),
        ("poll_a_million", "poll_a_million", HANDLES),
        ("ask_for_all_random_bytes", "random_bytes", "requested len 18446744073709551615 exceeds limit"),
    ];
    fails("hostile_calls", "", &rows).await;
    // Standard libraries have a function table, which counts.
    let table = "table limit of 1 elements reached (`limits.table`)";
    fails("probe", "table = 1", &[("tables", "echo", table)]).await;
    let catalog = only(&engine(&settings()), "hostile_calls", "").await;
    let said = ok(&call(&catalog, "hold_sockets", "{}").await);
    assert!(said.contains("denied"), "open_sockets: {said}");
    // Its allocator traps when the host hands over the answer.
    let word = "x".repeat(10_000);
    let answer = Some(format!(r#"{{"action":"accept","content":{{"word":"{word}"}}}}"#));
    let recorder = Arc::new(Recorder { answer, ..Recorder::default() });
    let what = error(&run(tool(&catalog, "ask_and_trap"), "{}", recorder).await);
    assert!(what.contains("trapped: wasm `unreachable`"), "trap_while_a_question_is_pending: {what}");
}

#[tokio::test]
async fn results_and_reports_that_are_too_large_or_no_text_are_refused() {
    let results = [
        ("huge_result", "huge_text", "`limits."),
        ("huge_image", "huge_blob", "(`limits.output`)"),
        ("hundred_thousands_of_blocks", "a_million_blocks", "`limits."),
        ("result_that_is_no_text", "no_text", "trapped: invalid utf-8"),
        ("result_that_is_no_text", "no_error_text", "trapped: invalid utf-8"),
    ];
    fails("hostile_results", "memory = \"256MiB\"", &results).await;
    let huge =
        ["huge_progress", "huge_status", "huge_log", "huge_logger", "huge_key", "huge_question", "huge_uri"];
    let mut reports = huge.map(|name| ("huge_strings_to_the_host", name, HOSTCALL)).to_vec();
    reports.extend([
        ("text_that_is_none", "no_text", "trapped: invalid utf-8"),
        ("text_from_nowhere", "no_memory", "trapped: "),
    ]);
    fails("hostile_reports", "memory = \"128MiB\"", &reports).await;
}

#[tokio::test]
async fn what_is_reported_is_cut_or_left_out_where_it_arrives() {
    let catalog = only(&engine(&settings()), "hostile_reports", "[limits]\nmemory = \"128MiB\"").await;
    let reported = async |name: &str| {
        let recorder = Arc::new(Recorder::default());
        let RunEnd::Result { result, .. } = run(tool(&catalog, name), "{}", recorder.clone()).await else {
            panic!("{name} gives no result")
        };
        let reports = recorder.reports.lock().expect("free").clone();
        (result.as_str().to_owned(), reports)
    };
    let (said, reports) = reported("large_everything").await;
    assert!(said.contains("1 to 128 visible ASCII characters"), "large_strings_to_the_host: {said}");
    let bytes = format!("{reports:?}").len();
    assert!(reports.len() > 3 && bytes < 200 << 10, "{bytes} bytes of {} reports", reports.len());
    let (_, reports) = reported("no_numbers").await;
    let progress =
        reports.iter().filter(|report| matches!(report, Report::Progress(told) if told.progress.is_finite()));
    assert_eq!(progress.count(), reports.len(), "numbers_that_are_none: {reports:?}");
    let (said, _) = reported("no_json").await;
    assert!(said.contains("the params of the question `odd`"), "json_that_is_none: {said}");
    let (said, _) = reported("deep_question").await;
    assert!(said.contains("Invalid"), "deep_question: {said}");
}

/// Functions that return a result at address 16, each with another length.
const GIVES: &str = r#"(component
  (core module $m
    (memory (export "memory") 1000)
    (func $give (param $length i32) (result i32)
      (i32.store (i32.const 0) (i32.const 16))
      (i32.store (i32.const 4) (local.get $length))
      (i32.const 0))
    (func (export "long") (result i32) (call $give (i32.const 60000000)))
    (func (export "odd") (result i32)
      (i32.store (i32.const 16) (i32.const -1))
      (call $give (i32.const 4))))
  (core instance $i (instantiate $m))
  (func (export "long-list") (result (list u8)) (canon lift (core func $i "long") (memory (core memory $i "memory"))))
  (func (export "long-text") (result string) (canon lift (core func $i "long") (memory (core memory $i "memory"))))
  (func (export "odd-text") (result string) (canon lift (core func $i "odd") (memory (core memory $i "memory")))))"#;

#[tokio::test]
async fn results_of_functions_without_our_contract_are_bounded_too() {
    let folder = Folder::new();
    folder.put("gives.wasm", &wat(GIVES));
    let catalog = folder.load(&engine(&settings())).await.catalog;
    for (attack, name, says) in [
        ("list_without_end_as_a_result", "long-list", HOSTCALL),
        ("text_without_end_as_a_result", "long-text", HOSTCALL),
        ("text_that_is_no_text_as_a_result", "odd-text", "utf-8"),
    ] {
        let what = error(&call(&catalog, name, "{}").await);
        assert!(what.contains(says), "{attack}: {what}");
    }
}

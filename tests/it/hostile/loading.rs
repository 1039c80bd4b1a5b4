//! Components that attack while the host loads them: the parser, the compiler, the instantiation,
//! `list-tools`.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use super::stage::Stage;
use toolyard_tests::host::{Setup, install_bytes};
use toolyard_tests::{eventually, guests};

#[tokio::test]
async fn loading() {
    let stage = Stage::open(Setup::new()).await;
    // All at once, so that the slow refusals overlap.
    for (name, bytes) in components() {
        install_bytes(stage.host.plugins(), &format!("{name}.wasm"), &bytes);
    }
    refused!(stage;
        spin_in_the_start_function: "start_spins" => ["took longer than 5s"],
        allocate_in_list_tools: "list_allocates" => ["memory limit of 64.0 MiB", "`limits.memory`"],
        trap_in_the_start_function: "start_traps" => ["unreachable"],
        huge_memory: "memory" => ["memory limit of 64.0 MiB", "`limits.memory`"],
        many_memories: "memories" => ["memories count of 40 exceeds"],
        huge_table: "table" => ["9000000", "exceeds"],
        many_tables: "tables" => ["tables count of 80 exceeds"],
        many_instances: "instances" => ["more than 100 core instances", "`limits.instances`"],
        many_handles_of_its_own: "handles" => ["more than 256 handles", "`limits.handles`"],
        more_locals_than_there_are: "locals" => ["locals"],
        deep_blocks: "blocks" => [],
        section_longer_than_the_file: "section" => ["ends in the middle"],
        imports_of_what_is_not_offered:
            "imports" => ["does not offer", "`wasi:cli/run@0.2.0`", "`toolyard:host/secrets@0.1.0`"],
        thousands_of_tools: "list_many" => ["5000 tools; 256 are the most"],
        huge_schema: "list_huge" => ["input schema", "bytes"],
        deep_schema: "list_deep" => ["input schema"],
        schema_that_refers_to_itself: "list_loop" => ["schema"],
        schema_from_the_network: "list_remote" => ["schema"],
        schema_that_is_none: "list_odd" => ["input schema"],
        output_schema_of_no_object: "list_output" => ["output schema"],
        tool_name_that_is_no_text: "list_bytes" => ["`list-tools`", "invalid utf-8"],
        huge_tool_name: "list_name" => ["tool name"],
        huge_description: "list_text" => ["its description is longer"],
        annotations_that_are_no_object: "list_annotations" => ["its annotations is not a JSON object"],
        metadata_that_not_every_client_reads: "list_surrogate" => ["its meta is", "surrogate"],
        metadata_that_does_not_fit_mcp: "list_icons" => ["do not fit MCP"],
    );
    attacks!(stage;
        spin_in_list_tools, tool_name_that_steers_the_terminal, thousands_of_patterns,
    );
    stage.at_rest().await;
}

#[tokio::test]
async fn compiling() {
    // The honest plugin compiles under the usual limits, and its code is kept.
    let mut patient = Setup::probe().start().await;
    patient.kill().await;
    let tight = ["--set", "plugins.compile-time=1s", "--set", "plugins.compile-memory=64MiB"];
    let stage = Stage::on(patient.another_with(&tight).await).await;
    for (name, bytes) in bombs() {
        install_bytes(stage.host.plugins(), &format!("{name}.wasm"), &bytes);
    }
    refused!(stage;
        too_large_a_function_to_compile: "function" => ["`plugins.compile-"],
        deep_components: "components" => ["compile"],
    );
    attacks!(stage;
        too_many_functions_to_compile,
    );
    stage.at_rest().await;
}

/// Components that take a long time or much memory to compile.
fn bombs() -> [(&'static str, Vec<u8>); 3] {
    let functions =
        "(func (param i64) (result i64) (i64.add (i64.mul (local.get 0) (local.get 0)) (i64.const 7)))";
    // Each line's result is needed to the end, so that all of them stay alive.
    let lines: String =
        (0..500_000).map(|n| format!("(local.set {} (i64.load (i32.const {n})))", n % 2_000)).collect();
    let sums = "(i64.xor ".repeat(2_000) + "(i64.const 1)";
    let rest: String = (0..2_000).map(|n| format!("(local.get {n}))")).collect();
    let locals =
        format!("(memory 1) (func (result i64) (local {}) {lines} {sums}{rest})", "i64 ".repeat(2_000));
    [
        ("functions", plugin(&functions.repeat(400_000), 1)),
        ("function", plugin(&locals, 1)),
        ("components", nested(20_000)),
    ]
}

/// Components written as text: the name, and the body of a core module with its number of instances.
fn components() -> Vec<(&'static str, Vec<u8>)> {
    let memories = "(memory 1)".repeat(40);
    let tables = "(table 1 funcref)".repeat(80);
    let blocks = format!("(func {}{})", "block ".repeat(200_000), "end ".repeat(200_000));
    let mut made = vec![
        ("start_spins", plugin("(func $s (loop $l (br $l))) (start $s)", 1)),
        ("start_traps", plugin("(func $s unreachable) (start $s)", 1)),
        ("memory", plugin("(memory 65536)", 1)),
        ("memories", plugin(&memories, 1)),
        ("table", plugin("(table 9000000 funcref)", 1)),
        ("tables", plugin(&tables, 1)),
        ("instances", plugin("(global i32 (i32.const 1))", 150)),
        ("handles", hoarder()),
        ("locals", plugin(&format!("(func (local {}))", "i64 ".repeat(60_000)), 1)),
        ("blocks", plugin(&blocks, 1)),
        ("section", [&wat("(component)")[..], &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat()),
        ("imports", imports()),
    ];
    let listing = "list_many list_huge list_deep list_loop list_remote list_odd list_output list_bytes \
                   list_steers list_name list_text list_annotations list_spins list_allocates \
                   list_patterns list_surrogate list_icons";
    // Each has the number by which the guest knows it.
    for (name, number) in listing.split(' ').zip((1..=14).chain(19..=21)) {
        made.push((name, chosen(number)));
    }
    made
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("valid WAT")
}

/// A component that looks like a plugin until the host checks its functions.
pub fn plugin(core: &str, instances: usize) -> Vec<u8> {
    let more = "(core instance (instantiate $m))".repeat(instances - 1);
    wat(&format!(
        "(component (core module $m {core} (func (export \"f\")))
           (core instance $i (instantiate $m)) {more}
           (func $f (canon lift (core func $i \"f\")))
           (instance $tools (export \"list-tools\" (func $f)) (export \"call\" (func $f)))
           (export \"toolyard:plugin/tools@0.1.0\" (instance $tools)))"
    ))
}

/// Makes handles of its own resource without end.
fn hoarder() -> Vec<u8> {
    wat("(component
           (type $thing (resource (rep i32)))
           (core func $new (canon resource.new $thing))
           (core module $m
             (import \"host\" \"new\" (func $new (param i32) (result i32)))
             (func $s (loop $l (drop (call $new (i32.const 1))) (br $l)))
             (start $s)
             (func (export \"f\")))
           (core instance $i (instantiate $m (with \"host\" (instance (export \"new\" (func $new))))))
           (func $f (canon lift (core func $i \"f\")))
           (instance $tools (export \"list-tools\" (func $f)) (export \"call\" (func $f)))
           (export \"toolyard:plugin/tools@0.1.0\" (instance $tools)))")
}

fn imports() -> Vec<u8> {
    wat("(component
           (import \"wasi:cli/run@0.2.0\" (instance (export \"run\" (func))))
           (import \"toolyard:host/secrets@0.1.0\" (instance (export \"all\" (func))))
           (core module $m (func (export \"f\")))
           (core instance $i (instantiate $m))
           (func $f (canon lift (core func $i \"f\")))
           (instance $tools (export \"list-tools\" (func $f)) (export \"call\" (func $f)))
           (export \"toolyard:plugin/tools@0.1.0\" (instance $tools)))")
}

/// Nested components, each level a few bytes larger.
fn nested(levels: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    const COMPONENT: u8 = 4;
    let mut inner = HEADER.to_vec();
    for _ in 0..levels {
        let mut outer = HEADER.to_vec();
        outer.push(COMPONENT);
        let mut length = inner.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend_from_slice(&inner);
        inner = outer;
    }
    let plugin = plugin("", 1);
    inner.extend_from_slice(&plugin[HEADER.len()..]);
    inner
}

/// The guest `hostile_lists` with the list of this number.
pub fn chosen(number: usize) -> Vec<u8> {
    const MARK: &[u8] = b"hostile-list-no-";
    let mut bytes = std::fs::read(guests::fixture("hostile_lists")).expect("built");
    let at =
        bytes.windows(MARK.len()).position(|window| window == MARK).expect("it has the mark") + MARK.len();
    bytes[at..at + 2].copy_from_slice(format!("{number:02}").as_bytes());
    bytes
}

/// Waits until the log says that a component is refused, and why.
async fn refused(stage: &Stage, name: &str, says: &[&str]) {
    let begin = format!("event=\"plugin.refused\" plugin=\"{name}.wasm\" reason={name}.wasm: ");
    let why = eventually(&format!("{name}.wasm to be refused"), || async {
        let log = stage.host.log();
        let (_, why) = log.lines().find_map(|line| line.split_once(&begin))?;
        Some(why.chars().take(400).collect::<String>())
    })
    .await;
    for phrase in says {
        assert!(why.contains(phrase), "{name} should say {phrase}: {why}");
    }
    eprintln!("{name}: {why}");
}

async fn spin_in_list_tools(stage: &Stage) {
    refused(stage, "list_spins", &["`list-tools` took longer than 5s"]).await;
}

async fn too_many_functions_to_compile(stage: &Stage) {
    refused(stage, "functions", &["`plugins.compile-"]).await;
}

async fn tool_name_that_steers_the_terminal(stage: &Stage) {
    refused(stage, "list_steers", &["tool name"]).await;
    assert!(!stage.host.log().contains('\u{1b}'), "nothing steers the terminal");
}

async fn thousands_of_patterns(stage: &Stage) {
    refused(stage, "list_patterns", &["input schema", "the pattern", "limit"]).await;
    // The start is as quick as without the file: the host bounds how much of it it reads.
    assert!(stage.peak_memory() < 1 << 30, "{}", stage.peak_memory());
}

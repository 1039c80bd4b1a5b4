//! Components without the toolyard contract: each ordinary function becomes a tool, with all features of
//! tools.

use crate::command_line::out;
use crate::hostile::loading::length;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolyard_tests::host::install_bytes;
use toolyard_tests::{Session, Setup, guests};
use wit_component::{StringEncoding, embed_component_metadata};

fn typed() -> PathBuf {
    guests::fixture("typed")
}

async fn tool(session: &Session, name: &str) -> Value {
    let listed = session.result("tools/list", json!({})).await;
    let mut tools = listed["tools"].as_array().expect("tools").iter();
    tools.find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
}

#[tokio::test]
async fn functions_are_tools_named_for_their_interface_and_themselves() {
    let (_host, session) = Setup::new().with(&[typed()]).open().await;
    let names = session.tool_names().await;
    let expected = "greet math_divide math_middle math_reverse math_sum spin";
    assert_eq!(names.join(" "), expected, "TL-3; functions with resources are none");
    let divide = tool(&session, "math_divide").await;
    assert_eq!(divide["inputSchema"]["required"], json!(["a", "b"]), "an option may be left out");
    assert_eq!(divide["execution"]["taskSupport"], "optional");
    assert!(divide["description"].as_str().expect("one").contains("-> result<s64, string>"), "{divide}");
    assert_eq!(tool(&session, "math_middle").await["outputSchema"]["required"], json!(["x", "y"]));
    assert!(tool(&session, "spin").await.get("outputSchema").is_none(), "it gives nothing");
}

/// The component with one more custom section.
fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let body = [&length(name.len())[..], name.as_bytes(), data].concat();
    [component, &[0], &length(body.len()), &body].concat()
}

#[tokio::test]
async fn comments_in_a_package_docs_section_are_descriptions_and_what_the_manifest_says_comes_first() {
    let docs = json!({
        "worlds": {"demo": {"func_exports": {"greet": {"docs": "Greets.\n@task forbidden\n@read-only"}}}},
        "interfaces": {"math": {"funcs": {"sum": {"docs": "Adds up.\n@title Sum"}}}},
    });
    let component = std::fs::read(typed()).expect("built");
    let section = [&[1], docs.to_string().as_bytes()].concat();
    let setup = Setup::new().manifest("documented", "[tools.math_sum]\ntitle = \"Total\"");
    let component = with_section(&component, "package-docs", &section);
    std::fs::write(setup.plugins().join("documented.wasm"), component).expect("written");
    let (_host, session) = setup.open().await;
    let greet = tool(&session, "greet").await;
    assert_eq!(greet["description"], "Greets.");
    assert_eq!(greet["execution"]["taskSupport"], "forbidden");
    assert_eq!(greet["annotations"], json!({"readOnlyHint": true}));
    let sum = tool(&session, "math_sum").await;
    assert_eq!((&sum["title"], &sum["description"]), (&json!("Total"), &json!("Adds up.")));
}

/// A component that exports `f` in these interfaces.
fn exporting(interfaces: &[&str]) -> Vec<u8> {
    let mut text = String::from(
        "(component (core module $m (func (export \"f\") (result i32) i32.const 7))
           (core instance $i (instantiate $m))
           (func $f (result u32) (canon lift (core func $i \"f\")))\n",
    );
    for (index, interface) in interfaces.iter().enumerate() {
        text += &format!("(instance $e{index} (export \"f\" (func $f)))");
        text += &format!("(export \"{interface}\" (instance $e{index}))\n");
    }
    wat::parse_str(text + ")").expect("parses")
}

#[tokio::test]
async fn functions_that_would_be_called_the_same_are_skipped_and_named() {
    let setup = Setup::new();
    let folder = setup.plugins();
    for (file, interfaces) in [
        ("twins.wasm", &["a:x/math@1.0.0", "a:y/math@1.0.0", "a:x/other"][..]),
        ("none.wasm", &["a:x/math@1.0.0", "a:y/math"]),
        ("wasi.wasm", &["wasi:a/b@0.2.0"]),
    ] {
        install_bytes(folder.clone(), file, &exporting(interfaces));
    }
    let (host, session) = setup.open().await;
    assert_eq!(session.tool_names().await, ["other_f"]);
    let said = out(&host.command(&["check", "plugins/twins.wasm"]).await);
    let named = "a:x/math@1.0.0#f: its tool would be called `math_f`, as that of a:y/math@1.0.0#f";
    assert!(said.contains(named), "{said}");
    for (file, says) in [("none.wasm", "`math_f`"), ("wasi.wasm", "exports neither functions")] {
        host.refuses(&["check", &format!("plugins/{file}")], 1, says).await;
    }
}

/// A core module that carries the type of a world with `twice`.
fn typed_module() -> Vec<u8> {
    let mut module = wat::parse_str(
        r#"(module
             (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
             (memory (export "memory") 1)
             (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
               (i32.mul (memory.grow (i32.const 2)) (i32.const 65536)))
             (func (export "twice") (param i32) (result i32)
               (drop (call $yield)) (i32.mul (local.get 0) (i32.const 2))))"#,
    )
    .expect("parses");
    let mut resolve = wit_parser::Resolve::default();
    let wit = "package a:b; world w { export twice: func(number: u32) -> u32; }";
    let package = resolve.push_str("w.wit", wit).expect("parses");
    let world = resolve.select_world(&[package], None).expect("one");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("added");
    module
}

#[tokio::test]
async fn a_core_module_that_carries_its_type_is_made_a_component_at_load() {
    let setup = Setup::new();
    std::fs::write(setup.plugins().join("module.wasm"), typed_module()).expect("written");
    let (host, session) = setup.open().await;
    let twice = session.call("twice", json!({"number": 21})).await;
    assert_eq!(twice["structuredContent"], json!({"result": 42}));
    // The host keeps the adapted component, and rebuilds it if the cache is damaged.
    let again = host.another().await;
    let session = Session::open(again.port()).await;
    assert_eq!(session.call("twice", json!({"number": 2})).await["structuredContent"], json!({"result": 4}));
}

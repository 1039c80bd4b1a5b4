//! Components without the toolyard contract that attack by their types, or by the results of their functions.

use super::stage::Stage;
use std::fmt::Write as _;
use toolyard_tests::host::{Setup, install_bytes};

#[tokio::test]
async fn typed() {
    let setup = Setup::new();
    for (name, bytes) in components() {
        install_bytes(setup.plugins(), &format!("{name}.wasm"), &bytes);
    }
    let stage = Stage::open(setup).await;
    refused!(stage;
        types_that_double: "doubles" => ["no function that can be a tool", "more than 4000 parts"],
        names_without_end_in_types: "names" => ["longer than 65536 bytes"],
        hundreds_of_functions: "functions" => ["300 tools; 256 are the most"],
        world_that_is_garbage: "garbage" => ["no component can be made"],
    );
    fails!(stage;
        list_without_end_as_a_result: "long-list" => ["`limits.hostcall`"],
        text_without_end_as_a_result: "long-text" => ["`limits.hostcall`"],
        text_that_is_no_text_as_a_result: "odd-text" => ["utf-8"],
    );
    stage.at_rest().await;
}

fn components() -> [(&'static str, Vec<u8>); 5] {
    let mut garbage = b"\0asm\x01\0\0\0".to_vec();
    let section = b"\x10component-type:x\xff\xfe\xfd";
    garbage.extend([0, section.len() as u8]);
    garbage.extend(section);
    [
        ("doubles", doubling()),
        ("names", names()),
        ("functions", functions()),
        ("garbage", garbage),
        ("gives", wat::parse_str(GIVES).expect("parses")),
    ]
}

/// A memory, and functions that are lifted from `f`.
const CORE: &str = r#"(core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
    (func (export "f") (param i32)))
  (core instance $i (instantiate $m))"#;

fn component(types: &str, functions: &str) -> Vec<u8> {
    let text = format!("(component {types} {CORE} {functions})");
    wat::parse_str(&text).expect("parses")
}

/// A type with eight thousand parts, written in thirteen lines.
fn doubling() -> Vec<u8> {
    let mut types = String::from("(type $t0 u8)");
    for level in 1..=13 {
        write!(types, "(type $t{level} (tuple $t{0} $t{0}))", level - 1).expect("a string");
    }
    let lifted = r#"(func (export "f") (param "v" $t13)
        (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))"#;
    component(&types, lifted)
}

/// Flags with names of 30 KB.
fn names() -> Vec<u8> {
    let long = "a".repeat(30_000);
    let types = format!("(type $t (flags \"{long}-a\" \"{long}-b\" \"{long}-c\"))");
    let lifted = r#"(export $named "t" (type $t))
        (func (export "f") (param "v" $named) (canon lift (core func $i "f")))"#;
    component(&types, lifted)
}

fn functions() -> Vec<u8> {
    let function =
        |n| format!("(func (export \"f{n}\") (param \"v\" u32) (canon lift (core func $i \"f\")))");
    component("", &(0..300).map(function).collect::<String>())
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

async fn refused(stage: &Stage, name: &str, says: &[&str]) {
    let file = stage.host.plugins().join(format!("{name}.wasm"));
    let checked = stage.host.command(&["check", file.to_str().expect("UTF-8")]).await;
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{told}");
    for phrase in says {
        assert!(told.contains(phrase), "{name} should say {phrase}: {told}");
    }
}

//! Random values through real components that return their arguments, one component for each type.

use super::super::Functions;
use super::super::shape::{Case, Field, Shape};
use super::arbitrary;
use crate::component::componentize::componentize;
use crate::settings::Settings;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt::Write as _;
use toolyard_task::wire::RawJson;
use wasmtime::Store;
use wasmtime::component::{Component, Linker, Val};

/// The number of types, and of values for each.
const TYPES: usize = 60;
const VALUES: usize = 20;

/// With this many additional parts a value is passed by pointer, so the core function only has to
/// return the pointer.
const PADDING: &str = "u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8";

const CORE: &str = r#"(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 16))
  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and
      (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $new)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
      (drop (memory.grow (i32.add (i32.div_u (local.get $new) (i32.const 65536)) (i32.const 1)))))
    (local.get $at))
  (func (export "a:b/echo#echo") (param i32) (result i32) local.get 0)
)"#;

/// Writes the declarations that a type needs and returns the text that refers to it.
fn wit(shape: &Shape, out: &mut String, count: &mut usize) -> String {
    let (kind, body) = match shape {
        Shape::List(item) => return format!("list<{}>", wit(item, out, count)),
        Shape::Option(some) => return format!("option<{}>", wit(some, out, count)),
        Shape::Tuple(items) => {
            let items: Vec<String> = items.iter().map(|item| wit(item, out, count)).collect();
            return format!("tuple<{}>", items.join(", "));
        }
        Shape::Result(cases) => {
            let mut payload = |case: &Case| case.payload.as_ref().map(|payload| wit(payload, out, count));
            return match (payload(&cases[0]), payload(&cases[1])) {
                (None, None) => "result".to_owned(),
                (Some(ok), None) => format!("result<{ok}>"),
                (ok, Some(err)) => format!("result<{}, {err}>", ok.as_deref().unwrap_or("_")),
            };
        }
        Shape::Record(fields) => {
            let field = |field: &Field| format!("{}: {}, ", field.name, wit(&field.shape, out, count));
            ("record", fields.iter().map(field).collect())
        }
        Shape::Variant(cases) => {
            let case = |case: &Case| match &case.payload {
                None => format!("{}, ", case.name),
                Some(payload) => format!("{}({}), ", case.name, wit(payload, out, count)),
            };
            ("variant", cases.iter().map(case).collect())
        }
        Shape::Enum(names) => ("enum", names.join(", ")),
        Shape::Flags(names) => ("flags", names.join(", ")),
        other => return other.to_string(),
    };
    *count += 1;
    let _ = writeln!(out, "  {kind} t{count} {{ {body} }}");
    format!("t{count}")
}

/// A package whose `echo` takes and returns a tuple of a value of the type and padding.
fn echo(shape: &Shape) -> String {
    let mut types = String::new();
    let used = wit(shape, &mut types, &mut 0);
    format!(
        "package a:b;\ninterface echo {{\n{types}  echo: func(v: tuple<{used}, {PADDING}>) -> tuple<{used}, {PADDING}>;\n}}\nworld w {{ export echo; }}\n"
    )
}

/// The component that this core module becomes in the world of this package.
fn component(wit: &str, core: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("made");
    std::fs::write(dir.path().join("w.wit"), wit).expect("written");
    let core = wat::parse_str(core).expect("parses");
    componentize(&core, Some((dir.path(), None))).unwrap_or_else(|why| panic!("{why}\n{wit}"))
}

#[test]
fn values_of_random_types_come_back_from_real_components() {
    let engine = wasmtime::Engine::new(&crate::component::toolchain::config()).expect("starts");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("starts");
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    for _ in 0..TYPES {
        let shape = arbitrary::shape(false).new_tree(&mut runner).expect("made").current();
        let bytes = component(&echo(&shape), CORE);
        let component = Component::new(&engine, &bytes).expect("compiles");
        let (functions, declared) =
            Functions::of(&engine, &component, &bytes, &Settings::default()).expect("it is a tool");
        let tool = &declared[0];
        assert_eq!(tool.description.name, "echo_echo");
        let function = &functions.by_name["echo_echo"];
        let mut parts = vec![shape.clone()];
        parts.extend(std::iter::repeat_n(Shape::Integer(super::Integer::U8), 17));
        assert_eq!(function.params[0].shape, Shape::Tuple(parts), "the type as declared in WIT");
        for _ in 0..VALUES {
            let value = arbitrary::value(&shape).new_tree(&mut runner).expect("made").current();
            let mut given = vec![value.clone()];
            given.extend((1..=17).map(Val::U8));
            let given = Val::Tuple(given);
            let json =
                super::write::json(&function.params[0].shape, &given, super::MAX_BYTES).expect("written");
            let arguments = RawJson::parse(format!("{{\"v\":{json}}}")).expect("JSON");
            assert_eq!(super::fits(&tool.input, &arguments), Ok(()), "{shape}");
            let read = function.arguments(&arguments).expect("taken");
            let returned = runtime.block_on(async {
                let mut store = Store::new(&engine, ());
                store.set_epoch_deadline(1);
                let linker = Linker::new(&engine);
                let instance = linker.instantiate_async(&mut store, &component).await.expect("starts");
                let mut results = [Val::Bool(false)];
                let func = instance.get_func(&mut store, function.index).expect("there");
                func.call_async(&mut store, &read, &mut results).await.expect("runs");
                results
            });
            let result = function.result(returned.first(), super::MAX_BYTES).expect("well");
            let result = result.structured_content.expect("there is one");
            let output = tool.output.as_ref().expect("it has one");
            assert_eq!(super::fits(output, &RawJson::parse(result.clone()).expect("JSON")), Ok(()));
            assert_eq!(result, format!("{{\"result\":{json}}}"), "{shape}");
        }
    }
}

/// Each function has an allowed type; the schemas of all of them together would take many times the
/// component's memory.
#[test]
fn the_functions_of_a_component_are_bounded_together() {
    const FUNCTIONS: usize = 40;
    let engine = wasmtime::Engine::new(&crate::component::toolchain::config()).expect("starts");
    let fields: String = (0..3_000).map(|field| format!("a{field}: bool, ")).collect();
    let functions: String = (0..FUNCTIONS).map(|number| format!("g{number}: func(v: r);\n")).collect();
    let wit = format!(
        "package a:b;\ninterface many {{\nrecord r {{ {fields} }}\n{functions}}}\nworld w {{ export many; }}\n"
    );
    let exports: String =
        (0..FUNCTIONS).map(|number| format!("(func (export \"a:b/many#g{number}\") (param i32))")).collect();
    let core =
        CORE.replace("(func (export \"a:b/echo#echo\") (param i32) (result i32) local.get 0)", &exports);
    let bytes = component(&wit, &core);
    let component = Component::new(&engine, &bytes).expect("compiles");
    let (functions, declared) =
        Functions::of(&engine, &component, &bytes, &Settings::default()).expect("some are tools");
    assert!((10..20).contains(&declared.len()), "{}", declared.len());
    let why: Vec<&str> = functions.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
    assert!(why.len() == FUNCTIONS - declared.len() && why[0].contains("50000 parts together"), "{why:?}");
}

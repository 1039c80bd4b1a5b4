//! Components whose compilation takes more time, memory or stack than a compiler process has.

use super::stage::Stage;
use toolyard_tests::host::install_bytes;
use toolyard_tests::{Setup, eventually};

#[tokio::test]
async fn compiling() {
    // The honest plugin compiles under the usual limits, and its code is kept.
    let mut patient = Setup::probe().start().await;
    patient.kill().await;
    let tight = ["--set", "plugins.compile-time=1s", "--set", "plugins.compile-memory=64MiB"];
    let stage = Stage::on(patient.another_with(&tight).await).await;
    attacks!(stage; too_many_functions_to_compile, deep_blocks, deep_components);
    stage.at_rest().await;
}

/// A component that looks like a plugin until the host checks its functions.
pub fn plugin(core: &str) -> Vec<u8> {
    let text = format!(
        "(component (core module $m {core} (func (export \"f\")))
           (core instance $i (instantiate $m))
           (func $f (canon lift (core func $i \"f\")))
           (instance $tools (export \"list-tools\" (func $f)) (export \"call\" (func $f)))
           (export \"toolyard:plugin/tools@0.1.0\" (instance $tools)))"
    );
    wat::parse_str(text).expect("valid WAT")
}

/// A length as WebAssembly writes it.
pub fn length(mut bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while bytes >= 0x80 {
        out.push((bytes & 0x7f) as u8 | 0x80);
        bytes >>= 7;
    }
    out.push(bytes as u8);
    out
}

/// Nested components, each level a few bytes larger.
fn nested(levels: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    const COMPONENT: u8 = 4;
    let mut inner = HEADER.to_vec();
    for _ in 0..levels {
        let mut outer = HEADER.to_vec();
        outer.push(COMPONENT);
        outer.extend(length(inner.len()));
        outer.extend_from_slice(&inner);
        inner = outer;
    }
    let plugin = plugin("");
    inner.extend_from_slice(&plugin[HEADER.len()..]);
    inner
}

/// Installs a component, and waits until the log says that it is refused, and why.
async fn refused(stage: &Stage, name: &str, component: &[u8], says: &str) {
    install_bytes(stage.host.plugins(), name, component);
    let begin = format!("event=\"plugin.refused\" plugin=\"{name}\" reason={name}: ");
    let why = eventually(&format!("{name} to be refused"), || async {
        let log = stage.host.log();
        Some(log.lines().find_map(|line| line.split_once(&begin))?.1.to_owned())
    })
    .await;
    assert!(why.contains(says), "{name}: {why}");
}

async fn too_many_functions_to_compile(stage: &Stage) {
    let function =
        "(func (param i64) (result i64) (i64.add (i64.mul (local.get 0) (local.get 0)) (i64.const 7)))";
    refused(stage, "functions.wasm", &plugin(&function.repeat(400_000)), "`plugins.compile-").await;
}

async fn deep_blocks(stage: &Stage) {
    let blocks = format!("(func {}{})", "block ".repeat(200_000), "end ".repeat(200_000));
    refused(stage, "blocks.wasm", &plugin(&blocks), "").await;
}

/// Only the compiler process runs out of stack.
async fn deep_components(stage: &Stage) {
    refused(stage, "components.wasm", &nested(20_000), "compile").await;
}

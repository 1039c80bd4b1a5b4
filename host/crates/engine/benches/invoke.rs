//! The cost of a call: a fresh store that completes in its first poll.

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt as _;
use std::path::Path;
use std::sync::Arc;
use toolyard_engine::{Engine, Plugins, Settings};
use toolyard_task::wire::RawJson;
use toolyard_task::{Catalog, RunContext, RunEnd, Tool, Unattended};

fn catalog(runtime: &tokio::runtime::Runtime) -> Arc<Catalog> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = tempfile::tempdir().expect("a folder");
    for (dir, name) in [("plugins/dist", "probe.wasm"), ("target/fixtures", "add.wasm")] {
        std::fs::copy(root.join(dir).join(name), folder.path().join(name))
            .expect("run plugins/build.sh and tests/fixtures/build.sh first");
    }
    let engine = Engine::start(&Settings::default()).expect("starts");
    let catalog = runtime.block_on(Plugins::open(engine, folder.path()).load()).catalog;
    assert!(!catalog.is_empty(), "run plugins/build.sh and tests/fixtures/build.sh first");
    catalog
}

/// Polls to completion. More than one poll is needed only if this thread was not scheduled
/// meanwhile.
fn call(tool: &Arc<dyn Tool>, arguments: &RawJson, context: &Arc<dyn RunContext>) -> RunEnd {
    let mut run = tool.clone().run(arguments.clone(), tool.reserve().expect("room"), context.clone());
    let end = loop {
        if let Some(end) = (&mut run).now_or_never() {
            break end;
        }
    };
    assert!(matches!(end, RunEnd::Result { is_error: false, .. }));
    end
}

fn invoke(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts");
    let catalog = catalog(&runtime);
    let _inside = runtime.enter();
    let context: Arc<dyn RunContext> = Arc::new(Unattended);
    for (name, arguments) in [("echo", r#"{"text":"hello"}"#), ("add", r#"{"a":1,"b":2}"#)] {
        let tool = catalog.get(name).expect("it is there").clone();
        let arguments = RawJson::parse(arguments).expect("JSON");
        criterion.bench_function(&format!("call/{name}"), |bencher| {
            bencher.iter(|| call(&tool, &arguments, &context));
        });
        criterion.bench_function(&format!("check/{name}"), |bencher| {
            bencher.iter(|| tool.check(&arguments));
        });
        // Two threads at once, a case in which plain pooling does not scale.
        criterion.bench_function(&format!("call/{name}/2 threads"), |bencher| {
            bencher.iter_custom(|iterations| {
                let began = std::time::Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            let _inside = runtime.enter();
                            (0..iterations / 2 + 1).for_each(|_| drop(call(&tool, &arguments, &context)));
                        });
                    }
                });
                began.elapsed()
            });
        });
    }
}

criterion_group!(benches, invoke);
criterion_main!(benches);

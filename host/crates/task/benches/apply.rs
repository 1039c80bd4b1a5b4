//! The cost of a transition. It clones the record and does little else, so this measures the price
//! of a task's size.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use toolyard_task::task::Era;
use toolyard_task::wire::{RawJson, RequestedTtl, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Outcome, Owner, Task, TaskId, apply};
use uuid::Uuid;

const FENCE: Fence = Fence { incarnation: Incarnation(7), attempt: 1 };
const NOW: Timestamp = Timestamp(1_764_066_600_000);

fn task() -> Task {
    Task {
        id: TaskId(Uuid::from_u128(1)),
        owner: Owner::Local,
        session: None,
        era: Era::Sessions,
        client_capabilities: RawJson::empty_object(),
        tool: "add".to_owned(),
        digest: Digest("0".repeat(64)),
        arguments: RawJson::trusted(r#"{"a":19,"b":23}"#),
        progress_token: None,
        requested_ttl: RequestedTtl::Absent,
        ttl_ms: 3_600_000,
        poll_interval_ms: 1_000,
        created_at: NOW,
        updated_at: NOW,
        status_message: None,
        version: 1,
        fence: FENCE,
        started_at: Some(NOW),
        effects: false,
        rerun: false,
        questions: Vec::new(),
        outcome: None,
    }
}

fn transitions(criterion: &mut Criterion) {
    let task = task();
    let result = RawJson::trusted(r#"{"content":[{"type":"text","text":"42"}],"isError":false}"#);
    let finished =
        Event::Finished { fence: FENCE, outcome: Outcome::Result { is_error: false, result }, message: None };
    let said = Event::Said { fence: FENCE, message: "step 3 of 4".to_owned() };
    for (name, event) in [("finished", &finished), ("said", &said)] {
        criterion.bench_function(&format!("task/apply/{name}"), |bencher| {
            bencher.iter_batched(
                || event.clone(),
                |event| apply(black_box(&task), event, NOW),
                BatchSize::SmallInput,
            );
        });
    }
    let over = apply(&task, finished, NOW).expect("it applies").task;
    criterion.bench_function("task/apply/refused", |bencher| {
        bencher.iter(|| apply(black_box(&over), Event::Expired, NOW));
    });
    criterion.bench_function("task/view and render", |bencher| {
        bencher.iter(|| black_box(&task).view().render());
    });
}

criterion_group!(benches, transitions);
criterion_main!(benches);

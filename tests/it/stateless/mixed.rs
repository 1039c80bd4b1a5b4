//! Both generations at once, for a few seconds; `make soak` is the long version (`MIXED_SEED` repeats a run,
//! `MIXED_LIVES` makes it longer).

#![allow(clippy::print_stdout, reason = "what was done is the report of a test")]

use toolyard_tests::mixed::{Length, mixed};

#[tokio::test]
async fn b_26b_1_b_26b_8_b_26b_9_many_clients_of_both_share_one_endpoint_and_their_tasks() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MIXED_SEED").unwrap_or(20_260_728);
    let lives = number("MIXED_LIVES").and_then(|lives| u32::try_from(lives).ok()).unwrap_or(2);
    println!("MIXED_SEED={seed} MIXED_LIVES={lives}");
    let report = mixed(Length::Lives(lives), seed).await;
    println!("{report:#?}");
    for done in [
        "a session made a task",
        "a call became a task",
        "a session cancelled",
        "a request alone cancelled",
        "a request alone answered",
        "a session answered",
        "the host was killed",
        "a plugin was replaced",
    ] {
        assert!(report.counts.get(done).is_some_and(|count| *count > 0), "{done}: {report:?}");
    }
    assert!(report.tasks > 50, "{report:?}");
}

//! Runs of equal operations are one entry.

use crate::script::{BASE, again, frames, recorder};
use toolyard_journal::{Entry, Source};

#[test]
fn a_million_readings_in_a_hundred_steps_are_a_hundred_entries() {
    let mut run = recorder();
    let readings = 1_000_000_u64;
    let now = |reading: u64| BASE + reading / 10_000;
    for reading in 0..readings {
        assert_eq!(run.clock(now(reading)), Ok(now(reading)));
    }
    let mut again = again(&mut run);
    assert_eq!(run.entries(), 101, "with `begin`");
    assert!(run.bytes() < 1_200, "{} bytes", run.bytes());
    for reading in 0..readings {
        assert_eq!(again.clock(0), Ok(now(reading)));
    }
    assert!(again.is_live());
}

#[test]
fn another_entry_or_a_chunk_ends_a_run_of_readings() {
    let mut run = recorder();
    for _ in 0..3 {
        run.clock(BASE).expect("a reading");
    }
    run.record_ready(true).expect("recorded");
    run.clock(BASE).expect("a reading");
    let first = run.take_chunk(0, 0).expect("a chunk");
    run.clock(BASE).expect("a reading");
    let second = run.take_chunk(0, 0).expect("a chunk");
    let all = frames(&[first, second]);
    let entries = all.iter().map(|frame| frame.entry().expect("an entry"));
    let clocks: Vec<_> = entries.filter(|entry| matches!(entry, Entry::Clock { .. })).collect();
    assert_eq!(clocks, [3, 1, 1].map(|readings| Entry::Clock { steps: 0, readings }));
}

#[test]
fn equal_polls_in_a_row_are_counted() {
    let mut run = recorder();
    for _ in 0..1_000 {
        assert_eq!(run.poll(3), Ok(Source::Live));
        run.record_poll(3, &[]).expect("recorded");
    }
    run.record_poll(3, &[2, 0]).expect("recorded");
    run.record_poll(3, &[0, 2]).expect("recorded");
    run.record_poll(4, &[0, 2]).expect("recorded");
    for _ in 0..1_000 {
        run.record_ready(false).expect("recorded");
    }
    run.record_ready(true).expect("recorded");
    assert_eq!(run.entries(), 7);
    let mut again = again(&mut run);
    for _ in 0..1_000 {
        assert_eq!(again.poll(3), Ok(Source::Past(&[][..])));
    }
    assert_eq!(again.poll(3), Ok(Source::Past(&[2, 0][..])), "the order is the guest's");
    assert_eq!(again.poll(3), Ok(Source::Past(&[0, 2][..])));
    assert_eq!(again.poll(4), Ok(Source::Past(&[0, 2][..])));
    for _ in 0..1_000 {
        assert_eq!(again.ready(), Ok(Source::Past(false)));
    }
    assert_eq!(again.ready(), Ok(Source::Past(true)));
    assert!(again.is_live());
}

#[test]
fn a_response_does_not_end_a_run_of_polls() {
    let mut run = recorder();
    let number = run.request(1, "GET", "https://a/").expect("a request").number();
    run.record_poll(1, &[]).expect("recorded");
    run.record_response(number, &crate::script::text_body("x")).expect("recorded");
    run.record_poll(1, &[]).expect("recorded");
    assert_eq!(run.entries(), 3);
}

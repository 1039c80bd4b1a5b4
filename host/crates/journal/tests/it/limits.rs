//! The limit of a journal.

use crate::script::{BASE, begin, recorder, text_body};
use bytes::Bytes;
use toolyard_journal::{Exchange, RecordError, Recorder, Source};

const LIMIT: u64 = 1_000;

#[test]
fn a_full_journal_is_an_error_and_the_run_can_go_on_without_it() {
    let mut run = Recorder::new(begin(), LIMIT).expect("a recorder");
    let full = Err(RecordError::Full { limit: LIMIT });
    let big = Bytes::from(vec![b'1'; 2_000]);
    assert_eq!(run.record_call("big", 0, big), full);
    assert_eq!(run.record_ready(true), full, "every later operation fails like it");
    assert_eq!(run.clock(BASE + 1).map(drop), full);
    run.abandon().expect("the run goes on");
    assert!(run.is_live());
    assert_eq!(run.clock(BASE + 1), Ok(BASE + 1));
    assert_eq!(run.clock(BASE), Ok(BASE + 1));
    assert_eq!(run.poll(1), Ok(Source::Live));
    assert_eq!(run.record_poll(1, &[0]), Ok(()));
    assert_eq!(run.record_ready(true), Ok(()));
    assert_eq!(run.sleep(5, BASE), Ok(BASE + 5));
    assert_eq!(run.request(0, "GET", "https://a/"), Ok(Exchange::Live(1)));
    assert_eq!(run.record_response(1, &text_body("x")), Ok(()));
    assert_eq!(run.end(&[0; 32]), Ok(Source::Live));
    assert_eq!(run.take_chunk(0, 0), None, "nothing is recorded any more");
}

#[test]
fn the_limit_is_on_all_bytes_that_are_stored() {
    let mut run = Recorder::new(begin(), LIMIT).expect("a recorder");
    let mut stored = 0;
    let error = loop {
        if let Err(error) = run.record_call("effects", 3, Bytes::from_static(b"{}")) {
            break error;
        }
        stored += run.take_chunk(BASE, 0).map_or(0, |chunk| chunk.body.len() as u64);
        assert_eq!(run.bytes(), stored);
    };
    assert_eq!(error, RecordError::Full { limit: LIMIT });
    // The heads of chunks come on top.
    assert!((LIMIT - 30..LIMIT + 30).contains(&stored), "{stored}");
    assert!(Recorder::new(begin(), 20).is_err(), "`begin` alone");
}

#[test]
fn an_entry_that_may_still_grow_keeps_its_room() {
    let polled = |limit| {
        let mut run = Recorder::new(begin(), limit).ok()?;
        run.request(1, "GET", "https://a/").ok()?;
        run.record_poll(60, &Vec::from_iter(0..60)).ok().map(|()| run)
    };
    // At the least limit the response alone would fit, without the open poll.
    let full = (1..).find_map(polled).expect("a limit").record_response(1, &text_body("x"));
    assert!(matches!(full, Err(RecordError::Full { .. })), "{full:?}");
}

#[test]
fn readings_of_the_clock_fill_a_journal_as_well() {
    let mut run = Recorder::new(begin(), LIMIT).expect("a recorder");
    let times = (0..10_000).take_while(|ms| run.clock(BASE + ms).is_ok()).count();
    assert!((50..300).contains(&times), "{times}");
    assert!(run.bytes() <= LIMIT);
}

#[test]
fn the_open_entry_counts_as_unsaved() {
    let mut run = recorder();
    run.take_chunk(0, 0).expect("`begin`");
    assert_eq!(run.unsaved_bytes(), 0);
    run.clock(BASE).expect("a reading");
    assert!(run.unsaved_bytes() > 0);
    run.take_chunk(0, 0).expect("a chunk");
    assert_eq!(run.unsaved_bytes(), 0);
}
